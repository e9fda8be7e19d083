"""`adaptkry tune`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import (
    METHOD_NAMES,
    Count,
    DataRoot,
    Device,
    Directed,
    Epochs,
    GraphNames,
    Json,
    Scheme,
    Settings,
    log,
    method_name,
    open_graph,
)

EXAMPLES = (
    "adaptkry tune csbm --trials 20",
    "adaptkry tune cora --method gprgnn --set degree=10 --out runs/tuned",
    "adaptkry fit cora --settings runs/tuned/tuned.toml",
)


def tune(
    graph: GraphNames,
    method: Annotated[str, typer.Option(help=f"One of {METHOD_NAMES}.")] = "adaptkry",
    number: Annotated[int, typer.Option("--trials", help="Number of trials.")] = 40,
    together: Annotated[
        int, typer.Option(help="Trials proposed at a time; those of the same shape train as one batch.")
    ] = 8,
    split: Scheme = "class_balanced",
    count: Count = 10,
    epochs: Epochs = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the proposals; on the CPU the same seed gives the same trials.")
    ] = (0),
    more: Settings = None,
    directed: Directed = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder. Default: runs/GRAPH-METHOD-tuned.")] = None,
    resume: Annotated[bool, typer.Option(help="Resume an interrupted search.")] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Search a method's settings (Optuna's TPE) by validation score; test the best settings once.

    The published settings and the defaults are tried first. Settings given by --set are fixed, the others vary.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.common.memory import keep_freed
    from adaptkry.models.recipe_text import merge
    from adaptkry.report.run_report import write_pages
    from adaptkry.selection import tune as search
    from adaptkry.selection.trial import best_trial
    from adaptkry.training.fit import choose_device

    method_name(method)
    keep_freed()
    data = open_graph(graph, data_root, directed)
    splits = data.splits(split, count)
    folder = out or Path("runs") / f"{Path(data.name).name}-{method}-tuned"
    fixed = merge({"epochs": epochs}, more or ())
    choose_device(device)
    log.info(f"{method} on {data.name}: {number} trials on {len(splits)} splits, {together} proposed at a time")
    terminal.warn(splits, data.recipe(method, **fixed).standardise)
    with (
        interruptible(lambda: what_remains(folder)),
        progress("trials", number, quiet=as_json) as advance,
    ):
        run, trials = search.tune(
            data, method, splits, trials=number, together=together, seed=seed, device=device, out=folder,
            resume=resume, on_trial=lambda _: advance(), **fixed,
        )  # fmt: skip
    written = write_pages(run, data.graph, folder, splits) | {"settings": str(folder / search.SETTINGS)}
    if as_json:
        results = [result.to_row() for result in run.results]
        typer.echo(json.dumps({**written, "best": best_trial(trials), "trials": trials, "rows": results}))
    else:
        terminal.print_tuned(run, trials)
        typer.echo("run folder: {folder}\nsettings, for fit --settings: {settings}\nreport: {report}".format(**written))


def what_remains(folder: Path) -> str:
    """What an interrupted search leaves."""
    from adaptkry.selection.tune import TRIALS

    lines = (folder / TRIALS).read_text().splitlines() if (folder / TRIALS).exists() else []
    kept = len(lines) - 1  # below the header
    if kept < 1:
        return "nothing has been saved yet"
    return f"{kept} trials are kept; the same command with --resume continues in {folder}"
