"""Arguments and options that several commands share, and the graph that they name."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptkry.common.choices import DIRECTIONS, SCHEMES
from adaptkry.models.methods import METHODS

if TYPE_CHECKING:
    from adaptkry.training.data import GraphData, TrainingData

METHOD_NAMES = ", ".join(METHODS)

log = logging.getLogger("adaptkry")


def only_warnings(is_given: bool) -> bool:
    """Leave out messages that are not warnings, since a script reads the output."""
    if is_given:
        log.setLevel(logging.WARNING)
    return is_given


GraphNames = Annotated[
    list[str], typer.Argument(metavar="GRAPH", help="A name (see `adaptkry datasets`) or paths of your own files.")
]
DataNames = Annotated[
    list[str],
    typer.Argument(
        metavar="GRAPH",
        help="A name (see `adaptkry datasets`), paths of your own files, or a basis folder (see `adaptkry propagate`).",
    ),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder with the raw files of benchmarks; it is searched before anything is downloaded."),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Directed = Annotated[
    bool | None,
    typer.Option(
        "--directed/--undirected",
        help="How to read the edges of your own files. By default edge lists are undirected, and matrices are "
        "directed unless they are symmetric.",
        show_default=False,
    ),
]
Scheme = Annotated[
    str,
    typer.Option(
        help=f"Scheme that divides nodes into train, validation and test: {', '.join(SCHEMES)} (the splits that come "
        "with the graph)."
    ),
]
Count = Annotated[
    int,
    typer.Option(
        "--splits",
        min=1,
        help="Number of splits of that scheme, trained as one batch. class_balanced has ten published seeds.",
    ),
]
Epochs = Annotated[int | None, typer.Option(help="Maximum number of epochs.")]
Degree = Annotated[int | None, typer.Option(help="Number of hops K, the degree of the polynomial.")]
Taus = Annotated[str | None, typer.Option(metavar="NUMBERS", help="Comma-separated positive numbers.")]
Directions = Annotated[
    str | None, typer.Option(metavar="NAMES", help=f"Comma-separated directions of edges: {', '.join(DIRECTIONS)}.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting, such as hidden=128, layers=3, mlp_dropout=0.2 or taus=0.5,1. May be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", callback=only_warnings, help="Print JSON for scripts instead of text.")]


def comma_separated(text: str) -> list[str]:
    """The parts of a comma-separated list.

    >>> comma_separated("out, in")
    ['out', 'in']
    """
    return [part.strip() for part in text.split(",")]


def as_settings(texts: Iterable[str] | None, **lists: str | None) -> list[str]:
    """Comma-separated options as `name=value`, before the texts of --set: both are read by the same function.

    >>> as_settings(["hidden=8"], taus="0.5,1", directions=None)
    ['taus=0.5,1', 'hidden=8']
    """
    return [f"{name}={value}" for name, value in lists.items() if value is not None] + list(texts or ())


def method_name(name: str) -> str:
    """The name; an unknown one is an error that lists the nearest."""
    from adaptkry.common.lookup import pick

    pick(METHODS, name, "method")
    return name


def open_source(names: list[str], data_root: Path | None, directed: bool | None = None) -> "TrainingData":
    """A graph by its name or by paths, or a basis folder."""
    from adaptkry.graphs.load import NAMES
    from adaptkry.training.data import open_data

    if directed is not None and names[0] in NAMES:
        raise ValueError(
            f"--directed and --undirected are for your own files; got {names[0]}, whose direction is known. "
            f"Leave the option out."
        )
    options = {"root": data_root, "directed": directed}
    return open_data(names, **{name: value for name, value in options.items() if value is not None})


def open_graph(names: list[str], data_root: Path | None, directed: bool | None = None) -> "GraphData":
    """A graph by its name or by paths; a basis folder is refused."""
    from adaptkry.outofcore.manifest import refuse_basis

    refuse_basis(names[0])
    return open_source(names, data_root, directed)  # type: ignore[return-value]
