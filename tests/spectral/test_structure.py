import numpy as np
import pytest
import scipy.sparse as sp
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.spectral import structure
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.structure import normalised_adjacency, structure_columns, structure_maps, truncated_svd

UNDIRECTED, DIRECTED = csbm(nodes=80, seed=0), directed_csbm(nodes=80, seed=0)
GRAPHS = pytest.mark.parametrize("graph", [UNDIRECTED, DIRECTED], ids=["undirected", "directed"])
# three triangles, a path of three nodes, a pair, and a node without edges
COMPONENTS = Graph([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12], [1, 2, 0, 4, 5, 3, 7, 8, 6, 10, 11, 13]], nodes=15)


@GRAPHS
def test_normalised_adjacency_is_the_dense_formula(graph):
    A = graph.adjacency.toarray()
    rows, columns = A.sum(1), A.sum(0)
    roots = [np.divide(1, np.sqrt(d), out=np.zeros(len(d)), where=d > 0) for d in (rows, columns)]
    np.testing.assert_allclose(normalised_adjacency(graph).toarray(), roots[0][:, None] * A * roots[1], atol=1e-14)
    P = Propagation(graph, 1.0, "out", isolated=0.0)
    np.testing.assert_allclose(normalised_adjacency(graph).toarray(), P.to_dense().numpy(), atol=1e-14)


@pytest.mark.parametrize("dense_entries", [0, structure.DENSE_ENTRIES], ids=["lanczos", "dense"])
@GRAPHS
def test_columns_are_those_of_a_dense_svd_up_to_sign(graph, dense_entries, monkeypatch):
    monkeypatch.setattr(structure, "DENSE_ENTRIES", dense_entries)
    matrix = normalised_adjacency(graph)
    U, s, Vt = np.linalg.svd(matrix.toarray())
    assert np.diff(s[:8]).max() < -1e-3  # no repeated values, so that vectors are unique up to sign
    found = truncated_svd(matrix, 7)
    np.testing.assert_allclose(found[1], s[:7], atol=1e-12)
    for vectors, expected in ((found[0], U[:, :7]), (found[2], Vt[:7].T)):
        np.testing.assert_allclose(np.abs((vectors * expected).sum(0)), 1, atol=1e-10)
    columns = structure_columns(graph, *structure_maps(graph, 7)).double().numpy()
    sides = [U[:, :7] * s[:7], Vt[:7].T * s[:7]][: 1 + graph.is_directed]
    assert columns.shape == (graph.nodes, 7 * len(sides))
    np.testing.assert_allclose(np.abs(columns), np.abs(np.hstack(sides)), atol=1e-6)


@GRAPHS
@pytest.mark.parametrize("rank", [78, 79, 80])
def test_all_columns_reproduce_the_matrix(graph, rank):
    matrix = normalised_adjacency(graph).toarray()
    U, s, V = truncated_svd(sp.csr_array(matrix), rank)
    singular = np.linalg.svd(matrix, compute_uv=False)
    error = np.linalg.norm(matrix - (U * s) @ V.T)
    assert error == pytest.approx(np.linalg.norm(singular[rank:]), abs=1e-12)


def test_repeated_values_of_components_are_all_found_and_known_pairs_come_last():
    matrix = normalised_adjacency(COMPONENTS)
    singular = np.linalg.svd(matrix.toarray(), compute_uv=False)
    U, s, V = truncated_svd(matrix, 15)
    np.testing.assert_allclose(np.sort(s)[::-1], singular, atol=1e-12)
    np.testing.assert_allclose((U * s) @ V.T, matrix.toarray(), atol=1e-12)
    # the first value of the largest block, then the other values, then the first values of the other blocks
    np.testing.assert_allclose(s, [1, *[0.5] * 6, *[1] * 6, 0, 0], atol=1e-12)
    rank_one = np.abs(U[:, :7]) > 1e-12
    assert not rank_one[9:].any()  # the path and the pair have no pairs but those known in advance


def test_nodes_without_edges_have_rows_of_zeros_and_no_edges_at_all_give_zeros():
    columns = structure_columns(COMPONENTS, *structure_maps(COMPONENTS, 4))
    assert columns[14].abs().sum() == 0
    empty = Graph(np.empty((2, 0), dtype=np.int64), nodes=3)
    assert structure_columns(empty, *structure_maps(empty, 2)).abs().sum() == 0


@GRAPHS
def test_equal_input_gives_equal_bits_and_fixed_signs(graph, monkeypatch):
    monkeypatch.setattr(structure, "DENSE_ENTRIES", 0)  # Lanczos
    first, second = structure_maps(graph, 9), structure_maps(graph, 9)
    assert torch.equal(first[0], second[0])
    assert (first[1] is None) == (not graph.is_directed)
    assert first[1] is None or torch.equal(first[1], second[1])
    largest = first[0].abs().argmax(0)
    assert bool((first[0].gather(0, largest[None]) > 0).all())


@GRAPHS
def test_new_nodes_are_projected_and_training_nodes_keep_their_columns(graph):
    right, left = structure_maps(graph, 5)
    edges = torch.stack([torch.from_numpy(part).long() for part in graph.adjacency.nonzero()])
    # node 80 has the neighbours of node 3, node 81 has none: degrees of neighbours change, so compare with a formula
    out, into = edges[1][edges[0] == 3], edges[0][edges[1] == 3]
    new = torch.cat(
        [edges, torch.stack([torch.full_like(out, 80), out]), torch.stack([into, torch.full_like(into, 80)])], 1
    )
    larger = Graph(new, nodes=82, directed=graph.is_directed)
    columns = structure_columns(larger, right, left).double()
    matrix = torch.from_numpy(normalised_adjacency(larger).toarray())
    expected = [matrix[:, :80] @ right.double()] + ([] if left is None else [matrix[:80].T @ left.double()])
    torch.testing.assert_close(columns, torch.cat(expected, 1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(columns[80], columns[3])
    assert columns[81].abs().sum() == 0
    apart = Graph(edges, nodes=81, directed=graph.is_directed)  # a new node without edges changes no degree
    torch.testing.assert_close(structure_columns(apart, right, left)[:80], structure_columns(graph, right, left))


def test_columns_of_an_undirected_training_graph_ignore_the_direction_of_edges():
    right, left = structure_maps(DIRECTED.undirected(), 4)
    torch.testing.assert_close(
        structure_columns(DIRECTED, right, left), structure_columns(DIRECTED.undirected(), right, left)
    )


def test_more_columns_than_nodes_are_refused():
    with pytest.raises(ValueError, match="at most the number of nodes, 80; got 81"):
        structure_maps(UNDIRECTED, 81)
