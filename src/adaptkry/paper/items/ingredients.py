"""Beyond the paper: what each ingredient adds to the suggested settings, on the development graphs."""

import numpy as np

from adaptkry.graphs.graph import Graph
from adaptkry.models.suggest import suggest
from adaptkry.paper.cells import Cells, difference_half_width, paired_differences
from adaptkry.paper.development import DEVELOPMENT, changed
from adaptkry.paper.measure import Measurement, RunOptions, development_splits, trained_together
from adaptkry.paper.tables import difference_cell
from adaptkry.report import elements
from adaptkry.training.data import GraphData

BASE = "base"


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement for the base and for every ingredient, on every development graph."""
    graphs = item["quick"]["graphs"] if options.quick else DEVELOPMENT
    changes = {BASE: {}, **item["ours"]["changes"]}
    return [
        Measurement(graph, row, graph, lambda g, row=row, graph=graph: ingredient_on(g, graph, row, changes, options))
        for graph in graphs
        for row in changes
    ]


def ingredient_on(graph: Graph, name: str, row: str, changes: dict, options: RunOptions) -> list[dict]:
    """Return the rows of the base or of an ingredient on one graph; none if it is part of the base or does not fit."""
    splits = development_splits(graph, name, options)
    base = suggest(graph, train=splits.train[0])
    recipes = changed(base, {row: changes[row]}, graph)
    if row != BASE and recipes.get(row) == base:
        return []
    return trained_together(GraphData(graph), recipes, splits, options)


def section(cells: Cells, item: dict) -> dict:
    """Return the differences to the base on validation and test nodes, and how often each ingredient wins."""
    graphs = [name for name in DEVELOPMENT if any(column == name for _, column in cells)]
    tables = []
    for score in ("validation", "test"):
        lines = []
        for ingredient in [*item["ours"]["changes"], *item["ours"]["deleted"]]:
            found = [difference_cell(cells.get((ingredient, g)), cells.get((BASE, g)), score) for g in graphs]
            lines.append([ingredient, *found, *outcomes(cells, ingredient, graphs, score)])
        columns = ["", *graphs, "mean", "wins", "losses"]
        tables.append(elements.table(f"difference to the base on {score} nodes (points)", columns, lines))
    scores = [[g, *(None if c is None else c.mean_text() for c in [cells.get((BASE, g))])] for g in graphs]
    tables.append(elements.table("test accuracy of the base (%)", ["", BASE], scores))
    return {"tables": tables, "notes": []}


def outcomes(cells: Cells, ingredient: str, graphs: list[str], score: str) -> list:
    """Return the mean difference over graphs, and the numbers of graphs where the ingredient wins and loses."""
    pairs = [(cells[ingredient, g], cells[BASE, g]) for g in graphs if (ingredient, g) in cells and (BASE, g) in cells]
    pairs = [pair for pair in pairs if len(paired_differences(*pair, score))]
    if not pairs:
        return [None, 0, 0]
    means = np.array([paired_differences(*pair, score).mean() for pair in pairs])
    halves = np.array([difference_half_width(*pair, score) for pair in pairs])
    return [
        elements.cell(f"{means.mean():+.2f}", means.mean()),
        int((means > halves).sum()),
        int((means < -halves).sum()),
    ]
