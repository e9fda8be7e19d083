"""What the report says about classes and nodes: scores of classes, confusion, calibration, the least certain nodes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.report.elements import cell, chart, matrix, series, table, under
from adaptkry.training.calibration import tempered
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.run import Run
from adaptkry.training.trained_model import model_probabilities

SHOWN_NODES = 20  # of the least certain ones
MOST_PROBABILITIES = 2e8  # models x nodes x classes
PRODUCT_SECONDS = 5e-9  # of propagation, per node or entry, column, hop and tau
DENSE_SECONDS = 2e-10  # of the dense layers, per training, node, column and hidden unit
CLASS_NOTE = (
    "Test nodes of all chosen trainings. Precision: how many of the nodes that are predicted to be of the class are. "
    "Recall: how many of the nodes of the class are found. F1: the harmonic mean of both."
)
UNTESTED_NOTE = " A class that is not tested is in no test set."
MATRIX_NOTE = "Numbers of test nodes. Blue: right; orange: wrong, and with which class."
RELIABILITY_NOTE = (
    "Of the nodes whose class has a probability of 80\u00a0%, 80 of 100 should be right: the closer to the dashed "
    "line, the more probabilities can be trusted. Temperature scaling corrects them by one number per training."
)
SETS_NOTE = (
    "A prediction set holds the classes that remain possible at the wanted level. Coverage: test nodes whose set holds "
    "their class; it should be the level. Size: the mean number of classes in a set. Threshold: smallest sets, some of "
    "them empty. Adaptive: larger for difficult nodes, never empty. Randomised: like adaptive, but partly by "
    "chance, and closer to the level."
)
CERTAINTY_NOTE = (
    "Test nodes and nodes without a label whose two largest probabilities differ least; of test nodes, the mean over "
    "the trainings that tested them. Each class with its probability."
)


def class_elements(names: Sequence[str], counts: np.ndarray) -> list[dict]:
    """Return the table of scores by class and the confusion matrix."""
    columns = ["class", "test nodes", "precision %", "recall %", "F1 %"]
    note = CLASS_NOTE + UNTESTED_NOTE * bool((counts.sum(1) == 0).any())
    drawn = matrix("Confusion matrix", names, counts, x="predicted class", y="true class", note=MATRIX_NOTE)
    return under("Classes", drawn, table("Scores by class", columns, class_scores(names, counts), note))


def class_scores(names: Sequence[str], counts: np.ndarray) -> list[list]:
    """Return the number of tested nodes, precision, recall and F1 score of each class; scores in per cent."""
    correct, true, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    precision, recall = correct / np.maximum(predicted, 1), correct / np.maximum(true, 1)
    f1 = 2 * precision * recall / np.where(precision + recall > 0, precision + recall, 1)
    untested = cell("not tested")
    return [
        [name, int(true[k]), *(percent(score[k]) if true[k] else untested for score in (precision, recall, f1))]
        for k, name in enumerate(names)
    ]


def largest_share(counts: np.ndarray) -> float | None:
    """Return the share of the largest class among the tested nodes; None if there are none."""
    return float(counts.sum(1).max() / counts.sum()) if counts.sum() else None


def calibration_elements(run: Run | Ensemble) -> list[dict]:
    """Return the reliability diagram and the table of calibration errors; nothing for a run without calibration."""
    facts = {} if run.calibration is None else run.calibration.facts
    if "reliability_after" not in facts:
        return []
    lines = [series("as good as it claims", [0, 100], [0, 100], dashed=True)]
    for when, name in (("before", "before temperature scaling"), ("after", "after temperature scaling")):
        bins = [one for one in facts[f"reliability_{when}"] if one["count"]]
        confidence, accuracy = ([100 * one[part] for one in bins] for part in ("confidence", "accuracy"))
        lines.append(series(name, confidence, accuracy))
    x, y = "confidence (mean probability of the predicted class, %)", "accuracy (%)"
    diagram = chart("Reliability", lines, x=x, y=y, note=RELIABILITY_NOTE)
    errors = [["before temperature scaling", percent(facts["error_before"])], ["after", percent(facts["error_after"])]]
    note = f"Expected calibration error: the mean difference of accuracy and confidence over {facts['bins']} bins."
    sets = [
        [one["kind"], cell(f"{100 * one['level']:g}", 100 * one["level"]), percent(one["coverage"]),
         cell(f"{one['size']:.2f}", one["size"])]
        for one in facts.get("sets", ())
    ]  # fmt: skip
    tables = [table("Calibration error", ["", "error %"], errors, note)]
    if sets:
        tables.append(table("Prediction sets", ["kind", "level %", "coverage %", "size"], sets, SETS_NOTE))
    return under("Calibration", diagram, *tables)


def confusion(run: Run | Ensemble, graph: Graph | None, splits: Splits | None) -> list[list[int]]:
    """Count the test nodes of all chosen members by true class (row) and predicted class (column): [c, c]."""
    if run.info.confusion is not None:  # counted when the run was tested
        return run.info.confusion
    if graph is None or splits is None:
        raise ValueError("a report of a run that was not tested needs its graph and splits; got none. Test it first.")
    predicted = calibrated_models(run, graph).argmax(-1)  # [v, n]
    cells = (graph.y.expand_as(predicted) * run.classes + predicted)[splits.test[split_of(run)]]
    return torch.bincount(cells, minlength=run.classes**2).view(run.classes, -1).tolist()


def split_of(run: Run | Ensemble) -> list[int]:
    """Return the number of the split of each chosen member, or of each split of an ensemble that has members."""
    return [run.results[i].split for i in run.chosen]


def calibrated_models(run: Run | Ensemble, graph: Graph) -> Tensor:
    """Return calibrated class probabilities of every chosen member, or of every split of an ensemble: [v, n, c]."""
    if run.predicted is None:
        models = model_probabilities(run.weighted_parts(), graph)
    else:
        models = run.predicted if isinstance(run, Ensemble) else run.predicted[run.chosen]
    return models if run.calibration is None else tempered(models, run.calibration.temperatures)


def least_certain(
    run: Run | Ensemble, graph: Graph | None, splits: Splits | None, names: Sequence[str], seconds: float
) -> list[dict]:
    """Return the table of the nodes with the smallest margins; nothing if that would take longer than `seconds`."""
    if graph is None or prediction_seconds(run, graph) > seconds:
        return []
    models = calibrated_models(run, graph)  # [v, n, c]
    weights = (graph.y < 0).expand(models.shape[:2]).clone()  # [v, n] which models say something about a node
    if splits is not None and splits.test.shape[1] == graph.nodes:
        weights |= splits.test[split_of(run)]
    counts = weights.sum(0)
    nodes = counts.nonzero()[:, 0]
    if not len(nodes) or models.shape[2] < 2:
        return []
    mean = torch.einsum("vn,vnc->nc", weights.to(models.dtype), models)[nodes] / counts[nodes, None]
    shares, classes = mean.topk(2)
    order = (shares[:, 0] - shares[:, 1]).argsort(stable=True)[:SHOWN_NODES]
    rows = []
    for node, two, pair in zip(nodes[order].tolist(), shares[order].tolist(), classes[order].tolist(), strict=True):
        known = int(graph.y[node])
        guesses = [cell(f"{names[c]} {100 * share:.1f}\u00a0%", share) for c, share in zip(pair, two, strict=True)]
        rows.append([node_name(graph, node), *guesses, None if known < 0 else names[known]])
    columns = ["node", "most probable", "second", "known class"]
    return under("Least certain nodes", table("Two classes are nearly as probable", columns, rows, CERTAINTY_NOTE))


def node_name(graph: Graph, node: int) -> str | int:
    """Return the id of a node; its number if nodes have no ids."""
    return graph.info.node_ids[node] if graph.info.node_ids else node


def prediction_seconds(run: Run | Ensemble, graph: Graph) -> float:
    """Estimate the time that `calibrated_models` takes; infinity if the result would not fit in memory."""
    parts = run.parts if isinstance(run, Ensemble) else [run]
    columns = 1 if graph.features is None else graph.features.shape[1]
    total = 0.0
    for part in parts:
        recipe, members = part.recipes[0], len(part.members)
        if members * graph.nodes * run.classes > MOST_PROBABILITIES:
            return float("inf")
        hops = recipe.degree * len(recipe.taus) * len(recipe.directions)
        total += PRODUCT_SECONDS * (graph.nodes + graph.entries) * columns * hops
        total += DENSE_SECONDS * members * graph.nodes * columns * recipe.hidden
    return total


def percent(share: float | None) -> dict | None:
    """Return a share as a cell in per cent."""
    return None if share is None else cell(f"{100 * share:.2f}", 100 * float(share))
