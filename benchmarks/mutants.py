"""Apply the mutants of tests/mutants.toml one at a time to a copy of the tree, and run the tests that must catch them.

python -m benchmarks.mutants [--jobs 2] [FILTER ...]     # a filter is a part of a file name or of a mutant's name

A mutant is killed if one of its tests fails, and survives if all of them pass. Rows are appended to
results/mutants.jsonl; the last line printed is the share killed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from adaptkry.common.rows import append
from adaptkry.common.version import commit

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "mutants.toml"
TIMEOUT = 300.0  # seconds for the tests of one mutant; a mutant that never ends is killed
PASSED, FAILED = 0, 1  # exit codes of pytest; others are errors, such as a test that does not exist


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests that must notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    finding: bool = False  # whether it survived the tests of version 0.1

    def applied(self, text: str) -> str:
        """Return the text of the file with the mutation; refuse a text without exactly one place for it."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"the old text of the mutant {self.name!r} must be found once in {self.file}; got "
                f"{text.count(self.old)} times. Change it in {TABLE.name}."
            )
        return text.replace(self.old, self.new)


def read_mutants(path: Path = TABLE) -> list[Mutant]:
    """Read the table of mutants; one without tests has those of its file."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Mutant(**entry | {"tests": tuple(entry.get("tests", table["tests"][entry["file"]]))})
        for entry in table["mutant"]
    ]


def selected(mutants: Sequence[Mutant], filters: Sequence[str]) -> list[Mutant]:
    """Return the mutants whose file or name contains one of the filters; all without filters."""
    return [m for m in mutants if not filters or any(text in m.file or text in m.name for text in filters)]


def copy_tree(folder: Path) -> None:
    """Copy the files that git does not ignore; the copy has a repository of its own, as some tests need one."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


@contextmanager
def mutated(mutant: Mutant, folder: Path) -> Iterator[None]:
    """Apply the mutant to the copy within a `with` block."""
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(text), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def run_tests(tests: Sequence[str], folder: Path) -> tuple[str, float]:
    """Run tests in the copy until one fails: "killed", "survived" or "error", and the seconds taken."""
    environment = os.environ | {
        "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}",
        "PYTHONDONTWRITEBYTECODE": "1",  # a file that is restored within a second would keep its mutated bytecode
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return "killed", TIMEOUT
    seconds = time.perf_counter() - start
    is_import_error = "ERROR collecting" in done.stdout  # the mutant breaks an import: it is caught
    states = {PASSED: "survived", FAILED: "killed"}
    return states.get(done.returncode, "killed" if is_import_error else "error"), seconds


def run(mutants: Sequence[Mutant], jobs: int, out: Path | None) -> list[dict]:
    """Test every mutant in one of `jobs` copies of the tree; print and append a row for each."""
    rows, stamp = [], {"commit": os.environ.get("ADAPTKRY_COMMIT") or commit()}
    with tempfile.TemporaryDirectory(prefix="adaptkry-mutants-") as parent:
        copies: Queue[Path] = Queue()
        for number in range(jobs):
            copy_tree(Path(parent) / str(number))
            copies.put(Path(parent) / str(number))

        def test(mutant: Mutant) -> dict:
            folder = copies.get()
            try:
                with mutated(mutant, folder):
                    state, seconds = run_tests(mutant.tests, folder)
            finally:
                copies.put(folder)
            return {
                "mutant": mutant.name, "file": mutant.file, "state": state, "seconds": round(seconds, 1),
                "finding": mutant.finding, "settings": {"tests": mutant.tests}, **stamp,
            }  # fmt: skip

        with ThreadPoolExecutor(jobs) as pool:
            for row in pool.map(test, mutants):
                rows.append(row)
                print(f"{row['state']:8} {row['seconds']:6.1f} s  {row['file']}: {row['mutant']}", flush=True)
                if out is not None:
                    append(out, [row])
    return rows


def summary(rows: Sequence[dict]) -> str:
    """Return the share of mutants killed, and the names of the others."""
    killed = sum(row["state"] == "killed" for row in rows)
    others = [f"{row['state']}: {row['file']}: {row['mutant']}" for row in rows if row["state"] != "killed"]
    return "\n".join([*others, f"{killed} of {len(rows)} mutants killed ({100 * killed / max(len(rows), 1):.1f} %)"])


def main() -> None:
    """Run the mutants; exit with 1 if one of them was not killed."""
    parser = argparse.ArgumentParser(description="Test that every mutant of tests/mutants.toml is caught.")
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="parts of file names or of names of mutants")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that are tested at the same time")
    parser.add_argument("--out", type=Path, help="file to which rows are appended")
    options = parser.parse_args()
    mutants = selected(read_mutants(), options.filters)
    for mutant in mutants:
        mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))
    rows = run(mutants, options.jobs, options.out)
    print(summary(rows))
    sys.exit(any(row["state"] != "killed" for row in rows))


if __name__ == "__main__":
    main()
