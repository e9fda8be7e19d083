"""The usual table of an item: rows by columns, each cell ours with its interval, the printed value, and a verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from adaptkry.paper.cells import Cell, Cells
from adaptkry.report import elements as experiments

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
        return experiments.cell(f"{own.rows[0]['text']} ({printed})", None, verdict(own, printed, item))
    if not len(own.numbers):
        return experiments.cell("failed")
    if printed is None:
        return experiments.cell(own.text(decimals), own.mean)
    places = 0 if isinstance(printed, int) else decimals
    said = f"{own.text(decimals)} ({printed:,}, {signed(own.mean - printed, places)})"
    return experiments.cell(said, own.mean, verdict(own, printed, item))


def signed(difference: float, places: int) -> str:
    """A difference with its sign; what rounds to nothing has none."""
    text = f"{difference:+,.{places}f}"
    return text[1:] if float(text.replace(",", "")) == 0 else text


def verdict(own: Cell, printed: Any, item: dict) -> str:
    """Whether a printed value holds; words hold if they are the same."""
    if "text" in own.rows[0]:
        return "holds" if own.rows[0]["text"] == printed else "below"
    return own.verdict(printed, item["margin"])


def reaches(own: Cell, printed: Any, item: dict) -> bool:
    """Whether ours is at most the margin below what is printed, whatever our interval; words have none."""
    return "text" in own.rows[0] or own.mean >= printed - item["margin"]


def reasons(cells: Cells, known: Published, item: dict, phrases: dict[str, str]) -> list[str]:
    """How many printed values hold, and every reason with the values that it is given for."""
    held = {key: verdict(cells[key], value, item) for key, value in known.items() if measured(cells, key)}
    counts = {word: sum(v == word for v in held.values()) for word in ("holds", "above", "below")}
    given: dict[str, list[str]] = {}
    for (row, column), word in held.items():
        reason = item.get("reasons", {}).get(f"{row}/{column}", item.get("reason") if word == "below" else None)
        is_short = word == "holds" and not reaches(cells[row, column], known[row, column], item)
        if word == "below" or (reason and (word == "above" or is_short)):
            said = "within our interval only" if is_short else word
            given.setdefault(spelled(reason, phrases), []).append(f"{row}, {column} ({said})")
    return [
        f"{counts['holds']} of {len(held)} printed values hold, {counts['above']} are above and {counts['below']} "
        f"below; {len(known) - len(held)} were not run.",
        *(f"{'; '.join(where)}: {reason}" for reason, where in given.items()),
    ]


def measured(cells: Cells, key: tuple[str, str]) -> bool:
    """Whether a cell has something to show."""
    return key in cells and ("text" in cells[key].rows[0] or len(cells[key].numbers) > 0)


def spelled(reason: str | None, phrases: dict[str, str]) -> str:
    """A reason with its set phrases written out."""
    if reason is None:
        return "no reason is known to us."
    for name, phrase in phrases.items():
        reason = reason.replace(name, phrase)
    return reason
