"""Experiments as plain data: tables and charts that the report page, still pictures and documents all draw from.

An experiment is a dict that goes into `facts.json` as it is:

    {"kind": "experiment", "title": str, "lead": str, "notes": [str], "made": {str: str},
     "tables": [...], "charts": [...]}

The functions here build its parts, refuse what no page could draw, and turn what other rooms found into it.

>>> seen = table("Cora", ["tau", "test %"], [[0.5, cell("81.2 ± 0.9", 81.2, "holds")], [1.0, None]])
>>> drawn = chart("tau", [series("Cora", [0.5, 1.0], [81.2, None])], x="tau", y="test %")
>>> experiment("Sensitivity", tables=[seen], charts=[drawn])["tables"][0]["rows"][1]
[1.0, None]
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Cell = str | int | float | None | dict  # a dict is what `cell` makes

VERDICTS = ("holds", "above", "below", "")


def finite(value: Any) -> Any:
    """The same as JSON can say it: arrays as lists, NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their scalars
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell(text: str, sort: float | None = None, verdict: str = "") -> dict:
    """A cell that shows `text`, sorts by the number `sort`, and may carry a verdict as a badge.

    Args:
        text: what is read, such as "81.2 ± 0.9".
        sort: the number its column sorts by; None comes last, or sorts as text where no cell has a number.
        verdict: "holds", "above", "below", or "" for none.
    """
    if verdict not in VERDICTS:
        raise ValueError(f"a verdict must be one of {', '.join(map(repr, VERDICTS))}; got {verdict!r}.")
    return {"text": str(text), "sort": finite(sort), "verdict": verdict}


def shown(one: Cell) -> str:
    """A cell as words, for a terminal or a document; nothing is "-"."""
    if isinstance(one, dict):
        return " ".join(part for part in (one["text"], one.get("verdict")) if part) or "-"
    return "-" if one is None else f"{one:.4g}" if isinstance(one, float) else str(one)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> dict:
    """A table that sorts by any of its columns; every row has one cell a column."""
    kept = [[cell(**one) if isinstance(one, dict) else finite(one) for one in row] for row in rows]
    for row in kept:
        if len(row) != len(columns):
            raise ValueError(f"table {title!r} has {len(columns)} columns, but a row with {len(row)} cells: {row}.")
        for one in row:
            if not isinstance(one, (str, int, float, dict, type(None))):
                raise TypeError(f"table {title!r}: a cell is text, a number, None or `cell(...)`; got {one!r}.")
    return {"title": title, "columns": [str(name) for name in columns], "rows": kept, "note": note}


def series(
    name: str, x: Iterable, y: Iterable, low: Iterable | None = None, high: Iterable | None = None, dashed: bool = False
) -> dict:
    """One line of a chart.

    Args:
        name: what the legend calls it.
        x: numbers, or names: then the chart shows points side by side, in the order the names first come.
        y: numbers; None or NaN leaves a gap.
        low: lower ends of the intervals, or None.
        high: upper ends of the intervals, or None.
        dashed: draw it dashed, such as a published value.
    """
    given = {"x": x, "y": y, "low": low, "high": high}
    made: dict[str, Any] = {part: None if v is None else finite(list(v)) for part, v in given.items()}
    for part in ("y", "low", "high"):
        if made[part] is not None and len(made[part]) != len(made["x"]):
            raise ValueError(f"series {name!r} has {len(made['x'])} x, but {len(made[part])} {part}.")
    if (low is None) != (high is None):
        raise ValueError(f"series {name!r} needs both ends of its intervals or none: give low and high.")
    return {"name": str(name), **made, "dashed": bool(dashed)}


def chart(
    title: str, series: Sequence[dict], *, x: str = "", y: str = "", log: bool = False, behind: dict | None = None
) -> dict:
    """A chart of one or several `series`.

    Args:
        title: its heading.
        series: what `series` made.
        x: label of the axis across.
        y: label of the axis up.
        log: whether the axis up is logarithmic; y must then be above 0.
        behind: a histogram drawn in grey behind the lines, only its shape matters:
            {"name": str, "edges": [m + 1 numbers], "mass": [m numbers]}.
    """
    named = {isinstance(v, str) for line in series for v in line["x"]}
    if len(named) > 1:
        raise ValueError(f"chart {title!r} mixes names and numbers across: make all x names, or all numbers.")
    below = [v for line in series for v in line["y"] if log and v is not None and v <= 0]
    if below:
        raise ValueError(f"chart {title!r} is logarithmic, but holds {below[0]}: leave `log` out, or leave it out.")
    return {"title": title, "x": x, "y": y, "log": bool(log), "series": list(series), "behind": finite(behind)}


