"""The usual table of an item: rows by columns, each cell ours with its interval, the printed value, and a verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from adaptkry import experiments
from adaptkry.reproduction.cells import Cells

Published = dict[tuple[str, str], float]
HEAD = "ours ± 95 % half-width (printed, difference), verdict"


def published(table: Mapping[str, Sequence[Any]], columns: Sequence[str]) -> Published:
    """Printed values by row and column, from {row: [a value a column]}."""
    return {(row, str(column)): v for row, values in table.items() for column, v in zip(columns, values, strict=False)}


def grid(title: str, cells: Cells, rows: Sequence[str], columns: Sequence[str], item: dict, known: Published) -> dict:
    """The table; a cell that was not measured shows the printed value alone."""
    lines = [[row, *(shown(cells, known, row, column, item) for column in columns)] for row in rows]
    return experiments.table(title, ["", *columns], lines, note=HEAD if known else "ours ± 95 % half-width")


def shown(cells: Cells, known: Published, row: str, column: str, item: dict) -> Any:
    """One cell."""
    own, printed, decimals = cells.get((row, column)), known.get((row, column)), item.get("decimals", 2)
    if own is None:
        return None if printed is None else experiments.cell(f"not run ({printed})")
    if "text" in own.rows[0]:
        said = own.rows[0]["text"]
        return experiments.cell(f"{said} ({printed})", None, "holds" if said == printed else "above")
    if not len(own.numbers):
        return experiments.cell("failed")
    if printed is None:
        return experiments.cell(own.text(decimals), own.mean)
    verdict = own.verdict(printed, item["margin"])
    places = 0 if isinstance(printed, int) else decimals
    said = f"{own.text(decimals)} ({printed:,}, {own.mean - printed:+,.{places}f})"
    return experiments.cell(said, own.mean, verdict)


def reasons(cells: Cells, known: Published, item: dict, phrases: dict[str, str]) -> list[str]:
    """How many printed values hold, and a sentence for every one that does not."""
    held = {key: cells[key].verdict(v, item["margin"]) for key, v in known.items() if measured(cells, key)}
    counts = {word: sum(v == word for v in held.values()) for word in ("holds", "above", "below")}
    notes = [f"{counts['holds']} of {len(held)} printed values hold, {counts['above']} are above and "
             f"{counts['below']} below; {len(known) - len(held)} were not run."]  # fmt: skip
    for (row, column), verdict in held.items():
        reason = item.get("reasons", {}).get(f"{row}/{column}")
        if verdict == "below" or (reason and verdict == "above"):
            notes.append(f"{row}, {column} ({verdict}): {spelled(reason, phrases)}")
    return notes


def measured(cells: Cells, key: tuple[str, str]) -> bool:
    """Whether a cell has numbers."""
    return key in cells and "text" not in cells[key].rows[0] and len(cells[key].numbers) > 0


def spelled(reason: str | None, phrases: dict[str, str]) -> str:
    """A reason with its set phrases written out."""
    if reason is None:
        return "no reason is known to us; the settings of the printed figure were not published."
    for name, phrase in phrases.items():
        reason = reason.replace(name, phrase)
    return reason
