"""Beyond the paper: candidates for the default settings, on the development graphs."""

from collections.abc import Sequence

import numpy as np

from adaptkry.graphs.graph import Graph
from adaptkry.models.recipe import recipe
from adaptkry.models.suggest import suggest
from adaptkry.paper.cells import Cells, MeasuredCell, paired_differences
from adaptkry.paper.development import DEVELOPMENT, changed, is_user_file
from adaptkry.paper.measure import Measurement, RunOptions, development_splits, trained, trained_together
from adaptkry.paper.tables import OURS, difference_cell, signed
from adaptkry.report import elements
from adaptkry.selection.auto_result import REFERENCES
from adaptkry.selection.grid import variations
from adaptkry.training.data import GraphData

FORMER, SUGGESTED = "version 0.1", "suggested"
MARGIN = 1.5  # points below GCN that issue 13 allows
COMPARED = (SUGGESTED, FORMER, *REFERENCES)  # columns of the table of test scores


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per development graph, which trains all candidates."""
    graphs = item["quick"]["graphs"] if options.quick else DEVELOPMENT
    return [
        Measurement(name, "all", name, lambda g, name=name: candidates_on(g, name, item, options)) for name in graphs
    ]


def candidates_on(graph: Graph, name: str, item: dict, options: RunOptions) -> list[dict]:
    """Return the rows of all candidates and baselines on one graph."""
    data = GraphData(graph)
    splits = development_splits(graph, name, options)
    changes = item["ours"]["changes"]
    if options.quick:
        changes = {candidate: changes[candidate] for candidate in item["quick"]["candidates"]}
    recipes = {
        FORMER: recipe("adaptkry", standardise=is_user_file(name)),
        SUGGESTED: suggest(graph, train=splits.train[0]),
        **changed(recipe("adaptkry", **item["ours"]["base"]), changes, graph),
    }
    rows = trained_together(data, recipes, splits, options)
    for method in REFERENCES:
        base = data.recipe(method, splits.train[0])
        settings = variations(base, data.input_settings(base))[: 1 if options.quick else None]
        rows += [{**row, "row": method} for row in trained(data, settings, splits, options)]
    return rows


def section(cells: Cells, item: dict) -> dict:
    """Return the regret of every candidate on validation nodes, and test scores beside those of the baselines."""
    graphs = [name for name in DEVELOPMENT if any(column == name for _, column in cells)]
    candidates = [SUGGESTED, FORMER, *item["ours"]["changes"]]
    validation = {key: value for key, cell in cells.items() if (value := mean_validation(cell)) is not None}
    best = {g: max((validation[c, g] for c in candidates if (c, g) in validation), default=np.nan) for g in graphs}
    regret = {(row, g): best[g] - value for (row, g), value in validation.items()}
    shown = [row for row in (*candidates, *REFERENCES) if any(name == row for name, _ in cells)]
    return {
        "tables": [regret_table(regret, shown, graphs), test_table(cells, graphs)],
        "notes": [gcn_note(cells, graphs)],
    }


def mean_validation(cell: MeasuredCell) -> float | None:
    """Return the mean validation score in per cent; None if every training failed."""
    scores = list(cell.scores("validation").values())
    return float(np.mean(scores)) if scores else None


def regret_table(regret: dict[tuple[str, str], float], rows: Sequence[str], graphs: Sequence[str]) -> dict:
    """Return the table of regrets, the candidate with the smallest mean first and the baselines last."""
    found = {row: [regret[row, graph] for graph in graphs if (row, graph) in regret] for row in rows}
    means = {row: float(np.mean(values)) for row, values in found.items() if values}
    order = sorted(rows, key=lambda row: (row in REFERENCES, means.get(row, np.inf)))
    lines = [
        [row, *(points(regret.get((row, graph))) for graph in graphs), points(means.get(row)), len(found[row])]
        for row in order
    ]
    note = "points below the best candidate of the graph; negative: a baseline is above all candidates"
    return elements.table("regret on validation nodes", ["", *graphs, "mean", "graphs"], lines, note=note)


def points(value: float | None) -> dict | None:
    """Return a cell with a number of points."""
    return None if value is None else elements.cell(signed(value, 2).removeprefix("+"), value)


def test_table(cells: Cells, graphs: Sequence[str]) -> dict:
    """Return the table of test scores, and the difference of the suggested settings to GCN."""
    lines = []
    for graph in graphs:
        found = [cells.get((row, graph)) for row in COMPARED]
        scores = [None if cell is None else elements.cell(cell.mean_text(), cell.mean) for cell in found]
        difference = difference_cell(cells.get((SUGGESTED, graph)), cells.get(("gcn", graph)), "test")
        lines.append([graph, DEVELOPMENT[graph].scheme, *scores, difference])
    columns = ["", "splits", *COMPARED, f"{SUGGESTED} minus gcn"]
    return elements.table("test accuracy (%)", columns, lines, note=OURS)


def gcn_note(cells: Cells, graphs: Sequence[str]) -> str:
    """Return on how many graphs the suggested settings are close to GCN, or above."""
    pairs = [(cells.get((SUGGESTED, g)), cells.get(("gcn", g))) for g in graphs]
    differences = [found.mean() for ours, gcn in pairs if ours and gcn and len(found := paired_differences(ours, gcn))]
    close = sum(difference >= -MARGIN for difference in differences)
    return (
        f"The suggested settings are at most {MARGIN} points below GCN, or above it, on {close} of {len(differences)} "
        f"graphs (test nodes, same splits)."
    )
