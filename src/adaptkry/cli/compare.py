"""`adaptkry compare`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import (
    METHOD_NAMES,
    METHODS,
    ClassWeightOption,
    CountOption,
    DataRootOption,
    DeviceOption,
    DirectedOption,
    EpochsOption,
    JsonOption,
    MetricsOption,
    OverwriteOption,
    SchemeOption,
    SetOption,
    TaskOption,
    as_assignments,
    check_method,
    check_replacing,
    column_options,
    comma_separated,
    open_graph,
)
from adaptkry.cli.report_step import ReportOption, report_step
from adaptkry.common.lookup import pick

TABLE_FORMATS = {"markdown": ".md", "latex": ".tex", "csv": ".csv"}
TABLE_FILES = [f"table{suffix}" for suffix in TABLE_FORMATS.values()]
EXAMPLES = (
    "adaptkry compare csbm --methods adaptkry,gcn,mlp",
    "adaptkry compare cora --methods all",
    "adaptkry compare cora --methods all --resume",
    "adaptkry compare cora,citeseer,csbm --methods adaptkry,gcn,mlp",
    "adaptkry compare cora,citeseer --methods adaptkry,gcn --baseline gcn --format latex",
)


@column_options()
def compare(
    graph: Annotated[
        list[str],
        typer.Argument(
            metavar="GRAPH",
            help="A name (see `adaptkry datasets`), paths of your own files, or a comma-separated list of names, "
            "files and folders.",
        ),
    ],
    columns: dict,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Comma-separated names, or all: {METHOD_NAMES}.")
    ] = "all",
    split: SchemeOption = None,
    count: CountOption = None,
    metrics: MetricsOption = None,
    task: TaskOption = None,
    class_weight: ClassWeightOption = None,
    epochs: EpochsOption = None,
    assignments: SetOption = None,
    directed: DirectedOption = None,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: runs/GRAPH-comparison.")] = None,
    overwrite: OverwriteOption = False,
    resume: Annotated[
        bool, typer.Option(help="Resume an interrupted comparison: skip methods that are finished.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Method with which the table compares all others. Default: the best."),
    ] = None,
    table_format: Annotated[
        str | None,
        typer.Option("--format", help="Print only the table for a paper: markdown, latex or csv.", show_default=False),
    ] = None,
    report: ReportOption = True,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train several methods on the same splits and rank them, with confidence intervals and paired differences.

    The output folder has the table for a paper as table.md, table.tex and table.csv: means with intervals, marks of
    paired tests with Holm's correction, and mean ranks over the graphs.

    A method uses the settings published for the graph. If there are none, validation chooses among a few settings
    around those suggested for it.
    """
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.common.memory import keep_freed_memory
    from adaptkry.models.recipe_text import merge
    from adaptkry.report.html import write_report
    from adaptkry.report.stored import stored_facts
    from adaptkry.selection.compare import COMPARISON, open_graphs, splits_of
    from adaptkry.selection.compare import compare as compare_methods
    from adaptkry.training.data import with_metrics

    names = list(METHODS) if methods == "all" else [check_method(name) for name in comma_separated(methods)]
    if table_format is not None:
        pick(TABLE_FORMATS, table_format, "format of tables")
    keep_freed_memory()
    options = graph_options(graph, data_root, directed, columns)
    data = open_graphs([with_metrics(open_graph(paths, *others, task=task), metrics) for paths, *others in options])
    splits = splits_of(data, split, count)
    folder = out or Path("runs") / f"{'-'.join(Path(one.name).name for one in data)[:80]}-comparison"
    if (folder / COMPARISON).exists() and not resume:
        check_replacing("a comparison", folder, is_default=out is None, overwrite=overwrite)
    for own in splits:
        terminal.warn(own)
    settings = merge({"epochs": epochs}, as_assignments(assignments, class_weight=class_weight))
    with (
        interruptible(lambda: f"finished methods are saved in {folder}; the same command with --resume continues"),
        progress("methods", len(names) * len(data), quiet=as_json) as advance,
    ):
        entries = compare_methods(
            data, names, splits, device=device, out=folder, resume=resume, baseline=baseline,
            on_entry=lambda _: advance(), **settings,
        )  # fmt: skip
    table = entries.table(baseline)
    if table_format is not None and not as_json:
        typer.echo(getattr(table, table_format)(), nl=False)
    elif not as_json:
        for one, own in zip(data, splits, strict=True):
            shown = [entry for entry in entries if entry["graph"] == one.name]
            terminal.print_comparison(shown, one.info.metric, own, one.name if len(data) > 1 else "")
        if len(data) > 1 or baseline:
            terminal.print_comparison_table(table)
        typer.echo(f"comparison: {folder / COMPARISON}; for a paper: {', '.join(TABLE_FILES)}")
    written, code = report_step(folder, lambda: write_report(folder, lambda: stored_facts(folder)), is_wanted=report)
    if as_json:
        warnings = [text for own in splits for text in own.warnings]
        result = {"folder": str(folder), "report": written["report"], "warnings": warnings, "methods": entries}
        typer.echo(json.dumps(result | {"tables": [str(folder / name) for name in TABLE_FILES]}))
    elif written["report"] and table_format is None:
        typer.echo(f"report: {written['report']}")
    if code:
        raise typer.Exit(code)
    if all(entry["failed"] for entry in entries):
        raise typer.Exit(1)


def graph_options(graph: list[str], data_root: Path | None, directed: bool | None, columns: dict) -> list[tuple]:
    """Return the arguments of `open_graph` for each graph: one graph in several files, or a comma-separated list.

    With names and files, `data_root` is for the names, `directed` and `columns` are for the files.
    """
    from adaptkry.graphs.load import NAMES

    if not any("," in text and not Path(text).exists() for text in graph):
        return [(graph, data_root, directed, columns)]
    if len(graph) > 1:
        raise ValueError(
            f"several graphs must be one comma-separated list; got {' '.join(graph)}. Use for example cora,mine.npz, "
            f"and a folder for a graph in several files."
        )
    parts = comma_separated(graph[0])
    if not all(parts):
        raise ValueError(f"every graph must have a name or a path; got {graph[0]!r}. Remove the comma at the end.")
    is_name = [part.lower() in NAMES and not Path(part).exists() for part in parts]
    if len(set(is_name)) == 1:
        return [([part], data_root, directed, columns) for part in parts]
    return [
        ([part], data_root, None, None) if named else ([part], None, directed, columns)
        for part, named in zip(parts, is_name, strict=True)
    ]