def experiment(
    title: str,
    *,
    lead: str = "",
    tables: Sequence[dict] = (),
    charts: Sequence[dict] = (),
    notes: Sequence[str] = (),
    made: Mapping[str, object] | None = None,
) -> dict:
    """The facts of an experiment.

    Args:
        title: its name, also on its tab.
        lead: what was found, in a sentence or two.
        tables: what `table` made.
        charts: what `chart` made.
        notes: what a reader must know; one that starts with "warning:" stands out.
        made: where it comes from: version, commit, device, date.
    """
    return {
        "kind": "experiment",
        "title": title,
        "lead": lead,
        "notes": [str(text) for text in notes],
        "made": {str(name): str(value) for name, value in (made or {}).items()},
        "tables": list(tables),
        "charts": list(charts),
    }


def whole(facts: Mapping) -> dict:
    """The experiment, perhaps from disk, with empty parts where keys are missing, checked as if it were built here."""
    try:
        return experiment(
            str(facts.get("title", "experiment")),
            lead=str(facts.get("lead", "")),
            tables=[table(**{"title": "", "columns": (), "rows": (), **one}) for one in facts.get("tables") or ()],
            charts=[
                chart(**{"title": "", **one, "series": [series(**line) for line in one.get("series", ())]})
                for one in facts.get("charts") or ()
            ],
            notes=facts.get("notes") or (),
            made=facts.get("made"),
        )
    except (TypeError, AttributeError) as error:  # a missing x, a key that nobody knows, a list for a dict
        raise ValueError(f"experiment {facts.get('title')!r} cannot be read: {error}.") from None


def charts_of(facts: Mapping) -> list[dict]:
    """The charts of an experiment, or of a run: learned filter, learning curves, hop weights, angles."""
    if facts.get("kind") == "experiment":
        return whole(facts)["charts"]
    about, settings = facts["about"], facts["settings"]
    where, charts = f"{settings['method']} on {about['graph']}", []
    if facts["filter"]:
        charts.append(filter_chart(facts, f"Learned filter, {where}"))
    for name, up in (("loss", "training loss"), ("validation", f"validation {about['metric']}")):
        curve = facts["curves"][name]
        if curve["epoch"]:
            line = series("mean and range of trainings", curve["epoch"], curve["mean"], curve["low"], curve["high"])
            charts.append(chart(f"{up.capitalize()}, {where}", [line], x="epoch", y=up))
    hops = facts["hop_weights"]
    if hops and len(hops[0]) > 1:
        line = series("mean and range of trainings", range(len(hops[0])), *spread(hops))
        charts.append(chart(f"Weight of each hop, {where}", [line], x="hop", y="weight"))
    if settings["degree"] > 1 and facts["angles"]:
        turned = [series(f"tau {tau}", range(1, len(found) + 1), found) for tau, found in facts["angles"].items()]
        charts.append(chart(f"Angle between consecutive hops, {where}", turned, x="hop", y="degrees"))
    return charts


def filter_chart(facts: Mapping, title: str) -> dict:
    """The learned response of a run over where the eigenvalues of its operator are, by frequency 1 - lambda."""
    own = facts["settings"]["taus"][0]
    near = min(facts["explorer"] or (), key=lambda step: abs(step["tau"] - own), default=None)
    behind = near and {
        "name": f"density of states at tau {near['tau']:g}",
        "edges": [1 - edge for edge in reversed(near["edges"])],
        "mass": near["mass"][::-1],
    }
    frequency = [1 - v for v in reversed(facts["filter"]["grid"])]
    mean, low, high = (list(reversed(part)) for part in spread(facts["filter"]["responses"]))
    line = series("g, mean and range of trainings", frequency, mean, low, high)
    return chart(title, [line], x="frequency 1 - λ (0 smooth, 2 rough)", y="response g(λ)", behind=behind)


