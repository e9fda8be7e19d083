"""Temperature scaling, calibration errors and prediction sets against references, and in runs."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from adaptkry.graphs.splits import stratified
from adaptkry.graphs.synthetic import csbm
from adaptkry.training.calibration import (
    Predictions,
    adaptive_scores,
    best_temperature,
    calibrate,
    conformal_quantiles,
    expected_calibration_error,
    gathered,
    randomised_scores,
    reliability,
    some_nodes,
    tempered,
)
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

GRAPH = csbm(nodes=300, phi=-0.5, information=0.8, seed=1)
SPLITS = stratified(GRAPH.y, count=2)
QUICK = {"degree": 3, "hidden": 8, "epochs": 15, "device": "cpu"}


def sample(count, seed, classes=4, sharpness=3.0):
    """Nodes whose classes are drawn from softmax(z); the logits of the model are `sharpness` times z."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(count, classes, generator=generator, dtype=torch.float64) * 1.5
    drawn = torch.multinomial(z.softmax(1), 1, generator=generator)[:, 0]
    return Predictions(torch.arange(count), drawn, sharpness * z)


def test_the_calibration_error_is_that_of_a_computation_by_hand():
    p = torch.tensor([[0.95, 0.05], [0.92, 0.08], [0.55, 0.45], [0.25, 0.75]])
    classes = torch.tensor([0, 1, 0, 1])
    # Bins of width 0.1: (0.9, 1] has two nodes, (0.5, 0.6] and (0.7, 0.8] one each.
    expected = (2 * abs(0.5 - 0.935) + abs(1 - 0.55) + abs(1 - 0.75)) / 4
    assert expected_calibration_error(p.double(), classes, bins=10) == pytest.approx(expected, abs=1e-7)
    bins = reliability(p.double(), classes, bins=10)
    assert [one["count"] for one in bins] == [0, 0, 0, 0, 0, 1, 0, 1, 0, 2]
    assert bins[9]["accuracy"] == 0.5
    assert bins[9]["confidence"] == pytest.approx(0.935)
    assert bins[0]["confidence"] is None


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
def test_the_temperature_minimises_the_smoothed_log_likelihood(sharpness):
    model = sample(500, 0, sharpness=sharpness)
    m, c = model.logits.shape
    targets = np.full((m, c), 1 / (m + 1) / c)
    targets[np.arange(m), model.classes] += 1 - 1 / (m + 1)

    def loss(log_temperature):
        z = model.logits.numpy() / math.exp(log_temperature)
        return -(targets * (z - np.logaddexp.reduce(z, 1, keepdims=True))).sum(1).mean()

    reference = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-10})
    assert best_temperature(model.logits, model.classes) == pytest.approx(math.exp(reference.x), rel=1e-5)
    assert best_temperature(model.logits, model.classes) == pytest.approx(sharpness, rel=0.15)


def test_a_model_that_is_always_right_has_a_finite_temperature_and_few_nodes_have_none():
    z = torch.eye(3).double().repeat(20, 1)
    classes = torch.arange(3).repeat(20)
    p = (z / best_temperature(z, classes)).softmax(1)
    assert 0.9 < float(p.max()) < 0.999
    assert best_temperature(z[:10], classes[:10]) == 1.0


def test_temperatures_divide_logits_and_keep_the_most_probable_class():
    z = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(0))
    T = torch.tensor([0.5, 3.0]).double()
    found = tempered(z.softmax(-1), T)
    torch.testing.assert_close(found, (z / T.float()[:, None, None]).softmax(-1))
    assert torch.equal(found.argmax(-1), z.argmax(-1))


def test_adaptive_scores_are_sums_of_sorted_probabilities():
    p = torch.tensor([[0.2, 0.5, 0.3]]).double()
    torch.testing.assert_close(adaptive_scores(p, torch.zeros(1)), torch.tensor([[0.8, 0.0, 0.5]]).double())
    u = torch.tensor([0.5]).double()
    torch.testing.assert_close(randomised_scores(p, u), torch.tensor([[0.9, 0.25, 0.65]]).double())


