"""Write the documents of the reproduction from result rows: Markdown, LaTeX, figures and the report page.

Dates, commits, devices and seconds, which differ between measurements with the same results, are in one table at the
end; everything else is the same to the byte whenever the results are the same.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptkry.common import tables
from adaptkry.common.files import check_output_file, visible_names
from adaptkry.common.files import write as write_file
from adaptkry.paper import ACCURACY_ITEMS, cells
from adaptkry.paper.published import PAPER
from adaptkry.paper.reproduce import ITEMS
from adaptkry.report import elements
from adaptkry.report.charts import write_charts
from adaptkry.report.elements import cell_text, counted
from adaptkry.report.html import is_page, page

INTRODUCTION = """# Reproduction of the paper

`adaptkry reproduce` writes this page from the rows in `results/`; none of our numbers is typed by hand. A cell shows
our mean ± half the width of its 95 % confidence interval over splits, then in parentheses the printed value and the
difference, then the verdict: *holds* (the difference is at most the item's margin, or at most half the width of our
interval), *above* or *below*. Settings and printed values are in `src/adaptkry/paper/paper.toml`, the rules for
verdicts in `src/adaptkry/paper/verdicts.py`.

Intervals of means treat splits as independent. They are not: all splits divide the same nodes, so that these intervals
are too narrow for claims about other splits. Where differences between methods on the same splits are given, their
intervals are corrected for this (Nadeau and Bengio, 2003). No interval is corrected for the number of methods, settings
or cells that are compared: the best of many is partly lucky, and of twenty values that are right, one is expected
outside its interval.
"""
METHODS_TITLE = "# Published and measured accuracy of every method"
QUICK = """
**This was a quick run** (two splits, few epochs, built-in graphs in place of missing ones). It shows that every item
runs; its numbers and verdicts are meaningless.
"""
ACCURACY = """# Accuracy beyond the paper

Not in the paper: how default settings were chosen, and what they and further ingredients give on the development graphs
(`src/adaptkry/paper/development.py`); and the best figures of `adaptkry auto`. Validation nodes choose everything.
"""
PROVENANCE = """## Provenance of the rows

Dates, commits, devices and seconds differ from run to run, and so do the measured running times (an item of this page).
Everything else is the same on the same device with the same version of torch. A commit with + had uncommitted changes:
such rows cannot be reproduced from the commit alone. `constraints.txt` pins the version of torch for new installations;
rows with another version were measured on the GPU machine, which had that one.

| item | rows | created | commit | device | torch | splits | seconds of training | lines skipped |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Section:
    """The section of one item: its facts for page and documents, and the rows they come from."""

    name: str
    facts: dict  # an experiment
    rows: tuple[dict, ...]
    skipped: tuple[str, ...]  # a message for every line that could not be used


def section(name: str, results: Path, quick: bool) -> Section:
    """Build the section of an item from its rows in the folder `results`."""
    item = PAPER[name]
    rows, skipped = cells.read(results / f"{name}.jsonl", name)
    measured = cells.newest(rows, quick)
    parts: dict[str, list] = {"notes": [f"Not run yet: `adaptkry reproduce {name}`."]}
    if measured:
        parts = ITEMS[name].section(measured, item)
    used = tuple(row for cell in measured.values() for row in cell.rows)
    notes: list[str] = [*parts.get("notes", ())]
    if skipped:
        lines = counted(len(skipped), "line of the result file was", "lines of the result file were")
        notes.append(f"warning: {lines} skipped.")
    facts = elements.experiment(
        item["title"], lead=item["lead"], tables=parts.get("tables", ()), charts=parts.get("charts", ()), notes=notes,
        provenance=origin(used),
    )  # fmt: skip
    return Section(name, facts, used, tuple(skipped))


def origin(rows: Sequence[dict]) -> dict[str, str]:
    """Return dates, commits and devices of rows."""
    return {name: ", ".join(sorted({str(row[name])[:19] for row in rows})) for name in ("created", "commit", "device")}


def markdown(item: Section, figures: str = "reproduction") -> str:
    """Return a section in Markdown; `figures` is the folder of its figures."""
    facts = item.facts
    parts = [f"## {facts['title']}", f"`adaptkry reproduce {item.name}`. {facts['lead']}"]
    for table in facts["tables"]:
        parts.append(f"**{table['title']}** ({table['note']})" if table["note"] else f"**{table['title']}**")
        parts.append(markdown_table(table))
    if facts["charts"] and item.rows:
        parts.append(f"![{facts['title']}]({figures}/{item.name}.svg)")
    parts += [f"- {note}" for note in facts["notes"]]
    return "\n\n".join(parts).replace("\n\n- ", "\n- ").replace("\n- ", "\n\n- ", 1) + "\n"


def markdown_table(table: dict) -> str:
    """Return a table of a section in GitHub's Markdown."""
    return tables.markdown_table(table["columns"], [[cell_text(cell) for cell in row] for row in table["rows"]])


