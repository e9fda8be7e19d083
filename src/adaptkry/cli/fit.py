"""The command line: parse, call one library function, print."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli import inspect as cli_looking
from adaptkry.cli import propagate as cli_scale
from adaptkry.cli import terminal as screens
from adaptkry.cli import tune as cli_choosing
from adaptkry.cli.options import Chosen, Count, DataRoot, Device, Directed, Scheme, for_graph, load, refuse_idle
from adaptkry.cli.signals import stoppable
from adaptkry.cli.terminal import Json
from adaptkry.common import timing
from adaptkry.common.files import check_output_folder
from adaptkry.common.memory import keep_freed
from adaptkry.common.version import VERSION
from adaptkry.graphs import load as datasets
from adaptkry.graphs import splits
from adaptkry.models import recipe_text as settings
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.outofcore import BasisFolder
from adaptkry.outofcore.folders import is_kind
from adaptkry.report.run_report import write_pages
from adaptkry.training import fit as fitting
from adaptkry.training import folder_fit as from_disk
from adaptkry.training import folder_recipe as matching
from adaptkry.training import predict as predictions
from adaptkry.training import process_group as processes
from adaptkry.training import run as runs

app = typer.Typer(
    help="Learning with polynomial graph filters.",
    epilog="Examples:  adaptkry demo  |  adaptkry fit csbm  |  adaptkry inspect cora  |  adaptkry datasets",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def basis_folder(names: list[str]) -> BasisFolder | None:
    """The basis folder that was named in place of a graph."""
    return from_disk.opened(names[0]) if len(names) == 1 and is_kind(names[0], "basis") else None


def version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        typer.echo(f"adaptkry {VERSION}")
        raise typer.Exit


@app.callback()
def common(
    _show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learning with polynomial graph filters."""


