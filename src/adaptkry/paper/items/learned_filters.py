"""Learned filters on the six graphs, and a rule that separates low-pass filters from the rest."""

import numpy as np
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.verdicts import HOLDS, text_verdict
from adaptkry.report import elements
from adaptkry.report.learned_filter import learned_response
from adaptkry.training.fit import fit

RESPONSE_GRID = np.linspace(0, 2, 101)  # 1 - lambda
SHAPES = {True: "low-pass", False: "comb or high-pass"}


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """One training per graph with the published settings."""
    return [Measurement(name, name, "response", lambda graph: responses(graph, options)) for name in item["graphs"]]


def responses(graph: Graph, options: RunOptions) -> list[dict]:
    """The response of every trained member on the grid of frequencies."""
    trained = options.shortened(recipe("adaptkry", graph.info.name))
    run = fit(graph, trained, options.split(graph), device=options.device)
    found = learned_response(run, graph, torch.from_numpy(1 - RESPONSE_GRID))
    assert found is not None
    return [{**run.results[i].to_row(), "value": 0.0, "response": found[:, i].tolist()} for i in run.chosen]


def shape(response: np.ndarray) -> str:
    """Low-pass if nowhere larger in size than at the lowest frequencies, and at most half of that in the upper half."""
    size = np.abs(response)
    lowest = size[: len(size) // 20].max()
    return SHAPES[bool(size.max() <= lowest and size[len(size) // 2 :].mean() <= lowest / 2)]


def with_positive_mean(curves: np.ndarray) -> np.ndarray:
    """Each response [m] with the sign that makes its mean positive: the layers after the filter can undo a sign."""
    return curves * np.where(curves.mean(1, keepdims=True) < 0, -1.0, 1.0)


def section(cells: Cells, item: dict) -> dict:
    """The shape of each filter by the rule, ours and printed, and the curves."""
    rows, charts = [], []
    for name in item["graphs"]:
        claimed, cell = SHAPES[name in item["ours"]["low_pass"]], cells.get((name, "response"))
        printed = np.polynomial.polynomial.polyval(1 - RESPONSE_GRID, item["paper"][name])
        lines, ours, agreement = [], None, None
        if cell is not None:
            each = with_positive_mean(np.array([row["response"] for row in cell.rows]))
            mean = each.mean(0)
            ours = elements.cell(shape(mean), None, text_verdict(shape(mean), claimed))
            agreement = f"{sum(shape(one) == claimed for one in each)} of {len(each)}"
            lines = [elements.series("ours, mean of trainings", RESPONSE_GRID, mean, each.min(0), each.max(0))]
            printed = printed * np.abs(mean).max() / np.abs(printed).max()
        lines.append(elements.series("paper, at our scale", RESPONSE_GRID, printed, dashed=True))
        rows.append([name, claimed, shape(printed), ours, agreement])
        charts.append(elements.chart(name, lines, x="frequency 1 - λ", y="g(λ)"))
    verdicts = [row[3]["verdict"] for row in rows if row[3] is not None]
    heads = ["graph", "claimed", "paper's curve", "ours, mean", "trainings that agree"]
    return {
        "tables": [elements.table("shape by the rule", heads, rows)],
        "charts": charts,
        "notes": [f"{verdicts.count(HOLDS)} of {len(verdicts)} learned filters have the shape that the paper claims."],
    }
