"""`adaptkry fit`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptkry.cli.options import (
    METHOD_NAMES,
    ClassWeightOption,
    CountOption,
    DataArgument,
    DataRootOption,
    DegreeOption,
    DeviceOption,
    DirectedOption,
    DirectionsOption,
    EpochsOption,
    JsonOption,
    MetricsOption,
    OverwriteOption,
    SchemeOption,
    SetOption,
    TaskOption,
    TausOption,
    as_assignments,
    check_method,
    check_replacing,
    column_options,
    log,
    open_graph_or_basis,
)
from adaptkry.cli.report_step import ReportOption, report_step

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe
    from adaptkry.training.data import TrainingData

EXAMPLES = (
    "adaptkry fit csbm",
    "adaptkry fit cora --out runs/cora",
    "adaptkry fit edges.csv nodes.csv",
    "adaptkry fit cora --restarts 8 --combine mean",
    "adaptkry fit edges.csv nodes.csv --class-weight balanced --metrics macro_f1,accuracy",
    "adaptkry fit edges.csv nodes.csv --task regression --label-column price",
    "adaptkry fit csbm --taus 0.5,1 --split uniform --splits 10 --set hidden=128 --set mlp_lr=0.05",
    "adaptkry fit BASIS --split uniform --splits 1 --batch-size 8192",
    "torchrun --nproc-per-node 2 -m adaptkry fit BASIS --out runs/big",
)


@column_options()
def fit(
    graph: DataArgument,
    columns: dict,
    method: Annotated[
        str | None, typer.Option(help=f"One of {METHOD_NAMES}.", show_default="adaptkry, or the method of --settings")
    ] = None,
    taus: TausOption = None,
    degree: DegreeOption = None,
    directions: DirectionsOption = None,
    hop_norm: Annotated[bool | None, typer.Option(help="Scale every hop to the norm of the features.")] = None,
    epochs: EpochsOption = None,
    assignments: SetOption = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--settings", help="TOML file of settings, as written by `adaptkry tune`; other options override it."
        ),
    ] = None,
    split: SchemeOption = None,
    count: CountOption = None,
    metrics: MetricsOption = None,
    task: TaskOption = None,
    class_weight: ClassWeightOption = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Decides initial weights and dropout; splits do not depend on it.")
    ] = 0,
    restarts: Annotated[int, typer.Option(min=1, help="Trainings per split, in one batch; see --combine.")] = 1,
    combine: Annotated[
        str,
        typer.Option(
            help="best: keep the best of the trainings of a split on validation. mean: average their probabilities "
            "(an ensemble)."
        ),
    ] = "best",
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Nodes per step, for a basis that does not fit on the device. Default: all; 8192 for a basis folder.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Graph: the most memory to use. Basis folder: load it, or its validation rows, if at most this large.",
            show_default="what is available; 1GiB for a basis folder",
        ),
    ] = None,
    directed: DirectedOption = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Run folder. Default: runs/GRAPH-METHOD.")] = None,
    resume: Annotated[bool, typer.Option(help="Resume an interrupted run.")] = False,
    overwrite: OverwriteOption = False,
    report: ReportOption = True,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a method on many splits as one batch, test it, and write a run folder with a picture and a report.

    A basis folder in place of a graph is read from disk in mini-batches; torchrun divides it among processes or GPUs.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import training_progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.common.memory import keep_freed_memory
    from adaptkry.models.recipe_text import merge
    from adaptkry.report.run_report import write_pages
    from adaptkry.training.data import GraphData, with_metrics
    from adaptkry.training.fit import choose_device
    from adaptkry.training.fit import fit as train
    from adaptkry.training.process_group import is_restarted, process_rank

    method, from_file = with_method(method, file)
    options = {"degree": degree, "hop_norm": hop_norm, "epochs": epochs}
    settings = from_file | merge(
        options, as_assignments(assignments, taus=taus, directions=directions, class_weight=class_weight)
    )
    data = with_metrics(open_graph_or_basis(graph, data_root, directed, columns, task=task), metrics)
    if isinstance(data, GraphData):
        keep_freed_memory()
    splits = data.splits(split, count)
    recipe = data.recipe(method, splits.train[0], **settings)
    data.check_recipe(recipe)
    folder = out or Path("runs") / f"{Path(data.name).name}-{method}"
    is_first = process_rank() == 0  # of the processes that torchrun started; only this one prints and writes
    choose_device(device)
    was_complete = is_complete(folder)
    if is_first and not (resume and was_complete):
        log.info(f"{method} on {data.name}: {splits.label} as one batch, at most {recipe.epochs} epochs")
        log_overridden_settings(data, recipe, settings)
        continues = resume or is_restarted()
        if not continues and (folder / "checkpoint.safetensors").exists():
            check_replacing("an unfinished run", folder, is_default=out is None, overwrite=overwrite)
        elif was_complete and not continues:
            check_replacing("a finished run", folder, is_default=out is None, overwrite=overwrite)
        terminal.log_suggested(data, recipe, settings)
        terminal.warn(splits)
    with (
        interruptible(lambda: resume_hint(folder)),
        training_progress(recipe.epochs, data.metrics[0], recipe.task, quiet=as_json or not is_first) as on_epoch,
    ):
        run = train(
            data, recipe, splits, seed=seed, restarts=restarts, combine=combine, batch_size=batch_size, memory=memory,
            device=device, out=folder, resume=resume, callbacks=[on_epoch], predict=None if report else False,
        )  # fmt: skip
    if not is_first:
        raise typer.Exit
    results = [result.to_row() for result in run.results]
    if not run.chosen:
        reason = next((result.failed for result in run.results if result.failed), "nothing could be tested")
        log.error(
            f"all {len(results)} trainings failed: {reason}. Check the features and the learning rates; see {folder}"
        )
        raise typer.Exit(1)
    if resume and was_complete:
        log.warning(f"{folder} is already complete; add --overwrite in place of --resume to train it again")
    if not as_json:
        typer.echo(f"{run.summary(warnings=False)}\nrun folder: {folder}")
    terminal.warn_if_worse_than_mean(run)
    graph_of_run = data.graph if isinstance(data, GraphData) else None
    written, code = report_step(
        folder,
        lambda: write_pages(run, graph_of_run, folder, splits, renew=False),
        is_wanted=report,
    )
    if as_json:
        typer.echo(json.dumps({**written, "rows": results}))
    elif written["report"]:
        typer.echo("picture: {picture}\nreport: {report}".format(**written))
    if code:
        raise typer.Exit(code)


def log_overridden_settings(data: "TrainingData", recipe: "Recipe", settings: dict) -> None:
    """Log the settings that a basis folder determines in place of the user."""
    from adaptkry.training.data import FolderData
    from adaptkry.training.folder_recipe import overridden_settings

    if isinstance(data, FolderData) and (names := overridden_settings(data.folder, recipe, settings)):
        log.info(f"determined by the basis folder: {', '.join(names)}")


def with_method(method: str | None, file: Path | None) -> tuple[str, dict]:
    """The method and the settings of a settings file; another method than the file's is refused."""
    from adaptkry.models.recipe_text import from_toml

    settings = from_toml(file) if file else {}
    name = settings.pop("method", "adaptkry" if method is None else check_method(method))
    if method not in (None, name):
        raise ValueError(f"--method must be {name}, whose settings are in {file}; got {method}. Leave --method out.")
    return name, settings


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a finished run; a checkpoint beside it belongs to a later run that was interrupted."""
    return (folder / "run.json").exists() and not (folder / "checkpoint.safetensors").exists()


def resume_hint(folder: Path) -> str:
    """How to resume an interrupted training."""
    is_saved = (folder / "checkpoint.safetensors").exists()
    return f"the same command with --resume continues in {folder}" if is_saved else "nothing has been saved yet"
