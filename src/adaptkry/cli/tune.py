"""`adaptkry tune`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import (
    METHOD_NAMES,
    ClassWeightOption,
    CountOption,
    DataRootOption,
    DeviceOption,
    DirectedOption,
    EpochsOption,
    GraphArgument,
    JsonOption,
    MetricsOption,
    SchemeOption,
    SetOption,
    TaskOption,
    as_assignments,
    check_method,
    column_options,
    log,
    open_graph,
)
from adaptkry.cli.report_step import ReportOption, report_step

EXAMPLES = (
    "adaptkry tune csbm --trials 20",
    "adaptkry tune cora --method gprgnn --set degree=10 --out runs/tuned",
    "adaptkry fit cora --settings runs/tuned/tuned.toml",
)


@column_options()
def tune(
    graph: GraphArgument,
    columns: dict,
    method: Annotated[str, typer.Option(help=f"One of {METHOD_NAMES}.")] = "adaptkry",
    trials: Annotated[int, typer.Option(help="Number of trials.")] = 40,
    together: Annotated[
        int, typer.Option(help="Number of trials proposed at a time; trials of the same shape train as one batch.")
    ] = 8,
    split: SchemeOption = None,
    count: CountOption = None,
    metrics: MetricsOption = None,
    task: TaskOption = None,
    class_weight: ClassWeightOption = None,
    epochs: EpochsOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the search; on the CPU the same seed gives the same trials.")] = 0,
    assignments: SetOption = None,
    directed: DirectedOption = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: runs/GRAPH-METHOD-tuned.")] = None,
    resume: Annotated[bool, typer.Option(help="Resume an interrupted search.")] = False,
    report: ReportOption = True,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search for the settings with the best validation score (Optuna's TPE), and test them once.

    The published or suggested settings and the defaults are tried first. Settings given by --set are fixed; the others
    vary.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.common.memory import keep_freed_memory
    from adaptkry.models.recipe_text import merge
    from adaptkry.report.run_report import write_pages
    from adaptkry.selection.trial import best_trial
    from adaptkry.selection.tune import SETTINGS
    from adaptkry.selection.tune import tune as search
    from adaptkry.training.data import with_metrics
    from adaptkry.training.fit import choose_device

    check_method(method)
    keep_freed_memory()
    data = with_metrics(open_graph(graph, data_root, directed, columns, task), metrics)
    splits = data.splits(split, count)
    folder = out or Path("runs") / f"{Path(data.name).name}-{method}-tuned"
    fixed = merge({"epochs": epochs}, as_assignments(assignments, class_weight=class_weight))
    choose_device(device)
    log.info(f"{method} on {data.name}: {trials} trials on {splits.label}, {together} proposed at a time")
    terminal.log_suggested(data, data.recipe(method, splits.train[0], **fixed), fixed)
    terminal.warn(splits)
    with (
        interruptible(lambda: resume_hint(folder)),
        progress("trials", trials, quiet=as_json) as advance,
    ):
        run, rows = search(
            data, method, splits, trials=trials, together=together, seed=seed, device=device, out=folder,
            resume=resume, on_trial=lambda _: advance(), **fixed,
        )  # fmt: skip
    if not as_json:
        terminal.print_tuned(run, rows)
        typer.echo(f"run folder: {folder}\nsettings, for fit --settings: {folder / SETTINGS}")
    terminal.warn_if_worse_than_mean(run)
    written, code = report_step(
        folder,
        lambda: write_pages(run, data.graph, folder, splits, renew=False),
        is_wanted=report,
    )
    if as_json:
        results = [result.to_row() for result in run.results]
        written |= {"settings": str(folder / SETTINGS)}
        typer.echo(json.dumps({**written, "best": best_trial(rows), "trials": rows, "rows": results}))
    elif written["report"]:
        typer.echo(f"report: {written['report']}")
    if code:
        raise typer.Exit(code)


def resume_hint(folder: Path) -> str:
    """How to resume an interrupted search."""
    from adaptkry.selection.trial import TRIALS

    lines = (folder / TRIALS).read_text().splitlines() if (folder / TRIALS).exists() else []
    count = len(lines) - 1  # without the header
    if count < 1:
        return "nothing has been saved yet"
    return f"{count} trials are saved; the same command with --resume continues in {folder}"
