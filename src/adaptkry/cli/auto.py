"""`adaptkry auto`."""

import functools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptkry.cli.options import (
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
    column_options,
    log,
    open_graph,
)
from adaptkry.cli.report_step import ReportOption, report_step

if TYPE_CHECKING:
    from adaptkry.training.data import GraphData

EXAMPLES = (
    "adaptkry auto csbm --time 30s",
    "adaptkry auto edges.csv nodes.csv --directed --time 10min --out runs/mine",
    "adaptkry auto edges.csv nodes.csv --directed --time 10min --out runs/mine --resume",
    "adaptkry predict runs/mine edges.csv nodes.csv",
)
PICTURE_SECONDS = 2.0  # to import the charting library and to write picture and page
SPECTRA_SHARE = 0.04  # share of the time for the spectra and angles of the report
MOST_SPECTRA_SECONDS = 15.0
CELL_SECONDS = 1.5e-6  # to write one cell of predictions.csv


@column_options()
def auto(
    graph: GraphArgument,
    columns: dict,
    limit: Annotated[
        str, typer.Option("--time", metavar="TIME", help="Time limit, report included, such as 30s, 5min or 1h.")
    ] = "5min",
    split: SchemeOption = None,
    count: CountOption = None,
    metrics: MetricsOption = None,
    epochs: EpochsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    assignments: SetOption = None,
    directed: DirectedOption = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: runs/GRAPH-auto.")] = None,
    resume: Annotated[bool, typer.Option(help="Continue an interrupted search; the time spent before counts.")] = False,
    report: ReportOption = True,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train the best ensemble that a time limit allows, test it once, and write its predictions and a report.

    Several methods and many settings are trained; validation nodes choose among them. Ctrl-C ends the search with the
    best so far. Settings given by --set are fixed; of them, the baselines GCN and MLP take epochs, patience and reduce.
    """
    from adaptkry import cli
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import search_progress
    from adaptkry.cli.signals import ends_early, interruptible
    from adaptkry.cli.tune import resume_hint
    from adaptkry.common.memory import keep_freed_memory
    from adaptkry.common.timing import time_limit
    from adaptkry.models.recipe import given_settings
    from adaptkry.models.recipe_text import merge
    from adaptkry.report.auto_report import auto_facts
    from adaptkry.report.run_report import write_pages
    from adaptkry.selection.auto import SUMMARY
    from adaptkry.selection.auto import auto as search
    from adaptkry.selection.auto_search import search_settings
    from adaptkry.training.data import with_metrics
    from adaptkry.training.fit import choose_device
    from adaptkry.training.predict import write_predictions

    seconds = time_limit(limit)
    keep_freed_memory()
    data = with_metrics(open_graph(graph, data_root, directed, columns), metrics)
    splits = data.splits(split, count)
    folder = out or Path("runs") / f"{Path(data.name).name}-auto"
    fixed = merge({"epochs": epochs}, assignments or ())
    settings = search_settings(data.graph, str(choose_device(device)), given_settings(fixed))
    was_complete = resume and (folder / SUMMARY).exists()
    log.info(f"auto on {data.name}: {splits.label}, {seconds:g} s")
    terminal.log_suggested(data, data.recipe("adaptkry", splits.train[0], **settings), fixed)
    terminal.warn(splits)
    spare = report_seconds(data, seconds)
    with (
        interruptible(lambda: resume_hint(folder)),
        ends_early() as should_stop,
        search_progress(spare, quiet=as_json) as on_progress,
    ):
        left = seconds - spare - (time.monotonic() - cli.started)
        result = search(
            data, splits, time_limit=max(left, 1e-3), seed=seed, device=device, out=folder, resume=resume,
            should_stop=should_stop, on_progress=on_progress, **fixed,
        )  # fmt: skip
        was_stopped = should_stop()
    if was_complete:
        log.warning(f"{folder} is already complete; use another --out to search again")
    if not as_json:
        terminal.print_auto(result)
        typer.echo(f"run folder: {folder}")
    predictions = folder / "predictions.csv"
    left = min(seconds, 4.0) if was_stopped or was_complete else seconds - (time.monotonic() - cli.started)

    def make_report() -> dict[str, str]:
        return write_pages(
            result.ensemble, data.graph, folder, splits, seconds=max(left - PICTURE_SECONDS, 0.0),
            extend=functools.partial(auto_facts, result), renew=False,
        )  # fmt: skip

    def make_predictions() -> dict[str, str]:
        if not (was_complete and predictions.exists()):
            kept = result.ensemble.predicted
            models = None if kept is None else lambda numbers: kept[:, numbers]
            write_predictions(predictions, result.ensemble, data, models=models)
        return {"predictions": str(predictions)}

    found, code = report_step(folder, make_predictions, what="predictions")
    if not as_json and found["predictions"]:
        typer.echo(f"predictions: {predictions}")
    written, report_code = report_step(folder, make_report, is_wanted=report and not code)
    written |= found
    if as_json:
        rows = [row.to_row() for row in result.ensemble.results]
        shown = {"comparison": result.comparison(), "effects": result.effects, "trials": result.trials, "rows": rows}
        typer.echo(json.dumps({**written, "seconds": result.seconds, **shown}))
    elif written["report"]:
        typer.echo(f"report: {written['report']}")
    if code or report_code:
        raise typer.Exit(code or report_code)


def report_seconds(data: "GraphData", seconds: float) -> float:
    """Estimate the time for the report and the predictions, which the search leaves out of its time limit."""
    cells = data.graph.nodes * (data.graph.classes + 2)
    return PICTURE_SECONDS + min(SPECTRA_SHARE * seconds, MOST_SPECTRA_SECONDS) + CELL_SECONDS * cells
