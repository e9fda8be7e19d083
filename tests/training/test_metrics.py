import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu
from sklearn import metrics as sk

from adaptkry.common.choices import METRICS
from adaptkry.graphs.splits import from_masks
from adaptkry.training.metrics import (
    TASK_METRICS,
    RunningScore,
    check_metrics,
    metric_names,
    pick_metric,
    roc_auc,
)


def case(seed: int, classes: int, rows: int = 40, tied: bool = False, missing: bool = False):
    """Logits [2, m, c], classes [2, m] and a mask in which the second member has padding rows."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, rows, classes, generator=generator, dtype=torch.float64)
    truth = torch.randint(0, classes - missing, (2, rows), generator=generator)  # nobody has the last class
    truth[:, :2] = torch.tensor([0, 1])
    row_mask = torch.ones(2, rows, dtype=torch.bool)
    row_mask[1, rows - 9 :] = False
    return (logits.round() if tied else logits), truth, row_mask


def labels_case(seed: int, tied: bool):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(2, 40, 4, generator=generator, dtype=torch.float64)
    truth = (torch.rand(2, 40, 4, generator=generator) < 0.3).double()
    truth[:, :, 3] = 0  # nobody has the last label, but some are predicted to
    truth[:, :2, :3] = torch.tensor([[0.0], [1.0]])
    row_mask = torch.ones(2, 40, dtype=torch.bool)
    row_mask[1, 30:] = False
    return (scores * 4).round() / 4 if tied else scores, truth, row_mask


def in_batches(name: str, scores, truth, row_mask, task: str = "classification"):
    score = RunningScore(name, len(scores), scores.shape[2], task=task)
    for rows in (slice(0, 7), slice(7, 30), slice(30, None)):
        score.add(scores[:, rows], truth[:, rows], row_mask[:, rows])
    return score.result()


def expected_class_score(name: str, probabilities: np.ndarray, y: np.ndarray) -> float:
    predicted, c = probabilities.argmax(1), probabilities.shape[1]
    if name == "accuracy":
        return sk.accuracy_score(y, predicted)
    if name == "balanced_accuracy":
        with warnings.catch_warnings():  # of scikit-learn, about predicted classes that are not in y
            warnings.simplefilter("ignore")
            return sk.balanced_accuracy_score(y, predicted)
    if name == "macro_f1":
        return sk.f1_score(y, predicted, average="macro")
    of_class = sk.roc_auc_score if name == "roc_auc" else sk.average_precision_score
    if c == 2:
        return of_class(y == 1, probabilities[:, 1])
    return float(np.mean([of_class(y == k, probabilities[:, k]) for k in np.unique(y)]))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.sampled_from([2, 3, 5]), st.booleans(), st.booleans())
def test_metrics_of_classes_are_those_of_scikit_learn(seed, classes, tied, missing):
    logits, truth, row_mask = case(seed, classes, tied=tied, missing=missing and classes > 2)
    for name in METRICS["classification"]:
        found = in_batches(name, logits, truth, row_mask)
        of_probabilities = pick_metric(name)(logits.softmax(-1), truth, row_mask)
        for b in range(2):
            mask = row_mask[b]
            probabilities = logits[b, mask].log_softmax(-1).numpy()  # equal logits stay equal
            expected = expected_class_score(name, probabilities, truth[b, mask].numpy())
            assert abs(float(found[b]) - expected) < 1e-6, name
            assert tied or abs(float(of_probabilities[b]) - expected) < 1e-6, name


def expected_label_score(name: str, s: np.ndarray, y: np.ndarray) -> float:
    if name == "subset_accuracy":
        return sk.accuracy_score(y, s > 0.5)
    if name == "micro_f1":
        return sk.f1_score(y, s > 0.5, average="micro")
    if name == "macro_f1":
        absent: Any = np.nan  # such labels are left out
        return sk.f1_score(y, s > 0.5, average="macro", zero_division=absent)
    of_labels = sk.roc_auc_score if name == "roc_auc" else sk.average_precision_score
    return of_labels(y[:, :3].astype(int), s[:, :3], average="macro")


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.booleans())
def test_metrics_of_labels_are_those_of_scikit_learn(seed, tied):
    scores, truth, row_mask = labels_case(seed, tied)
    for name in METRICS["multilabel"]:
        found = in_batches(name, scores, truth, row_mask, "multilabel")
        for b in range(2):
            s, y = scores[b, row_mask[b]].numpy(), truth[b, row_mask[b]].numpy()
            expected = expected_label_score(name, s, y)
            assert abs(float(found[b]) - float(expected)) < 1e-6, name


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1000), st.booleans())
def test_metrics_of_values_are_those_of_scikit_learn(seed, constant):
    generator = torch.Generator().manual_seed(seed)
    truth = 1e4 + torch.randn(2, 40, 2, generator=generator, dtype=torch.float64)
    truth[:, :, 1] = 0.5 if constant else truth[:, :, 1]  # the mean of 0.1 would not be exact in scikit-learn
    scores = truth + torch.randn(2, 40, 2, generator=generator, dtype=torch.float64)
    row_mask = torch.ones(2, 40, dtype=torch.bool)
    row_mask[1, 30:] = False
    scores[1, 35] = math.nan  # padding
    functions = {"r2": sk.r2_score, "mae": sk.mean_absolute_error, "rmse": sk.root_mean_squared_error}
    for name in METRICS["regression"]:
        found = in_batches(name, scores, truth, row_mask, "regression")
        for b in range(2):
            expected = functions[name](truth[b, row_mask[b]].numpy(), scores[b, row_mask[b]].numpy())
            assert float(found[b]) == pytest.approx(expected, abs=1e-9), name


def test_a_constant_target_counts_one_if_it_is_predicted_exactly():
    values = torch.full((1, 3, 1), 0.1, dtype=torch.float64)
    row_mask = torch.ones(1, 3, dtype=torch.bool)
    r2 = pick_metric("r2", "regression")
    assert [float(r2(values + error, values, row_mask)) for error in (0, 1)] == [1, 0]


def test_names_of_metrics_are_those_that_options_list():
    assert {task: tuple(table) for task, table in TASK_METRICS.items()} == METRICS
    assert [name for name, metric in TASK_METRICS["regression"].items() if not metric.greater_is_better] == [
        "mae",
        "rmse",
    ]


@given(st.integers(0, 1000), st.booleans())
def test_roc_auc_equals_the_mann_whitney_statistic_with_ties_and_padding(seed, tied):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 30, 2, generator=generator)
    scores = scores.round() if tied else scores
    classes = torch.randint(0, 2, (2, 30), generator=generator)
    classes[:, :2] = torch.tensor([0, 1])
    row_mask = torch.ones(2, 30, dtype=torch.bool)
    row_mask[1, 25:] = False
    found = roc_auc(scores, classes, row_mask)
    for b in range(2):
        s, y = (scores[b, :, 1] - scores[b, :, 0])[row_mask[b]].numpy(), classes[b][row_mask[b]].numpy()
        expected = mannwhitneyu(s[y == 1], s[y == 0]).statistic / ((y == 1).sum() * (y == 0).sum())
        assert abs(float(found[b]) - expected) < 1e-9


def test_accuracy_ignores_padding_rows():
    logits = torch.eye(3)[None].repeat(2, 1, 1)
    classes = torch.tensor([[0, 1, 0], [0, 0, 0]])
    row_mask = torch.tensor([[True, True, True], [True, True, False]])
    torch.testing.assert_close(pick_metric("accuracy")(logits, classes, row_mask), torch.tensor([2 / 3, 1 / 2]))


def test_unknown_metrics_get_the_nearest_name():
    with pytest.raises(ValueError, match="accuracy"):
        pick_metric("acuracy")
    with pytest.raises(ValueError, match="metric of the task regression 'accuracy'"):
        pick_metric("accuracy", "regression")
    assert metric_names(None, "roc_auc") == ("roc_auc",)
    assert metric_names(["macro_f1", "accuracy", "macro_f1"], "roc_auc") == ("macro_f1", "accuracy")


def test_a_part_of_one_class_is_refused_for_metrics_that_rank_nodes():
    y = torch.tensor([0, 1, 0, 1, 0, 0])
    parts = [torch.arange(6) // 2 == part for part in range(3)]
    splits = from_masks(*parts)
    with pytest.raises(ValueError, match="roc_auc needs test nodes of two classes or more; those of split 0 all have"):
        check_metrics(["accuracy", "roc_auc"], y, splits)
    check_metrics(["accuracy", "roc_auc"], y, splits, test=False)
    check_metrics(["accuracy", "macro_f1"], y, splits)


def test_accuracy_counts_real_rows_only():
    logits = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]]).expand(2, -1, -1)
    classes, row_mask = torch.tensor([[0, 0, 0], [0, 1, 1]]), torch.tensor([[True, True, False], [True, True, True]])
    assert pick_metric("accuracy")(logits, classes, row_mask).tolist() == pytest.approx([1 / 2, 2 / 3])
