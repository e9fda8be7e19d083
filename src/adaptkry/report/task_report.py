"""What the report says about several labels per node, and about numbers: errors, and the nodes that are most wrong.

Everything is measured on test nodes, each with the models that were tested on it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.common.tables import number_text
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.report.class_report import calibrated_models, node_name, percent, prediction_seconds, split_of
from adaptkry.report.elements import chart, series, table, under
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.metrics import label_counts, pick_metric
from adaptkry.training.run import Run

SHOWN_ERRORS = 20  # nodes in the tables
MOST_CHARTS = 4  # targets with a chart
GROUPS = 10  # of test nodes in the chart of predicted and true values
RANGE = (0.1, 0.9)  # quantiles of true values in a group
TARGET_NOTE = (
    "Means over the trainings, each on its test nodes. Of the mean: the mean absolute error of always predicting the "
    "mean of the training nodes. RMSE: the root of the mean squared error, in which large errors count more. R²: the "
    "share of the variance that is explained; at most 1, and about 0 for a constant guess."
)
GROUP_NOTE = "Test nodes in groups of equal size by predicted value. Close to the dashed line: right on average."
ERROR_NOTE = "The test nodes with the largest errors; the prediction is the mean over the trainings that tested them."
LABEL_NOTE = (
    "Test nodes of all chosen trainings. Precision: how many of the nodes that are predicted to have a label have it. "
    "Recall: how many of the nodes that have it are found."
)
DOUBT_NOTE = "Test nodes whose probability of a label is closest to 50 %; the mean over the trainings that tested them."


def task_elements(
    run: Run | Ensemble, graph: Graph | None, splits: Splits | None, names: Sequence[str], seconds: float
) -> tuple[str, list[dict]]:
    """Return a sentence in plain words, and tables and charts; nothing without test nodes or time for predictions."""
    if graph is None or graph.targets is None or splits is None or prediction_seconds(run, graph) > seconds:
        return "", []
    models = calibrated_models(run, graph).double()  # [v, n, t]
    tested = splits.test[split_of(run)]  # [v, n]
    if not bool(tested.any()):
        return "", []
    if run.task == "multilabel":
        return label_elements(models, graph, tested, names)
    return target_elements(models, graph, tested, splits.train[split_of(run)], names)


def target_elements(
    models: Tensor, graph: Graph, tested: Tensor, trained: Tensor, names: Sequence[str]
) -> tuple[str, list[dict]]:
    """Return the sentence, tables and charts about targets.

    Args:
        models: predicted values [v, n, t].
        graph: the graph with targets [n, t].
        tested: the test nodes of each model [v, n].
        trained: the training nodes of each model [v, n].
        names: names of the targets.
    """
    assert graph.targets is not None
    truth, rows, charts, sentence = graph.targets, [], [], ""
    for k, name in enumerate(names):
        true, predicted = truth[:, k].expand(tested.shape)[..., None], models[..., k : k + 1]  # [v, n, 1]
        constant = torch.stack([truth[mask, k].mean() for mask in trained])[:, None, None].expand_as(predicted)
        mae, rmse, r2 = (float(pick_metric(m, "regression")(predicted, true, tested).mean()) for m in METRIC_COLUMNS)
        guess = float(pick_metric("mae", "regression")(constant, true, tested).mean())
        rows.append([name, mae, guess, rmse, r2])
        of = f" of {name}" if len(names) > 1 else ""
        sentence = sentence or (
            f"Predictions{of} are off by {number_text(mae)} on average; always predicting the mean is off by "
            f"{number_text(guess)}."
        )
        if len(charts) < MOST_CHARTS:
            shown = name if graph.info.class_names else f"value {name}" if len(names) > 1 else "value"
            charts.append(groups_chart(shown, predicted[tested][:, 0], true[tested][:, 0]))
    columns = ["target", "mean absolute error", "of the mean", "RMSE", "R²"]
    tables = [
        table("Errors by target", columns, rows, TARGET_NOTE),
        largest_errors(models, graph, tested, names),
    ]
    more = f" {len(names) - 1} more targets are in the table." if len(names) > 1 else ""
    return sentence + more, under("Predictions", *charts, *tables)


METRIC_COLUMNS = ("mae", "rmse", "r2")


def groups_chart(name: str, predicted: Tensor, true: Tensor) -> dict:
    """Return the chart of the mean true value in groups of nodes by predicted value [m], with its usual range."""
    order = predicted.argsort(stable=True)
    groups = [group for group in order.chunk(GROUPS) if len(group)]
    x = [float(predicted[group].mean()) for group in groups]
    mean = [float(true[group].mean()) for group in groups]
    low, high = ([float(true[group].quantile(share)) for group in groups] for share in RANGE)
    lines = [
        series("mean and range of 80 %", x, mean, low, high),
        series("as predicted", [x[0], x[-1]], [x[0], x[-1]], dashed=True),
    ]
    return chart(f"Predicted and true {name}", lines, x=f"predicted {name}", y=f"true {name} (mean)", note=GROUP_NOTE)


def largest_errors(models: Tensor, graph: Graph, tested: Tensor, names: Sequence[str]) -> dict:
    """Return the table of the test nodes with the largest errors, in units of the deviation of each target."""
    assert graph.targets is not None
    mean, nodes = mean_over_tests(models, tested)  # [m, t]
    true = graph.targets[nodes]
    error = mean - true
    spread = true.std(0, correction=0)
    size = error.abs() / torch.where(spread > 0, spread, 1)
    worst, target = size.max(1)
    rows = []
    for i in worst.argsort(descending=True, stable=True)[:SHOWN_ERRORS].tolist():
        k = int(target[i])
        numbers = [float(part[i, k]) for part in (true, mean, error)]
        rows.append([node_name(graph, int(nodes[i])), *([names[k]] if len(names) > 1 else []), *numbers])
    columns = ["node", *(["target"] if len(names) > 1 else []), "true", "predicted", "predicted - true"]
    return table("Largest errors", columns, rows, ERROR_NOTE)


def label_elements(models: Tensor, graph: Graph, tested: Tensor, names: Sequence[str]) -> tuple[str, list[dict]]:
    """Return the sentence and tables about labels, from their probabilities [v, n, c] and the test nodes [v, n]."""
    assert graph.targets is not None
    truth = graph.targets.expand_as(models)
    counts = label_counts(models, truth, tested).sum(0).double()  # [3, c] hits, predicted, true
    number = int(tested.sum())
    rows = []
    for name, (hits, predicted, true) in zip(names, counts.T.tolist(), strict=True):
        precision, recall = (hits / total if total else None for total in (predicted, true))
        f1 = 2 * hits / (predicted + true) if predicted + true else None
        rows.append([name, number, *(percent(share) for share in (true / number, precision, recall, f1))])
    columns = ["label", "test nodes", "have it %", "precision %", "recall %", "F1 %"]
    hits, predicted, true = counts.sum(1).tolist()
    found = f"Of 100 labels that test nodes have, {100 * hits / true:.0f} are found" if true else ""
    right = f"of 100 that are predicted, {100 * hits / predicted:.0f} are right" if predicted else "none is predicted"
    lead = f"{found}; {right}." if found else "No test node has a label."
    return lead, under(
        "Labels", table("Scores by label", columns, rows, LABEL_NOTE), closest_labels(models, graph, tested, names)
    )


def closest_labels(models: Tensor, graph: Graph, tested: Tensor, names: Sequence[str]) -> dict:
    """Return the table of test nodes and labels whose probability is closest to one half."""
    assert graph.targets is not None
    mean, nodes = mean_over_tests(models, tested)  # [m, c]
    closest = (mean - 0.5).abs().flatten().argsort(stable=True)[:SHOWN_ERRORS].tolist()
    rows = []
    for place in closest:
        i, k = divmod(place, len(names))
        has = "yes" if float(graph.targets[nodes[i], k]) == 1 else "no"
        rows.append([node_name(graph, int(nodes[i])), names[k], percent(float(mean[i, k])), has])
    return table("Least certain nodes", ["node", "label", "probability %", "has it"], rows, DOUBT_NOTE)


def mean_over_tests(models: Tensor, tested: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of the models [v, n, t] that tested each node [m, t], and the numbers of these nodes [m]."""
    counts = tested.sum(0)
    nodes = counts.nonzero()[:, 0]
    total = torch.einsum("vn,vnt->nt", tested.to(models.dtype), models)[nodes]
    return total / counts[nodes, None], nodes
