"""`adaptkry compare`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import (
    METHOD_NAMES,
    METHODS,
    CountOption,
    DataRootOption,
    DeviceOption,
    DirectedOption,
    EpochsOption,
    GraphArgument,
    JsonOption,
    SchemeOption,
    SetOption,
    check_method,
    column_options,
    comma_separated,
    log,
    open_graph,
)
from adaptkry.cli.report_step import ReportOption, report_step

EXAMPLES = (
    "adaptkry compare csbm --methods adaptkry,gcn,mlp",
    "adaptkry compare cora --methods all",
    "adaptkry compare cora --methods all --resume",
)


@column_options()
def compare(
    graph: GraphArgument,
    columns: dict,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Comma-separated names, or all: {METHOD_NAMES}.")
    ] = "all",
    split: SchemeOption = None,
    count: CountOption = None,
    epochs: EpochsOption = None,
    assignments: SetOption = None,
    directed: DirectedOption = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: runs/GRAPH-comparison.")] = None,
    resume: Annotated[
        bool, typer.Option(help="Resume an interrupted comparison: skip methods that are finished.")
    ] = False,
    report: ReportOption = True,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train several methods on the same splits and rank them, with confidence intervals and paired differences.

    A method uses the settings published for the graph. If there are none, validation chooses among a few settings
    around those suggested for it.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.common import rows
    from adaptkry.common.memory import keep_freed_memory
    from adaptkry.models.recipe_text import merge
    from adaptkry.report.comparison_report import comparison_report
    from adaptkry.report.html import write_report
    from adaptkry.selection.compare import COMPARISON
    from adaptkry.selection.compare import compare as compare_methods
    from adaptkry.training.fit import choose_device

    names = list(METHODS) if methods == "all" else [check_method(name) for name in comma_separated(methods)]
    keep_freed_memory()
    data = open_graph(graph, data_root, directed, columns)
    splits = data.splits(split, count)
    folder = out or Path("runs") / f"{Path(data.name).name}-comparison"
    provenance = rows.provenance(choose_device(device)) | rows.origin()
    if (folder / COMPARISON).exists() and not resume:
        log.warning(f"the comparison in {folder} will be replaced")
    terminal.warn(splits)
    with (
        interruptible(lambda: f"finished methods are saved in {folder}; the same command with --resume continues"),
        progress("methods", len(names), quiet=as_json) as advance,
    ):
        entries = compare_methods(
            data, names, splits, device=device, out=folder, resume=resume, on_entry=lambda _: advance(),
            **merge({"epochs": epochs}, assignments or ()),
        )  # fmt: skip
    if not as_json:
        terminal.print_comparison(entries, data.info.metric, splits)
        typer.echo(f"comparison: {folder / COMPARISON}")
    shared = (splits.warnings, data.name, data.info.metric, provenance)
    written, code = report_step(
        folder, lambda: write_report(folder, lambda: comparison_report(entries, *shared)), is_wanted=report
    )
    if as_json:
        result = {"folder": str(folder), "report": written["report"], "warnings": splits.warnings, "methods": entries}
        typer.echo(json.dumps(result))
    elif written["report"]:
        typer.echo(f"report: {written['report']}")
    if code:
        raise typer.Exit(code)
    if all(entry["failed"] for entry in entries):
        raise typer.Exit(1)