@pytest.mark.parametrize(("count", "level"), [(9, 0.9), (10, 0.9), (100, 0.95), (3, 0.9), (50, 0.123)])
def test_quantiles_have_the_finite_sample_correction(count, level):
    scores = torch.rand(count, generator=torch.Generator().manual_seed(count)).double().sort().values
    rank = math.ceil((count + 1) * level - 1e-9)
    expected = scores[rank - 1] if rank <= count else torch.inf
    padded = torch.cat([scores, torch.full((3,), torch.inf).double()])[None]  # padded for a larger model
    assert float(conformal_quantiles(padded, level)) == expected


@pytest.mark.parametrize("kind", ["threshold", "adaptive", "randomised"])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_sets_of_exchangeable_nodes_have_the_coverage_of_the_level(kind, level):
    found = calibrate([sample(2000, 1)], [sample(20000, 2)])
    assert found.temperatures[0] == pytest.approx(3.0, rel=0.15)
    row = next(one for one in found.facts["sets"] if (one["kind"], one["level"]) == (kind, level))
    margin = 0.02  # two standard deviations of the coverage over 1,000 nodes that chose the threshold
    assert row["coverage"] > level - margin
    if kind != "adaptive":  # which is too large unless it is randomised
        assert row["coverage"] < level + margin
    test = sample(20000, 2)
    sets = found.sets(test.logits.softmax(1)[None], test.numbers, level, kind)
    assert float(sets[torch.arange(20000), test.classes].double().mean()) == pytest.approx(row["coverage"], abs=1e-3)
    assert float(sets.sum(1).double().mean()) == pytest.approx(row["size"], abs=1e-3)


def test_adaptive_sets_of_a_model_are_never_empty():
    found = calibrate([sample(200, 1)], [sample(200, 2)])
    assert [one["empty"] for one in found.facts["sets"] if one["kind"] == "adaptive"] == [0, 0, 0]
    test = sample(500, 3)
    assert found.sets(test.logits.softmax(1)[None], test.numbers, 0.01, "adaptive").any(1).all()


def test_the_calibration_error_falls_and_test_nodes_choose_nothing():
    validation, test = [sample(1000, s) for s in (1, 2)], [sample(1000, s) for s in (3, 4)]
    found = calibrate(validation, test)
    assert found.facts["error_after"] < 0.3 * found.facts["error_before"]
    assert sum(one["count"] for one in found.facts["reliability_after"]) == 2000
    other = calibrate(validation, [sample(500, 5, sharpness=0.1)] * 2)
    assert torch.equal(found.temperatures, other.temperatures)
    assert all(torch.equal(found.scores[kind], other.scores[kind]) for kind in found.scores)


def test_temperature_and_thresholds_use_different_nodes():
    model = sample(100, 7)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0))
    first, second = (part.sort().values for part in order.chunk(2))
    found = calibrate([model], [model])
    assert found.temperatures[0] == best_temperature(model.logits[first], model.classes[first])
    assert found.scores["threshold"].shape == (1, 51)
    p = (model.logits[second] / found.temperatures[0]).softmax(1)
    expected = (1 - p.gather(1, model.classes[second][:, None]))[:, 0].sort().values
    torch.testing.assert_close(found.scores["threshold"][0, :-1], expected)


def test_models_without_validation_nodes_have_no_limit():
    nothing = Predictions(torch.zeros(0).long(), torch.zeros(0).long(), torch.zeros(0, 3).double())
    found = calibrate([nothing], [nothing])
    assert found.temperatures.tolist() == [1.0]
    assert found.thresholds(0.9).tolist() == [math.inf]
    assert "sets" not in found.facts


def test_many_nodes_are_thinned_evenly():
    masks = torch.zeros(2, 100, dtype=torch.bool)
    masks[0, ::2], masks[1, :5] = True, True
    kept = some_nodes(masks, most=10)
    assert kept.sum(1).tolist() == [10, 5]
    assert not (kept & ~masks).any()
    assert kept[0].nonzero()[:, 0].diff().max() <= 12


