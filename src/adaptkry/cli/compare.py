"""`adaptkry compare`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import (
    METHOD_NAMES,
    METHODS,
    Count,
    DataRoot,
    Device,
    Directed,
    Epochs,
    GraphNames,
    Json,
    Scheme,
    Settings,
    comma_separated,
    log,
    method_name,
    open_graph,
)

EXAMPLES = (
    "adaptkry compare csbm --methods adaptkry,gcn,mlp",
    "adaptkry compare cora --methods all",
    "adaptkry compare cora --methods all --resume",
)


def compare(
    graph: GraphNames,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Comma-separated names, or all: {METHOD_NAMES}.")
    ] = "all",
    split: Scheme = "class_balanced",
    count: Count = 10,
    epochs: Epochs = None,
    more: Settings = None,
    directed: Directed = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder. Default: runs/GRAPH-comparison.")] = None,
    resume: Annotated[
        bool, typer.Option(help="Resume an interrupted comparison: skip methods that are in the folder.")
    ] = False,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Train several methods on the same splits and rank them, with intervals and paired differences.

    A method uses the settings published for the graph; without any, validation chooses among a few.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.common import rows
    from adaptkry.common.memory import keep_freed
    from adaptkry.models.recipe_text import merge
    from adaptkry.report.comparison_report import comparison_report
    from adaptkry.report.html import write_facts, write_page
    from adaptkry.selection.compare import COMPARISON
    from adaptkry.selection.compare import compare as train
    from adaptkry.training.fit import choose_device

    names = list(METHODS) if methods == "all" else [method_name(name) for name in comma_separated(methods)]
    keep_freed()
    data = open_graph(graph, data_root, directed)
    splits = data.splits(split, count)
    folder = out or Path("runs") / f"{Path(data.name).name}-comparison"
    origin = rows.provenance(choose_device(device))
    if (folder / COMPARISON).exists() and not resume:
        log.warning(f"the comparison in {folder} will be replaced")
    terminal.warn(splits, standardised=None)
    with (
        interruptible(lambda: f"finished methods are in {folder}; the same command with --resume continues"),
        progress("methods", len(names), quiet=as_json) as advance,
    ):
        entries = train(
            data, names, splits, device=device, out=folder, resume=resume, on_entry=lambda _: advance(),
            **merge({"epochs": epochs}, more or ()),
        )  # fmt: skip
    written = folder / COMPARISON
    facts = comparison_report(entries, splits.warnings, data.name, data.info.metric, origin)
    write_facts(folder, facts)
    page = write_page([folder], folder / "report.html")
    if as_json:
        result = {"folder": str(folder), "report": str(page), "warnings": splits.warnings, "methods": entries}
        typer.echo(json.dumps(result))
    else:
        terminal.print_comparison(entries, data.info.metric)
        typer.echo(f"comparison: {written}\nreport: {page}")
    if all(one["failed"] for one in entries):
        raise typer.Exit(1)
