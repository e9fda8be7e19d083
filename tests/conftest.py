"""Environment of the test session (folders of benchmark graphs and of the cache), and fixtures that run commands."""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

# OpenMP threads spin while they wait; with other processes on the same cores that makes tests ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if _SHARED.is_dir():
    os.environ.setdefault("ADAPTKRY_DATA", str(_SHARED))

# A cache for this session only: each benchmark graph is parsed once, and never read from a cache of older code.
_CACHE = tempfile.TemporaryDirectory(prefix="adaptkry-test-")
os.environ["ADAPTKRY_CACHE"] = _CACHE.name


class Output(NamedTuple):
    """What a command printed."""

    out: str
    err: str


@pytest.fixture(scope="session")
def command() -> Callable[..., Output]:
    """Run the command line in this process: `command("fit", "csbm", code=0)` returns what it printed."""
    from adaptkry.cli import main

    def run(*words, code: int = 0, cwd: Path | None = None) -> Output:
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(cwd or Path.cwd()),
            mock.patch.object(sys, "argv", ["adaptkry", *map(str, words)]),
            mock.patch.dict(os.environ, COLUMNS="120"),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as end,
        ):
            main()
        printed = Output(out.getvalue(), err.getvalue())
        assert (end.value.code or 0) == code, printed.out + printed.err
        assert "Traceback" not in printed.out + printed.err
        return printed

    return run


@pytest.fixture
def same_origin(monkeypatch) -> None:
    """The same date and command line in all results, for tests that compare files."""
    monkeypatch.setattr(
        "adaptkry.common.rows.origin", lambda: {"created": "2026-01-01T00:00:00+00:00", "command": None}
    )


@pytest.fixture(scope="session")
def ring(tmp_path_factory, command) -> Path:
    """A read-only folder for tests: a small graph as CSV files, and `run`, a run trained on it."""
    folder = tmp_path_factory.mktemp("ring")
    names = [f"n{i}" for i in range(60)]
    edges = "".join(f"n{i},n{(i + step) % 60}\n" for i in range(60) for step in (2, 4))
    nodes = "".join(f"{n},{'<b>odd</b>' if i % 2 else 'even'},{i % 2},{i % 7}\n" for i, n in enumerate(names))
    (folder / "edges.csv").write_text("source,target\n" + edges)
    (folder / "nodes.csv").write_text("id,label,a,b\n" + nodes)
    (folder / "one.csv").write_text("id,label,a\n" + "".join(f"{n},even,1\n" for n in names))
    (folder / "two.csv").write_text("id,label,a\n" + "".join(f"{n},{n if n in names[:2] else ''},1\n" for n in names))
    (folder / "text.csv").write_text("id,label,a\n" + "".join(f"{n},even,2024-02-29\n" for n in names))
    words = ["fit", "edges.csv", "nodes.csv", "--epochs", 30, "--splits", 2, "--degree", 2, "--out", "run"]
    command(*words, cwd=folder)
    return folder
