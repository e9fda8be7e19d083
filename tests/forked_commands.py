"""Commands in processes of a fork server: several at once, killed before a change of a file, or on a full disk."""

import json
import math
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from full_disk import full_disk

CHANGES = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")  # audit events
PRELOADED = ["torch", "adaptkry.cli.app", "adaptkry.report.run_report", "altair", "optuna"]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOADED)  # once: a process starts within milliseconds
MEASURED = ("seconds", "memory", "MB", "MiB")  # parts of headings
DIGEST_LENGTH = 64  # of SHA-256
VOLATILE = ("results", "seconds", "created", "elapsed", "date", "time", "peak", "digest", "sha256", "command", "key")


def run_command(folder: Path, words: list[str], **faults: float) -> tuple[int, int, str]:
    """Run `adaptkry WORDS` in a folder: return its exit code, the number of changes of files, and what it printed.

    `kill_at` is the change before which the process is killed, `room` the number of writes until the disk is full.
    """
    return run_together(folder, [words], **faults)[0]


def run_together(folder: Path, commands: Sequence[list[str]], **faults: float) -> list[tuple[int, int, str]]:
    """Run several commands in a folder at the same time; returns what `run_command` does for each."""
    processes = [
        CONTEXT.Process(target=_run, args=(str(folder), i, words), kwargs=faults) for i, words in enumerate(commands)
    ]
    for process in processes:
        process.start()
    found = []
    for i, process in enumerate(processes):
        process.join(120)
        assert process.exitcode is not None, f"{commands[i]} did not end"
        count, output = (folder.parent / f"{folder.name}.{i}.{what}" for what in ("count", "output"))
        changes = int(count.read_text()) if count.exists() else 0
        found.append((process.exitcode, changes, output.read_text(encoding="utf-8")))
    return found


def _run(folder: str, number: int, words: list[str], kill_at: int = 0, room: float = math.inf) -> None:
    """Run the command in this process, and exit with its code."""
    from adaptkry import cli

    os.environ["ADAPTKRY_COMMIT"] = "0" * 12  # a commit during the test must not matter
    os.chdir(folder)
    output = os.open(f"{folder}.{number}.output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    changes = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        if event not in CHANGES or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        if os.path.abspath(os.fsdecode(arguments[0])).startswith(folder + "/"):
            changes += 1
            if changes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    sys.argv = ["adaptkry", *words]
    code: Any = 0
    try:
        with full_disk(Path(folder), room):
            cli.main()
    except SystemExit as error:
        code = error.code
    sys.stdout.flush()
    Path(f"{folder}.{number}.count").write_text(str(changes))
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def contents(folder: Path) -> dict[str, Any]:
    """Return name -> content of the files of a folder; times and what depends on them are left out."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.suffix in (".html", ".png"):  # drawn from facts.json, which is compared
            found[name] = None
        elif path.suffix in (".json", ".jsonl"):
            found[name] = [_stable(json.loads(line)) for line in _documents(path)]
        else:
            found[name] = path.read_bytes()
    return found


def _documents(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text.splitlines() if path.suffix == ".jsonl" else [text]


def _stable(value: Any) -> Any:
    """Return a JSON value without entries that differ from run to run."""
    if isinstance(value, dict):
        if value.get("x") == "seconds":  # a chart by time
            value = {**value, "series": None}
        if "columns" in value and "rows" in value:  # a table
            kept = [i for i, name in enumerate(value["columns"]) if not any(word in str(name) for word in MEASURED)]
            value = {**value, "rows": [[row[i] for i in kept] for row in value["rows"]]}
        return {k: _stable(v) for k, v in value.items() if not any(word in k for word in VOLATILE)}
    if isinstance(value, str) and len(value) == DIGEST_LENGTH and not set(value) - set("0123456789abcdef"):
        return "digest"  # of a file with such entries
    return [_stable(item) for item in value] if isinstance(value, list) else value


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Return where two contents differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        return [text for k in names for text in differences(one.get(k, "-"), other.get(k, "-"), f"{path}/{k}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [text for i, pair in pairs for text in differences(*pair, f"{path}/{i}")]
    return [] if one == other else [f"{path}: {str(one)[:80]} / {str(other)[:80]}"]
