import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import directed_csbm
from adaptkry.spectral import similarity
from adaptkry.spectral.similarity import LEAST_SIMILARITY, SHARPNESS, Similarity, similar_nodes
from contracts import OPERATOR_CONTRACT
from strategies import graphs


@OPERATOR_CONTRACT
@given(graph=graphs(), count=st.integers(1, 4))
def test_similarity_satisfies_the_operator_contract(check, graph, count):
    check(Similarity(graph, count, ["out", "in"]))


def dense_similarities(graph: Graph, sides: list[str]) -> np.ndarray:
    """Cosine similarities of all pairs of rows, 0 where they are too small and for a node with itself."""
    A = (graph.undirected() if sides == ["both"] else graph).adjacency.toarray().astype(float)
    rows = np.hstack([A.T if side == "in" else A for side in sides])
    lengths = np.linalg.norm(rows, axis=1)
    found = rows @ rows.T / np.maximum(np.outer(lengths, lengths), 1e-30)
    np.fill_diagonal(found, 0)
    return np.where(found >= LEAST_SIMILARITY - 1e-12, found, 0)


@pytest.mark.parametrize("sides", [["both"], ["out"], ["in"], ["out", "in"]], ids=str)
@pytest.mark.parametrize("entries", [2**25, 1])
def test_similar_nodes_are_those_of_all_pairs(sides, entries, monkeypatch):
    monkeypatch.setattr(similarity, "CHUNK_ENTRIES", entries)
    graph = directed_csbm(60, degree=4)
    nodes, found = similar_nodes(graph, 5, sides)
    expected = dense_similarities(graph, sides)
    for node in range(60):
        largest = np.sort(expected[node])[::-1][:5]
        np.testing.assert_allclose(found[node].numpy(), largest, rtol=0, atol=1e-8)
        for other, value in zip(nodes[node][found[node] > 0].tolist(), found[node].tolist(), strict=False):
            assert other != node
            assert expected[node, other] == pytest.approx(value, abs=1e-8)
    matrices = Similarity(graph, 60, sides).to_dense().numpy()
    for sharpness, matrix in zip(SHARPNESS, matrices, strict=True):
        wanted = np.where(expected > 0, np.exp(sharpness * (expected - 1)), 0)
        np.testing.assert_allclose(matrix, wanted, rtol=0, atol=1e-6)


def test_nodes_with_the_same_neighbours_have_weight_one_and_come_in_order():
    graph = Graph([[0, 0, 1, 1, 2, 2, 3], [4, 5, 4, 5, 4, 5, 5]])
    nodes, found = similar_nodes(graph, 2, ["both"])
    assert nodes[:3].tolist() == [[1, 2], [0, 2], [0, 1]]
    assert found[:3].tolist() == [[1, 1]] * 3
    assert (Similarity(graph, 2, ["both"]).weights[:, :3] == 1).all()


def test_other_nodes_than_candidates_are_never_similar_and_nodes_without_edges_have_none():
    graph = Graph([[0, 0, 1, 1, 2, 2], [4, 5, 4, 5, 4, 5]], nodes=7)
    nodes, found = similar_nodes(graph, 3, ["both"], torch.tensor([1, 3, 6]))
    assert (nodes[0].tolist(), found[0].tolist()) == ([1, 0, 0], [1, 0, 0])
    assert not found[6].any()
    assert not (Similarity(graph, 3, ["both"]) @ torch.ones(7))[:, 6].any()


def test_the_table_is_computed_once_for_all_recipes(monkeypatch):
    graph = directed_csbm(30)
    one = Similarity(graph, 3, ["out"])
    monkeypatch.setattr(similarity, "similar_nodes", None)
    other = Similarity(graph, 3, ["out"])
    assert torch.equal(one.nodes, other.nodes)
    assert torch.equal(one.weights, other.weights)


def test_neighbours_with_the_most_links_are_left_out_if_there_would_be_too_many_products(monkeypatch):
    graph = Graph([[0, 0, 1, 1, 2, 3], [4, 5, 4, 5, 4, 4]])  # 4 has four links
    assert similar_nodes(graph, 1, ["both"])[1][2] == pytest.approx(1)
    monkeypatch.setattr(similarity, "MOST_PRODUCTS", 16)  # 1 + 1 of 2 and 3, and 3 * 2^2 of 0, 1 and 5
    nodes, found = similar_nodes(graph, 1, ["both"])
    assert nodes[:2, 0].tolist() == [1, 0]
    assert found[:4, 0].tolist() == [1, 1, 0, 0]
