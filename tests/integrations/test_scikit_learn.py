from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

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


def test_columns_of_data_frames_must_be_those_of_fit():
    edges, X = np.stack(GRAPH.adjacency.nonzero()), GRAPH.x.numpy()
    names = [f"c{i}" for i in range(X.shape[1])]
    classifier = AdaptKryClassifier(edges=edges, **QUICK).fit(pd.DataFrame(X, columns=names), LABELS)
    assert classifier.feature_names_in_.tolist() == names == classifier.run_.info.feature_names
    assert classifier.n_features_in_ == len(names)
    assert classifier.score(pd.DataFrame(X, columns=names), LABELS) > 0.75
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        classifier.predict(pd.DataFrame(X[:, ::-1], columns=names[::-1]))
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing: - c0"):
        classifier.predict(pd.DataFrame(X[:, 1:], columns=names[1:]))


def test_a_pipeline_scales_features_before_they_are_propagated():
    edges, known = np.stack(GRAPH.adjacency.nonzero()), np.where(NODES < 120, LABELS, -1)
    X = GRAPH.x.numpy() * np.logspace(-3, 3, GRAPH.x.shape[1])
    steps = [StandardScaler(), AdaptKryClassifier(edges=edges, **QUICK)]
    pipeline = make_pipeline(*steps).fit(X, known)
    scaled = StandardScaler().fit_transform(X)
    alone = AdaptKryClassifier(edges=edges, **QUICK).fit(scaled, known)
    np.testing.assert_array_equal(pipeline.predict_proba(X), alone.predict_proba(scaled))
    assert pipeline.score(X, LABELS) > 0.75
    assert pipeline.n_features_in_ == X.shape[1]
    later = make_pipeline(StandardScaler(), AdaptKryClassifier(**QUICK))  # edges as an argument of fit
    later.fit(X, known, adaptkryclassifier__edges=edges)
    np.testing.assert_array_equal(later.predict_proba(X), alone.predict_proba(scaled))


def test_scaled_node_numbers_and_parts_of_a_graph_are_refused():
    with pytest.raises(ValueError, match=r"as integers; got float64 .* use AdaptKryClassifier\(edges=edges\)"):
        make_pipeline(StandardScaler(), AdaptKryClassifier(GRAPH, **QUICK)).fit(NODES[:, None], LABELS)
    edges, X = np.stack(GRAPH.adjacency.nonzero()), GRAPH.x.numpy()
    for given in (edges, GRAPH.adjacency):
        with pytest.raises(ValueError, match=r"200 for these edges; got 100\. To split nodes, .* node numbers"):
            AdaptKryClassifier(edges=given, **QUICK).fit(X[:100], LABELS[:100])  # as cross-validation does


def test_grid_search_and_calibration_of_node_numbers():
    methods = {"method": ["mlp", "adaptkry"]}
    search = GridSearchCV(AdaptKryClassifier(GRAPH, hidden=16, epochs=60), methods, cv=3).fit(NODES, LABELS)
    scores = search.cv_results_["mean_test_score"]
    assert scores[1] > scores[0] > 0.5
    assert search.best_params_ == {"method": "adaptkry"}
    assert search.best_estimator_.run_.recipes[0].method == search.best_params_["method"]
    calibrated = CalibratedClassifierCV(AdaptKryClassifier(GRAPH, **QUICK), cv=3).fit(NODES[:150], LABELS[:150])
    assert calibrated.score(NODES[150:], LABELS[150:]) > 0.75
    np.testing.assert_allclose(calibrated.predict_proba(NODES).sum(1), 1)


def test_other_methods_use_their_own_settings_and_those_that_were_changed():
    run = AdaptKryClassifier(GRAPH, method="gcn", hidden=9, epochs=5).fit(NODES, LABELS).run_
    assert isinstance(run, Run)
    defaults = scikit_learn.recipe("gcn")
    assert (run.recipes[0].method, run.recipes[0].hidden, run.recipes[0].epochs) == ("gcn", 9, 5)
    assert (run.recipes[0].mlp_lr, run.recipes[0].degree) == (defaults.mlp_lr, defaults.degree)


def test_minus_one_is_unknown_among_numbers_and_text():
    edges, X = np.stack(GRAPH.adjacency.nonzero()), GRAPH.x.numpy()
    names = np.array(["left", "right"])[LABELS]
    as_numbers = AdaptKryClassifier(edges=edges, **QUICK).fit(X, np.where(NODES < 120, LABELS, -1))
    texts = np.array([name if node < 120 else -1 for node, name in enumerate(names)], dtype=object)
    as_text = AdaptKryClassifier(edges=edges, **QUICK).fit(X, texts)
    np.testing.assert_array_equal(as_text.predict_proba(X), as_numbers.predict_proba(X))
    assert as_text.classes_.tolist() == ["left", "right"]
    frame = AdaptKryClassifier(GRAPH, **QUICK).fit(pd.DataFrame({"node": NODES}), pd.Series(names))
    assert frame.classes_.tolist() == ["left", "right"]
    assert (frame.feature_names_in_.tolist(), frame.n_features_in_) == (["node"], 1)


