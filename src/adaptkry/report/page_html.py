"""The report page: one HTML file that needs neither a server nor network access.

Charts are SVG elements, the same as in SVG files; rules of the style sheet give them the colours of a dark page. Text
is escaped where it is written (`text_of`). The script (`page/page.js`) sorts tables, changes tabs and shows values.
"""

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from adaptkry.report.charts import DARK, svg
from adaptkry.report.elements import TableCell, cell_text, chart, checked_experiment, counted, series, table

BADGES = {"holds": "✓ holds", "above": "▲ above", "below": "▼ below"}
NUMBER = re.compile(r"([-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?)\s*(?:%|±.*)?", re.IGNORECASE | re.ASCII)
SHORT_TEXT, LONG_TEXT = 14, 40  # characters; longer cells may be wrapped, and have a larger minimum width


def page(facts: Sequence[dict]) -> str:
    """Return the HTML page of runs and experiments, from their facts; it opens on the best run."""
    checked = [checked_experiment(one) for one in facts]
    opened = best_run(checked)
    parts = {
        "STYLE": template("css") + dark_rules(),
        "PROVENANCE": f"<footer><p>{text_of(shared_provenance(checked))}</p></footer>",
        "OVERVIEW": overview(checked),
        "TABS": "".join(tab(one["title"], i, i == opened) for i, one in enumerate(checked)) if len(checked) > 1 else "",
        "MAIN": "".join(article(one, is_open=i == opened) for i, one in enumerate(checked)),
        "SCRIPT": template("js"),
    }
    return re.sub(r"/\*([A-Z]+)\*/", lambda found: parts[found[1]], template("html"))


def template(suffix: str) -> str:
    """Return the text of a file of the page."""
    return (files("adaptkry.report") / "page" / f"page.{suffix}").read_text(encoding="utf-8")


def dark_rules() -> str:
    """Return the rules that replace the colours of charts on a dark page."""
    rules = [
        f'svg [{part}="{light}"] {{ {part}: {dark}; }}' for light, dark in DARK.items() for part in ("fill", "stroke")
    ]
    return "@media screen and (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}\n"


def text_of(text: Any) -> str:
    """Return text as HTML, so that names in a user's file never become markup."""
    return escape(str(text), quote=True)


def with_code(text: str) -> str:
    """Return text as HTML; what is between backticks is shown as code."""
    parts = [text_of(part) for part in text.split("`")]
    return (
        "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
        if len(parts) % 2
        else text_of(text)
    )


def best_run(facts: Sequence[dict]) -> int:
    """Return the number of the run with the best test score (of the first metric); the first experiment if none."""
    means: dict[int, float] = {}
    metric = None
    for i, one in enumerate(facts):
        scores = one.get("scores") or {}
        if scores.get("mean") is not None and metric in (None, scores["metric"]):
            metric = scores["metric"]
            means[i] = scores["mean"] if scores.get("greater_is_better", True) else -scores["mean"]
    runs = [i for i, one in enumerate(facts) if one["kind"] == "run"]
    return max(means, key=means.__getitem__) if means else next(iter(runs), 0)


def shared_provenance(facts: Sequence[dict]) -> str:
    """Return a line: the number of runs and experiments, and the version, commit and device that all share."""
    runs = sum(one["kind"] == "run" for one in facts)
    numbers = [counted(runs, "run", "runs")] * bool(runs)
    numbers += [counted(len(facts) - runs, "experiment", "experiments")] * (len(facts) > runs)
    sources = [one["provenance"] for one in facts]
    shared = [name for name in ("version", "commit", "device") if len({source.get(name) for source in sources}) == 1]
    return "; ".join([", ".join(numbers), *(f"{name} {sources[0][name]}" for name in shared if name in sources[0])])


def overview(facts: Sequence[dict]) -> str:
    """Return the table and the chart of all runs, if there are several."""
    runs = [one for one in facts if one["kind"] == "run"]
    if len(runs) < 2:
        return ""
    rows = [list(run["overview"].values()) for run in runs]
    shown = [table_html(table("All runs", list(runs[0]["overview"]), rows))]
    scored = [run for run in runs if (run.get("scores") or {}).get("mean") is not None]
    for metric in dict.fromkeys(run["scores"]["metric"] for run in scored):
        shown.append(chart_html(scores_chart([run for run in scored if run["scores"]["metric"] == metric], metric)))
    return f'<section class="grid">{"".join(shown)}</section>'


def scores_chart(runs: Sequence[dict], metric: str) -> dict:
    """Return the chart of the test scores of runs, best first."""
    first = runs[0]["scores"]
    ordered = sorted(runs, key=lambda run: run["scores"]["mean"], reverse=first.get("greater_is_better", True))
    scale, unit = (100, " (%)") if first.get("is_share", True) else (1, "")
    means, low, high = (
        [None if run["scores"][part] is None else scale * run["scores"][part] for run in ordered]
        for part in ("mean", "low", "high")
    )
    line = series("mean and 95 % interval over splits", [run["title"] for run in ordered], means, low, high)
    return chart(f"Test {metric} of all runs", [line], y=f"test {metric}{unit}")


def tab(title: str, number: int, is_open: bool) -> str:
    """Return the button that opens a run or experiment."""
    return f'<button type="button" data-page="{number}" aria-pressed="{str(is_open).lower()}">{text_of(title)}</button>'


