"""What items consist of: measurements that return rows, and the options under which they run.

A row names its item and the cell of the item's table that it fills (`row`, `column`); several rows may fill one cell,
such as one per split. Nothing is shown that is not in a row.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from adaptkry.common import memory
from adaptkry.graphs import load as loading
from adaptkry.graphs import splits
from adaptkry.graphs.benchmarks import raw_files
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import CARDS
from adaptkry.graphs.splits import Splits
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.recipe import Recipe
from adaptkry.selection.grid import choose
from adaptkry.training.fit import choose_device

QUICK_EPOCHS, QUICK_SPLITS = 10, 2


class MissingDataError(OSError):
    """The files of a graph that an item needs are not on this machine."""


@dataclass(frozen=True)
class RunOptions:
    """How items are measured.

    Args:
        device: "auto", "cpu" or "cuda".
        splits: number of splits, of the ten published ones.
        quick: two splits, a few epochs, and built-in graphs in place of missing ones.
        data_root: folder of the benchmark graphs.
    """

    device: str = "auto"
    splits: int = 10
    quick: bool = False
    data_root: Path | None = None

    def load(self, name: str) -> Graph:
        """A graph; a quick run takes a similar built-in one where the files are not available."""
        return _load(name, self.data_root, self.quick)

    def shortened(self, recipe: Recipe) -> Recipe:
        """The recipe; in a quick run, with a few epochs only."""
        return replace(recipe, epochs=min(recipe.epochs, QUICK_EPOCHS)) if self.quick else recipe

    def split(self, graph: Graph, scheme: str = "class_balanced") -> Splits:
        """The requested number of splits, or as many fixed ones as there are; a built-in graph has no fixed ones."""
        wanted = QUICK_SPLITS if self.quick else self.splits
        if self.quick and graph.info.masks is None and scheme == "fixed":
            return splits.make(graph, "stratified", wanted)
        available = 1 if graph.info.masks is None else len(graph.info.masks["train"])
        return splits.make(graph, scheme, min(wanted, available) if scheme == "fixed" else wanted)


@lru_cache(maxsize=2)  # the measurements of one graph follow one another
def _load(name: str, root: Path | None, quick: bool) -> Graph:
    if name not in CARDS:
        return loading.load(name)
    try:
        if quick and not is_available(name, root):
            return substitute(name)
        return loading.load(name, root=root)
    except (OSError, ImportError) as error:
        raise MissingDataError(str(error).splitlines()[0]) from None


def is_available(name: str | None, root: Path | None) -> bool:
    """Whether a graph is built in or its files are on this machine."""
    return name not in CARDS or raw_files.find(CARDS[name], root) is not None


def substitute(name: str) -> Graph:
    """A small built-in graph with about the homophily of the real one, under its name."""
    card = CARDS[name]
    generate = directed_csbm if card.directed else csbm
    graph = generate(nodes=300, phi=0.6 if (card.homophily or 0.5) > 0.5 else -0.6, seed=0)
    graph.info = replace(graph.info, name=name)
    return graph


@dataclass(frozen=True)
class Measurement:
    """One step of an item.

    Args:
        graph: the graph that it needs, or None.
        row: the row of the cell that it fills.
        column: the column of that cell.
        measure: returns the rows, given the graph or None; rows may name other cells.
    """

    graph: str | None
    row: str
    column: str
    measure: Callable[[Any], list[dict[str, Any]]]


def training(
    options: RunOptions, row: str, column: str, graph: str, recipes: Sequence[Recipe], scheme: str = "class_balanced"
) -> Measurement:
    """A measurement that trains one recipe, or the best of several on validation nodes."""
    return Measurement(graph, row, column, lambda g: trained(g, recipes, options.split(g, scheme), options))


def trained(graph: Graph, recipes: Sequence[Recipe], splits: Splits, options: RunOptions) -> list[dict[str, Any]]:
    """Rows of the recipe that is best on validation, with the time, memory and number of settings of the whole cell."""
    start = time.perf_counter()
    with memory.peak(choose_device(options.device)) as peak:
        run, tried = choose(graph, [options.shortened(one) for one in recipes], splits, device=options.device)
    extra = {
        "cell_seconds": time.perf_counter() - start, "settings_tried": len(tried), "peak_bytes": peak.bytes,
        "parameters": run.parameters, "cell_epochs": len(run.curves["loss"]),
    }  # fmt: skip
    return [{**result.to_row(), **extra} for result in run.results]
