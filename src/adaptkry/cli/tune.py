"""The commands that choose: settings of a method, and among methods."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli import terminal as screens
from adaptkry.cli.options import (
    Chosen,
    Count,
    DataRoot,
    Device,
    Directed,
    GraphName,
    Scheme,
    for_graph,
    load,
    pick_method,
)
from adaptkry.cli.signals import stoppable
from adaptkry.cli.terminal import Json
from adaptkry.common import rows as results
from adaptkry.common import timing
from adaptkry.common.files import check_output_folder
from adaptkry.common.memory import keep_freed
from adaptkry.graphs import splits
from adaptkry.models import recipe_text as settings
from adaptkry.models.methods import METHODS
from adaptkry.report.comparison_report import comparison_report
from adaptkry.report.html import write_facts, write_page
from adaptkry.report.run_report import write_pages
from adaptkry.selection import compare as comparison
from adaptkry.selection import trial as trials
from adaptkry.selection import tune as search
from adaptkry.training import fit as fitting

app = typer.Typer()


@app.command(
    epilog="Examples:  adaptkry tune csbm  |  adaptkry tune cora --trials 100 --set hidden=64  |  "
    "adaptkry tune csbm --resume  |  adaptkry fit csbm --settings runs/csbm-adaptkry-tuned/tuned.toml"
)
def tune(
    graph: GraphName,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "adaptkry",
    number: Annotated[int, typer.Option("--trials", help="How many settings to try.")] = 40,
    together: Annotated[int, typer.Option(help="Proposed at once; those of one shape train as one batch.")] = 8,
    split: Scheme = "class_balanced",
    count: Count = 10,
    epochs: Annotated[int | None, typer.Option(help="At most so many.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trials (on the CPU).")] = 0,
    more: Chosen = None,
    directed: Directed = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder; runs/GRAPH-METHOD-tuned by default.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the trials of a search that stopped.")] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Search a method's settings (Optuna's TPE), chosen on validation nodes; test the best ones once.

    The published settings and the defaults are tried first. What --set gives is fixed, the rest varies.
    """
    pick_method(method)
    keep_freed()
    loaded = load(graph, data_root, directed)
    name = loaded.info.name
    chosen = splits.make(loaded, split, count)
    folder = out or Path("runs") / f"{Path(name).name}-{method}-tuned"
    fixed = for_graph(name) | settings.merged({"epochs": epochs}, more or ())
    fitting.choose_device(device)
    if not as_json:
        typer.echo(
            f"{method} on {name}: {number} trials on {len(chosen)} splits, {together} proposed at a time", err=True
        )
        screens.warn(chosen, fixed.get("standardise"))
    with stoppable(lambda: kept_of_tune(folder)), timing.progress("trials", number, quiet=as_json) as tick:
        run, rows = search.tune(
            loaded, method, chosen, trials=number, together=together, seed=seed, device=device, out=folder,
            resume=resume, done=lambda _: tick(), **fixed,
        )  # fmt: skip
    written = write_pages(run, loaded, folder, chosen) | {"settings": str(folder / search.SETTINGS)}
    if as_json:
        typer.echo(json.dumps({**written, "best": trials.best(rows), "trials": rows, "rows": run.rows}))
    else:
        screens.print_tuned(run, rows)
        typer.echo("run folder: {folder}\nsettings, for fit --settings: {settings}\nreport: {report}".format(**written))


def kept_of_tune(folder: Path) -> str:
    """What a search that was stopped left behind."""
    kept = results.read(folder / trials.FILE) if (folder / trials.FILE).exists() else []
    going_on = f"{len(kept)} trials are kept; the same command with --resume goes on from {folder}"
    return going_on if kept else "before there was anything to keep"


@app.command(
    epilog="Examples:  adaptkry compare csbm --methods adaptkry,gcn,mlp  |  adaptkry compare cora --methods all  |  "
    "adaptkry compare cora --methods all --resume"
)
def compare(
    graph: GraphName,
    methods: Annotated[str, typer.Option(help=f"Names with commas between, or all: {', '.join(METHODS)}.")] = "all",
    split: Scheme = "class_balanced",
    count: Count = 10,
    epochs: Annotated[int | None, typer.Option(help="At most so many, for all methods.")] = None,
    more: Chosen = None,
    directed: Directed = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder; runs/GRAPH-comparison by default.")] = None,
    resume: Annotated[bool, typer.Option(help="Leave out methods that are in the folder already.")] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Train several methods on the same splits and rank them, with intervals and paired differences.

    Each method uses the settings published for the graph; where there are none, it chooses among a few on validation.
    """
    names = list(METHODS) if methods == "all" else [pick_method(name.strip()) for name in methods.split(",")]
    keep_freed()
    loaded = load(graph, data_root, directed)
    chosen = splits.make(loaded, split, count)
    folder = out or Path("runs") / f"{Path(loaded.info.name).name}-comparison"
    changes = for_graph(loaded.info.name) | settings.merged({"epochs": epochs}, more or ())
    key = comparison.key_of(loaded, chosen, changes)
    check_output_folder(folder, "comparison.json")
    kept = comparison.load(folder, key) if resume else []
    total = len({*names, *(one["method"] for one in kept)})
    if (folder / "comparison.json").exists() and not resume:
        typer.echo(f"the comparison in {folder} will be replaced", err=True)
    screens.warn(chosen, standardised=None)
    done = list(kept)

    def keep(entry: dict) -> None:
        done.append(entry)
        comparison.save(done, chosen, folder, key)  # what is done survives whatever comes
        tick()

    going_on = f"methods are in {folder}; the same command with --resume goes on"
    with (
        stoppable(lambda: f"{len(done)} of {total} {going_on}"),
        timing.progress("methods", total - len(kept), quiet=as_json) as tick,
    ):
        entries = comparison.compare(loaded, names, chosen, changes, device=device, kept=kept, done=keep)
    written = comparison.save(entries, chosen, folder, key)
    made = results.provenance(fitting.choose_device(device))
    seen = comparison_report(entries, chosen.warnings, loaded.info.name, loaded.info.metric, made)
    write_facts(folder, seen)
    page = write_page([folder], folder / "report.html")
    if as_json:
        told = {"folder": str(folder), "report": str(page), "warnings": chosen.warnings, "methods": entries}
        typer.echo(json.dumps(told))
    else:
        screens.print_comparison(entries, loaded.info.metric)
        typer.echo(f"comparison: {written}\nreport: {page}")
    if all(one["failed"] for one in entries):
        raise typer.Exit(1)
