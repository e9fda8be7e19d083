"""Arguments that several commands share, and the graph they name."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.common.lookup import pick
from adaptkry.graphs import load as datasets
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.models.methods import METHODS
from adaptkry.outofcore.folders import is_kind, refuse_basis

DataRoot = Annotated[
    Path | None, typer.Option(help="A folder with the benchmark's raw files, looked at before a download.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Directed = Annotated[
    bool | None,
    typer.Option(
        "--directed/--undirected",
        help="How edges of your own files are read; lists of edges are undirected, matrices as they are.",
        show_default=False,
    ),
]
GraphName = Annotated[list[str], typer.Argument(help="A name (see `adaptkry datasets`) or your own file(s).")]

Scheme = Annotated[
    str,
    typer.Option(
        help="The scheme that divides nodes into train, validation and test: "
        f"{', '.join(splits.SPLITS)} (those that came with the graph)."
    ),
]
Count = Annotated[
    int,
    typer.Option(
        "--splits",
        min=1,
        help="How many splits of that scheme, trained as one batch. class_balanced takes its ten published "
        "seeds, the first ones first.",
    ),
]
Chosen = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting, such as hidden=128, layers=3, mlp_dropout=0.2 or taus=0.5,1; give it again for "
        "several. An unknown name shows the known ones.",
    ),
]


def for_graph(name: str) -> dict:
    """Settings for graphs from one's own files: age beside income, so columns of any size and sign."""
    return {} if name in datasets.NAMES else {"standardise": True, "normalise": False}


def pick_method(name: str) -> str:
    """The name, or an error with the nearest ones."""
    pick(METHODS, name, "method")
    return name


def load(names: list[str], data_root: Path | None, directed: bool | None = None) -> Graph:
    """A graph by one name or file, or by several files; folders for graphs larger than memory have their own way."""
    if len(names) == 1 and is_kind(names[0], "graph"):
        raise ValueError(
            f"{names[0]} is a graph folder, and a graph that fits in memory is wanted here. To train on it: `adaptkry "
            f"propagate {names[0]} --taus 0.5,1 --degree 10 --out BASIS`, then `adaptkry fit BASIS`."
        )
    refuse_basis(names[0])
    if directed is None:
        return datasets.load(names[0] if len(names) == 1 else names, root=data_root)
    if names[0] in datasets.NAMES:
        raise ValueError(f"--directed and --undirected are for your own files; {names[0]} is what it is.")
    return datasets.load(names[0] if len(names) == 1 else names, root=data_root, directed=directed)


def refuse_idle(directions: Iterable[str], graph: Graph) -> None:
    """A direction that an undirected graph has no use for."""
    if not graph.is_directed and set(directions) - {"both"}:
        raise ValueError(
            f"{graph.info.name} was read as undirected, so a direction other than both would change nothing. Edges of "
            "your own files keep their direction with --directed."
        )
