"""Scores of several processes are those of one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor

from adaptkry.graphs.splits import stratified
from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import recipe
from adaptkry.models.stages import ModelShape
from adaptkry.training import losses
from adaptkry.training.batches import InMemoryTerms, SlabBatches, SlabPlan
from adaptkry.training.data import training_masks
from adaptkry.training.evaluation import evaluate, evaluate_predictions
from adaptkry.training.fit import fit
from adaptkry.training.losses import MemberLogits
from adaptkry.training.process_group import SINGLE_PROCESS, ProcessGroup

GRAPH = csbm(nodes=150, phi=-0.6, classes=3, seed=0)
SPLITS = stratified(GRAPH.y, count=2)
RECIPE = recipe("adaptkry", degree=2, hidden=8)
TERMS = model_inputs(GRAPH, RECIPE).terms
SHAPE = ModelShape(RECIPE, len(TERMS), TERMS.shape[2], 3)
WEIGHTS = batched.initial_weights(SHAPE, [(seed, RECIPE) for seed in range(2)])


@dataclass
class Shared:
    """What the threads of a group exchange."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=30))
    values: dict[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class ThreadGroup(ProcessGroup):
    """A group of two threads that add up tensors as processes do."""

    shared: Shared = field(default_factory=Shared)

    def sum(self, value: Tensor) -> Tensor:
        self.shared.values[self.rank] = value
        self.shared.barrier.wait()
        total = self.shared.values[0] + self.shared.values[1]
        self.shared.barrier.wait()
        return total


def batches(group: ProcessGroup = SINGLE_PROCESS, metric: str = "accuracy") -> SlabBatches:
    plan = SlabPlan(GRAPH.y >= 0, slabs=4, batch_size=30)
    return SlabBatches(
        InMemoryTerms(TERMS), plan, GRAPH.y, training_masks(SPLITS), torch.arange(2), group=group,
        shares_validation=metric == "accuracy",
    )  # fmt: skip


def on_test_rows(group: ProcessGroup = SINGLE_PROCESS) -> tuple[Tensor, Tensor]:
    metrics = ("accuracy", "macro_f1", "balanced_accuracy")
    found = evaluate_predictions(
        MemberLogits(SHAPE, WEIGHTS, batches(group), GRAPH.nodes), GRAPH.y, SPLITS.test, torch.arange(2), metrics
    )
    assert found[1] is not None
    return torch.stack([found[0][name] for name in metrics]), found[1]


def on_validation_rows(group: ProcessGroup = SINGLE_PROCESS) -> tuple[Tensor, Tensor]:
    return evaluate(SHAPE, WEIGHTS, {}, batches(group), "accuracy")


@pytest.mark.parametrize("compute", [on_test_rows, on_validation_rows])
def test_two_processes_score_what_one_does(compute):
    shared = Shared()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(compute, [ThreadGroup(rank, 2, shared) for rank in range(2)]))
    for one, other, expected in zip(*found, compute(), strict=True):
        torch.testing.assert_close(one, expected)
        assert torch.equal(one, other)


def test_scores_and_confusion_are_those_of_the_predictions():
    (accuracy, f1, _), confusion = on_test_rows()
    rows = torch.arange(150).expand(2, -1)
    predicted = batched.logits(SHAPE, WEIGHTS, {}, TERMS, rows, torch.ones(2, 150, 1)).argmax(-1)
    for b, mask in enumerate(SPLITS.test):
        assert float(f1[b]) == pytest.approx(f1_score(GRAPH.y[mask], predicted[b][mask], average="macro"))
        assert float(accuracy[b]) == pytest.approx(float((predicted[b] == GRAPH.y)[mask].float().mean()))
        expected = torch.zeros(3, 3, dtype=torch.long)
        expected.index_put_((GRAPH.y[mask], predicted[b][mask]), torch.tensor(1), accumulate=True)
        assert torch.equal(confusion[b], expected)


def test_logits_of_all_rows_are_computed_once_for_scores_calibration_and_predictions(monkeypatch):
    calls, compute = [], losses.chunk_logits

    def counted(*arguments):
        calls.append(1)
        return compute(*arguments)

    monkeypatch.setattr(losses, "chunk_logits", counted)
    used: dict[str, Any] = {"splits": SPLITS, "degree": 2, "hidden": 8, "epochs": 3, "device": "cpu", "predict": True}
    kept = fit(GRAPH, "adaptkry", metrics=["accuracy", "macro_f1"], **used)
    assert len(calls) == 1
    monkeypatch.setattr(losses, "KEPT_LOGITS", 0)
    streamed = fit(GRAPH, "adaptkry", metrics=["accuracy", "macro_f1"], **used)
    assert len(calls) == 1 + 4  # validation, test, predictions, calibration
    assert [one.test_scores for one in kept.results] == [one.test_scores for one in streamed.results]
    assert kept.calibration is not None
    assert streamed.calibration is not None
    assert kept.calibration.facts == streamed.calibration.facts
    assert kept.predicted is not None
    assert streamed.predicted is not None
    assert torch.equal(kept.predicted, streamed.predicted)
    used["predict"] = None
    assert fit(GRAPH, "adaptkry", **used).predicted is None  # they would take a pass of their own
    monkeypatch.undo()
    free = fit(GRAPH, "adaptkry", **used).predicted
    assert free is not None
    assert torch.equal(free, kept.predicted)