def test_predictions_are_gathered_per_mask_from_chunks():
    logits, labels = torch.randn(2, 6, 3), torch.arange(6) % 3
    masks = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    rows = torch.tensor([4, 0, 1, 5, 2, 3])
    found = gathered(((logits[:, part], part) for part in rows.split(4)), masks, labels)
    for i, one in enumerate(found):
        assert sorted(one.numbers.tolist()) == masks[i].nonzero()[:, 0].tolist()
        assert torch.equal(one.logits, logits[i % 2, one.numbers].double())
        assert torch.equal(one.classes, labels[one.numbers])


@pytest.fixture(scope="module")
def run():
    return fit(GRAPH, "adaptkry", SPLITS, restarts=2, **QUICK)


@pytest.fixture(scope="module")
def ensemble():
    return fit(GRAPH, "adaptkry", SPLITS, restarts=2, combine="mean", **QUICK)


@pytest.mark.parametrize("which", ["run", "ensemble"])
def test_a_saved_run_keeps_its_calibration(which, request, tmp_path):
    found = request.getfixturevalue(which)
    loaded = load_run(found.save(tmp_path / "run"))
    assert loaded.calibration is not None
    assert torch.equal(loaded.calibration.temperatures, found.calibration.temperatures)
    assert loaded.calibration.facts == found.calibration.facts
    assert torch.equal(loaded.probabilities(GRAPH), found.probabilities(GRAPH))
    assert torch.equal(loaded.prediction_sets(GRAPH, 0.8), found.prediction_sets(GRAPH, 0.8))
    assert not torch.equal(found.probabilities(GRAPH), found.probabilities(GRAPH, calibrated=False))


def test_a_run_is_calibrated_on_the_validation_nodes_of_each_split(run):
    members = run.member_probabilities(GRAPH).double().log()
    for v, i in enumerate(run.chosen):
        nodes = SPLITS.validation[run.members[i].split].nonzero()[:, 0]
        model = Predictions(nodes, GRAPH.y[nodes], members[i, nodes])
        expected = calibrate([model], [model])
        assert float(run.calibration.temperatures[v]) == pytest.approx(float(expected.temperatures[0]), rel=1e-3)
        torch.testing.assert_close(
            run.calibration.scores["threshold"][v], expected.scores["threshold"][0], atol=1e-4, rtol=0
        )
    assert run.calibration.facts["nodes"] == int(SPLITS.test.sum())
    expected = tempered(members.exp()[run.chosen], run.calibration.temperatures).mean(0).float()
    torch.testing.assert_close(run.probabilities(GRAPH), expected)


def test_an_ensemble_is_calibrated_as_a_whole(ensemble):
    p = ensemble.predicted.double()  # [s, n, c]
    nodes = SPLITS.validation[1].nonzero()[:, 0]
    model = Predictions(nodes, GRAPH.y[nodes], p[1, nodes].log())
    assert float(ensemble.calibration.temperatures[1]) == float(calibrate([model], [model]).temperatures[0])
    expected = tempered(p, ensemble.calibration.temperatures).mean(0).float()
    torch.testing.assert_close(ensemble.probabilities(GRAPH), expected, atol=1e-5, rtol=0)


def test_sets_hold_what_most_models_have_in_theirs(run):
    models = run.member_probabilities(GRAPH).double()[run.chosen]
    inside = 1 - tempered(models, run.calibration.temperatures) <= run.calibration.thresholds(0.9)[:, None, None]
    assert torch.equal(run.prediction_sets(GRAPH, 0.9), inside.double().mean(0) > 0.5)


def test_runs_without_a_test_have_no_calibration_and_say_so(run):
    untested = fit(GRAPH, "adaptkry", SPLITS, test=False, **QUICK)
    assert untested.calibration is None
    assert torch.equal(untested.probabilities(GRAPH), untested.probabilities(GRAPH, calibrated=False))
    for found in (untested, run.only([0])):
        with pytest.raises(ValueError, match="prediction sets need a run that was tested"):
            found.prediction_sets(GRAPH)
