"""Tables, charts and experiments as plain data, from which the report page, chart files and documents are written.

An experiment is a dict, stored unchanged in `facts.json`:

    {"kind": "experiment", "title": str, "lead": str, "notes": [str], "provenance": {str: str},
     "tables": [...], "charts": [...]}

The facts of a run are an experiment with a few more keys (see `run_report`). The functions of this module build the
parts and check that the page can draw them.

>>> accuracies = table("Cora", ["tau", "test %"], [[0.5, cell("81.2 ± 0.9", 81.2, "holds")], [1.0, None]])
>>> curve = chart("tau", [series("Cora", [0.5, 1.0], [81.2, None])], x="tau", y="test %")
>>> experiment("Sensitivity", tables=[accuracies], charts=[curve])["tables"][0]["rows"][1]
[1.0, None]
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from adaptkry.common.tables import number_text

TableCell = str | int | float | None | dict  # a dict is what `cell` returns

VERDICTS = ("holds", "above", "below", "")  # shown as a badge; decided in paper/verdicts.py
NOTHING_MEASURED = "nothing was measured"


def finite(value: Any) -> Any:
    """Return the value with arrays as lists, and NaN and infinities as None, so that it can be written as JSON."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their scalars
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(text: str, sort: float | None = None, verdict: str = "") -> dict:
    """Return a table cell with a displayed text, a number to sort by, and optionally a verdict as a badge.

    Args:
        text: displayed text, such as "81.2 ± 0.9".
        sort: number by which the column is sorted; None sorts last, or by text if no cell has a number.
        verdict: "holds", "above", "below", or "" for none.
    """
    if verdict not in VERDICTS:
        raise ValueError(f"verdict must be one of {', '.join(map(repr, VERDICTS))}; got {verdict!r}.")
    return {"text": str(text), "sort": finite(sort), "verdict": verdict}


def cell_text(value: TableCell) -> str:
    """Return a cell as text, for a terminal or a document; an empty cell is "-"."""
    if isinstance(value, dict):
        return " ".join(part for part in (value["text"], value.get("verdict")) if part) or "-"
    return "-" if value is None else number_text(value) if isinstance(value, float) else str(value)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[TableCell]], note: str = "") -> dict:
    """Return a table; every row has one cell per column, and `note` is shown below the table."""
    cells = [[cell(**value) if isinstance(value, dict) else finite(value) for value in row] for row in rows]
    for row in cells:
        if len(row) != len(columns):
            raise ValueError(
                f"every row of table {title!r} must have {len(columns)} cells, one per column; got {len(row)}: {row}."
            )
        for value in row:
            if not isinstance(value, (str, int, float, dict, type(None))):
                raise TypeError(
                    f"a cell of table {title!r} must be text, a number, None or `cell(...)`; got {value!r}."
                )
    return {"title": title, "columns": [str(name) for name in columns], "rows": cells, "note": note}


def series(
    name: str, x: Iterable, y: Iterable, low: Iterable | None = None, high: Iterable | None = None, dashed: bool = False
) -> dict:
    """Return one line of a chart.

    Args:
        name: name in the legend.
        x: numbers; or names, which gives points instead of a line, in the order in which the names first occur.
        y: numbers; None or NaN leaves a gap.
        low: lower ends of the intervals, or None.
        high: upper ends of the intervals, or None.
        dashed: whether the line is dashed, as for published values.
    """
    given = {"x": x, "y": y, "low": low, "high": high}
    parts: dict[str, Any] = {part: None if v is None else finite(list(v)) for part, v in given.items()}
    for part in ("y", "low", "high"):
        if parts[part] is not None and len(parts[part]) != len(parts["x"]):
            raise ValueError(
                f"{part} of series {name!r} must have {len(parts['x'])} values, as many as x; got {len(parts[part])}."
            )
    if (low is None) != (high is None):
        raise ValueError(f"series {name!r} needs both ends of its intervals, or none; got one. Pass low and high.")
    return {"name": str(name), **parts, "dashed": bool(dashed)}


def chart(
    title: str,
    series: Sequence[dict],
    *,
    x: str = "",
    y: str = "",
    log: bool = False,
    log_x: bool = False,
    behind: dict | None = None,
    marks: Sequence[dict] = (),
    empty: str = NOTHING_MEASURED,
    note: str = "",
) -> dict:
    """Return a line chart, or one with a row of points per name if x has names.

    Args:
        title: heading.
        series: lines, from `series`.
        x: label of the x-axis, with the unit.
        y: label of the y-axis, with the unit.
        log: whether the y-axis is logarithmic; all y must then be positive.
        log_x: whether the x-axis is logarithmic.
        behind: histogram drawn in grey behind the lines, scaled to fit the chart:
            {"name": str, "edges": [m + 1 numbers], "mass": [m numbers]}.
        marks: vertical lines with names: {"name": str, "x": number}.
        empty: text to show if no series has a value.
        note: text below the chart, on the page only.
    """
    is_name = {isinstance(v, str) for line in series for v in line["x"]}
    if len(is_name) > 1:
        raise ValueError(f"x of chart {title!r} must be all names or all numbers; got both.")
    not_positive = [v for line in series for v in line["y"] if log and v is not None and v <= 0]
    if not_positive:
        raise ValueError(
            f"y of the logarithmic chart {title!r} must be positive; got {not_positive[0]}. Try log=False."
        )
    return {
        "kind": "lines", "title": title, "x": x, "y": y, "log": bool(log), "log_x": bool(log_x),
        "series": list(series), "behind": finite(behind), "marks": [dict(mark) for mark in marks], "empty": empty,
        "note": note,
    }  # fmt: skip


