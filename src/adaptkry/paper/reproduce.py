"""The paper, re-run: one item a table or figure. Rows first; documents are written from rows and never typed.

>>> reproduce(["hyper-parameters"], RunOptions(quick=True), Path("/tmp/adaptkry-doctest"))["hyper-parameters"].missing
{}
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from types import ModuleType

from adaptkry.common import rows as results
from adaptkry.common.lookup import pick
from adaptkry.paper import cells
from adaptkry.paper.items import (
    angles,
    direction,
    figure_1,
    hyper_parameters,
    large_graphs,
    learned_filters,
    orthogonality,
    running_times,
    split_schemes,
    table_1,
    table_2,
    tau_sensitivity,
    tau_sets,
    theory,
    tying,
)
from adaptkry.paper.measure import Job, MissingDataError, RunOptions, at_hand
from adaptkry.training import fit as fitting

ITEMS: dict[str, ModuleType] = {
    one.__name__.rpartition(".")[2].replace("_", "-"): one
    for one in (
        table_1, table_2, tau_sets, orthogonality, hyper_parameters, large_graphs, figure_1, tau_sensitivity, angles,
        running_times, learned_filters, theory, direction, tying, split_schemes,
    )
}  # fmt: skip
PAPER = tomllib.loads((files("adaptkry.paper") / "paper.toml").read_text(encoding="utf-8"))


@dataclass
class Outcome:
    """What became of an item."""

    rows: int = 0
    missing: dict[str, str] = field(default_factory=dict)  # graph -> why
    replaced: set[str] = field(default_factory=set)  # graphs in whose place a quick run took a built-in one
    failed: list[str] = field(default_factory=list)


def reproduce(
    names: Sequence[str],
    how: RunOptions,
    out: Path,
    *,
    only: Sequence[str] | None = None,
    resume: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> dict[str, Outcome]:
    """Measure items and append their rows to `out`/ITEM.jsonl.

    Args:
        names: items; see `ITEMS`.
        how: device, number of splits, quick or not.
        out: the folder of rows.
        only: measure only cells whose row or column has one of these names.
        resume: leave out cells that this commit has rows of already.
        tick: called after every job.
    """
    jobs = jobs_of(names, how, only)
    return {name: measure(name, jobs[name], how, out, resume, tick) for name in names}


def jobs_of(names: Sequence[str], how: RunOptions, only: Sequence[str] | None = None) -> dict[str, list[Job]]:
    """The jobs of items, in order; a name in `only` that no cell of theirs has is an error with the nearest ones."""
    made = {name: pick(ITEMS, name, "item").jobs(PAPER[name], how) for name in names}
    cells = {cell: job for jobs in made.values() for job in jobs for cell in (job.row, job.column) if cell}
    for name in only or ():
        pick(cells, name, "row or column")
    return {
        name: [job for job in jobs if not only or job.row in only or job.column in only] for name, jobs in made.items()
    }


def measure(name: str, jobs: Sequence[Job], how: RunOptions, out: Path, resume: bool, tick) -> Outcome:
    """One item: a job that cannot run is told of, and the others go on."""
    origin = results.provenance(fitting.choose_device(how.device))
    stamp = {"item": name, "quick": how.quick, "made": datetime.now(UTC).isoformat(timespec="seconds"), **origin}
    path, outcome = out / f"{name}.jsonl", Outcome()
    done = there(path, name, origin["commit"], how.quick) if resume else set()
    for job in jobs:
        if (job.row, job.column) not in done and job.graph not in outcome.missing:
            outcome.rows += run(job, how, path, stamp, outcome)
        tick()
    return outcome


def run(job: Job, how: RunOptions, path: Path, stamp: dict, outcome: Outcome) -> int:
    """Rows of one job, appended as soon as they are there; returns how many."""
    try:
        rows = job.measure(None if job.graph is None else how.load(job.graph))
    except MissingDataError as error:
        outcome.missing[str(job.graph)] = str(error)
        return 0
    except (ValueError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
        outcome.failed.append(f"{job.row}, {job.column}: {str(error).splitlines()[0]}")
        return 0
    if how.quick and not at_hand(job.graph, how.data_root):
        outcome.replaced.add(str(job.graph))
    own = {"row": job.row, "column": job.column, "job": [job.row, job.column]}  # a row may name another cell
    results.append(path, [{**own, **stamp, **row} for row in rows])
    return len(rows)


def there(path: Path, name: str, commit: str, quick: bool) -> set[tuple[str, str]]:
    """Jobs that have left rows of this commit; rows of before there were jobs in them count for their cell."""
    rows, _ = cells.read(path, name)
    own = [row for row in rows if row["commit"] == commit and row["quick"] == quick]
    return {tuple(row.get("job", (row["row"], row["column"]))) for row in own}
