"""The commands that look at things: built-in graphs, graphs, runs, and the paper re-run."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Column, Table

from adaptkry.cli import terminal as screens
from adaptkry.cli.options import DataRoot, Device, Directed, GraphName, load
from adaptkry.cli.signals import stoppable
from adaptkry.cli.terminal import Json
from adaptkry.common import timing
from adaptkry.common.files import check_output_folder
from adaptkry.common.lookup import pick
from adaptkry.common.memory import keep_freed
from adaptkry.graphs import load as datasets
from adaptkry.paper import documents
from adaptkry.paper import reproduce as reproduction
from adaptkry.report import demo, inspection
from adaptkry.report.html import write_figures, write_page
from adaptkry.training import fit as fitting

app = typer.Typer()


@app.command("demo", epilog="Examples:  adaptkry demo  |  adaptkry demo --out runs/first --json")
def contest(
    out: Annotated[Path, typer.Option(help="Where the run folders go.")] = Path("runs/demo"),
    as_json: Json = False,
) -> None:
    """Train where neighbours agree and where they differ, against an MLP and a fixed low-pass filter."""
    keep_freed()
    with timing.progress("training", 2 * len(demo.DEMO_METHODS), quiet=as_json) as tick:
        rows = demo.train_demo(out, tick)
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        screens.print_contest(rows)
        typer.echo(f"report of all six runs, for a browser: {out / 'report.html'}")


@app.command(epilog="Examples:  adaptkry tour  |  adaptkry tour --nodes 2000 --phi -1  |  adaptkry tour --json")
def tour(
    nodes: Annotated[int, typer.Option(min=10, max=4000, help="Size of the built-in graph.")] = 400,
    phi: Annotated[float, typer.Option(help="-1: neighbours differ, 0: edges say nothing, 1: neighbours agree.")] = 0.6,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same graph.")] = 0,
    as_json: Json = False,
) -> None:
    """Show on a built-in graph what tau does to the spectrum and the basis, and check the paper's theory."""
    found = demo.tour(nodes, phi, seed)
    if as_json:
        typer.echo(json.dumps(found, default=np.ndarray.tolist))
    else:
        screens.print_tour(found)


@app.command(
    epilog="Examples:  adaptkry report runs/cora-adaptkry  |  adaptkry report runs/a runs/b-comparison --out both.html"
    "  |  adaptkry report runs/a --figures figures"
)
def report(
    run: Annotated[
        list[Path], typer.Argument(help="Folders of runs or comparisons, or an item's docs/reproduction/ITEM.json.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The page; by default report.html in the folder, or beside several; ITEM.html beside ITEM.json."
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write every chart there too, as SVG and PNG.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page about runs and experiments: it works from disk, without a server or the network."""
    place = run[0] if len(run) == 1 else run[0].parent  # a run's own page stays its own
    page = write_page(run, out or (run[0].with_suffix(".html") if run[0].is_file() else place / "report.html"))
    drawn = write_figures(run, figures) if figures else []
    if as_json:
        typer.echo(json.dumps({"report": str(page), "figures": [str(path) for path in drawn]}))
    else:
        typer.echo("\n".join([f"report: {page}", *(f"figure: {path}" for path in drawn)]))


@app.command(
    "reproduce",
    epilog="Examples:  adaptkry reproduce angles  |  adaptkry reproduce table-2 --device cuda  |  "
    "adaptkry reproduce all --quick  |  adaptkry reproduce table-2 --only adaptkry --splits 3",
)
def reproduce_items(
    items: Annotated[list[str], typer.Argument(help=f"all, or some of {', '.join(reproduction.ITEMS)}.")],
    device: Device = "auto",
    count: Annotated[int, typer.Option("--splits", min=1, help="How many of the ten splits.")] = 10,
    quick: Annotated[
        bool,
        typer.Option(help="2 splits, 10 epochs, fewer settings, built-in graphs for missing ones: does it all run?"),
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only cells whose row or column has this name; may be given several times.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Leave out cells that this commit has rows of already.")] = False,
    render: Annotated[bool, typer.Option(help="Measure nothing, write the documents from the rows.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of rows; results, or runs/quick/results.")] = None,
    docs: Annotated[Path | None, typer.Option(help="Folder of documents; docs, or runs/quick.")] = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Re-run the paper's tables and figures: rows, then Markdown, LaTeX, pictures and a page, all from rows.

    Exit code 3: some data is missing, the rest was done. Exit code 1: some cells could not be measured.
    """
    names = list(reproduction.ITEMS) if "all" in items else [pick_item(name) for name in items]
    keep_freed()
    how = reproduction.RunOptions(device, count, quick, data_root)
    fitting.choose_device(device)
    rows = check_output_folder(out or Path("runs/quick/results" if quick else "results"))
    pages = check_output_folder(docs or Path("runs/quick" if quick else "docs"))
    done: dict[str, reproduction.Outcome] = {}
    if not render:
        total = sum(map(len, reproduction.jobs_of(names, how, only).values()))
        with (
            stoppable(lambda: f"finished cells are in {rows}, --resume leaves them out"),
            timing.progress("cells", total, quiet=as_json) as tick,
        ):
            done = reproduction.reproduce(names, how, rows, only=only, resume=resume, tick=tick)
    page = documents.write(names, rows, pages, quick)
    for text in documents.skipped(names, rows):
        typer.echo(f"skipped: {text}", err=True)
    missing = {graph: why for one in done.values() for graph, why in one.missing.items()}
    failed = [f"{name}: {text}" for name, one in done.items() for text in one.failed]
    replaced = sorted(set().union(*(one.replaced for one in done.values())))
    if as_json:
        count_of = {name: one.rows for name, one in done.items()}
        said = {"rows": count_of, "missing": missing, "replaced": replaced, "failed": failed, "report": str(page)}
        typer.echo(json.dumps(said | {"document": str(pages / "reproduction.md")}))
    else:
        screens.print_reproduction(done, missing, replaced, failed)
        typer.echo(f"rows: {rows}\ndocument: {pages / 'reproduction.md'}\nreport: {page}")
    if missing or replaced or failed:
        raise typer.Exit(1 if failed else 3)


def pick_item(name: str) -> str:
    """The item's name, or an error with the nearest ones."""
    pick(reproduction.ITEMS, name, "item")
    return name


@app.command(epilog="Examples:  adaptkry inspect csbm  |  adaptkry inspect squirrel --json")
def inspect(graph: GraphName, directed: Directed = None, data_root: DataRoot = None, as_json: Json = False) -> None:
    """Size, components, homophily, spectrum, lambda*, mixing bound and warnings of a graph."""
    found = inspection.inspect_graph(load(graph, data_root, directed))
    if as_json:
        typer.echo(json.dumps(found, default=np.ndarray.tolist))
    else:
        screens.print_inspection(found)


@app.command("datasets", epilog="Examples:  adaptkry datasets  |  adaptkry datasets --json")
def list_datasets(as_json: Json = False) -> None:
    """The graphs that can be named."""
    rows = datasets.describe()
    if as_json:
        typer.echo(json.dumps(rows, default=str))
        return
    columns = ("name", "nodes", "features", "classes", "homophily", "metric", "found")
    table = Table(*(Column(name, no_wrap=name != "found") for name in columns))
    for row in rows:
        table.add_row(*("" if row.get(name) is None else str(row[name]) for name in columns))
    screens.screen.print(table)
