"""Wide sparse features: never a dense matrix, from training to predictions."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from adaptkry.common import memory
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

RANDOM = np.random.default_rng(0)


def wide_graph(columns: int = 9000, nodes: int = 320) -> Graph:
    """A graph whose sparse features tell the classes apart: each class has words of its own."""
    base = csbm(nodes=nodes, seed=0)
    words = RANDOM.integers(0, 300, (nodes, 12)) + base.y.numpy()[:, None] * (columns // 2)
    rows = np.repeat(np.arange(nodes), 12)
    x = sp.csr_array((np.ones(nodes * 12, np.float32), (rows, words.ravel())), shape=(nodes, columns))
    x.data[:] = 1
    return Graph.from_scipy(base.adjacency, x, base.y)


@pytest.fixture
def no_dense_matrix(monkeypatch):
    """A property `x` that raises an error for sparse features."""

    def x(graph):
        assert not sp.issparse(graph.features), "a dense matrix of sparse features"
        return graph.features

    monkeypatch.setattr(Graph, "x", property(x))


@pytest.mark.usefixtures("no_dense_matrix")
@pytest.mark.parametrize("method", ["adaptkry", "gcn"])
def test_wide_features_stay_sparse_from_training_to_predictions(method, tmp_path, caplog):
    graph = wide_graph()
    options = {"count": 2, "epochs": 30, "device": "cpu", "predict": True}
    with caplog.at_level("INFO", "adaptkry"):
        run = fit(graph, method, "stratified", out=tmp_path / "run", **options)
    assert [record.getMessage() for record in caplog.records] == [
        "graph: a truncated SVD reduces 9000 feature columns to 256"
    ]
    assert {recipe.reduce for recipe in run.recipes} == {256}
    assert run.saved_inputs["feature_map"].shape == (9000, 256)
    loaded = load_run(tmp_path / "run")
    probabilities = loaded.probabilities(graph, calibrated=False)
    torch.testing.assert_close(probabilities, run.predicted[run.chosen].mean(0), rtol=1e-4, atol=1e-5)
    more = Graph.from_scipy(
        sp.block_diag([graph.adjacency, np.ones((2, 2))]), sp.vstack([graph.features, graph.features[:2]]), None
    )
    assert loaded.predict(more).shape == (322,)
    again = fit(wide_graph_again(graph), method, "stratified", **options)
    assert torch.equal(again.predicted, run.predicted)  # the same seed gives the same bits


def wide_graph_again(graph: Graph) -> Graph:
    """The same graph as another object, for which nothing was computed before."""
    return Graph.from_scipy(graph.adjacency, graph.features, graph.y)


def test_reduced_sparse_features_tell_classes_apart():
    run = fit(wide_graph(), "mlp", "stratified", count=2, epochs=60, device="cpu")
    assert run.test_scores.mean() > 0.7


def test_a_dense_matrix_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch):
    graph = wide_graph()
    monkeypatch.setattr(memory, "machine_bytes", lambda: 2**20)
    with pytest.raises(memory.NotEnoughMemoryError, match="a dense matrix of 9,000 sparse feature columns for 320"):
        _ = graph.x