def test_edges_of_a_matrix_keep_their_weights():
    X, edges = GRAPH.x.numpy(), np.stack(GRAPH.adjacency.nonzero())
    weights = 1.0 + (edges.sum(0) % 5)  # the same in both directions
    matrix = sp.coo_array((weights, (edges[0], edges[1])), shape=(200, 200))
    fitted = AdaptKryClassifier(edges=matrix, **QUICK).fit(X, LABELS)
    expected = Graph(edges, X, weights=weights)
    np.testing.assert_array_equal(fitted.graph_.adjacency.toarray(), expected.adjacency.toarray())
    plain = AdaptKryClassifier(edges=matrix != 0, **QUICK).fit(X, LABELS)
    assert plain.graph_.weights is None
    np.testing.assert_array_equal(
        plain.predict_proba(X), AdaptKryClassifier(edges=edges, **QUICK).fit(X, LABELS).predict_proba(X)
    )


def test_a_saved_estimator_predicts_the_same(tmp_path):
    edges, X = np.stack(GRAPH.adjacency.nonzero()), GRAPH.x.numpy()
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    names = np.array(["left", "right"])[LABELS]
    on_features = AdaptKryClassifier(edges=edges, random_state=np.random.RandomState(0), **QUICK).fit(frame, names)
    loaded = AdaptKryClassifier.load(on_features.save(tmp_path / "features"), edges=edges)
    np.testing.assert_array_equal(loaded.predict_proba(frame), on_features.predict_proba(frame))
    np.testing.assert_array_equal(loaded.predict(frame), on_features.predict(frame))
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    on_nodes = AdaptKryClassifier(GRAPH, taus=(0.5, 1.0), **QUICK).fit(NODES[:150], LABELS[:150])
    loaded = AdaptKryClassifier.load(on_nodes.save(tmp_path / "nodes"), GRAPH)
    np.testing.assert_array_equal(loaded.predict_proba(NODES), on_nodes.predict_proba(NODES))
    assert {**loaded.get_params(), "graph": 0} == {**on_nodes.get_params(), "graph": 0}
    again = loaded.fit(NODES[:150], LABELS[:150])
    np.testing.assert_array_equal(again.predict_proba(NODES), on_nodes.predict_proba(NODES))
    other = AdaptKryClassifier(GRAPH, **QUICK).fit(NODES[:100], LABELS[:100]).save(tmp_path / "other")
    (other / "run").rename(tmp_path / "run")
    (tmp_path / "nodes" / "run").rename(other / "run")
    with pytest.raises(ValueError, match="must hold the run it was saved with"):
        AdaptKryClassifier.load(other, GRAPH)


def rows(X) -> int:
    return np.asarray(X).shape[0] if not sp.issparse(X) else X.shape[0]


class AdaptKryOnRing(AdaptKryClassifier):
    """The feature form with edges for any number of rows, so that the checks of scikit-learn can call it."""

    def fit(self, X, y, **unknown):  # type: ignore[override]
        return super().fit(X, y, ring(rows(X)), **unknown)

    def predict_proba(self, X, _edges=None):  # type: ignore[override]
        return super().predict_proba(X, ring(rows(X)))


def ring(nodes: int) -> np.ndarray:
    return np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])


FEATURES_CANNOT = {
    "check_classifiers_classes": "it uses -1 as a class, which marks unknown labels",
    "check_methods_sample_order_invariance": "predictions depend on edges, which join rows by their numbers",
    "check_methods_subset_invariance": "predictions depend on neighbours, which are not in the subset",
}
PASSES_FEATURES = "it passes features as X, where a graph needs node numbers"
NODES_CANNOT = dict.fromkeys(
    [
        "check_fit_score_takes_y", "check_estimators_overwrite_params", "check_dont_overwrite_parameters",
        "check_estimators_fit_returns_self", "check_readonly_memmap_input", "check_n_features_in_after_fitting",
        "check_positive_only_tag_during_fit", "check_estimators_dtypes", "check_dtype_object",
        "check_pipeline_consistency", "check_estimators_nan_inf", "check_estimators_pickle",
        "check_f_contiguous_array_estimator", "check_classifier_data_not_an_array", "check_classifiers_classes",
        "check_classifiers_train", "check_supervised_y_2d", "check_methods_sample_order_invariance",
        "check_methods_subset_invariance", "check_fit2d_1feature", "check_dict_unchanged", "check_fit_idempotent",
        "check_fit_check_is_fitted", "check_n_features_in", "check_fit2d_predict1d",
    ],
    PASSES_FEATURES,
)  # fmt: skip
SLOW = ("check_classifiers_train", "check_estimator_sparse_matrix", "check_supervised_y_2d")


def checks_of(estimator, cannot: dict[str, str]):
    """All checks of scikit-learn; one that is declared to fail and passes is an error."""
    pairs: Any = estimator_checks_generator(estimator, legacy=True, mark=None)
    for each, check in pairs:
        name = check.func.__name__
        reasons = [pytest.mark.xfail(reason=cannot[name], strict=True)] if name in cannot else []
        slow = [pytest.mark.slow] if name in SLOW and name not in cannot else []
        yield pytest.param(each, check, marks=[*reasons, *slow], id=f"{type(each).__name__}-{name}")


@pytest.mark.filterwarnings("ignore:Can't check dok")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        *checks_of(AdaptKryOnRing(epochs=60, hidden=16, degree=2), FEATURES_CANNOT),
        *checks_of(AdaptKryClassifier(GRAPH, epochs=20, hidden=8, degree=2), NODES_CANNOT),
    ],
)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    try:
        check(estimator)
    except SkipTest as skipped:
        pytest.skip(str(skipped))


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
        (lambda: AdaptKryClassifier(GRAPH, method="gcm").fit(NODES, LABELS), "unknown method 'gcm'"),
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
