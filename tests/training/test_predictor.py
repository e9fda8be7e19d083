"""Predictors: some nodes as all of them, and updates as computing everything again."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import stratified
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.inputs import model_inputs
from adaptkry.training.fit import fit
from adaptkry.training.predictor import FixedTerms, UpdatedTerms
from adaptkry.training.run_folder import load_run

QUICK = {"hidden": 8, "epochs": 4, "device": "cpu"}
NODES = 150


def graph_of(*, directed=False, weighted=False, sparse=False, names=False, ids=False, low=0.0):
    """A small graph with float64 features."""
    source = (directed_csbm if directed else csbm)(nodes=NODES, degree=3, seed=1)
    rows = torch.repeat_interleave(torch.arange(NODES), source.indptr.diff())
    x = source.x.double().abs() + low
    if sparse:
        x = sp.csr_array(torch.where(x > 0.8, x, 0).numpy())
    weights = 1 + rows.double().sqrt() if weighted else None
    info = replace(source.info, known_as=None)
    if names:
        info = replace(info, feature_names=tuple(f"f{i}" for i in range(16)))
    if ids:
        info = replace(info, node_ids=[f"n{i}" for i in range(NODES)], class_names=("a", "b"))
    edges = torch.stack([rows, source.indices.long()])
    return Graph(edges, x, source.y, weights=weights, directed=directed, info=info)


def changes(graph, seed=0, count=4):
    """Arguments of `update`: new nodes, new edges among all, removed edges."""
    rng = np.random.default_rng(seed)
    n, d = graph.nodes, graph.features.shape[1]
    new = np.abs(rng.normal(size=(count, d))) + 0.01
    rows = sp.csr_array(new) if sp.issparse(graph.features) else torch.from_numpy(new)
    ends = np.stack([rng.integers(0, n + count, 8), rng.integers(n, n + count, 8)])
    source = int(torch.repeat_interleave(torch.arange(n), graph.indptr.diff())[5])
    return rows, ends[:, ends[0] != ends[1]], [[source], [int(graph.indices[5])]]


UPDATED = {
    "one tau": {},
    "several taus": {"taus": (0.4, 0.9, 1.3)},
    "untied taus": {"taus": (0.4, 1.3), "tied": False},
    "directions": {"directions": ("both", "out", "in"), "taus": (0.5, 1.0)},
    "products of directions": {"directions": ("out-in", "in-out")},
    "row": {"normalisation": "row", "directions": ("out",)},
    "column": {"normalisation": "column"},
    "hop_norm": {"hop_norm": True, "taus": (0.5, 1.0)},
    "isolated": {"taus": (1.0,), "isolated": 0.0},
    "loops added": {"self_loops": "add"},
    "loops dropped": {"self_loops": "drop"},
    "chebyshev": {"basis": "chebyshev"},
    "jacobi": {"basis": "jacobi", "basis_options": {"a": 0.5, "b": 1.5}},
    "bernstein": {"basis": "bernstein", "taus": (0.5, 1.0)},
    "standardised": {"standardise": True},
    "normalised": {"normalise": True},
    "reduced": {"reduce": 5},
    "no hops": {"degree": 0},
    "concatenated": {"combine_hops": "concat"},
    "gate": {"combine_hops": "gate"},
    "maps": {"combine_hops": "maps"},
}


@pytest.mark.parametrize("kind", ["plain", "weighted", "sparse"])
@pytest.mark.parametrize("name", UPDATED)
def test_updates_equal_computing_everything_again(name, kind):
    settings = {"degree": 3, **UPDATED[name]}
    graph = graph_of(directed="directions" in settings, weighted=kind == "weighted", sparse=kind == "sparse")
    run = fit(graph, "adaptkry", stratified(graph.y, count=2), **QUICK, **settings)
    predictor = run.predictor(graph)
    assert predictor.recomputes == []
    torch.testing.assert_close(predictor(), run.probabilities(graph), rtol=0, atol=1e-6)
    for seed in (0, 1):  # the second update follows the first; more new nodes than there is room for
        predictor.update(*changes(predictor.graph, seed, count=4 + 30 * seed))
        changed = predictor.graph
        [(part, _)] = predictor._parts
        assert isinstance(part, UpdatedTerms)
        ordered, scaling = part.part.checked(changed)
        expected = model_inputs(ordered, part.recipe, scaling=scaling, saved=run.saved_inputs).terms
        found = part.rows(torch.arange(changed.nodes))
        tolerance = 1e-5 if name == "reduced" else 1e-10  # the map of a reduction may be in float32
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
        torch.testing.assert_close(predictor(), run.probabilities(changed), rtol=0, atol=1e-6)
        torch.testing.assert_close(predictor([3, 152]), predictor()[[3, 152]], rtol=0, atol=1e-6)


def test_the_changed_graph_has_the_edges_and_rows_of_the_update():
    graph = graph_of()
    run = fit(graph, "adaptkry", stratified(graph.y, count=1), degree=2, **QUICK)
    predictor = run.predictor(graph)
    A = graph.adjacency.toarray()
    u, v = 0, int(graph.indices[0])
    rows = predictor.update(graph.x[:1] * 2, [[NODES, NODES], [7, 8]], [[u], [v]])
    expected = np.zeros((NODES + 1, NODES + 1))
    expected[:NODES, :NODES] = A
    expected[u, v] = expected[v, u] = 0
    expected[NODES, [7, 8]] = expected[[7, 8], NODES] = 1
    np.testing.assert_array_equal(predictor.graph.adjacency.toarray(), expected)
    assert predictor.graph.y.tolist() == [*graph.y.tolist(), -1]
    assert torch.equal(predictor.graph.x[NODES], graph.x[0] * 2)
    assert {NODES, 7, 8, u, v} <= set(rows.tolist())
    assert len(rows) < NODES
    assert graph.nodes == NODES  # the user's graph is unchanged
    np.testing.assert_array_equal(graph.adjacency.toarray(), A)


@pytest.mark.parametrize(
    ("method", "settings", "reason"),
    [
        ("gcn", {}, "gcn multiplies by the graph inside the model"),
        ("adaptkry", {"structure": 4}, "structure columns depend on all edges"),
        ("adaptkry", {"similar_nodes": 4}, "similar nodes depend on all edges"),
        ("adaptkry", {"basis": "orthonormal"}, "the basis orthonormal depends on all nodes"),
        ("adaptkry", {"structure_layer": True}, "adaptkry multiplies by the graph inside the model"),
    ],
)
def test_other_models_are_computed_again_and_say_so(method, settings, reason):
    graph = graph_of()
    run = fit(graph, method, stratified(graph.y, count=2), **QUICK, degree=2, **settings)
    predictor = run.predictor(graph)
    assert predictor.recomputes == [reason]
    assert isinstance(predictor._parts[0][0], FixedTerms)
    torch.testing.assert_close(predictor([1, 5]), run.probabilities(graph)[[1, 5]], rtol=0, atol=1e-6)
    rows = predictor.update(*changes(graph))
    assert len(rows) == NODES + 4
    torch.testing.assert_close(predictor(), run.probabilities(predictor.graph), rtol=0, atol=1e-6)


def test_a_new_lowest_value_changes_all_normalised_rows():
    graph = graph_of(low=0.5)
    run = fit(graph, "adaptkry", stratified(graph.y, count=1), degree=2, normalise=True, **QUICK)
    predictor = run.predictor(graph)
    rows = predictor.update(torch.full((1, 16), -1.0), [[NODES], [0]])
    assert len(rows) == NODES + 1
    torch.testing.assert_close(predictor(), run.probabilities(predictor.graph), rtol=0, atol=1e-6)


def test_an_ensemble_of_several_methods_has_one_basis_for_equal_settings(tmp_path):
    graph = graph_of()
    splits = stratified(graph.y, count=2)
    run = fit(graph, "adaptkry", splits, degree=2, restarts=2, combine="mean", **QUICK)
    loaded = load_run(run.save(tmp_path / "run"))
    predictor = loaded.predictor(graph)
    assert len(predictor._stores) == 1
    predictor.update(*changes(graph))
    torch.testing.assert_close(predictor(), loaded.probabilities(predictor.graph), rtol=0, atol=1e-6)
    assert torch.equal(predictor.sets(level=0.8), loaded.prediction_sets(predictor.graph, 0.8))


@pytest.fixture
def named():
    graph = graph_of(names=True, ids=True)
    run = fit(graph, "adaptkry", stratified(graph.y, count=2), degree=2, **QUICK)
    return run.predictor(graph)


def test_nodes_and_edges_by_id_and_frames(named):
    rows = pd.DataFrame(np.ones((2, 16)), columns=[f"f{i}" for i in reversed(range(16))])
    rows["f3"] = 7.0
    named.update(rows, [["new", "n4"], ["n3", "other"]], ids=["new", "other"])
    assert named.graph.x[NODES].tolist() == [7.0 if i == 3 else 1.0 for i in range(16)]
    A = named.graph.adjacency
    assert A[NODES, 3] == A[NODES + 1, 4] == 1
    frame = named.frame(["other", "n3"])
    assert list(frame["node"]) == ["other", "n3"]
    np.testing.assert_allclose(frame[["p(a)", "p(b)"]], named(["other", "n3"]), atol=1e-6)
    assert list(named.frame(unlabelled_only=True)["node"]) == ["new", "other"]


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((pd.DataFrame(np.ones((1, 2)), columns=["f1", "x"]),), {"ids": ["z"]}, "unknown: 'x'"),
        ((pd.DataFrame({f"f{i}": ["a"] for i in range(16)}),), {"ids": ["z"]}, "new_nodes must hold numbers"),
        ((torch.ones(1, 3),), {"ids": ["z"]}, r"16 columns; got the shape \[1, 3\]"),
        ((torch.ones(0, 16),), {}, r"got the shape \[0, 16\]"),
        ((torch.full((1, 16), torch.nan),), {"ids": ["z"]}, "features must be finite"),
        ((torch.ones(1, 16),), {}, "ids must name each new node, 1 in all; got 0"),
        ((torch.ones(1, 16),), {"ids": ["n3"]}, "must be new; got 'n3' again"),
        ((None, [["n1"], ["nobody"]]), {}, "nodes must be ids of .*; got 'nobody'"),
        ((None, [["n1"]]), {}, "two lists of equal length"),
        ((None, 3), {}, "two lists of equal length"),
        ((None, None, [["n0"], ["n0"]]), {}, "got 0 to 0, which is none"),
        ((None, [["n0"], ["n1"]]), {"weights": [2.0]}, "weights are for graphs with weights"),
    ],
)
def test_wrong_updates_are_refused_and_change_nothing(named, arguments, options, words):
    before = named()
    with pytest.raises((ValueError, TypeError), match=words):
        named.update(*arguments, **options)
    assert named.graph.nodes == NODES
    assert torch.equal(named(), before)


def test_a_predictor_for_another_graph_is_refused(named):
    run = named.run
    with pytest.raises(ValueError, match="trained on 16 features"):
        run.predictor(Graph([[0], [1]], torch.ones(2, 3)))
    other = graph_of(names=True)
    other.info = replace(other.info, feature_names=tuple(f"g{i}" for i in range(16)))
    with pytest.raises(ValueError, match="missing: 'f0'"):
        run.predictor(other)
    with pytest.raises(ValueError, match="got 'nobody'"):
        named(["nobody"])


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        (torch.tensor([[0], [NODES]]), f"from 0 to {NODES - 1}"),
        (np.array([[-1], [0]]), "got '-1'"),
        (np.array([[0.5], [1.0]]), "got '0.5'"),
        (torch.tensor([[0, 1]]), "two lists of equal length"),
    ],
)
def test_arrays_of_other_numbers_than_nodes_are_refused(edges, words):
    graph = graph_of()
    predictor = fit(graph, "adaptkry", stratified(graph.y, count=1), degree=2, **QUICK).predictor(graph)
    with pytest.raises(ValueError, match=words):
        predictor.update(None, edges)
    lists, arrays = predictor.update(None, [[3], [5]]), predictor.update(None, None, np.array([[3], [5]]))
    assert torch.equal(lists, arrays)
