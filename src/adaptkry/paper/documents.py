"""Documents from rows: Markdown, LaTeX, figures, and facts for the report page.

What changes from one measurement to the next without meaning (dates, commits, devices, seconds) is collected in one
table at the end; everything else is the same, byte for byte, whenever the rows hold the same results.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptkry.common.files import write as write_file
from adaptkry.paper import cells
from adaptkry.paper.published import PAPER
from adaptkry.paper.reproduce import ITEMS
from adaptkry.report import elements
from adaptkry.report.charts import write_charts
from adaptkry.report.elements import cell_text, counted
from adaptkry.report.html import page

INTRODUCTION = """# The paper, reproduced

Written by `adaptkry reproduce` from the rows in `results/`; none of our numbers is typed by hand. A cell shows our mean
± half the width of its 95 % interval over splits, then in brackets the printed value and the difference, then the
verdict: *holds* (within the item's margin, or within our interval), *above* or *below*. Settings and printed values are
side by side in `src/adaptkry/paper/paper.toml`; verdicts are decided in `src/adaptkry/paper/verdicts.py`.
"""
QUICK = """
**This was a quick run** (two splits, few epochs, built-in graphs in place of missing ones): it shows that every item
runs. Its numbers and verdicts are meaningless.
"""
PROVENANCE = """## Provenance of the rows

Dates, commits, devices and seconds change from run to run, and so do the running times (an item above). Nothing else
changes on the same device.

| item | rows | created | commit | device | splits | seconds of training | lines skipped |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Section:
    """One item as it is shown."""

    name: str
    facts: dict  # an experiment
    rows: tuple[dict, ...]
    skipped: tuple[str, ...]  # a message for every line of the results that could not be used


def section(name: str, results: Path, quick: bool) -> Section:
    """An item from its rows."""
    item = PAPER[name]
    rows, skipped = cells.read(results / f"{name}.jsonl", name)
    found = cells.newest(rows, quick)
    parts: dict[str, list] = {"notes": [f"Not run yet: `adaptkry reproduce {name}`."]}
    if found:
        parts = ITEMS[name].section(found, item)
    used = tuple(row for cell in found.values() for row in cell.rows)
    notes: list[str] = [*parts.get("notes", ())]
    if skipped:
        lines, were = counted(len(skipped), "line", "lines"), "was" if len(skipped) == 1 else "were"
        notes.append(f"warning: {lines} of the results {were} skipped.")
    facts = elements.experiment(
        item["title"], lead=item["lead"], tables=parts.get("tables", ()), charts=parts.get("charts", ()), notes=notes,
        provenance=origin(used),
    )  # fmt: skip
    return Section(name, facts, used, tuple(skipped))


def origin(rows: Sequence[dict]) -> dict[str, str]:
    """Dates, commits and devices of rows."""
    return {name: ", ".join(sorted({str(row[name])[:19] for row in rows})) for name in ("created", "commit", "device")}


def markdown(one: Section, figures: str = "reproduction") -> str:
    """A section of the document; `figures` is the folder of its figures."""
    facts = one.facts
    parts = [f"## {facts['title']}", f"`adaptkry reproduce {one.name}`. {facts['lead']}"]
    for table in facts["tables"]:
        parts.append(f"**{table['title']}** ({table['note']})" if table["note"] else f"**{table['title']}**")
        parts.append(markdown_table(table))
    if facts["charts"] and one.rows:
        parts.append(f"![{facts['title']}]({figures}/{one.name}.svg)")
    parts += [f"- {note}" for note in facts["notes"]]
    return "\n\n".join(parts).replace("\n\n- ", "\n- ").replace("\n- ", "\n\n- ", 1) + "\n"


def markdown_table(table: dict) -> str:
    """A table in GitHub's Markdown."""
    lines = [[*table["columns"]], ["---"] * len(table["columns"])]
    lines += [[cell_text(cell).replace("|", "\\|") for cell in row] for row in table["rows"]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


ESCAPES = {"\\": r"\textbackslash{}", "±": r"$\pm$", "λ": r"$\lambda$"} | {c: f"\\{c}" for c in "&%$#_{}"}


def latex(one: Section) -> str:
    """The item's tables for a LaTeX document that loads booktabs."""
    parts = [f"% {one.facts['title']}: written by `adaptkry reproduce {one.name}`"]
    for table in one.facts["tables"]:
        body = [[escaped(cell_text(cell)) for cell in row] for row in table["rows"]]
        lines = [" & ".join(row) + r" \\" for row in [[escaped(name) for name in table["columns"]], *body]]
        parts += [f"\\begin{{tabular}}{{l{'r' * (len(table['columns']) - 1)}}}", r"\toprule", lines[0], r"\midrule"]
        parts += [*lines[1:], r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(parts)


def escaped(text: str) -> str:
    """Text with the special characters of LaTeX escaped."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def provenance(sections: Sequence[Section]) -> str:
    """The table of what changes from run to run."""
    lines = []
    for one in sections:
        found = origin(one.rows)
        splits = len({row["split"] for row in one.rows if "split" in row}) or "-"
        spent = {(r["row"], r["column"]): r["cell_seconds"] for r in one.rows if "cell_seconds" in r}
        seconds = f"{sum(spent.values()):.0f}" if spent else "-"
        lines.append(
            f"| {one.name} | {len(one.rows)} | {found['created'] or '-'} | {found['commit'] or '-'} | "
            f"{found['device'] or '-'} | {splits} | {seconds} | {len(one.skipped)} |"
        )
    skipped = [f"- skipped: {text}" for one in sections for text in one.skipped[:20]]
    return PROVENANCE + "\n".join([*lines, "", *skipped]).rstrip() + "\n"


def write(names: Sequence[str], results: Path, docs: Path, quick: bool = False) -> Path:
    """Write the document of all items, and LaTeX, figures and facts of the named ones; returns the report page."""
    sections = {name: section(name, results, quick) for name in ITEMS}
    folder = docs / "reproduction"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        write_item(sections[name], folder)
    parts = [INTRODUCTION + QUICK * quick, *map(markdown, sections.values()), provenance(list(sections.values()))]
    write_file(docs / "reproduction.md", "\n".join(parts))
    write_file(docs / "methods.md", methods_page(sections["table-2"]))
    write_file(folder / "report.html", page([one.facts for one in sections.values() if one.rows]))
    return folder / "report.html"


def skipped(names: Sequence[str], results: Path) -> list[str]:
    """A message for every line of the items' results that could not be used."""
    return [text for name in names for text in cells.read(results / f"{name}.jsonl", name)[1]]


def write_item(one: Section, folder: Path) -> None:
    """Write LaTeX, figures and facts of one item."""
    charts = one.facts["charts"]
    if one.rows:
        write_file(folder / f"{one.name}.tex", latex(one))
        write_file(folder / f"{one.name}.json", json.dumps(elements.finite(one.facts), indent=1))
        for suffix in ("svg", "png") if charts else ():
            write_charts(folder / f"{one.name}.{suffix}", charts, columns=2 if len(charts) in (2, 4) else 3)


def methods_page(one: Section) -> str:
    """`docs/methods.md`: every method of Table 2, published against ours, and the provenance of its rows."""
    return f"# Every method, published against ours\n\n{markdown(one)[3:]}\n{provenance([one])}"
