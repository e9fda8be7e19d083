"""Attention over neighbours is compared with dense softmax and dense products."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn.functional import leaky_relu

from adaptkry.graphs.graph import Graph
from adaptkry.spectral import attention
from adaptkry.spectral.attention import EdgeLists
from contracts import assert_close, assert_same_bits, random_signal

# Directed, with self-loops; node 3 hears nobody, node 4 is isolated.
GRAPH = Graph([[0, 0, 1, 1, 2, 2], [1, 3, 0, 1, 0, 3]], nodes=5, directed=True)
EDGES = EdgeLists(GRAPH)
K, F = 3, 2


def dense_attention(heard: torch.Tensor, listening: torch.Tensor) -> torch.Tensor:
    """Return the weights as matrices [k, n, n]; rows without edges are zero."""
    A = torch.from_numpy(GRAPH.adjacency.toarray()) > 0
    scores = leaky_relu(heard.T[:, None, :] + listening.T[:, :, None], 0.2)  # [k, i, j]
    return scores.masked_fill(~A, -torch.inf).softmax(2).nan_to_num(0)


def at_edges(dense: torch.Tensor) -> torch.Tensor:
    """Return the entries of matrices [k, n, n] at the edges: [m, k]."""
    rows, columns = GRAPH.adjacency.nonzero()
    return dense[:, rows, columns].T


def test_softmax_equals_the_dense_one():
    heard, listening = random_signal(5, K), random_signal(K, 5).T
    assert_close(EDGES.softmax(heard, listening), at_edges(dense_attention(heard, listening)))


def test_softmax_of_large_scores_is_finite():
    heard, listening = 1e4 * random_signal(5, K), 1e4 * random_signal(K, 5).T
    assert_close(EDGES.softmax(heard, listening), at_edges(dense_attention(heard, listening)))


def test_weighted_sums_equal_dense_products():
    dense = dense_attention(random_signal(5, K), random_signal(5, K))
    for dtype in (torch.float32, torch.float64):
        x = random_signal(K, 5, F, dtype=dtype)
        found = EDGES.weighted_sum(at_edges(dense).T.to(dtype), x)
        assert_close(found, dense.to(dtype) @ x)
        assert_same_bits(EDGES.weighted_sum(at_edges(dense).T.to(dtype), x), found)


@pytest.mark.parametrize("at_once", [attention.CHUNK_NUMBERS, 2 * K * F])  # all edges, two edges
def test_gradients_are_those_of_finite_differences(at_once, monkeypatch):
    monkeypatch.setattr(attention, "CHUNK_NUMBERS", at_once)
    heard, listening = (random_signal(5, K, dtype=torch.float64).requires_grad_() for _ in range(2))
    assert gradcheck(EDGES.softmax, (heard, listening + 0.1))
    assert gradcheck(
        EDGES.weighted_sum, (random_signal(K, 6).requires_grad_(), random_signal(K, 5, F).requires_grad_())
    )


def test_a_column_has_the_same_bits_alone():
    heard, listening, x = random_signal(5, K), random_signal(5, K + 1)[:, :K], random_signal(K, 5, F)
    weights = EDGES.softmax(heard, listening)
    alone = EDGES.softmax(heard[:, 1:2].contiguous(), listening[:, 1:2])
    assert_same_bits(alone[:, 0], weights[:, 1])
    assert_same_bits(EDGES.weighted_sum(alone.T, x[1:2])[0], EDGES.weighted_sum(weights.T, x)[1])
