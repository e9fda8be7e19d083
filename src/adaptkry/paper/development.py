"""The development graphs, on which default settings and ingredients are chosen.

They range from heterophilous to homophilous and from 183 to 19,717 nodes, directed and undirected: the six graphs of
the paper, two social networks, four files in the format of users, and a grid of built-in graphs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from adaptkry.graphs import load
from adaptkry.graphs.benchmarks import raw_files
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.recipe import Recipe
from adaptkry.selection.trial import changed_recipe
from adaptkry.training.data import GraphData


@dataclass(frozen=True)
class DevelopmentGraph:
    """How the splits of a development graph are drawn, and where it comes from.

    Args:
        scheme: the split scheme.
        splits: number of splits.
        generate: returns a built-in graph; None: a benchmark, or a file in the folder of benchmarks.
    """

    scheme: str
    splits: int
    generate: Callable[..., Graph] | None = None


DEVELOPMENT: dict[str, DevelopmentGraph] = {
    **dict.fromkeys(
        ("cora", "citeseer", "pubmed", "actor", "chameleon", "squirrel"), DevelopmentGraph("class_balanced", 10)
    ),
    **dict.fromkeys(("cornell5", "johnshopkins55"), DevelopmentGraph("stratified", 5)),
    **dict.fromkeys(("own/texas", "own/wisconsin", "own/cornell"), DevelopmentGraph("fixed", 10)),
    "own/coauthor_cs": DevelopmentGraph("stratified", 5),
    **{f"csbm phi={phi}": DevelopmentGraph("stratified", 5, partial(csbm, phi=phi)) for phi in (-0.8, -0.4, 0.4, 0.8)},
    **{
        f"csbm-directed phi={phi}": DevelopmentGraph("stratified", 5, partial(directed_csbm, phi=phi))
        for phi in (-0.6, 0.6)
    },
}


def is_user_file(name: str) -> bool:
    """Return whether a graph is a file in the format of users."""
    return name.startswith("own/")


def user_file(name: str, root: Path | None) -> Path | None:
    """Return the path of such a file in the first folder of benchmarks that has it, or None."""
    paths = (folder / f"{name}.npz" for folder in raw_files.search_folders(root))
    return next((path for path in paths if path.is_file()), None)


def open_user_file(name: str, root: Path | None) -> Graph:
    """Load such a file; the error says where it was searched."""
    path = user_file(name, root)
    if path is None:
        folders = ", ".join(map(str, raw_files.search_folders(root)))
        raise FileNotFoundError(f"{name}.npz must be in one of {folders}; it was not found. Use --data-root.")
    return load.load(path)


def changed(base: Recipe, changes: Mapping[str, Mapping[str, Any]], graph: Graph) -> dict[str, Recipe]:
    """Return the base with each set of changes, without those that do not fit the graph or the other settings."""
    data = GraphData(graph)
    found = {name: changed_recipe(data, base, settings) for name, settings in changes.items()}
    return {name: recipe for name, recipe in found.items() if recipe is not None}
