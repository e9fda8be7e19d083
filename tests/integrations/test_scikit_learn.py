from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.integrations import scikit_learn
from adaptkry.integrations.scikit_learn import AdaptKryClassifier
from adaptkry.selection.auto import auto
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.run import Run

GRAPH = csbm(nodes=200, phi=-0.8, seed=0)
QUICK: dict[str, Any] = {"degree": 3, "hidden": 16, "epochs": 60}
NODES, LABELS = np.arange(200), GRAPH.y.numpy()


def test_fit_on_features_and_edges_with_minus_one_for_unknown_labels():
    edges = np.stack(GRAPH.adjacency.nonzero())
    known = np.where(NODES < 120, LABELS, -1)
    classifier = AdaptKryClassifier(**QUICK).fit(GRAPH.x.numpy(), known, edges)
    probabilities = classifier.predict_proba(GRAPH.x.numpy())
    assert probabilities.shape == (200, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert (classifier.predict(GRAPH.x.numpy()) == LABELS)[120:].mean() > 0.75


def test_parameters_can_be_read_set_and_cloned():
    classifier = AdaptKryClassifier(GRAPH, taus=(0.5, 1.0), degree=2)
    assert classifier.get_params()["degree"] == 2
    other = clone(classifier)
    assert isinstance(other, AdaptKryClassifier)
    assert other.set_params(degree=5).get_params()["degree"] == 5
    assert classifier.degree == 2


def test_cross_validation_and_grid_search_split_node_numbers():
    classifier = AdaptKryClassifier(GRAPH, **QUICK)
    assert cross_val_score(classifier, NODES, LABELS, cv=3).mean() > 0.75
    search = GridSearchCV(classifier, {"degree": [0, 3]}, cv=2).fit(NODES, LABELS)
    assert search.best_params_ == {"degree": 3}


def test_predictions_depend_on_the_features_that_are_passed_and_other_graphs_need_edges():
    edges = np.stack(GRAPH.adjacency.nonzero())
    X = GRAPH.x.numpy()
    classifier = AdaptKryClassifier(**QUICK).fit(X, LABELS, edges)
    same, other = classifier.predict_proba(X), classifier.predict_proba(-X)
    np.testing.assert_allclose(same, classifier.run_.probabilities(Graph(edges, X)).numpy(), rtol=1e-5)
    np.testing.assert_allclose(other, classifier.run_.probabilities(Graph(edges, -X)).numpy(), rtol=1e-5)
    assert np.abs(same - other).max() > 0.1
    with pytest.raises(
        ValueError, match=r"X must have 200 rows, .*; got 3\. For another graph use predict\(X, edges\)"
    ):
        classifier.predict(X[:3])
    inner = edges[:, (edges < 50).all(0)]
    expected = classifier.run_.probabilities(Graph(inner, X[:50])).numpy().argmax(1)
    np.testing.assert_array_equal(classifier.predict(X[:50], inner), expected)


class Frame:
    """The part of a pandas DataFrame that the estimator uses."""

    def __init__(self, values: np.ndarray, columns: list[str]):
        self.values, self.columns, self.shape = values, columns, values.shape

    def to_numpy(self) -> np.ndarray:
        return self.values


def test_columns_of_data_frames_are_matched_by_name():
    edges, X = np.stack(GRAPH.adjacency.nonzero()), GRAPH.x.numpy()
    names = [f"c{i}" for i in range(X.shape[1])]
    classifier = AdaptKryClassifier(**QUICK).fit(Frame(X, names), LABELS, edges)
    expected = classifier.predict_proba(Frame(X, names))
    np.testing.assert_allclose(classifier.predict_proba(Frame(X[:, ::-1], names[::-1])), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="got 15 columns \\(missing: 'c0'\\)"):
        classifier.predict(Frame(X[:, 1:], names[1:]))


def test_random_state_is_an_integer_a_random_state_or_none_and_seed_is_another_name():
    def drawn(**options) -> int:
        return AdaptKryClassifier(GRAPH, **options)._drawn_seed()

    assert drawn(random_state=3) == drawn(seed=3) == 3
    assert drawn(seed=None) == 0
    assert drawn(random_state=np.random.RandomState(1)) == np.random.RandomState(1).randint(2**31 - 1)
    assert drawn(random_state=None) != drawn(random_state=None)
    assert AdaptKryClassifier(GRAPH, **QUICK, seed=None).fit(NODES, LABELS).score(NODES, LABELS) > 0.75


def test_nodes_without_a_known_label_are_not_scored():
    fitted = AdaptKryClassifier(GRAPH, **QUICK).fit(NODES[:100], LABELS[:100])
    assert [result.test for result in fitted.run_.results] == [None]
    assert fitted.run_.info.confusion is None
    assert "test accuracy - %" in fitted.run_.summary()


def test_class_names_may_be_strings():
    names = np.array(["left", "right"])[LABELS]
    classifier = AdaptKryClassifier(GRAPH, **QUICK).fit(NODES[:150], names[:150])
    assert set(classifier.predict(NODES)) == {"left", "right"}
    assert classifier.score(NODES[150:], names[150:]) > 0.75


def test_method_auto_searches_within_its_time_and_keeps_given_settings_fixed(monkeypatch):
    calls = []

    def recorded_auto(*given, **options):
        calls.append(options)
        return auto(*given, **options)

    monkeypatch.setattr(scikit_learn, "auto", recorded_auto)
    classifier = AdaptKryClassifier(GRAPH, method="auto", time_limit="1s", hidden=8, epochs=20)
    classifier.fit(NODES[:150], LABELS[:150])
    assert calls[0] == {
        "time_limit": "1s", "device": "cpu", "seed": 0, "test": False, "hidden": 8, "epochs": 20,
    }  # fmt: skip
    assert isinstance(classifier.run_, Ensemble)
    assert [result.test for result in classifier.run_.results] == [None]
    assert classifier.score(NODES[150:], LABELS[150:]) > 0.75
    assert classifier.get_params()["time_limit"] == "1s"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AdaptKryClassifier().fit(NODES, LABELS), "fit needs edges"),
        (lambda: AdaptKryClassifier(GRAPH).fit(NODES, np.zeros(200, dtype=int)), "at least 2 classes"),
        (lambda: AdaptKryClassifier(GRAPH).fit([500, 1], [0, 1]), "node numbers must be 0 .. 199"),
        (lambda: AdaptKryClassifier(GRAPH).fit(NODES[:3], [0, 1]), "must have the same length"),
        (lambda: AdaptKryClassifier(GRAPH, method="gcn").fit(NODES, LABELS), "unknown method 'gcn'"),
        (lambda: AdaptKryClassifier(GRAPH, method="auto", time_limit=0).fit(NODES, LABELS), "a time limit must be"),
        (lambda: AdaptKryClassifier(GRAPH, validation=2).fit(NODES, LABELS), "between 0 and 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_columns_of_any_scale_are_standardised():
    graph = csbm(nodes=200, phi=0.0, information=3.0, seed=0)
    scaled = Graph(np.stack(graph.adjacency.nonzero()), graph.x * torch.logspace(-3, 3, graph.x.shape[1]), graph.y)
    nodes, y = np.arange(200), graph.y.numpy()
    fitted = AdaptKryClassifier(scaled, epochs=50).fit(nodes[:150], y[:150])
    assert fitted.run_.recipes[0].standardise  # type: ignore[attr-defined]
    assert fitted.score(nodes[150:], y[150:]) > 0.8


def test_every_setting_of_the_constructor_reaches_the_training():
    values: dict[str, Any] = {
        "taus": (0.7,), "degree": 2, "structure": 4, "hidden": 9, "layers": 3, "mlp_lr": 0.02, "filter_lr": 0.03,
        "mlp_decay": 1e-3, "filter_decay": 1e-4, "mlp_dropout": 0.3, "filter_dropout": 0.1, "epochs": 6, "patience": 2,
    }  # fmt: skip
    fitted = AdaptKryClassifier(GRAPH, **values).fit(NODES, LABELS)
    assert isinstance(fitted.run_, Run)
    assert {name: getattr(fitted.run_.recipes[0], name) for name in values} == values
    assert values.keys() | {"directions"} == set(scikit_learn.SETTING_NAMES)


def test_validation_nodes_are_drawn_at_random_from_every_class():
    labels = torch.tensor([0] * 60 + [1] * 40 + [-1] * 20)
    drawn = [AdaptKryClassifier(validation=0.25)._splits(labels, seed).validation[0] for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert [int(mask[:60].sum()) for mask in drawn] == [15] * 3
    assert [int(mask[60:].sum()) for mask in drawn] == [10] * 3
    assert not torch.equal(drawn[0].nonzero()[:15, 0], torch.arange(15))
