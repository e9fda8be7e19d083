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
    default_settings,
    load_graph,
    log,
    method_name,
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
    from adaptkry.common.files import check_output_folder
    from adaptkry.common.memory import keep_freed
    from adaptkry.graphs.splits import make as make_splits
    from adaptkry.models.recipe_text import merged
    from adaptkry.report.comparison_report import comparison_report
    from adaptkry.report.html import write_facts, write_page
    from adaptkry.selection import compare as comparison
    from adaptkry.training.fit import choose_device

    names = list(METHODS) if methods == "all" else [method_name(name) for name in comma_separated(methods)]
    keep_freed()
    loaded = load_graph(graph, data_root, directed)
    splits = make_splits(loaded, split, count)
    folder = out or Path("runs") / f"{Path(loaded.info.name).name}-comparison"
    changes = default_settings(loaded.info.name) | merged({"epochs": epochs}, more or ())
    key = comparison.key_of(loaded, splits, changes)
    check_output_folder(folder, "comparison.json")
    kept = comparison.load(folder, key) if resume else []
    total = len({*names, *(one["method"] for one in kept)})
    if (folder / "comparison.json").exists() and not resume:
        log.warning(f"the comparison in {folder} will be replaced")
    terminal.warn(splits, standardised=None)
    done = list(kept)

    def keep(entry: dict) -> None:
        done.append(entry)
        comparison.save(done, splits, folder, key)  # finished methods survive an interruption
        advance()

    with (
        interruptible(
            lambda: f"{len(done)} of {total} methods are in {folder}; the same command with --resume continues"
        ),
        progress("methods", total - len(kept), quiet=as_json) as advance,
    ):
        entries = comparison.compare(loaded, names, splits, changes, device=device, kept=kept, done=keep)
    written = comparison.save(entries, splits, folder, key)
    origin = rows.provenance(choose_device(device))
    facts = comparison_report(entries, splits.warnings, loaded.info.name, loaded.info.metric, origin)
    write_facts(folder, facts)
    page = write_page([folder], folder / "report.html")
    if as_json:
        result = {"folder": str(folder), "report": str(page), "warnings": splits.warnings, "methods": entries}
        typer.echo(json.dumps(result))
    else:
        terminal.print_comparison(entries, loaded.info.metric)
        typer.echo(f"comparison: {written}\nreport: {page}")
    if all(one["failed"] for one in entries):
        raise typer.Exit(1)
