"""Measurements, which return result rows, and the options of a reproduction.

A row names its item and the table cell that it belongs to (`row`, `column`); a cell may have several rows, such as one
per split. Documents show only what is in a row.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from adaptkry.common import errors, memory
from adaptkry.graphs import load, splits
from adaptkry.graphs.benchmarks import raw_files
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import CARDS
from adaptkry.graphs.splits import Splits
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.recipe import Recipe
from adaptkry.paper.development import DEVELOPMENT, is_user_file, open_user_file, user_file
from adaptkry.selection.grid import choose, group_into_batches
from adaptkry.training.data import GraphData
from adaptkry.training.fit import choose_device, fit

QUICK_EPOCHS, QUICK_SPLITS, QUICK_SECONDS = 10, 2, 1.0
QUICK_NODES = 200  # of the built-in development graphs


class MissingDataError(OSError):
    """The files of a graph are not on this machine."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a reproduction.

    Args:
        device: "auto", "cpu" or "cuda".
        splits: number of splits; ten were published.
        quick: a quick test: two splits, a few epochs, and built-in graphs in place of missing ones.
        data_root: folder of the benchmark graphs.
        time_limit: seconds that `auto` may take per graph, for the item `best`; a quick run takes one.
    """

    device: str = "auto"
    splits: int = 10
    quick: bool = False
    data_root: Path | None = None
    time_limit: float = 300.0

    @property
    def seconds(self) -> float:
        """Seconds that `auto` may take per graph."""
        return min(self.time_limit, QUICK_SECONDS) if self.quick else self.time_limit

    def load(self, name: str) -> Graph:
        """Load a graph; a quick run uses a similar built-in graph if its files are not on this machine."""
        return _load(name, self.data_root, self.quick)

    def shortened(self, recipe: Recipe) -> Recipe:
        """Return the recipe, in a quick run with a few epochs only."""
        return replace(recipe, epochs=min(recipe.epochs, QUICK_EPOCHS)) if self.quick else recipe

    def split(self, graph: Graph, scheme: str = "class_balanced") -> Splits:
        """Return the requested number of splits, or all fixed ones if there are fewer.

        In a quick run, a built-in graph without fixed splits has stratified splits instead.
        """
        count = QUICK_SPLITS if self.quick else self.splits
        if self.quick and graph.info.masks is None and scheme == "fixed":
            return splits.make(graph, "stratified", count)
        available = 1 if graph.info.masks is None else len(graph.info.masks["train"])
        return splits.make(graph, scheme, min(count, available) if scheme == "fixed" else count)


@lru_cache(maxsize=2)  # most items measure one graph after the other
def _load(name: str, root: Path | None, quick: bool) -> Graph:
    generate = DEVELOPMENT[name].generate if name in DEVELOPMENT else None
    if generate is not None:
        return generate(nodes=QUICK_NODES) if quick else generate()
    try:
        if is_user_file(name):
            return open_user_file(name, root)
        if name not in CARDS:
            return load.load(name)
        if quick and not is_available(name, root):
            return substitute(name)
        return load.load(name, root=root)
    except (OSError, ImportError) as error:
        raise MissingDataError(str(error).splitlines()[0]) from None


def is_available(name: str | None, root: Path | None) -> bool:
    """Return whether a graph is built in or its files are on this machine."""
    if name is not None and is_user_file(name):
        return user_file(name, root) is not None
    return name not in CARDS or raw_files.find(CARDS[name], root) is not None


def substitute(name: str) -> Graph:
    """Return a small built-in graph with a homophily similar to that of the real graph, and with its name."""
    card = CARDS[name]
    generate = directed_csbm if card.directed else csbm
    graph = generate(nodes=300, phi=0.6 if (card.homophily or 0.5) > 0.5 else -0.6, seed=0)
    graph.info = replace(graph.info, name=name, known_as=name)
    return graph


@dataclass(frozen=True)
class Measurement:
    """One step of an item.

    Args:
        graph: name of the graph that it needs, or None.
        row: row of the table cell that it measures.
        column: column of that cell.
        measure: function of the graph (or None) that returns rows; rows may name other cells.
    """

    graph: str | None
    row: str
    column: str
    measure: Callable[[Any], list[dict[str, Any]]]


def training(
    options: RunOptions, row: str, column: str, graph: str, recipes: Sequence[Recipe], scheme: str = "class_balanced"
) -> Measurement:
    """Return a measurement that trains one recipe, or several of which the best on validation nodes is kept."""
    return Measurement(graph, row, column, lambda g: trained(g, recipes, options.split(g, scheme), options))


def development_splits(graph: Graph, name: str, options: RunOptions) -> Splits:
    """Return the splits of a development graph, at most as many as requested."""
    entry = DEVELOPMENT[name]
    return replace(options, splits=min(options.splits, entry.splits)).split(graph, entry.scheme)


def trained(
    graph: Graph | GraphData, recipes: Sequence[Recipe], splits: Splits, options: RunOptions
) -> list[dict[str, Any]]:
    """Return the rows of the recipe that is best on validation; time and memory are those of all recipes together."""
    start = time.perf_counter()
    with memory.peak(choose_device(options.device)) as peak:
        run, tried = choose(graph, [options.shortened(recipe) for recipe in recipes], splits, device=options.device)
    extra = {
        "cell_seconds": time.perf_counter() - start, "settings_tried": len(tried), "peak_bytes": peak.bytes,
        "parameters": run.parameters, "cell_epochs": len(run.curves["loss"]),
    }  # fmt: skip
    return [{**result.to_row(), **extra} for result in run.results]


def trained_together(
    graph: Graph | GraphData, recipes: Mapping[str, Recipe], splits: Splits, options: RunOptions
) -> list[dict[str, Any]]:
    """Return the rows of every recipe on every split; the name of a recipe is the row of its cell.

    Recipes of the same shape train as one batch, of which each has its share of the time. If a batch cannot be trained,
    its recipes have one row each, with the reason.
    """
    names: dict[Recipe, list[str]] = {}
    for name, recipe in recipes.items():
        names.setdefault(options.shortened(recipe), []).append(name)
    rows: list[dict[str, Any]] = []
    for batch in group_into_batches(names):
        start = time.perf_counter()
        try:
            with memory.peak(choose_device(options.device)) as peak:
                run = fit(graph, batch, splits, device=options.device)
            found = [result.to_row() for result in run.results]  # the splits of the first recipe, of the second, ...
            shared = {"peak_bytes": peak.bytes, "parameters": run.parameters}
        except Exception as error:
            reason = errors.reason(error)
            if reason is None:  # a bug
                raise
            failed = {"validation": None, "test": None, "failed": reason}
            found, shared = [{**failed, "settings": recipe.to_dict()} for recipe in batch], {}
        shared["cell_seconds"] = (time.perf_counter() - start) / len(batch)
        per_recipe = len(found) // len(batch)
        rows += [
            {**row, **shared, "row": name}
            for i, recipe in enumerate(batch)
            for name in names[recipe]
            for row in found[i * per_recipe : (i + 1) * per_recipe]
        ]
    return rows
