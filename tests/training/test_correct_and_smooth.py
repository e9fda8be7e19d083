from dataclasses import replace

import pytest
import torch
from torch_geometric.nn.models import CorrectAndSmooth

from adaptkry.graphs import splits
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.recipe import recipe
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.training.correct_and_smooth import SMOOTHING_STEPS, correct_and_smooth
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

GRAPH = csbm(nodes=150, phi=0.6, information=0.8, classes=3, seed=0)
SPLIT = splits.stratified(GRAPH.y, count=3)
QUICK = recipe("mlp", hidden=8, epochs=30, correct_and_smooth=0.8)


@pytest.mark.parametrize("alpha", [0.4, 0.9])
@pytest.mark.parametrize("direction", ["both", "out"])
def test_scores_equal_those_of_pyg(direction, alpha):
    n, c, b = 60, 3, 3
    graph = csbm(n, classes=c, degree=4) if direction == "both" else directed_csbm(n, classes=c)
    P, generator = Propagation(graph, 0.7, direction), torch.Generator().manual_seed(0)
    probabilities = torch.rand(b, n, c, dtype=torch.float64, generator=generator).softmax(-1)
    labels = torch.randint(-1, c, (b, n - 5), generator=generator)  # the last nodes are new
    found = correct_and_smooth(probabilities, labels.double(), P, alpha)
    dense = P.to_dense()
    targets, sources = dense.nonzero().T
    reference = CorrectAndSmooth(SMOOTHING_STEPS, alpha, SMOOTHING_STEPS, alpha)
    for i in range(b):
        nodes = (labels[i] >= 0).nonzero()[:, 0]
        edges = torch.stack([sources, targets]), dense[targets, sources]
        expected = reference(probabilities[i], labels[i, nodes], nodes, *edges)
        torch.testing.assert_close(found[i], expected, rtol=0, atol=1e-10)


def test_perfect_predictions_without_known_labels_are_finite():
    P, probabilities = Propagation(GRAPH, 0.5), torch.full((1, 150, 3), 1 / 3)
    assert torch.isfinite(correct_and_smooth(probabilities, torch.full((1, 150), -1.0), P, 0.8)).all()
    truth = torch.nn.functional.one_hot(GRAPH.y, 3).float()[None]
    assert torch.isfinite(correct_and_smooth(truth, GRAPH.y[None].float(), P, 0.8)).all()


def accuracies(probabilities, masks):
    return [float((p.argmax(1) == GRAPH.y)[mask].float().mean()) for p, mask in zip(probabilities, masks, strict=True)]


def test_scores_and_predictions_of_a_run_are_smoothed_and_its_weights_are_not_changed(tmp_path):
    plain = fit(GRAPH, replace(QUICK, correct_and_smooth=0.0), SPLIT, device="cpu")
    run = fit(GRAPH, QUICK, SPLIT, device="cpu", predict=True)
    assert all(torch.equal(weight, run.weights[name]) for name, weight in plain.weights.items())
    assert [result.epoch for result in run.results] == [result.epoch for result in plain.results]
    operator, labels = Propagation(GRAPH, QUICK.taus[0]), torch.where(SPLIT.train, GRAPH.y, -1).float()
    scores = correct_and_smooth(plain.member_probabilities(GRAPH), labels, operator, 0.8)
    expected = scores / scores.sum(2, keepdim=True)
    predicted = run.member_probabilities(GRAPH)
    torch.testing.assert_close(predicted, expected)
    torch.testing.assert_close(run.predicted, expected)
    for part, masks in (("validation", SPLIT.validation), ("test", SPLIT.test)):
        assert [getattr(result, part) for result in run.results] == pytest.approx(accuracies(expected, masks))
    assert sum(result.test for result in run.results) > sum(result.test for result in plain.results) + 0.1  # type: ignore[arg-type, call-overload]
    run.save(tmp_path / "run")
    assert torch.equal(load_run(tmp_path / "run").member_probabilities(GRAPH), predicted)  # type: ignore[attr-defined]
    torch.testing.assert_close(run.only([1]).member_probabilities(GRAPH)[0], predicted[1])


def test_it_follows_a_method_that_propagates_and_one_with_label_inputs():
    for used in (recipe("gcn", hidden=8, epochs=5), recipe("adaptkry", degree=2, hidden=8, epochs=5, label_hops=1)):
        run = fit(GRAPH, replace(used, correct_and_smooth=0.5), SPLIT, device="cpu")
        found = accuracies(run.member_probabilities(GRAPH), SPLIT.validation)
        assert [result.validation for result in run.results] == pytest.approx(found)


def test_roc_auc_is_that_of_smoothed_probabilities():
    graph = csbm(nodes=120, phi=0.5, information=0.6, seed=2)
    graph.info = replace(graph.info, metric="roc_auc")
    run = fit(graph, QUICK, "stratified", count=1, device="cpu", predict=True)
    test = splits.stratified(graph.y, count=1).test[0]
    positive, negative = (run.predicted[0, test & (graph.y == label), 1] for label in (1, 0))  # type: ignore[index]
    pairs = positive[:, None] - negative
    assert run.results[0].test == pytest.approx(float((pairs.sign() + 1).mean() / 2), abs=1e-6)


def test_labels_of_validation_and_test_nodes_do_not_change_predictions():
    used = replace(QUICK, select="last", stop="never")
    masks = splits.from_masks(SPLIT.train[0], SPLIT.validation[0], SPLIT.test[0])
    changed = GRAPH.relabelled(torch.where(SPLIT.train[0], GRAPH.y, (GRAPH.y + 1) % 3))
    one, other = (fit(graph, used, masks, device="cpu", predict=True).predicted for graph in (GRAPH, changed))
    assert torch.equal(one, other)  # type: ignore[arg-type]


def test_batches_and_exact_solutions_are_refused():
    with pytest.raises(ValueError, match="mlp with correct_and_smooth needs all nodes at once"):
        fit(GRAPH, QUICK, SPLIT, device="cpu", batch_size=32)
    with pytest.raises(ValueError, match="methods that do not train on validation nodes; got asgc"):
        recipe("asgc", correct_and_smooth=0.5)


@pytest.mark.gpu
def test_gpu_scores_equal_those_on_the_cpu():
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(2, 150, 3, generator=generator).softmax(-1)
    labels, P = torch.where(SPLIT.train[:2], GRAPH.y, -1).float(), Propagation(GRAPH, 0.5)
    found = correct_and_smooth(probabilities.cuda(), labels.cuda(), P.to("cuda"), 0.8)
    torch.testing.assert_close(found.cpu(), correct_and_smooth(probabilities, labels, P, 0.8), rtol=1e-4, atol=1e-5)