def latex(item: Section) -> str:
    """Return the tables of a section in LaTeX; they need the package booktabs."""
    parts = [f"% {item.facts['title']}: written by `adaptkry reproduce {item.name}`"]
    for table in item.facts["tables"]:
        body = [[tables.escaped(cell_text(cell)) for cell in row] for row in table["rows"]]
        parts += [tables.latex_table([tables.escaped(name) for name in table["columns"]], body), ""]
    return "\n".join(parts)


def provenance(sections: Sequence[Section]) -> str:
    """Return the table of dates, commits, devices and seconds."""
    lines = []
    for item in sections:
        source = origin(item.rows)
        splits = len({row["split"] for row in item.rows if "split" in row}) or "-"
        versions = ", ".join(sorted({row["torch"] for row in item.rows if "torch" in row}))
        times = {(r["row"], r["column"]): r["cell_seconds"] for r in item.rows if "cell_seconds" in r}
        seconds = f"{sum(times.values()):.0f}" if times else "-"
        lines.append(
            f"| {item.name} | {len(item.rows)} | {source['created'] or '-'} | {source['commit'] or '-'} | "
            f"{source['device'] or '-'} | {versions or '-'} | {splits} | {seconds} | {len(item.skipped)} |"
        )
    skipped = [f"- skipped: {text}" for item in sections for text in item.skipped[:20]]
    return PROVENANCE + "\n".join([*lines, "", *skipped]).rstrip() + "\n"


def write(names: Sequence[str], results: Path, docs: Path, quick: bool = False) -> Path:
    """Write the document of all items, and LaTeX, figures and facts of the named items; returns the report page.

    Args:
        names: items whose files in `docs/reproduction` are written.
        results: folder of rows.
        docs: output folder.
        quick: use the rows of quick runs instead of the others.
    """
    check_documents(docs)
    sections = {name: section(name, results, quick) for name in ITEMS}
    folder = docs / "reproduction"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        write_item(sections[name], folder)
    shown = [item for item in sections.values() if item.name not in ACCURACY_ITEMS or item.rows]
    write_file(docs / "reproduction.md", document(shown, quick))
    write_file(docs / "methods.md", methods_page(sections["table-2"]))
    write_file(folder / "report.html", page([item.facts for item in sections.values() if item.rows]))
    return folder / "report.html"


def check_documents(docs: Path) -> None:
    """Refuse to overwrite documents that `write` has not written."""
    for name, first in (("reproduction.md", INTRODUCTION), ("methods.md", METHODS_TITLE)):
        title = first.partition("\n")[0].encode()
        check_output_file(docs / name, [], lambda head, title=title: head.startswith(title))
    folder = docs / "reproduction"
    check_output_file(folder / "report.html", [], is_page)
    others = [name for name in visible_names(folder) if name.partition(".")[0] not in {*ITEMS, "report"}]
    if others:
        raise ValueError(f"{folder} must hold files of the reproduction only; got {others[0]}. Use another folder.")


def check_rows(names: Sequence[str], results: Path) -> None:
    """Refuse to append rows to a file of somebody else."""
    for name in names:
        check_output_file(results / f"{name}.jsonl", [], lambda head: b'"item"' in head.partition(b"\n")[0])


def document(sections: Sequence[Section], quick: bool) -> str:
    """Return the text of `docs/reproduction.md`: the items of the paper, then those on accuracy, then provenance."""
    by_part = [[markdown(item) for item in sections if (item.name in ACCURACY_ITEMS) == is_ours] for is_ours in (0, 1)]
    heading = [ACCURACY] if by_part[1] else []
    return "\n".join([INTRODUCTION + QUICK * quick, *by_part[0], *heading, *by_part[1], provenance(sections)])


def skipped(names: Sequence[str], results: Path) -> list[str]:
    """Return a message for every line of the items' files that could not be used."""
    return [text for name in names for text in cells.read(results / f"{name}.jsonl", name)[1]]


def write_item(item: Section, folder: Path) -> None:
    """Write LaTeX, figures and facts of one item; nothing if it has no rows."""
    charts = item.facts["charts"]
    if item.rows:
        write_file(folder / f"{item.name}.tex", latex(item))
        write_file(folder / f"{item.name}.json", json.dumps(elements.finite(item.facts), indent=1))
        for suffix in ("svg", "png") if charts else ():
            write_figure(folder / f"{item.name}.{suffix}", charts)


def write_figure(path: Path, charts: Sequence[dict]) -> Path:
    """Draw the charts of an item into one file."""
    return write_charts(path, charts, columns=2 if len(charts) in (2, 4) else 3)


def methods_page(table_2: Section) -> str:
    """Return the text of `docs/methods.md`: published and measured accuracy of every method of Table 2."""
    return f"{METHODS_TITLE}\n\n{markdown(table_2)[3:]}\n{provenance([table_2])}"
