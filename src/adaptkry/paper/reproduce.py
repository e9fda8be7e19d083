"""Measure items of the paper and append their rows; documents are written from the rows, see `documents`.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> reproduce(["hyper-parameters"], RunOptions(quick=True), folder)["hyper-parameters"].missing
{}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from adaptkry.common.journal import Journal
from adaptkry.common.lookup import pick
from adaptkry.common.rows import append, provenance
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
from adaptkry.paper.measure import Measurement, MissingDataError, RunOptions, is_available
from adaptkry.paper.published import PAPER
from adaptkry.training.fit import choose_device

ITEMS: dict[str, ModuleType] = {  # each has `measurements(item, options)` and `section(cells, item)`
    "table-1": table_1,
    "table-2": table_2,
    "tau-sets": tau_sets,
    "orthogonality": orthogonality,
    "hyper-parameters": hyper_parameters,
    "large-graphs": large_graphs,
    "figure-1": figure_1,
    "tau-sensitivity": tau_sensitivity,
    "angles": angles,
    "running-times": running_times,
    "learned-filters": learned_filters,
    "theory": theory,
    "direction": direction,
    "tying": tying,
    "split-schemes": split_schemes,
}


@dataclass
class Outcome:
    """What measuring an item led to."""

    rows: int = 0
    missing: dict[str, str] = field(default_factory=dict)  # graph -> why
    replaced: set[str] = field(default_factory=set)  # graphs that a quick run replaced by built-in ones
    failed: list[str] = field(default_factory=list)


def reproduce(
    names: Sequence[str],
    options: RunOptions,
    out: Path,
    *,
    only: Sequence[str] | None = None,
    resume: bool = False,
    on_progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> dict[str, Outcome]:
    """Measure items and append their rows to `out`/ITEM.jsonl.

    Args:
        names: items; see `ITEMS`.
        options: device, number of splits, quick or not.
        out: the folder of rows; it is locked meanwhile.
        only: measure only cells whose row or column has one of these names.
        resume: skip measurements that have rows of this commit already.
        on_progress: called after every measurement with the number of those done and of all.
    """
    selected = [(name, one) for name, several in measurements_of(names, options, only).items() for one in several]
    outcomes = {name: Outcome() for name in names}
    origin = provenance(choose_device(options.device))
    stamp = {"quick": options.quick, "created": datetime.now(UTC).isoformat(timespec="seconds"), **origin}
    with Journal(out, command="reproduce", resume=resume, file=None) as journal:
        done = {part: {} for name in names for part in finished(out, name, origin["commit"], options.quick)}
        journal.open(origin["commit"], done=done)
        for number, (name, one) in enumerate(selected, 1):
            part = part_name(name, one.row, one.column)
            if journal.missing([part]) and one.graph not in outcomes[name].missing:
                rows = rows_of(one, options, outcomes[name])
                if rows:
                    append(out / f"{name}.jsonl", [{"item": name, **stamp, **row} for row in rows])
                    journal.add(part)
            on_progress(number, len(selected))
    return outcomes


def measurements_of(
    names: Sequence[str], options: RunOptions, only: Sequence[str] | None = None
) -> dict[str, list[Measurement]]:
    """The measurements of items, in order; a name in `only` that no cell has is an error with the nearest names."""
    found = {name: pick(ITEMS, name, "item").measurements(PAPER[name], options) for name in names}
    known = {cell: one for several in found.values() for one in several for cell in (one.row, one.column) if cell}
    for name in only or ():
        pick(known, name, "row or column")
    return {
        name: [one for one in several if not only or one.row in only or one.column in only]
        for name, several in found.items()
    }


def part_name(item: str, row: str, column: str) -> str:
    """The name of a measurement in the journal."""
    return f"{item}: {row}, {column}"


def finished(out: Path, item: str, commit: str, quick: bool) -> list[str]:
    """The measurements that left rows of this commit; rows of version 0.1 without `job` count for their cell."""
    rows, _ = cells.read(out / f"{item}.jsonl", item)
    same = [row for row in rows if row["commit"] == commit and row["quick"] == quick]
    return [part_name(item, *row.get("job", (row["row"], row["column"]))) for row in same]


def rows_of(one: Measurement, options: RunOptions, outcome: Outcome) -> list[dict]:
    """The rows of one measurement; where data is missing or it fails, none, and the reason is in the outcome."""
    try:
        rows = one.measure(None if one.graph is None else options.load(one.graph))
    except MissingDataError as error:
        outcome.missing[str(one.graph)] = str(error)
        return []
    except (ValueError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
        outcome.failed.append(f"{one.row}, {one.column}: {str(error).splitlines()[0]}")
        return []
    if options.quick and not is_available(one.graph, options.data_root):
        outcome.replaced.add(str(one.graph))
    outcome.rows += len(rows)
    place = {"row": one.row, "column": one.column, "job": [one.row, one.column]}  # rows may name other cells
    return [{**place, **row} for row in rows]
