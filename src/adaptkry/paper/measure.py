"""What every item is made of: jobs that measure and leave rows, and how they are asked to work.

A row says which item it belongs to and which cell of its table it fills (`row`, `column`); several rows may fill one
cell, one a split. Nothing is shown that is not in a row.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from adaptkry.common import memory
from adaptkry.graphs import load as datasets
from adaptkry.graphs import splits
from adaptkry.graphs.benchmarks import raw_files
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import CARDS
from adaptkry.graphs.splits import Splits
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.recipe import Recipe
from adaptkry.selection import grid as tuning
from adaptkry.training import fit as fitting

Settings = dict[str, Any]
QUICK_EPOCHS, QUICK_SPLITS = 10, 2


class MissingDataError(OSError):
    """A graph that an item needs is not at hand."""


@dataclass(frozen=True)
class RunOptions:
    """How an item is measured."""

    device: str = "auto"
    splits: int = 10
    quick: bool = False
    data_root: Path | None = None

    def load(self, name: str) -> Graph:
        """A graph; a quick run takes a built-in one of its kind where the real one is not at hand."""
        return _load(name, self.data_root, self.quick)

    def shortened(self, made: Recipe) -> Recipe:
        """The recipe, or a few epochs of it."""
        return replace(made, epochs=min(made.epochs, QUICK_EPOCHS)) if self.quick else made

    def split(self, graph: Graph, scheme: str = "class_balanced") -> Splits:
        """As many splits of a scheme as were asked for, or as there are; a stand-in has no fixed ones."""
        wanted = QUICK_SPLITS if self.quick else self.splits
        if self.quick and graph.info.masks is None and scheme == "fixed":
            return splits.make(graph, "stratified", wanted)
        there = 1 if graph.info.masks is None else len(graph.info.masks["train"])
        return splits.make(graph, scheme, min(wanted, there) if scheme == "fixed" else wanted)


@lru_cache(maxsize=2)  # the jobs of one graph follow one another
def _load(name: str, root: Path | None, quick: bool) -> Graph:
    if name not in CARDS:
        return datasets.load(name)
    try:
        if quick and not at_hand(name, root):
            return stand_in(name)
        return datasets.load(name, root=root)
    except (OSError, ImportError) as error:
        raise MissingDataError(str(error).splitlines()[0]) from None


def at_hand(name: str | None, root: Path | None) -> bool:
    """Whether a graph is built in or its files are on this machine."""
    return name not in CARDS or raw_files.find(CARDS[name], root) is not None


def stand_in(name: str) -> Graph:
    """A small built-in graph with about the homophily of the real one, under its name."""
    card = CARDS[name]
    make = directed_csbm if card.directed else csbm
    graph = make(nodes=300, phi=0.6 if (card.homophily or 0.5) > 0.5 else -0.6, seed=0)
    graph.info = replace(graph.info, name=name)
    return graph


@dataclass(frozen=True)
class Job:
    """One measurement: the graph it needs, the cell it fills, and what makes the rows (which may name other cells)."""

    graph: str | None
    row: str
    column: str
    measure: Callable[[Any], list[Settings]]  # of the graph, or of None


def trained(graph: Graph, made: Sequence[Recipe], split: Splits, how: RunOptions) -> list[Settings]:
    """Rows of the recipe that is best on validation, with the time, memory and number of settings of the whole cell."""
    start = time.perf_counter()
    with memory.peak(fitting.choose_device(how.device)) as peak:
        run, tried = tuning.choose(graph, [how.shortened(one) for one in made], split, device=how.device)
    extra = {
        "cell_seconds": time.perf_counter() - start, "settings_tried": len(tried), "peak_bytes": peak.bytes,
        "parameters": run.parameters, "cell_epochs": len(run.curves["loss"]),
    }  # fmt: skip
    return [{**result.to_row(), **extra} for result in run.results]


def training(
    how: RunOptions, row: str, column: str, graph: str, made: Sequence[Recipe], scheme: str = "class_balanced"
) -> Job:
    """A job that trains one recipe, or chooses among several on validation."""
    return Job(graph, row, column, lambda g: trained(g, made, how.split(g, scheme), how))
