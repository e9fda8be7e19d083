"""`adaptkry reproduce`."""

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptkry.cli.options import DataRootOption, DeviceOption, JsonOption, comma_separated, log
from adaptkry.paper import ITEM_NAMES

if TYPE_CHECKING:
    from adaptkry.paper.measure import RunOptions

EXAMPLES = (
    "adaptkry reproduce angles",
    "adaptkry reproduce table-2 --device cuda",
    "adaptkry reproduce all --quick",
    "adaptkry reproduce table-2 --only adaptkry,gprgnn --splits 3",
)


def reproduce(
    items: Annotated[list[str], typer.Argument(metavar="ITEM", help=f"all, or some of {', '.join(ITEM_NAMES)}.")],
    device: DeviceOption = "auto",
    count: Annotated[
        int, typer.Option("--splits", min=1, help="Number of splits: the first of ten published ones.")
    ] = 10,
    quick: Annotated[
        bool,
        typer.Option(
            help="Smoke test: 2 splits, 10 epochs, fewer settings, and built-in graphs in place of missing ones."
        ),
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Comma-separated names of table rows or columns to measure."),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Resume an interrupted reproduction: skip cells that were measured at this commit.")
    ] = False,
    render: Annotated[bool, typer.Option(help="Write the documents from existing rows, without measuring.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of result rows. Default: results, or runs/quick/results with --quick.")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Folder of documents. Default: docs, or runs/quick with --quick.")
    ] = None,
    data_root: DataRootOption = None,
    limit: Annotated[
        str, typer.Option("--time", metavar="TIME", help="Time limit per graph of the item best, such as 60s or 5min.")
    ] = "5min",
    as_json: JsonOption = False,
) -> None:
    """Reproduce the paper's tables and figures: measure every cell, then write Markdown, LaTeX, figures and HTML.

    Exit code 3: some data is missing, the rest was measured. Exit code 1: some cells could not be measured.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.common.files import check_output_folder
    from adaptkry.common.memory import keep_freed_memory
    from adaptkry.common.timing import time_limit
    from adaptkry.paper import documents
    from adaptkry.paper.measure import RunOptions
    from adaptkry.paper.reproduce import Outcome, measurements_of
    from adaptkry.paper.reproduce import reproduce as measure_items
    from adaptkry.training.fit import choose_device

    names = list(ITEM_NAMES) if "all" in items else [check_item(name) for name in items]
    keep_freed_memory()
    options = RunOptions(device, count, quick, data_root, time_limit(limit))
    choose_device(device)
    rows = check_output_folder(out or Path("runs/quick/results" if quick else "results"))
    pages = check_output_folder(docs or Path("runs/quick" if quick else "docs"))
    documents.check_documents(pages)  # before anything is measured
    outcomes: dict[str, Outcome] = {}
    if not render:
        documents.check_rows(names, rows)
        selected = None if only is None else cell_names(only, names, options)
        total = sum(map(len, measurements_of(names, options, selected).values()))
        with (
            interruptible(lambda: f"finished cells are saved in {rows}; the same command with --resume continues"),
            progress("cells", total, quiet=as_json) as advance,
        ):
            outcomes = measure_items(
                names, options, rows, only=selected, resume=resume, on_progress=lambda _done, _total: advance()
            )
    page = documents.write(names, rows, pages, quick)
    for text in documents.skipped(names, rows):
        log.warning(f"skipped: {text}")
    missing = {graph: reason for outcome in outcomes.values() for graph, reason in outcome.missing.items()}
    failed = [f"{name}: {text}" for name, outcome in outcomes.items() for text in outcome.failed]
    replaced = sorted(set().union(*(outcome.replaced for outcome in outcomes.values())))
    if as_json:
        written = {"rows": {name: outcome.rows for name, outcome in outcomes.items()}, "missing": missing}
        written |= {"replaced": replaced, "failed": failed, "report": str(page)}
        typer.echo(json.dumps(written | {"document": str(pages / "reproduction.md")}))
    else:
        terminal.print_reproduction(outcomes, missing, replaced, failed)
        typer.echo(f"rows: {rows}\ndocument: {pages / 'reproduction.md'}\nreport: {page}")
    if missing or replaced or failed:
        raise typer.Exit(1 if failed else 3)


def check_item(name: str) -> str:
    """Return the name of an item; the error for an unknown name shows similar ones."""
    from adaptkry.common.lookup import pick

    pick(dict.fromkeys(ITEM_NAMES), name, "item")
    return name


def cell_names(text: str, items: Sequence[str], options: "RunOptions") -> list[str]:
    """The names of table rows and columns in a comma-separated list."""
    from adaptkry.paper.reproduce import measurements_of

    cells = [cell for cells in measurements_of(items, options).values() for cell in cells]
    return list(names_in(text, {name for cell in cells for name in (cell.row, cell.column)}))


def names_in(text: str, known: Collection[str]) -> Iterator[str]:
    """The names in a comma-separated list; a known name may contain commas.

    >>> list(names_in("gcn, cora, tau 0.5,mlp", {"gcn", "cora, tau 0.5"}))
    ['gcn', 'cora, tau 0.5', 'mlp']
    """
    parts = comma_separated(text)
    while parts:
        ends = (end for end in range(len(parts), 1, -1) if ", ".join(parts[:end]) in known)
        end = next(ends, 1)
        yield ", ".join(parts[:end])
        parts = parts[end:]
