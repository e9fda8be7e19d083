"""Arguments and options that several commands share, and the graph that they name."""

import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adaptkry.common.choices import METRICS, MIXED_DIRECTIONS, SCHEMES, STORED_DIRECTIONS, Task
from adaptkry.models.methods import METHODS

if TYPE_CHECKING:
    from adaptkry.training.data import GraphData, TrainingData

METHOD_NAMES = ", ".join(METHODS)

log = logging.getLogger("adaptkry")


def hide_info_messages(is_given: bool) -> bool:
    """With --json, log warnings and errors only."""
    if is_given:
        log.setLevel(logging.WARNING)
    return is_given


GraphArgument = Annotated[
    list[str], typer.Argument(metavar="GRAPH", help="A name (see `adaptkry datasets`) or paths of your own files.")
]
DataArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="GRAPH",
        help="A name (see `adaptkry datasets`), paths of your own files, or a basis folder (see `adaptkry propagate`).",
    ),
]
DataRootOption = Annotated[
    Path | None,
    typer.Option(help="Folder with the raw files of benchmarks; it is searched before anything is downloaded."),
]
DeviceOption = Annotated[str, typer.Option(help="Device to compute on: auto, cpu or cuda.")]
DirectedOption = Annotated[
    bool | None,
    typer.Option(
        "--directed/--undirected",
        help="How to read the edges of your own files. By default edge lists are undirected, and matrices are "
        "directed unless they are symmetric.",
        show_default=False,
    ),
]
SchemeOption = Annotated[
    str | None,
    typer.Option(
        help=f"Scheme that divides nodes into train, validation and test: {', '.join(SCHEMES)} (the splits that come "
        "with the graph). Default: class_balanced for the paper's six graphs; for others fixed if they have such "
        "splits, else stratified.",
        show_default=False,
    ),
]
CountOption = Annotated[
    int | None,
    typer.Option(
        "--splits",
        min=1,
        help="Number of splits of that scheme, trained as one batch. Default: all fixed ones; five stratified ones if "
        "--split is left out; otherwise ten. class_balanced has ten published seeds.",
        show_default=False,
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help=f"Comma-separated metrics: {', '.join(METRICS['classification'])}. The first chooses epochs and settings "
        "on validation nodes; all are reported. Default: accuracy, or roc_auc for benchmarks that use it.",
        show_default=False,
    ),
]
TaskOption = Annotated[
    Task | None,
    typer.Option(
        help="What labels are: a class, several labels per node, or numbers. Default: that of an .npz with `task`, "
        "otherwise classification.",
        show_default=False,
    ),
]
ClassWeightOption = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        help="Weights of classes in the training loss: balanced, one number per class, or CLASS=WEIGHT, separated by "
        "commas.",
        show_default=False,
    ),
]
EpochsOption = Annotated[int | None, typer.Option(help="Maximum number of epochs.")]
DegreeOption = Annotated[int | None, typer.Option(help="Number of hops K, the degree of the polynomial.")]
PANEL = "Columns of your own tables (CSV, TSV, Parquet)"


def column_option(text: str, metavar: str = "COLUMN") -> Any:
    """The annotation of an option about columns of tables."""
    return Annotated[str | None, typer.Option(metavar=metavar, help=text, rich_help_panel=PANEL, show_default=False)]


COLUMN_OPTIONS = {  # argument of `load` -> option
    "id_column": column_option("Ids of nodes, in the nodes file. Default: id."),
    "label_column": column_option(
        "Labels, in the nodes file; for --task multilabel and regression also several, separated by commas. Default: "
        "label, if there is one."
    ),
    "source": column_option("One end of each edge, in the edges file. Default: source."),
    "target": column_option("The other end. Default: target."),
    "weight_column": column_option("Weights of edges. Default: weight, if there is one."),
    "features": column_option("Comma-separated columns that are features. Default: all others.", "COLUMNS"),
    "ignore": column_option("Comma-separated columns to leave out.", "COLUMNS"),
    "categories": column_option("Comma-separated columns of codes: categories, even if they are numbers.", "COLUMNS"),
    "missing": column_option(
        "Replace missing values by the mean of their column; flag also adds a column that is 1 where a value was "
        "missing. Default: they are refused.",
        "mean|flag",
    ),
}
LISTS_OF_COLUMNS = ("features", "ignore", "categories")
TAUS_HELP = "Comma-separated positive numbers. A small tau stays close to each node itself; 1 is the graph as it is."
TausOption = Annotated[str | None, typer.Option(metavar="NUMBERS", help=TAUS_HELP)]
DIRECTIONS_HELP = (
    f"Comma-separated directions of edges: {', '.join(STORED_DIRECTIONS)}; and, except for basis folders, their "
    f"products {' and '.join(MIXED_DIRECTIONS)}."
)
DirectionsOption = Annotated[str | None, typer.Option(metavar="NAMES", help=DIRECTIONS_HELP)]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting, such as hidden=128, layers=3, mlp_dropout=0.2 or taus=0.5,1. May be repeated.",
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace the results of an earlier call in the folder of --out.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", callback=hide_info_messages, help="Print JSON for scripts instead of text.")
]


