"""Tables, charts and experiments as plain data, from which the report page, pictures and documents are drawn.

An experiment is a dict that is stored in `facts.json` as it is:

    {"kind": "experiment", "title": str, "lead": str, "notes": [str], "provenance": {str: str},
     "tables": [...], "charts": [...]}

The facts of a run are an experiment with a few more keys (see `run_report`). The functions here build the parts and
refuse what a page could not draw.

>>> accuracies = table("Cora", ["tau", "test %"], [[0.5, cell("81.2 ± 0.9", 81.2, "holds")], [1.0, None]])
>>> curve = chart("tau", [series("Cora", [0.5, 1.0], [81.2, None])], x="tau", y="test %")
>>> experiment("Sensitivity", tables=[accuracies], charts=[curve])["tables"][0]["rows"][1]
[1.0, None]
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TableCell = str | int | float | None | dict  # a dict is what `cell` returns

VERDICTS = ("holds", "above", "below", "")  # what a page can show as a badge; paper/verdicts.py decides which
NOTHING_MEASURED = "nothing was measured"


def finite(value: Any) -> Any:
    """The value with arrays as lists, and NaN and infinities as None, so that it can be written as JSON."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their scalars
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(text: str, sort: float | None = None, verdict: str = "") -> dict:
    """A table cell that shows `text`, sorts by the number `sort`, and may carry a verdict as a badge.

    Args:
        text: what is displayed, such as "81.2 ± 0.9".
        sort: the number that its column sorts by; None sorts last, or as text where no cell has a number.
        verdict: "holds", "above", "below", or "" for none.
    """
    if verdict not in VERDICTS:
        raise ValueError(f"a verdict must be one of {', '.join(map(repr, VERDICTS))}; got {verdict!r}.")
    return {"text": str(text), "sort": finite(sort), "verdict": verdict}


def cell_text(value: TableCell) -> str:
    """A cell as text, for a terminal or a document; an empty cell is "-"."""
    if isinstance(value, dict):
        return " ".join(part for part in (value["text"], value.get("verdict")) if part) or "-"
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[TableCell]], note: str = "") -> dict:
    """A table that can be sorted by any of its columns; every row has one cell per column."""
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
    """One line of a chart.

    Args:
        name: its name in the legend.
        x: numbers, or names: then the chart shows points side by side, in the order in which the names first occur.
        y: numbers; None or NaN leaves a gap.
        low: lower ends of the intervals, or None.
        high: upper ends of the intervals, or None.
        dashed: whether the line is dashed, such as for published values.
    """
    given = {"x": x, "y": y, "low": low, "high": high}
    parts: dict[str, Any] = {part: None if v is None else finite(list(v)) for part, v in given.items()}
    for part in ("y", "low", "high"):
        if parts[part] is not None and len(parts[part]) != len(parts["x"]):
            raise ValueError(
                f"{part} of series {name!r} must have {len(parts['x'])} values, as many as x; got {len(parts[part])}."
            )
    if (low is None) != (high is None):
        raise ValueError(f"series {name!r} needs both ends of its intervals or none; got one. Pass low and high.")
    return {"name": str(name), **parts, "dashed": bool(dashed)}


def chart(
    title: str,
    series: Sequence[dict],
    *,
    x: str = "",
    y: str = "",
    log: bool = False,
    behind: dict | None = None,
    empty: str = NOTHING_MEASURED,
) -> dict:
    """A line chart of one or several `series`.

    Args:
        title: its heading.
        series: what `series` returned.
        x: label of the horizontal axis.
        y: label of the vertical axis.
        log: whether the vertical axis is logarithmic; all y must then be positive.
        behind: a histogram drawn in grey behind the lines; only its shape matters:
            {"name": str, "edges": [m + 1 numbers], "mass": [m numbers]}.
        empty: text in place of lines where no series has a value.
    """
    named = {isinstance(v, str) for line in series for v in line["x"]}
    if len(named) > 1:
        raise ValueError(f"x of chart {title!r} must be all names or all numbers; got both.")
    below = [v for line in series for v in line["y"] if log and v is not None and v <= 0]
    if below:
        raise ValueError(f"y of the logarithmic chart {title!r} must be positive; got {below[0]}. Try log=False.")
    return {
        "kind": "lines", "title": title, "x": x, "y": y, "log": bool(log), "series": list(series),
        "behind": finite(behind), "empty": empty,
    }  # fmt: skip


def matrix(title: str, names: Sequence[str], counts: Iterable[Iterable[int]], *, x: str = "", y: str = "") -> dict:
    """A chart of a square matrix of counts, such as a confusion matrix; each row is shaded by its shares.

    Args:
        title: its heading.
        names: names of rows and columns.
        counts: non-negative numbers [c, c].
        x: what the columns are.
        y: what the rows are.
    """
    labels, rows = [str(name) for name in names], [list(row) for row in finite(counts)]
    if [len(row) for row in rows] != [len(labels)] * len(labels):
        raise ValueError(
            f"matrix {title!r} must have {len(labels)} rows and columns, one per name; got rows of {[*map(len, rows)]}."
        )
    return {"kind": "matrix", "title": title, "x": x, "y": y, "names": labels, "counts": rows}


def experiment(
    title: str,
    *,
    lead: str = "",
    tables: Sequence[dict] = (),
    charts: Sequence[dict] = (),
    notes: Sequence[str] = (),
    provenance: Mapping[str, object] | None = None,
) -> dict:
    """The facts of an experiment.

    Args:
        title: its name, also on its tab.
        lead: what was found, in a sentence or two.
        tables: what `table` returned.
        charts: what `chart` and `matrix` returned.
        notes: what a reader must know; notes that start with "warning:" are highlighted.
        provenance: where it comes from: version, commit, device, date.
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
    """An experiment, such as one read from disk, with empty parts for missing keys, checked like one built here.

    Keys that only runs have are kept. `made` is what version 0.1 called `provenance`.
    """
    try:
        known = experiment(
            str(facts.get("title", "experiment")),
            lead=str(facts.get("lead", "")),
            tables=[table(**{"title": "", "columns": (), "rows": (), **one}) for one in facts.get("tables") or ()],
            charts=[checked_chart(one) for one in facts.get("charts") or ()],
            notes=facts.get("notes") or (),
            provenance=facts.get("provenance", facts.get("made")),
        )
    except (TypeError, AttributeError) as error:  # a missing x, an unknown key, a list in place of a dict
        raise ValueError(f"experiment {facts.get('title')!r} cannot be read: {error}. Run it again.") from None
    return {**facts, **known, "kind": facts.get("kind", "experiment")}


def checked_chart(found: Mapping) -> dict:
    """A chart of either kind, checked like one built here."""
    parts = {name: value for name, value in found.items() if name != "kind"}
    if found.get("kind") == "matrix":
        return matrix(**parts)
    return chart(**{"title": "", **parts, "series": [series(**line) for line in parts.get("series", ())]})


def counted(number: int, one: str, several: str) -> str:
    """A number with its noun or verb in the singular or plural.

    >>> counted(1, "is", "are"), counted(3, "line", "lines")
    ('1 is', '3 lines')
    """
    return f"{number} {one if number == 1 else several}"


def spread(lines: Sequence[Sequence[float | None]]) -> tuple[list, list, list]:
    """Mean, lowest and highest value over lines of the same length; None where no line has a number."""
    columns = [[v for v in column if v is not None] for column in zip(*lines, strict=True)]
    means = [sum(column) / len(column) if column else None for column in columns]
    return means, [min(column, default=None) for column in columns], [max(column, default=None) for column in columns]
