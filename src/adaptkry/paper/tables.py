"""Common parts of sections: tables of measured and printed values, notes on verdicts, and lines of charts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adaptkry.paper.cells import Cells, MeasuredCell, difference_half_width, paired_differences
from adaptkry.paper.verdicts import ABOVE, BELOW, HOLDS, is_reached, verdict
from adaptkry.report import elements
from adaptkry.report.elements import counted

Printed = dict[tuple[str, str], Any]  # (row, column) -> printed value
OURS = "ours ± 95 % half-width"
NO_REASON = "no reason is known to us."


def printed_values(table: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> Printed:
    """Return printed values by (row, column), from {row: [one value per column]}."""
    return {(row, str(column)): v for row, values in table.items() for column, v in zip(columns, values, strict=False)}


def result_table(
    title: str, cells: Cells, rows: Sequence[str], columns: Sequence[str], item: dict, printed: Printed
) -> dict:
    """Return a table of measured and printed values; a cell that was not measured shows the printed value only."""
    lines = [[row, *(result_cell(cells.get((row, c)), printed.get((row, c)), item) for c in columns)] for row in rows]
    note = f"{OURS} (printed, difference), verdict" if printed else OURS
    note = "; ".join([note, *item.get("table_notes", ())])
    return elements.table(title, ["", *columns], lines, note=note)


def result_cell(cell: MeasuredCell | None, printed: Any, item: dict) -> dict | None:
    """Return a cell with the measured value, its interval, the printed value, the difference and the verdict."""
    decimals = item.get("decimals", 2)
    if cell is None:
        return None if printed is None else elements.cell(f"not run ({printed})")
    if not cell.has_result:
        return elements.cell("failed")
    if cell.text is not None:
        return elements.cell(f"{cell.text} ({printed})", None, verdict(cell, printed, item["margin"]))
    if printed is None:
        return elements.cell(cell.mean_text(decimals), cell.mean)
    places = 0 if isinstance(printed, int) else decimals
    text = f"{cell.mean_text(decimals)} ({printed:,}, {signed(cell.mean - printed, places)})"
    return elements.cell(text, cell.mean, verdict(cell, printed, item["margin"]))


def score_cell(cell: MeasuredCell | None) -> dict | None:
    """Return the mean test score with its interval."""
    if cell is None:
        return None
    return elements.cell(cell.mean_text(), cell.mean) if cell.has_result else elements.cell("failed")


def difference_cell(cell: MeasuredCell | None, base: MeasuredCell | None, score: str) -> dict | None:
    """Return the mean difference of two cells on the same splits, in points, with its corrected interval."""
    if cell is None or base is None:
        return None
    differences = paired_differences(cell, base, score)
    if not len(differences):
        return elements.cell("failed")
    half = difference_half_width(cell, base, score)
    return elements.cell(f"{differences.mean():+.2f} ± {half:.2f}", float(differences.mean()))


def signed(difference: float, places: int) -> str:
    """Format a difference with its sign; one that rounds to zero has no sign."""
    text = f"{difference:+,.{places}f}"
    return text[1:] if float(text.replace(",", "")) == 0 else text


def verdict_notes(cells: Cells, printed: Printed, item: dict) -> list[str]:
    """Return notes: how many printed values hold, and each reason for differences with the cells it applies to.

    Cells above need a reason as much as cells below.
    """
    measured = {key: cells[key] for key in printed if key in cells and cells[key].has_result}
    verdicts = {key: verdict(cell, printed[key], item["margin"]) for key, cell in measured.items()}
    cells_by_reason: dict[str, list[str]] = {}
    for (row, column), decided in verdicts.items():
        reason = item.get("reasons", {}).get(f"{row}/{column}", item.get("reason") if decided != HOLDS else None)
        # holds although it is below the margin, because our interval is wide
        is_short = decided == HOLDS and not is_reached(cells[row, column], printed[row, column], item["margin"])
        if decided != HOLDS or (reason and is_short):
            cell = f"{row}, {column} ({'within our interval only' if is_short else decided})"
            cells_by_reason.setdefault(reason or NO_REASON, []).append(cell)
    return [
        counts_of(list(verdicts.values()), len(printed)),
        *(f"{'; '.join(names)}: {reason}" for reason, names in cells_by_reason.items()),
    ]


def counts_of(verdicts: Sequence[str], printed: int) -> str:
    """Return a sentence: how many printed values hold, are above, are below and were not run."""
    held, above, below = (verdicts.count(kind) for kind in (HOLDS, ABOVE, BELOW))
    values = "printed value" if len(verdicts) == 1 else "printed values"
    return (
        f"{held} of {len(verdicts)} {values} {'holds' if held == 1 else 'hold'}, {counted(above, 'is', 'are')} above "
        f"and {counted(below, 'is', 'are')} below; {counted(printed - len(verdicts), 'was', 'were')} not run."
    )


def cell_series(
    name: str, points: Iterable[tuple[float, MeasuredCell | None]], *, intervals: bool = True
) -> list[dict]:
    """Return a list of one chart line through measured cells, with their intervals; empty if none was measured."""
    found = [(x, cell) for x, cell in points if cell is not None]
    if not found:
        return []
    x, means = [x for x, _ in found], [cell.mean for _, cell in found]
    if not intervals:
        return [elements.series(name, x, means)]
    low, high = ([cell.mean + sign * cell.half_width for _, cell in found] for sign in (-1, 1))
    return [elements.series(name, x, means, low, high)]
