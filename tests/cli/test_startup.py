"""The start of a command: what it imports, and Ctrl-C during the imports."""

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "numpy",
    "scipy",
    "altair",
    "vl_convert",
    "sklearn",
    "torch_geometric",
    "safetensors",
    "optuna",
    "dask",
)


def python(program: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)


def test_help_texts_import_nothing_heavy():
    program = f"""
import sys
from adaptkry.cli import main
from adaptkry.cli.app import COMMANDS
for command in ([], *([one.__name__.rpartition(".")[2]] for one in COMMANDS)):
    sys.argv = ["adaptkry", *command, "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code
print("imported:", [name for name in {HEAVY} if name in sys.modules])
"""
    done = python(program)
    assert done.stdout.splitlines()[-1:] == ["imported: []"], done.stdout[-500:] + done.stderr


def test_import_of_the_package_imports_nothing_heavy_and_sets_no_environment_variable():
    program = f"""
import os, sys
before = dict(os.environ)
import adaptkry
assert dict(os.environ) == before
print("imported:", [name for name in {HEAVY} if name in sys.modules])
"""
    done = python(program)
    assert done.stdout == "imported: []\n", done.stderr


def test_log_messages_are_hidden_until_the_user_configures_logging():
    program = """
import logging
import adaptkry.common.lookup
logging.getLogger("adaptkry.outofcore").warning("hidden")
logging.basicConfig(format="%(message)s")
logging.getLogger("adaptkry.outofcore").warning("shown")
"""
    assert python(program).stderr == "shown\n"


@pytest.mark.parametrize("module", ["typer", "adaptkry.cli.fit", "torch", "numpy"])
def test_ctrl_c_during_imports_ends_without_a_traceback(module, tmp_path):
    program = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == target:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore SIGINT
target = sys.argv.pop()
sys.meta_path.insert(0, Interrupt())
from adaptkry.cli import main
main()
"""
    done = python(program, "fit", "csbm", "--out", str(tmp_path), module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