@app.command(
    epilog="Examples:  adaptkry fit csbm  |  adaptkry fit cora --out runs/cora  |  adaptkry fit edges.csv nodes.csv"
    "  |  adaptkry fit csbm --split stratified --splits 5 --set hidden=128 --set mlp_lr=0.05"
    "  |  adaptkry fit BASIS --split uniform --splits 1 --batch 8192"
    "  |  torchrun --nproc-per-node 2 -m adaptkry fit BASIS --out runs/big"
)
def fit(
    graph: Annotated[
        list[str], typer.Argument(help="A name (see `adaptkry datasets`), your own file(s), or a basis folder.")
    ],
    method: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(METHODS)}.", show_default="adaptkry, or what --settings says")
    ] = None,
    tau: Annotated[list[float] | None, typer.Option(help="Above 0; give it again for several.")] = None,
    degree: Annotated[int | None, typer.Option(help="Hops K.")] = None,
    direction: Annotated[list[str] | None, typer.Option(help="both, out, in; give it again for several.")] = None,
    hop_norm: Annotated[bool | None, typer.Option(help="Scale every hop to the norm of X.")] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many.")] = None,
    more: Chosen = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--settings", help="A TOML file with settings, such as `adaptkry tune` writes; options beside it win."
        ),
    ] = None,
    split: Scheme = "class_balanced",
    count: Count = 10,
    restarts: Annotated[
        int, typer.Option(min=1, help="Train each split so many times at once, keep the one best on validation.")
    ] = 1,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes a step, for a basis that does not fit; a basis folder takes 8192 by itself."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help=f"Hold a basis folder of this size or less in memory; {from_disk.MEMORY} by default."),
    ] = None,
    directed: Directed = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/GRAPH-METHOD by default.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on where a killed run stopped.")] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Train a method on many splits as one batch, test it, and write a run folder with a picture.

    A basis folder (see `adaptkry propagate`) in place of a graph is streamed from disk in mini-batches; torchrun shares
    it out among processes or GPUs.
    """
    if out:
        check_output_folder(out, *fitting.RUN)
    options = {"taus": tau, "degree": degree, "directions": direction, "hop_norm": hop_norm, "epochs": epochs}
    method, written = with_method(method, file)
    changes = written | settings.merged(options, more or ())
    stored = basis_folder(graph)
    if stored is None:
        refuse_for_graphs(memory)
        keep_freed()
        loaded = load(graph, data_root, directed)
        name = loaded.info.name
        made, chosen = recipe(method, name, **for_graph(name) | changes), splits.make(loaded, split, count)
        refuse_idle(made.directions, loaded)
    else:
        loaded, name = None, stored.name
        made, chosen = matching.recipe_for(stored, method, **changes), from_disk.split_of(stored, split, count)
    folder = out or Path("runs") / f"{Path(name).name}-{method}"
    is_first = processes.rank() == 0  # of the processes that torchrun started: it speaks, draws and writes
    if resume and is_complete(folder):
        if is_first:
            finished(folder, fitting.members_of([made], chosen, restarts), chosen.scheme, as_json)
        raise typer.Exit
    fitting.choose_device(device)
    if not as_json and is_first:
        typer.echo(f"{method} on {name}: {len(chosen)} splits as one batch, at most {made.epochs} epochs", err=True)
        if stored is not None and (decided := matching.unlike(stored, method, made, changes)):
            typer.echo(f"the basis folder decides: {', '.join(decided)}", err=True)
        if is_complete(folder):
            typer.echo(f"the finished run in {folder} will be replaced", err=True)
        screens.warn(chosen, made.standardise)
    with stoppable(lambda: kept_of_fit(folder)), timing.live(made.epochs, quiet=as_json or not is_first) as look:
        common = {"restarts": restarts, "batch": batch, "device": device, "out": folder, "resume": resume, "look": look}
        if loaded is not None:
            run = fitting.fit(loaded, made, chosen, **common)
        else:
            run = from_disk.fit(stored, made, chosen, memory=memory or from_disk.MEMORY, **common)  # type: ignore[arg-type]
    if not is_first:
        raise typer.Exit
    if not run.chosen:
        why = next((row["failed"] for row in run.rows if row["failed"]), "nothing could be tested")
        typer.echo(f"all {len(run.rows)} trainings failed: {why}. Look at the features and rates; {folder}", err=True)
        raise typer.Exit(1)
    written = write_pages(run, loaded, folder, chosen)
    if as_json:
        typer.echo(json.dumps({**written, "rows": run.rows}))
    else:
        typer.echo(run.summary(warnings=False))
        typer.echo("run folder: {folder}\npicture: {picture}\nreport: {report}".format(**written))


def with_method(method: str | None, file: Path | None) -> tuple[str, dict]:
    """The method and the settings of a file; two methods that contradict each other are refused."""
    written = settings.from_toml(file) if file else {}
    named = written.pop("method", method or "adaptkry")
    if method not in (None, named):
        raise ValueError(f"{file} holds settings of {named}, but --method {method} came. Leave --method out.")
    return named, written


def refuse_for_graphs(memory: str | None) -> None:
    """What only a basis folder has a use for."""
    if memory:
        raise ValueError("--memory is for basis folders, but a graph came. Make its basis with `adaptkry propagate`.")
    if processes.world() > 1:
        raise ValueError(
            f"torchrun started {processes.world()} processes, but they share out basis folders only, and a graph came. "
            f"Make its basis with `adaptkry propagate`, or start one process."
        )


def is_complete(folder: Path) -> bool:
    """Whether a run folder holds a finished run; a checkpoint beside it is of a later one that was stopped."""
    return (folder / "run.json").exists() and not (folder / "checkpoint.safetensors").exists()


def finished(folder: Path, wanted: list, scheme: str, as_json: bool) -> None:
    """Show the run that is there already, if it is the one that was asked for."""
    run = runs.load_run(folder)
    if run.members != wanted or run.about["scheme"] != scheme:
        raise ValueError(f"{folder} holds a finished run of other settings: use another --out, or no --resume.")
    typer.echo(f"{folder} is complete already; leave --resume out to train it again", err=True)
    typer.echo(json.dumps({"folder": str(folder), "rows": run.rows}) if as_json else run.summary())


def kept_of_fit(folder: Path) -> str:
    """What a stopped training leaves."""
    kept = (folder / "checkpoint.safetensors").exists()
    return f"the same command with --resume goes on from {folder}" if kept else "before there was anything to keep"


@app.command(
    epilog="Examples:  adaptkry predict runs/cora-adaptkry --out predictions.csv  |  adaptkry predict runs/big BASIS"
)
def predict(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(help="A graph's name, your own file(s) or a basis folder; by default what the run trained on."),
    ] = None,
    graph: Annotated[list[str] | None, typer.Option(help="The same as an option; give it again for several.")] = None,
    out: Annotated[Path, typer.Option(help="Where the table goes.")] = Path("predictions.csv"),
    directed: Directed = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Write the class and the class probabilities of every node; of a basis folder, of every stored row."""
    loaded = runs.load_run(run)
    names = [*(files or []), *(graph or [])] or [trained_on(run, loaded.about)]
    count = predictions.write_csv(out, loaded, basis_folder(names) or load(names, data_root, directed))
    typer.echo(json.dumps({"out": str(out), "nodes": count}) if as_json else f"{count} predictions: {out}")


def trained_on(run: Path, about: dict) -> str:
    """The basis folder a run was trained on, or the name of the graph, if it can be loaded by it."""
    name = about["graph"]
    if about.get("basis"):
        return about["basis"]
    if name not in datasets.NAMES:
        raise ValueError(
            f"{run} was trained on files called {name!r}: name them: `adaptkry predict {run} edges.csv nodes.csv`."
        )
    return name


app.add_typer(cli_choosing.app)
app.add_typer(cli_looking.app)
app.add_typer(cli_scale.app)


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 2, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        said = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        typer.echo(f"{typer.style('adaptkry:', fg='red')} {said}", err=True)
        sys.exit(2)