def article(facts: dict, *, is_open: bool) -> str:
    """Return the part of the page about one run or experiment: an opening, its sections, notes and provenance."""
    warnings = [note for note in facts["notes"] if note.startswith("warning:")]
    notes = [note for note in facts["notes"] if note not in warnings]
    sections: dict[str, bool] = facts.get("sections") or {}  # name -> whether it is folded
    elements = {name: [] for name in ("", *sections)}
    for kind, draw in (("charts", chart_html), ("tables", table_html)):
        for element in facts[kind]:
            name = element.get("section", "")
            elements[name if name in elements else ""].append(draw(element))
    about = [("lead", facts["lead"]), ("about", facts.get("about") or facts.get("score", "")),
             *(("warning", text) for text in warnings)]  # fmt: skip
    opening = "".join(f'<p class="{kind}">{with_code(text)}</p>' for kind, text in about if text)
    parts = [f"<header><h2>{text_of(facts['title'])}</h2>{opening}</header>", grid("", elements.pop(""))]
    parts += [grid(name, found) for name, found in elements.items() if not sections[name]]
    if notes:
        parts.append(grid("Notes", ["<ul>" + "".join(f"<li>{with_code(text)}</li>" for text in notes) + "</ul>"]))
    parts += [grid(name, found, folded=True) for name, found in elements.items() if sections[name]]
    if facts["provenance"]:
        rows = [list(pair) for pair in facts["provenance"].items()]
        parts.append(grid("Provenance", [table_html(table("", ["name", "value"], rows))], folded=True))
    return f"<article{'' if is_open else ' hidden'}>{''.join(parts)}</article>"


def grid(name: str, elements: Sequence[str], *, folded: bool = False) -> str:
    """Return a section of the page, "" if there is nothing in it; a folded one is opened by a click or a key."""
    inside = f'<div class="grid">{"".join(elements)}</div>'
    if not elements:
        return ""
    if folded:
        return f"<details><summary>{text_of(name)}</summary>{inside}</details>"
    return f"<section>{f'<h3>{text_of(name)}</h3>' * bool(name)}{inside}</section>"


def chart_html(shown: dict) -> str:
    """Return a chart, which becomes smaller on a phone; a matrix by a quarter at most, and then scrolls."""
    region = f' tabindex="0" role="region" aria-label="{text_of(shown["title"])}"'
    kind, note = shown["kind"], shown.get("note")
    image = svg(shown)
    width = re.search(r'<svg[^>]* width="([\d.]+)"', image)
    style = f' style="--width: {width[1]}px"' if kind == "matrix" and width else ""
    drawn = f'<div class="scroll"{region if kind == "matrix" else ""}>{image}</div>'
    return f'<figure class="{kind}"{style}>{drawn}{f"<p>{with_code(note)}</p>" if note else ""}</figure>'


def table_html(shown: dict) -> str:
    """Return a table with a button in every heading, which sorts it; a wide one scrolls sideways."""
    columns = [column_class([row[k] for row in shown["rows"]]) for k in range(len(shown["columns"]))]
    head = "".join(
        f'<th scope="col"{kind}><button type="button">{text_of(name)}</button></th>'
        for name, kind in zip(shown["columns"], columns, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(cell_html(cell, kind) for cell, kind in zip(row, columns, strict=True)) + "</tr>"
        for row in shown["rows"]
    )
    title, note = shown["title"], shown["note"]
    return (
        f'<figure class="table">{f"<h4>{text_of(title)}</h4>" * bool(title)}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text_of(title or "table")}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{f'<p>{with_code(note)}</p>' * bool(note)}</figure>"
    )


def column_class(cells: Iterable[TableCell]) -> str:
    """Return the attribute of a column: "" for numbers, which are aligned to the right, or how long its text is.

    Texts that begin with a letter are not numbers, even if they are sorted by one.
    """
    keys = [(cell_text(cell), sort_key(cell)) for cell in cells if cell_text(cell) != "-"]
    longest = max((len(text) for text, _ in keys), default=0)
    if longest <= LONG_TEXT and any(key is not None and not text[:1].isalpha() for text, key in keys):
        return ""
    return (
        ' class="long-text"' if longest > LONG_TEXT else ' class="text"' if longest > SHORT_TEXT else ' class="short"'
    )


def cell_html(cell: TableCell, attribute: str) -> str:
    """Return a cell of a table, with the number by which it is sorted, and its verdict as a badge."""
    key = sort_key(cell)
    sort = "" if key is None else f' data-sort="{key!r}"'
    if not isinstance(cell, dict):
        return f"<td{attribute}{sort}>{text_of(cell_text(cell))}</td>"
    verdict = cell["verdict"]
    badge = f' <span class="badge {verdict}">{BADGES[verdict]}</span>' if verdict else ""
    text = "" if badge and cell["text"] in ("", "-") else cell["text"]
    return f"<td{attribute}{sort}>{text_of(text)}{badge}</td>"


def sort_key(cell: TableCell) -> float | None:
    """Return the number by which a cell is sorted; None if it has none."""
    if isinstance(cell, dict):
        return cell["sort"]
    if isinstance(cell, str):
        found = NUMBER.fullmatch(cell)
        return float(found[1].replace(",", "")) if found else None
    return cell
