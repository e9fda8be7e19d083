"""Documents from rows: Markdown, LaTeX, still pictures, and facts for the report page.

What changes from one measurement to the next without meaning anything (dates, commits, devices, seconds) stands in one
table at the end; everything else is the same, byte for byte, whenever the rows say the same.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptkry.common import files as storage
from adaptkry.paper import cells
from adaptkry.paper.reproduce import ITEMS, PAPER
from adaptkry.report import charts as plots
from adaptkry.report import elements as experiments
from adaptkry.report import html as reports

HEAD = """# The paper, re-run

Written by `adaptkry reproduce` from the rows in `results/`; no figure of ours is typed. A cell shows our mean ± half
the width of its 95 % interval over splits, then in brackets the printed value and the difference, then the verdict:
*holds* (within the item's margin, or within our interval), *above* or *below*. Settings and printed values stand side
by side in `src/adaptkry/reproduction/paper.toml`.
"""
QUICK = """
**This was a quick run** (two splits, few epochs, built-in graphs where the real ones are not at hand): it shows that
every item runs. Its figures and verdicts mean nothing.
"""
NOISE = """## Where the rows come from

Dates, commits, devices and seconds change from run to run; running times (their own item) do too. Nothing else does on
the same device.

| item | rows | made | commit | device | splits | seconds of training | lines skipped |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Section:
    """One item as it is shown."""

    name: str
    facts: dict  # an experiment
    rows: tuple[dict, ...]
    skipped: tuple[str, ...]


def section(name: str, results: Path, quick: bool) -> Section:
    """An item from its rows."""
    item = PAPER[name]
    rows, bad = cells.read(results / f"{name}.jsonl", name)
    found = cells.newest(rows, quick)
    shown: dict[str, list] = {"notes": [f"Not run yet: `adaptkry reproduce {name}`."]}
    if found:
        shown = ITEMS[name].section(found, item, PAPER["phrases"])
    used = tuple(row for one in found.values() for row in one.rows)
    notes = [*shown.get("notes", ()), *([f"warning: {len(bad)} lines of the results were skipped."] if bad else [])]
    facts = experiments.experiment(
        item["title"], lead=item["lead"], tables=shown.get("tables", ()), charts=shown.get("charts", ()), notes=notes,
        provenance=origin(used),
    )  # fmt: skip
    return Section(name, facts, used, tuple(bad))


def origin(rows: Sequence[dict]) -> dict[str, str]:
    """When, from which commit and where rows were made."""
    return {what: ", ".join(sorted({str(row[what])[:19] for row in rows})) for what in ("made", "commit", "device")}


def markdown(one: Section, pictures: str = "reproduction") -> str:
    """A section of the document; pictures are linked where they were drawn."""
    facts = one.facts
    parts = [f"## {facts['title']}", f"`adaptkry reproduce {one.name}`. {facts['lead']}"]
    for table in facts["tables"]:
        parts.append(f"**{table['title']}** ({table['note']})" if table["note"] else f"**{table['title']}**")
        parts.append(markdown_table(table))
    if facts["charts"] and one.rows:
        parts.append(f"![{facts['title']}]({pictures}/{one.name}.svg)")
    parts += [f"- {note}" for note in facts["notes"]]
    return "\n\n".join(parts).replace("\n\n- ", "\n- ").replace("\n- ", "\n\n- ", 1) + "\n"


def markdown_table(table: dict) -> str:
    """A table as GitHub reads it."""
    lines = [[*table["columns"]], ["---"] * len(table["columns"])]
    lines += [[experiments.cell_text(cell).replace("|", "\\|") for cell in row] for row in table["rows"]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


ESCAPES = {"\\": r"\textbackslash{}", "±": r"$\pm$", "λ": r"$\lambda$"} | {c: f"\\{c}" for c in "&%$#_{}"}


def latex(one: Section) -> str:
    """The item's tables for a paper that loads booktabs."""
    parts = [f"% {one.facts['title']}: written by `adaptkry reproduce {one.name}`"]
    for table in one.facts["tables"]:
        body = [[escaped(experiments.cell_text(cell)) for cell in row] for row in table["rows"]]
        lines = [" & ".join(row) + r" \\" for row in [[escaped(name) for name in table["columns"]], *body]]
        parts += [f"\\begin{{tabular}}{{l{'r' * (len(table['columns']) - 1)}}}", r"\toprule", lines[0], r"\midrule"]
        parts += [*lines[1:], r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(parts)


def escaped(text: str) -> str:
    """Text as LaTeX takes it."""
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def provenance(sections: Sequence[Section]) -> str:
    """The table of what changes from run to run."""
    lines = []
    for one in sections:
        made = origin(one.rows)
        splits = len({row["split"] for row in one.rows if "split" in row}) or "-"
        spent = {(r["row"], r["column"]): r["cell_seconds"] for r in one.rows if "cell_seconds" in r}
        seconds = f"{sum(spent.values()):.0f}" if spent else "-"
        lines.append(
            f"| {one.name} | {len(one.rows)} | {made['made'] or '-'} | {made['commit'] or '-'} | "
            f"{made['device'] or '-'} | {splits} | {seconds} | {len(one.skipped)} |"
        )
    skipped = [f"- skipped: {text}" for one in sections for text in one.skipped[:20]]
    return NOISE + "\n".join([*lines, "", *skipped]).rstrip() + "\n"


def write(names: Sequence[str], results: Path, docs: Path, quick: bool = False) -> Path:
    """The document of all items; LaTeX, pictures and page of the named ones. Returns the page."""
    sections = {name: section(name, results, quick) for name in ITEMS}
    folder = docs / "reproduction"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        draw(sections[name], folder)
    text = "\n".join(
        [HEAD + QUICK * quick, *(markdown(one) for one in sections.values()), provenance(list(sections.values()))]
    )
    storage.write(docs / "reproduction.md", text)
    storage.write(docs / "methods.md", methods_page(sections["table-2"]))
    shown = [one.facts for one in sections.values() if one.rows]
    storage.write(folder / "report.html", reports.page(shown))
    return folder / "report.html"


def skipped(names: Sequence[str], results: Path) -> list[str]:
    """A sentence for every line of the items' results that could not be used."""
    return [text for name in names for text in cells.read(results / f"{name}.jsonl", name)[1]]


def draw(one: Section, folder: Path) -> None:
    """LaTeX, pictures and facts of one item."""
    charts = one.facts["charts"]
    if one.rows:
        storage.write(folder / f"{one.name}.tex", latex(one))
        storage.write(folder / f"{one.name}.json", json.dumps(experiments.finite(one.facts), indent=1))
        for ending in ("svg", "png") if charts else ():
            plots.write_charts(folder / f"{one.name}.{ending}", charts, columns=2 if len(charts) in (2, 4) else 3)


def methods_page(one: Section) -> str:
    """`docs/methods.md`: every baseline, published against ours, and where the rows come from."""
    return f"# Every baseline, published against ours\n\n{markdown(one)[3:]}\n{provenance([one])}"
