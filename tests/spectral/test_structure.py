import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.spectral.structure import scaled_adjacency, sides_of, structure_columns, structure_maps, truncated_svd

UNDIRECTED, DIRECTED = csbm(nodes=80, seed=0), directed_csbm(nodes=80, seed=0)
GRAPHS = pytest.mark.parametrize(
    ("graph", "sides"), [(UNDIRECTED, ("both",)), (DIRECTED, ("out", "in")), (DIRECTED, ("both",))]
)
# three triangles, a path of three nodes, a pair, and a node without edges
COMPONENTS = Graph([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12], [1, 2, 0, 4, 5, 3, 7, 8, 6, 10, 11, 13]], nodes=15)


def dense(graph, sides):
    A = (graph.undirected() if "both" in sides else graph).adjacency.toarray()
    quarters = [np.divide(1, d**0.25, out=np.zeros(len(d)), where=d > 0) for d in (A.sum(1), A.sum(0))]
    return quarters[0][:, None] * A * quarters[1]


def unit_rows(columns):
    return columns / np.maximum(np.linalg.norm(columns, axis=1, keepdims=True), 1e-30)


@GRAPHS
def test_scaled_adjacency_is_the_dense_formula(graph, sides):
    used = graph.undirected() if "both" in sides else graph
    np.testing.assert_allclose(scaled_adjacency(used).toarray(), dense(graph, sides), atol=1e-14)


@GRAPHS
def test_all_columns_are_those_of_a_dense_svd_up_to_rotation(graph, sides):
    U, s, Vt = np.linalg.svd(dense(graph, sides))
    columns = structure_columns(graph, structure_maps(graph, 80, sides)).double().numpy()
    expected = {"out": U * s, "both": U * s, "in": Vt.T * s}
    assert columns.shape == (80, 80 * len(sides))
    for i, side in enumerate(sides):  # products of rows do not depend on signs and rotations
        found, wanted = columns[:, 80 * i : 80 * i + 80], unit_rows(expected[side])
        np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-5)


@GRAPHS
@pytest.mark.parametrize("rank", [3, 7, 20, 80])
def test_the_approximation_is_nearly_the_best_of_its_rank(graph, sides, rank):
    matrix = torch.from_numpy(dense(graph, sides))
    U, s, V = truncated_svd(matrix.to_sparse_coo(), rank)
    singular = torch.linalg.svdvals(matrix)
    torch.testing.assert_close(s, singular[:rank], rtol=0.01, atol=0)
    assert float((matrix - (U * s) @ V.T).norm()) <= 1.01 * float(singular[rank:].norm()) + 1e-10


def test_nodes_without_edges_have_rows_of_zeros_and_no_edges_at_all_give_zeros():
    columns = structure_columns(COMPONENTS, structure_maps(COMPONENTS, 4, ("both",)))
    assert columns[14].abs().sum() == 0
    assert bool(columns.isfinite().all())
    empty = Graph(np.empty((2, 0), dtype=np.int64), nodes=3)
    assert structure_columns(empty, structure_maps(empty, 2, ("both",))).abs().sum() == 0


@GRAPHS
def test_equal_input_gives_equal_bits_and_leaves_the_generator_alone(graph, sides):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second = structure_maps(graph, 9, sides), structure_maps(graph, 9, sides)
    assert list(first) == list(sides)
    assert all(torch.equal(first[side], second[side]) for side in sides)
    assert torch.equal(torch.get_rng_state(), state)


@GRAPHS
def test_new_nodes_are_projected_and_training_nodes_keep_their_columns(graph, sides):
    maps = structure_maps(graph, 5, sides)
    edges = torch.stack([torch.from_numpy(part).long() for part in graph.adjacency.nonzero()])
    # node 80 has the neighbours of node 3, node 81 has none: degrees of neighbours change, so compare with a formula
    out, into = edges[1][edges[0] == 3], edges[0][edges[1] == 3]
    new = torch.cat(
        [edges, torch.stack([torch.full_like(out, 80), out]), torch.stack([into, torch.full_like(into, 80)])], 1
    )
    larger = Graph(new, nodes=82, directed=graph.is_directed)
    columns, matrix = structure_columns(larger, maps).double().numpy(), dense(larger, sides)
    links = {"out": matrix[:, :80], "both": matrix[:, :80], "in": matrix[:80].T}
    expected = np.hstack([unit_rows(links[side] @ maps[side].double().numpy()) for side in sides])
    np.testing.assert_allclose(columns, expected, atol=1e-5)
    np.testing.assert_allclose(columns[80], columns[3], atol=1e-6)
    assert not columns[81].any()
    apart = Graph(edges, nodes=81, directed=graph.is_directed)  # a new node without edges changes no degree
    torch.testing.assert_close(structure_columns(apart, maps)[:80], structure_columns(graph, maps))


def test_sides_follow_the_directions_of_the_recipe():
    assert sides_of(UNDIRECTED, ["both"]) == ("both",)
    assert sides_of(DIRECTED, ["both"]) == ("both",)
    assert sides_of(DIRECTED, ["out"]) == ("out",)
    assert sides_of(DIRECTED, ["both", "in", "out"]) == ("out", "in")


def test_more_columns_than_nodes_are_refused():
    with pytest.raises(ValueError, match="at most the number of nodes, 80; got 81"):
        structure_maps(UNDIRECTED, 81, ("both",))


@GRAPHS
def test_a_few_columns_are_those_of_the_largest_singular_values(graph, sides):
    """With all columns, other singular vectors would give the same products of rows."""
    U, s, Vt = np.linalg.svd(dense(graph, sides))
    rank = int((s[3:12] - s[4:13]).argmax()) + 4  # a gap: these singular vectors are determined
    columns = structure_columns(graph, structure_maps(graph, rank, sides)).double().numpy()
    expected = {"out": U * s, "both": U * s, "in": Vt.T * s}
    for i, side in enumerate(sides):
        found, wanted = columns[:, rank * i : rank * (i + 1)], unit_rows(expected[side][:, :rank])
        assert np.abs(found @ found.T - wanted @ wanted.T).mean() < 0.01
