import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from adaptkry.graphs import splits
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import recipe
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.signal_bases import asgc
from adaptkry.training.fit import fit

GRAPH = csbm(nodes=200, phi=-0.6, information=0.5, features=8, classes=3, seed=0)
RECIPE = recipe("asgc")


@pytest.fixture(scope="module")
def split():
    return splits.stratified(GRAPH.y, count=3)


@pytest.fixture(scope="module")
def run(split):
    return fit(GRAPH, RECIPE, split, device="cpu")


def test_candidates_solve_their_least_squares_problem():
    P, x, n = Propagation(GRAPH, 1.0), GRAPH.x.double(), GRAPH.nodes
    terms = list(asgc(P, x, 5, orders=(1, 3), penalties=(1e-3, 0.1, 1.0)))
    for found, (order, penalty) in zip(terms, [(k, r) for k in (1, 3) for r in (1e-3, 0.1, 1.0)], strict=True):
        for f in range(x.shape[1]):
            hops = np.stack([term[:, f] for term in krylov(P, x, order)], 1)
            last = np.zeros((1, order + 1))
            last[0, 0] = np.sqrt(n * penalty)
            expected = np.linalg.lstsq(np.vstack([hops, last]), np.append(x[:, f], 0.0), rcond=None)[0]
            np.testing.assert_allclose(found[:, f], hops @ expected, atol=1e-8)


def test_the_chosen_candidate_is_best_on_validation_and_refitted_as_scikit_learn_would(run, split):
    terms = model_inputs(GRAPH, RECIPE).terms.numpy()
    y = GRAPH.y.numpy()
    for i, result in enumerate(run.results):
        train, validation, test = (mask[i].numpy() for mask in (split.train, split.validation, split.test))
        scores = []
        for x in terms:
            fitted = LogisticRegression(max_iter=5000, tol=1e-8).fit(x[train], y[train])
            scores.append(fitted.score(x[validation], y[validation]))
        best = int(run.weights["basis_mix"][i].argmax())
        assert result.validation == pytest.approx(scores[best], abs=0.026)
        assert scores[best] == pytest.approx(
            max(scores), abs=0.026
        )  # a node at the decision boundary may get either class
        refitted = LogisticRegression(max_iter=5000, tol=1e-8).fit(
            terms[best][train | validation], y[train | validation]
        )
        np.testing.assert_allclose(run.member_probabilities(GRAPH)[i], refitted.predict_proba(terms[best]), atol=2e-3)
        assert result.test == pytest.approx(refitted.score(terms[best][test], y[test]), abs=0.026)


def test_a_member_trained_separately_equals_the_same_member_in_a_batch(run, split):
    single = splits.Splits(split.train[1:2], split.validation[1:2], split.test[1:2])
    separate = fit(GRAPH, RECIPE, single, device="cpu")
    torch.testing.assert_close(
        separate.member_probabilities(GRAPH)[0], run.member_probabilities(GRAPH)[1], rtol=0, atol=2e-3
    )