def check_replacing(what: str, folder: Path, *, is_default: bool, overwrite: bool) -> None:
    """Refuse to replace results of this package in a folder that was given, unless the user asks for it."""
    from adaptkry.common.journal import JOURNAL

    if not (folder / JOURNAL).exists():
        return  # the library refuses files of somebody else
    if not is_default and not overwrite:
        raise ValueError(
            f"the output folder must be new or empty; {folder} holds {what}. Add --resume to continue or "
            "show it, --overwrite to replace it, or use another folder."
        )
    log.warning(f"{what} in {folder} will be replaced")


def column_options(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options about the columns of tables to a command, without those left out.

    The command has a parameter `columns`, and receives those that were given in it: arguments of `load` with their
    values.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_columns(**arguments: Any) -> None:
            given = {name: arguments.pop(name) for name in added}
            lists = {name: comma_separated(given[name]) for name in LISTS_OF_COLUMNS if given.get(name) is not None}
            columns = {name: value for name, value in (given | lists).items() if value is not None}
            command(**arguments, columns=columns)

        added = {name: kind for name, kind in COLUMN_OPTIONS.items() if name not in left_out}
        own = inspect.signature(command)
        parameters = [parameter for parameter in own.parameters.values() if parameter.name != "columns"]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters += [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in added.items()]
        with_columns.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        with_columns.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return with_columns

    return decorate


def comma_separated(text: str) -> list[str]:
    """The parts of a comma-separated list.

    >>> comma_separated("out, in")
    ['out', 'in']
    """
    return [part.strip() for part in text.split(",")]


def as_assignments(texts: Iterable[str] | None, **lists: str | None) -> list[str]:
    """Comma-separated options as `name=value`, followed by the values of --set: one function parses both.

    >>> as_assignments(["hidden=8"], taus="0.5,1", directions=None)
    ['taus=0.5,1', 'hidden=8']
    """
    return [f"{name}={value}" for name, value in lists.items() if value is not None] + list(texts or ())


def check_method(name: str) -> str:
    """Return the name of a method; the error for an unknown name shows similar ones."""
    from adaptkry.common.lookup import pick

    pick(METHODS, name, "method")
    return name


def open_graph_or_basis(
    names: list[str],
    data_root: Path | None,
    directed: bool | None = None,
    columns: dict[str, Any] | None = None,
    layout: dict[str, Any] | None = None,
    task: str | None = None,
) -> "TrainingData":
    """Open a graph by its name or by paths, or a basis folder.

    Args:
        names: the name, or paths.
        data_root: folder with raw files of benchmarks.
        directed: whether edges of files have a direction.
        columns: options about the columns of tables; see `column_options`.
        layout: of the run that predicts for the graph.
        task: what labels are; None is that of the file, otherwise classification.
    """
    from adaptkry.graphs.load import NAMES
    from adaptkry.training.data import open_data

    if directed is not None and names[0] in NAMES:
        raise ValueError(
            f"--directed and --undirected are for your own files; got {names[0]}, whose direction is known. "
            f"Leave the option out."
        )
    if columns and names[0] in NAMES:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in columns)
        raise ValueError(f"{given}: options about columns are for your own files; got {names[0]}. Leave them out.")
    options = {"root": data_root, "directed": directed, **(columns or {})}
    return open_data(names, layout, task=task, **{name: value for name, value in options.items() if value is not None})


def open_graph(
    names: list[str],
    data_root: Path | None,
    directed: bool | None = None,
    columns: dict[str, Any] | None = None,
    task: str | None = None,
) -> "GraphData":
    """Open a graph by its name or by paths; a basis folder is refused."""
    from adaptkry.outofcore.manifest import refuse_basis

    refuse_basis(names[0])
    return open_graph_or_basis(names, data_root, directed, columns, task=task)  # type: ignore[return-value]
