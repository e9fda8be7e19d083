"""Measure items of the paper and append their rows to files; `documents` then writes documents from the rows.

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

from adaptkry.common import errors
from adaptkry.common.journal import Journal
from adaptkry.common.lookup import pick
from adaptkry.common.rows import append, provenance
from adaptkry.paper import cells
from adaptkry.paper.items import (
    angles,
    best,
    defaults,
    direction,
    figure_1,
    hyper_parameters,
    ingredients,
    large_graphs,
    learned_filters,
    orthogonality,
    protocol,
    running_times,
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
    "protocol": protocol,
    "defaults": defaults,
    "ingredients": ingredients,
    "best": best,
}


@dataclass
class Outcome:
    """The number of new rows of an item, and what could not be measured."""

    rows: int = 0
    missing: dict[str, str] = field(default_factory=dict)  # graph -> why it could not be loaded
    replaced: set[str] = field(default_factory=set)  # graphs that a quick run replaced by built-in ones
    failed: list[str] = field(default_factory=list)  # cell and error message


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
        out: the folder of rows; it is locked during the call.
        only: measure only cells whose row or column has one of these names.
        resume: skip measurements that already have rows of this commit.
        on_progress: called after every measurement with (measurements done, measurements in total).
    """
    selected = [
        (name, measurement)
        for name, measurements in measurements_of(names, options, only).items()
        for measurement in measurements
    ]
    outcomes = {name: Outcome() for name in names}
    origin = provenance(choose_device(options.device))
    stamp = {"quick": options.quick, "created": datetime.now(UTC).isoformat(timespec="seconds"), **origin}
    with Journal(out, command="reproduce", resume=resume, file=None) as journal:
        done = {part: {} for name in names for part in finished(out, name, origin["commit"], options.quick)}
        journal.open(origin["commit"], done=done)
        for number, (name, measurement) in enumerate(selected, 1):
            part = part_name(name, measurement.row, measurement.column)
            if journal.missing([part]) and measurement.graph not in outcomes[name].missing:
                rows = rows_of(measurement, options, outcomes[name])
                if rows:
                    append(out / f"{name}.jsonl", [{"item": name, **stamp, **row} for row in rows])
                    journal.add(part)
            on_progress(number, len(selected))
    return outcomes


def measurements_of(
    names: Sequence[str], options: RunOptions, only: Sequence[str] | None = None
) -> dict[str, list[Measurement]]:
    """Return the measurements of items, in order; a name in `only` that is not a row or column is refused."""
    found = {name: pick(ITEMS, name, "item").measurements(PAPER[name], options) for name in names}
    labels = {label: m for measurements in found.values() for m in measurements for label in (m.row, m.column) if label}
    for name in only or ():
        pick(labels, name, "row or column")
    return {
        name: [m for m in measurements if not only or m.row in only or m.column in only]
        for name, measurements in found.items()
    }


def part_name(item: str, row: str, column: str) -> str:
    """Return the name of a measurement in the journal."""
    return f"{item}: {row}, {column}"


def finished(out: Path, item: str, commit: str, quick: bool) -> list[str]:
    """Return the measurements that have rows of this commit; old rows without `job` count for their cell."""
    rows, _ = cells.read(out / f"{item}.jsonl", item)
    same = [row for row in rows if row["commit"] == commit and row["quick"] == quick]
    return [part_name(item, *row.get("job", (row["row"], row["column"]))) for row in same]


def rows_of(measurement: Measurement, options: RunOptions, outcome: Outcome) -> list[dict]:
    """Run one measurement; if data is missing or it fails, there are no rows, and the outcome has the reason."""
    graph, row, column = measurement.graph, measurement.row, measurement.column
    try:
        rows = measurement.measure(None if graph is None else options.load(graph))
    except MissingDataError as error:
        outcome.missing[str(graph)] = str(error)
        return []
    except Exception as error:
        reason = errors.reason(error)
        if reason is None:  # a bug
            raise
        outcome.failed.append(f"{row}, {column}: {reason}")
        return []
    if options.quick and not is_available(graph, options.data_root):
        outcome.replaced.add(str(graph))
    outcome.rows += len(rows)
    cell = {"row": row, "column": column, "job": [row, column]}  # rows may name other cells
    return [{**cell, **result} for result in rows]
