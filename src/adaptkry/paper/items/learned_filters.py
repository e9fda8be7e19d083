"""Learned filters on the six graphs, and a rule that decides whether a filter is low-pass."""

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
    """Return one measurement per graph, which trains with the published settings."""
    return [Measurement(name, name, "response", lambda graph: responses(graph, options)) for name in item["graphs"]]


def responses(graph: Graph, options: RunOptions) -> list[dict]:
    """Train, and return the response of every chosen member on the grid of frequencies."""
    settings = options.shortened(recipe("adaptkry", graph.info.name))
    run = fit(graph, settings, options.split(graph), device=options.device)
    response = learned_response(run, graph, torch.from_numpy(1 - RESPONSE_GRID))
    assert response is not None
    return [{**run.results[i].to_row(), "value": 0.0, "response": response[:, i].tolist()} for i in run.chosen]


def shape(response: np.ndarray) -> str:
    """Classify a response by its absolute value.

    It is low-pass if its maximum is in the lowest twentieth of the frequencies, and its mean over the upper half of the
    frequencies is at most half of that maximum.
    """
    size = np.abs(response)
    lowest = size[: len(size) // 20].max()
    return SHAPES[bool(size.max() <= lowest and size[len(size) // 2 :].mean() <= lowest / 2)]


def with_positive_mean(curves: np.ndarray) -> np.ndarray:
    """Flip the sign of responses with a negative mean: the layers after the filter can undo a sign. [b, m]."""
    return curves * np.where(curves.mean(1, keepdims=True) < 0, -1.0, 1.0)


def section(cells: Cells, item: dict) -> dict:
    """Return the table of the shapes of all filters, measured and printed, and one chart per graph."""
    rows, charts = zip(*(graph_parts(name, cells, item) for name in item["graphs"]), strict=True)
    verdicts = [row[3]["verdict"] for row in rows if row[3] is not None]
    headings = ["graph", "claimed", "paper's curve", "ours, mean", "trainings that agree"]
    return {
        "tables": [elements.table("shape by the rule", headings, rows)],
        "charts": charts,
        "notes": [f"{verdicts.count(HOLDS)} of {len(verdicts)} learned filters have the shape that the paper claims."],
    }


def graph_parts(name: str, cells: Cells, item: dict) -> tuple[list, dict]:
    """Return the row of the table and the chart of one graph; the printed curve is scaled to the size of ours."""
    claimed, cell = SHAPES[name in item["ours"]["low_pass"]], cells.get((name, "response"))
    printed = np.polynomial.polynomial.polyval(1 - RESPONSE_GRID, item["paper"][name])
    lines, ours, agreement = [], None, None
    if cell is not None:
        curves = with_positive_mean(np.array([row["response"] for row in cell.rows]))
        mean = curves.mean(0)
        ours = elements.cell(shape(mean), None, text_verdict(shape(mean), claimed))
        agreement = f"{sum(shape(curve) == claimed for curve in curves)} of {len(curves)}"
        lines = [elements.series("ours, mean of trainings", RESPONSE_GRID, mean, curves.min(0), curves.max(0))]
        printed = printed * np.abs(mean).max() / np.abs(printed).max()
    lines.append(elements.series("paper, at our scale", RESPONSE_GRID, printed, dashed=True))
    chart = elements.chart(name, lines, x="frequency 1 - λ", y="g(λ)")
    return [name, claimed, shape(printed), ours, agreement], chart
