"""Learned filters on the six graphs, and a rule that tells low-pass from the rest."""

import numpy as np
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions
from adaptkry.report import elements as experiments
from adaptkry.report.learned_filter import learned_response
from adaptkry.training import fit as fitting

GRID = np.linspace(0, 2, 101)  # frequencies 1 - lambda


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """One training a graph, published settings."""
    return [Job(name, name, "response", lambda graph: measured(graph, how)) for name in item["graphs"]]


def measured(graph: Graph, how: RunOptions) -> list[dict]:
    """The response of every trained member on the grid."""
    made = how.shortened(recipe("adaptkry", graph.info.name))
    run = fitting.fit(graph, made, how.split(graph), device=how.device)
    found = learned_response(run, graph, torch.from_numpy(1 - GRID))
    assert found is not None
    return [{**run.results[i].to_row(), "value": 0.0, "response": found[:, i].tolist()} for i in run.chosen]


def is_low_pass(response: np.ndarray) -> bool:
    """Nowhere larger in size than at the lowest frequencies, and at most half of that in the upper half."""
    size = np.abs(response)
    lowest = size[: len(size) // 20].max()
    return bool(size.max() <= lowest and size[len(size) // 2 :].mean() <= lowest / 2)


def oriented(responses: np.ndarray) -> np.ndarray:
    """Each response [m] turned so that it is positive on average: the layers after it can undo a sign."""
    return responses * np.where(responses.mean(1, keepdims=True) < 0, -1.0, 1.0)


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """What each filter is by the rule, ours and printed, and the curves."""
    rows, charts = [], []
    words = {True: "low-pass", False: "comb or high-pass"}
    for name in item["graphs"]:
        printed = np.polynomial.polynomial.polyval(1 - GRID, item["paper"][name])
        wanted, own = name in item["ours"]["low_pass"], cells.get((name, "response"))
        lines, ours, each_word = [], None, None
        if own is not None:
            each = oriented(np.array([row["response"] for row in own.rows]))
            mean, found = each.mean(0), is_low_pass(each.mean(0))
            ours = experiments.cell(words[found], None, "holds" if found == wanted else "below")
            agree = sum(is_low_pass(one) == wanted for one in each)
            each_word = f"{agree} of {len(each)}"
            lines = [experiments.series("ours, mean of trainings", GRID, mean, each.min(0), each.max(0))]
            printed = printed * np.abs(mean).max() / np.abs(printed).max()
        lines.append(experiments.series("paper, at our scale", GRID, printed, dashed=True))
        rows.append([name, words[wanted], words[is_low_pass(printed)], ours, each_word])
        charts.append(experiments.chart(name, lines, x="frequency 1 - λ", y="g(λ)"))
    right = sum(row[3] is not None and row[3]["verdict"] == "holds" for row in rows)
    heads = ["graph", "claimed", "paper's curve", "ours, mean", "trainings that agree"]
    return {
        "tables": [experiments.table("by the rule", heads, rows)],
        "charts": charts,
        "notes": [f"{right} of {sum(row[3] is not None for row in rows)} learned filters are what the paper says."],
    }
