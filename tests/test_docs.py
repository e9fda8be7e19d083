"""Run the examples in README.md and docs/, and compare what they print."""

import contextlib
import doctest
import re
import shlex
from pathlib import Path

import pytest

from adaptkry.models.methods import METHODS
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/**/*.md")])
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
CONSOLE = re.compile(r"(^```console\n.*?^```$)", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)


def run_page(text: str, command, folder: Path) -> None:
    """Run the Python examples and the commands of a page in their order, in an empty folder."""
    names: dict = {}
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for part in CONSOLE.split(text):
        if part.startswith("```console"):
            for line in re.findall(r"^\$ adaptkry (.*)$", part, re.MULTILINE):
                command(*shlex.split(line), cwd=folder)
            continue
        report: list[str] = []
        found = doctest.DocTestParser().get_doctest(part, names, "page", None, 0)
        with contextlib.chdir(folder):
            failed = runner.run(found, out=report.append, clear_globs=False).failed
        assert not failed, "".join(report)
        names |= found.globs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_print_what_the_page_says(page, command, tmp_path):
    run_page(page.read_text(encoding="utf-8"), command, tmp_path)


def test_every_line_of_a_console_block_is_a_command_that_is_run():
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            lines = block.splitlines()[1:-1]
            assert lines, page.name
            assert all(line.startswith("$ adaptkry ") for line in lines), page.name


def test_every_part_of_the_theory_has_an_example():
    theory = next(page for page in PAGES if page.name == "theory.md")
    assert len(examples(theory).examples) >= 6


def test_a_wrong_example_fails(command, tmp_path):
    with pytest.raises(AssertionError, match="Got:"):
        run_page("```python\n>>> 1 + 1\n3\n\n```\n", command, tmp_path)
    with pytest.raises(AssertionError, match="Did you mean"):
        run_page("```console\n$ adaptkry inspect csbmm\n```\n", command, tmp_path)


def test_the_worked_example_of_adding_a_method_runs():
    page = next(page for page in PAGES if page.name == "add-a-method.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    try:
        exec("\n".join(blocks), {"S2GC_TOML": toml})  # the blocks contain assertions
        assert METHODS["s2gc"].settings["initial_weights"] == "s2gc"
    finally:
        INITIAL_WEIGHTS.pop("s2gc", None)
        METHODS.pop("s2gc", None)


def test_pre_commit_runs_the_checks_of_make_check():
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert check is not None
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in check[1].splitlines()]
    hooks = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert hooks == commands