def matrix(
    title: str, names: Sequence[str], counts: Iterable[Iterable[int]], *, x: str = "", y: str = "", note: str = ""
) -> dict:
    """Return a chart of a square matrix of counts, such as a confusion matrix.

    Args:
        title: heading.
        names: names of rows and columns.
        counts: non-negative numbers [c, c]; cells are shaded by their share of the row.
        x: label of the columns.
        y: label of the rows.
        note: text below the chart, on the page only.
    """
    labels, rows = [str(name) for name in names], [list(row) for row in finite(counts)]
    if [len(row) for row in rows] != [len(labels)] * len(labels):
        raise ValueError(
            f"matrix {title!r} must have {len(labels)} rows and columns, one per name; got rows of {[*map(len, rows)]}."
        )
    return {"kind": "matrix", "title": title, "x": x, "y": y, "names": labels, "counts": rows, "note": note}


def under(section: str, *elements: dict) -> list[dict]:
    """Return tables and charts that the page shows under a heading; those without one come first."""
    return [{**element, "section": section} for element in elements]


def experiment(
    title: str,
    *,
    lead: str = "",
    tables: Sequence[dict] = (),
    charts: Sequence[dict] = (),
    notes: Sequence[str] = (),
    provenance: Mapping[str, object] | None = None,
) -> dict:
    """Return the facts of an experiment.

    Args:
        title: heading, also shown on the tab.
        lead: summary in one or two sentences.
        tables: tables, from `table`.
        charts: charts, from `chart` and `matrix`.
        notes: remarks; those that start with "warning:" are highlighted.
        provenance: version, commit, device and date of the results.
    """
    return {
        "kind": "experiment",
        "title": title,
        "lead": lead,
        "notes": [str(text) for text in notes],
        "provenance": {str(name): str(value) for name, value in (provenance or {}).items()},
        "tables": list(tables),
        "charts": list(charts),
    }


def checked_experiment(facts: Mapping) -> dict:
    """Check an experiment that was read from disk; missing keys become empty parts, and extra keys of runs are kept.

    Version 0.1 called `provenance` `made`.
    """
    try:
        known = experiment(
            str(facts.get("title", "experiment")),
            lead=str(facts.get("lead", "")),
            tables=[checked(one, checked_table) for one in facts.get("tables") or ()],
            charts=[checked(one, checked_chart) for one in facts.get("charts") or ()],
            notes=facts.get("notes") or (),
            provenance=facts.get("provenance", facts.get("made")),
        )
    except (TypeError, AttributeError) as error:  # a missing x, an unknown key, a list in place of a dict
        raise ValueError(f"experiment {facts.get('title')!r} cannot be read: {error}. Run it again.") from None
    return {**facts, **known, "kind": facts.get("kind", "experiment")}


def checked(stored: Mapping, build: Callable[..., dict]) -> dict:
    """Check a table or chart that was read from disk."""
    parts = {name: value for name, value in stored.items() if name not in ("kind", "section")}
    found = matrix(**parts) if stored.get("kind") == "matrix" else build(**parts)
    return found | ({"section": str(stored["section"])} if "section" in stored else {})


def checked_table(**parts: Any) -> dict:
    """Build a table from its stored parts."""
    return table(**{"title": "", "columns": (), "rows": (), **parts})


def checked_chart(**parts: Any) -> dict:
    """Build a line chart from its stored parts."""
    return chart(**{"title": "", **parts, "series": [series(**line) for line in parts.get("series", ())]})


def counted(number: int, one: str, several: str) -> str:
    """Return a number with its noun or verb in the singular or plural.

    >>> counted(1, "is", "are"), counted(3, "line", "lines")
    ('1 is', '3 lines')
    """
    return f"{number} {one if number == 1 else several}"


def spread(lines: Sequence[Sequence[float | None]]) -> tuple[list, list, list]:
    """Return the mean, minimum and maximum over lines of the same length; None where no line has a number."""
    columns = [[v for v in column if v is not None] for column in zip(*lines, strict=True)]
    means = [sum(column) / len(column) if column else None for column in columns]
    return means, [min(column, default=None) for column in columns], [max(column, default=None) for column in columns]