def spread(lines: Sequence[Sequence[float | None]]) -> tuple[list, list, list]:
    """Mean, lowest and highest over lines of the same length; a gap where none has a number."""
    columns = [[v for v in column if v is not None] for column in zip(*lines, strict=True)]
    means = [sum(column) / len(column) if column else None for column in columns]
    return means, [min(column, default=None) for column in columns], [max(column, default=None) for column in columns]


def of_comparison(
    entries: Sequence[dict], warnings: Sequence[str], graph_name: str, metric: str, provenance: Mapping[str, object]
) -> dict:
    """A leaderboard of `comparison.compare` as an experiment."""
    lines = [comparison_cells(one) for one in entries]
    columns = [name for name in COMPARED if name != "could not run" or any(line[name] for line in lines)]
    good = [one for one in entries if one["mean"] is not None]
    drawn = series(
        "mean and 95 % interval",
        [one["method"] for one in good],
        [100 * one["mean"] for one in good],
        [hundred(one["low"]) for one in good],
        [hundred(one["high"]) for one in good],
    )
    rows = [[line[name] for name in columns] for line in lines]
    note = (
        "95 % interval: of the mean, Student's t over splits. To the best: mean difference split by split, in points, "
        "with its 95 % interval. Tried: settings that validation chose from. Seconds and memory include trying them."
    )
    return experiment(
        f"Methods on {graph_name}",
        lead=leader(good, metric),
        tables=[table(f"Test {metric} (%), the same splits for all", columns, rows, note)],
        charts=[chart(f"Test {metric} on {graph_name}", [drawn], x="method", y=f"test {metric} (%)")] if good else [],
        notes=[f"warning: {text}" for text in warnings],
        made=provenance,
    )


def leader(good: Sequence[dict], metric: str) -> str:
    """Who is best, and who cannot be told apart from it."""
    if not good:
        return "No method could run."
    best, *others = good
    splits = sum(row["test"] is not None for row in best["rows"])
    said = f"{best['method']} has the best mean: {100 * best['mean']:.2f} % test {metric} over {splits} split(s)."
    if not others or splits < 2:
        return said
    close = [one["method"] for one in others if one["behind"] is not None and one["behind"] + one["behind_half"] >= 0]
    if not close:
        return f"{said} The 95 % interval of every other method's difference to it lies below zero."
    return f"{said} Not told apart from it at 95 %: {', '.join(close)}."


COMPARED = (
    "method", "mean ± std", "95 % interval", "to the best", "seconds", "parameters", "peak MiB", "tried",
    "could not run",
)  # fmt: skip


def comparison_cells(one: dict) -> dict[str, Cell]:
    """One line of a leaderboard, by heading."""
    if one["mean"] is None:
        reason = one["failed"] or "no training ended well"
        return dict.fromkeys(COMPARED) | {"method": one["method"], "could not run": reason}
    alone = one["std"] is None  # one split has no spread
    best = one["behind"] == 0
    pair = "best" if best else "-" if one["behind"] is None else f"{100 * one['behind']:+.2f}"
    pair += "" if alone or best or one["behind"] is None else f" ± {100 * one['behind_half']:.2f}"
    peak = one["peak_bytes"]
    return {
        "method": one["method"],
        "mean ± std": cell(f"{100 * one['mean']:.2f}" + ("" if alone else f" ± {100 * one['std']:.2f}"), one["mean"]),
        "95 % interval": None if alone else cell(f"{100 * one['low']:.2f} .. {100 * one['high']:.2f}", one["low"]),
        "to the best": cell(pair, one["behind"]),
        "seconds": cell(f"{one['seconds']:.1f}", one["seconds"]),
        "parameters": cell(f"{one['parameters']:,}", one["parameters"]),
        "peak MiB": None if peak is None else cell(f"{peak / 2**20:,.0f}", peak),
        "tried": len(one["tried"]),
        "could not run": None,
    }


def hundred(share: float | None) -> float | None:
    """A share in per cent."""
    return None if share is None else 100 * share
