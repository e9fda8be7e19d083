"""`adaptkry fit`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptkry.cli.options import (
    METHOD_NAMES,
    Count,
    DataNames,
    DataRoot,
    Degree,
    Device,
    Directed,
    Directions,
    Epochs,
    Json,
    Scheme,
    Settings,
    Taus,
    as_settings,
    check_directions,
    default_settings,
    load_graph,
    log,
)

if TYPE_CHECKING:
    from adaptkry.outofcore import BasisFolder
    from adaptkry.training.loop import Member

EXAMPLES = (
    "adaptkry fit csbm",
    "adaptkry fit cora --out runs/cora",
    "adaptkry fit edges.csv nodes.csv",
    "adaptkry fit csbm --taus 0.5,1 --split stratified --splits 5 --set hidden=128 --set mlp_lr=0.05",
    "adaptkry fit BASIS --split uniform --splits 1 --batch-size 8192",
    "torchrun --nproc-per-node 2 -m adaptkry fit BASIS --out runs/big",
)


def fit(
    graph: DataNames,
    method: Annotated[
        str | None, typer.Option(help=f"One of {METHOD_NAMES}.", show_default="adaptkry, or the method of --settings")
    ] = None,
    taus: Taus = None,
    degree: Degree = None,
    directions: Directions = None,
    hop_norm: Annotated[bool | None, typer.Option(help="Scale every hop to the norm of X.")] = None,
    epochs: Epochs = None,
    more: Settings = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--settings", help="TOML file of settings, as written by `adaptkry tune`; other options override it."
        ),
    ] = None,
    split: Scheme = "class_balanced",
    count: Count = 10,
    restarts: Annotated[
        int, typer.Option(min=1, help="Trainings per split, at once; the best on validation is kept.")
    ] = 1,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Nodes per step, for a basis that does not fit on the device. Basis folders: 8192 by default."
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Hold a basis folder of at most this size in memory.", show_default="1GiB"),
    ] = None,
    directed: Directed = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/GRAPH-METHOD.")] = None,
    resume: Annotated[bool, typer.Option(help="Resume an interrupted run.")] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Train a method on many splits as one batch, test it, and write a run folder with a picture and a report.

    A basis folder in place of a graph is read from disk in mini-batches; torchrun distributes it over processes or
    GPUs.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import live
    from adaptkry.cli.signals import interruptible
    from adaptkry.common.files import check_output_folder
    from adaptkry.common.memory import keep_freed
    from adaptkry.graphs.splits import make as make_splits
    from adaptkry.models.recipe import recipe
    from adaptkry.models.recipe_text import merged
    from adaptkry.report.run_report import write_pages
    from adaptkry.training import fit as training
    from adaptkry.training import folder_fit, process_group
    from adaptkry.training.folder_recipe import recipe_for, unlike

    if out:
        check_output_folder(out, *training.RUN)
    method, from_file = with_method(method, file)
    options = {"degree": degree, "hop_norm": hop_norm, "epochs": epochs}
    changes = from_file | merged(options, as_settings(more, taus=taus, directions=directions))
    stored = basis_folder(graph)
    if stored is None:
        refuse_for_graphs(memory)
        keep_freed()
        loaded = load_graph(graph, data_root, directed)
        name = loaded.info.name
        settings, splits = recipe(method, name, **default_settings(name) | changes), make_splits(loaded, split, count)
        check_directions(settings.directions, loaded)
    else:
        loaded, name = None, stored.name
        settings, splits = recipe_for(stored, method, **changes), folder_fit.split_of(stored, split, count)
    folder = out or Path("runs") / f"{Path(name).name}-{method}"
    is_first = process_group.rank() == 0  # of the processes that torchrun started; only this one prints and writes
    if resume and is_complete(folder):
        if is_first:
            show_finished(folder, training.members_of([settings], splits, restarts), splits.scheme, as_json)
        raise typer.Exit
    training.choose_device(device)
    if is_first:
        log.info(f"{method} on {name}: {len(splits)} splits as one batch, at most {settings.epochs} epochs")
        if stored is not None and (decided := unlike(stored, method, settings, changes)):
            log.info(f"determined by the basis folder: {', '.join(decided)}")
        if is_complete(folder):
            log.warning(f"the finished run in {folder} will be replaced")
        terminal.warn(splits, settings.standardise)
    with interruptible(lambda: what_remains(folder)), live(settings.epochs, quiet=as_json or not is_first) as show:
        common = {"restarts": restarts, "batch": batch_size, "device": device, "out": folder, "resume": resume}
        if loaded is not None:
            run = training.fit(loaded, settings, splits, look=show, **common)
        else:
            limit = memory or folder_fit.MEMORY
            run = folder_fit.fit(stored, settings, splits, memory=limit, look=show, **common)  # type: ignore[arg-type]
    if not is_first:
        raise typer.Exit
    if not run.chosen:
        why = next((row["failed"] for row in run.rows if row["failed"]), "nothing could be tested")
        typer.echo(
            f"all {len(run.rows)} trainings failed: {why}. Check the features and the learning rates; see {folder}",
            err=True,
        )
        raise typer.Exit(1)
    written = write_pages(run, loaded, folder, splits)
    if as_json:
        typer.echo(json.dumps({**written, "rows": run.rows}))
    else:
        typer.echo(run.summary(warnings=False))
        typer.echo("run folder: {folder}\npicture: {picture}\nreport: {report}".format(**written))


def basis_folder(names: list[str]) -> "BasisFolder | None":
    """The basis folder that was given in place of a graph, if any."""
    from adaptkry.outofcore.manifest import is_kind
    from adaptkry.training.folder_fit import opened

    return opened(names[0]) if len(names) == 1 and is_kind(names[0], "basis") else None


def with_method(method: str | None, file: Path | None) -> tuple[str, dict]:
    """The method and the settings of a file; a method that contradicts the file is refused."""
    from adaptkry.models.recipe_text import from_toml

    settings = from_toml(file) if file else {}
    name = settings.pop("method", method or "adaptkry")
    if method not in (None, name):
        raise ValueError(f"--method must be {name}, whose settings are in {file}; got {method}. Leave --method out.")
    return name, settings


def refuse_for_graphs(memory: str | None) -> None:
    """Refuse what works with basis folders only."""
    from adaptkry.training.process_group import world

    if memory:
        raise ValueError("--memory is for basis folders; got a graph. Write its basis with `adaptkry propagate`.")
    if world() > 1:
        raise ValueError(
            f"Several processes can share a basis folder only; got a graph and {world()} processes from torchrun. "
            f"Write its basis with `adaptkry propagate`, or start one process."
        )


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a finished run; a checkpoint beside it belongs to a later run that was interrupted."""
    return (folder / "run.json").exists() and not (folder / "checkpoint.safetensors").exists()


def show_finished(folder: Path, members: "list[Member]", scheme: str, as_json: bool) -> None:
    """Show the finished run in a folder, if it is the one that was asked for."""
    from adaptkry.training.run import load_run

    run = load_run(folder)
    if run.members != members or run.about["scheme"] != scheme:
        raise ValueError(
            f"--resume needs a run with the same settings; {folder} holds a finished run with other settings. Use "
            f"another --out, or leave --resume out."
        )
    typer.echo(f"{folder} is already complete; leave --resume out to train it again", err=True)
    typer.echo(json.dumps({"folder": str(folder), "rows": run.rows}) if as_json else run.summary())


def what_remains(folder: Path) -> str:
    """What an interrupted training leaves."""
    is_kept = (folder / "checkpoint.safetensors").exists()
    return f"the same command with --resume continues in {folder}" if is_kept else "nothing has been saved yet"
