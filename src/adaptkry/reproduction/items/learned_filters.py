"""Learned filters on the six graphs, and a rule that tells low-pass from the rest."""

import numpy as np
import torch

from adaptkry import experiments, fitting, pictures
from adaptkry.graph import Graph
from adaptkry.recipes import recipe
from adaptkry.reproduction.cells import Cells
from adaptkry.reproduction.core import How, Job

GRID = np.linspace(0, 2, 101)  # frequencies 1 - lambda


def jobs(item: dict, how: How) -> list[Job]:
    """One training a graph, published settings."""
    return [Job(name, name, "response", lambda graph: measured(graph, how)) for name in item["graphs"]]


def measured(graph: Graph, how: How) -> list[dict]:
    """The response of every trained member on the grid."""
    made = how.shortened(recipe("adaptkry", graph.info.name))
    run = fitting.fit(graph, made, how.split(graph), device=how.device)
    found = pictures.learned_response(run, graph, torch.from_numpy(1 - GRID))
    assert found is not None
    return [{**run.rows[i], "value": 0.0, "response": found[:, i].tolist()} for i in run.chosen]


def is_low_pass(response: np.ndarray) -> bool:
    """Nowhere larger in size than at the lowest frequencies, and at most half of that in the upper half."""
    size = np.abs(response)
    lowest = size[: len(size) // 20].max()
    return bool(size.max() <= lowest and size[len(size) // 2 :].mean() <= lowest / 2)


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """What each filter is by the rule, ours and printed, and the curves."""
    rows, charts, right = [], [], 0
    for name in item["graphs"]:
        printed = np.polynomial.polynomial.polyval(1 - GRID, item["paper"][name])
        own = cells.get((name, "response"))
        wanted = name in item["ours"]["low_pass"]
        lines = [experiments.series("paper, at our scale", GRID, printed, dashed=True)]
        said = None
        if own is not None:
            each = np.array([row["response"] for row in own.rows])
            mean = each.mean(0)
            said = is_low_pass(mean)
            right += said == wanted
            scale = np.abs(mean).max() / np.abs(printed).max()
            lines = [
                experiments.series("ours, mean of trainings", GRID, mean, each.min(0), each.max(0)),
                experiments.series("paper, at our scale", GRID, scale * printed, dashed=True),
            ]
        words = {True: "low-pass", False: "comb or high-pass", None: None}
        verdict = "" if said is None else "holds" if said == wanted else "below"
        ours = None if said is None else experiments.cell(words[said], None, verdict)
        rows.append([name, words[wanted], words[is_low_pass(printed)], ours])
        charts.append(experiments.chart(name, lines, x="frequency 1 - λ", y="g(λ)"))
    measured_ones = sum(row[3] is not None for row in rows)
    return {
        "tables": [experiments.table("by the rule", ["graph", "claimed", "paper's curve", "ours"], rows)],
        "charts": charts,
        "notes": [f"{right} of {measured_ones} learned filters are what the paper says they are."],
    }
