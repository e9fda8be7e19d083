import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from adaptkry.graphs.graph import Graph, Info, compact
from strategies import graphs, random_edges, random_graph, random_weights

PAIRS = [[0, 1, 1, 2, 2], [1, 0, 2, 2, 3]]  # 0 and 1 in both directions, a self-loop at 2
WEIGHTS = [1.0, 5.0, 2.0, 3.0, 4.0]


def dense(graph: Graph) -> np.ndarray:
    """A from the stored CSR, entry by entry, without SciPy and torch.sparse."""
    A = np.zeros((graph.nodes, graph.nodes))
    for i in range(graph.nodes):
        for k in range(int(graph.indptr[i]), int(graph.indptr[i + 1])):
            A[i, int(graph.indices[k])] += 1 if graph.weights is None else float(graph.weights[k])
    return A


def brute(pairs, weights, n: int, *, directed: bool, self_loops: bool = True) -> np.ndarray:
    """A as the docstring of Graph describes it, edge by edge."""
    A = np.zeros((n, n))
    for (i, j), weight in zip(np.asarray(pairs).T, np.ones(len(pairs[0])) if weights is None else weights, strict=True):
        if self_loops or i != j:
            A[i, j] += weight
    A = np.minimum(A, 1) if weights is None else A
    return A if directed else np.maximum(A, A.T)


@given(st.integers(0, 999), st.integers(1, 12), st.integers(0, 40), st.booleans(), st.booleans(), st.booleans())
def test_csr_equals_the_brute_force_adjacency_matrix(seed, n, m, weighted, directed, self_loops):
    pairs, weights = random_edges(seed, n, m), random_weights(seed, m) if weighted else None
    graph = Graph(pairs, nodes=n, weights=weights, directed=directed, self_loops=self_loops)
    expected = brute(pairs, weights, n, directed=directed, self_loops=self_loops)
    np.testing.assert_allclose(dense(graph), expected)
    np.testing.assert_array_equal(graph.adjacency.toarray(), dense(graph))
    assert graph.entries == np.count_nonzero(expected)


@given(graphs())
def test_csr_is_int32_and_its_rows_are_sorted_without_repeats(graph):
    assert graph.indptr.dtype == graph.indices.dtype == torch.int32
    for row in np.split(graph.indices.numpy(), graph.indptr.numpy()[1:-1]):
        assert (np.diff(row) > 0).all()


def test_indices_are_int32_up_to_the_largest_int32():
    assert compact([2**31 - 1]).dtype == torch.int32
    assert compact([2**31]).dtype == torch.int64
    assert compact([2**31]).tolist() == [2**31]


def test_weights_of_repeated_edges_are_added_and_the_larger_direction_is_used():
    graph = Graph([[0, 0, 1], [1, 1, 0]], weights=[1.0, 1.5, 2.0])
    np.testing.assert_array_equal(dense(graph), [[0, 2.5], [2.5, 0]])


@pytest.mark.parametrize(("directed", "entries"), [(True, 2), (False, 3)])
def test_an_edge_of_weight_zero_is_no_edge(directed, entries):
    graph = Graph(PAIRS, weights=[0, 0, 1, 1, 0], directed=directed)
    assert graph.entries == entries
    assert graph.isolated().tolist() == [True, False, False, True]


def test_edges_are_optional_where_the_number_of_nodes_is_known():
    for graph in (Graph([], nodes=3), Graph([[], []], torch.ones(3, 1)), Graph([], labels=[0, 1, -1])):
        assert (graph.nodes, graph.entries) == (3, 0)
        assert graph.isolated().all()


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_lists_arrays_and_tensors_give_the_same_graph(kind):
    graph = Graph(kind(PAIRS), kind([[1.0], [2.0], [3.0], [4.0]]), kind([0, 1, 1, -1]), weights=kind(WEIGHTS))
    np.testing.assert_array_equal(dense(graph), brute(PAIRS, WEIGHTS, 4, directed=False))
    assert graph.x.flatten().tolist() == [1, 2, 3, 4]
    assert graph.y.tolist() == [0, 1, 1, -1]


def test_reversed_and_read_only_arrays_are_accepted():
    pairs, features = np.array(PAIRS), np.eye(4)
    features.flags.writeable = False  # as arrays from pandas are; torch would warn
    graph = Graph(pairs[::-1], features, directed=True)
    np.testing.assert_array_equal(dense(graph), brute(PAIRS, None, 4, directed=True).T)
    assert graph.x.equal(torch.eye(4).double())


def test_building_a_graph_does_not_change_its_input():
    pairs, weights, matrix = np.array(PAIRS), np.array(WEIGHTS), sp.coo_array(np.diag([1.0, 0, 2]))
    before = pairs.copy(), weights.copy(), matrix.copy()
    Graph(pairs, weights=weights, self_loops=False)
    Graph.from_scipy(matrix, weighted=True)
    np.testing.assert_array_equal(pairs, before[0])
    np.testing.assert_array_equal(weights, before[1])
    assert matrix.nnz == before[2].nnz


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("directed", [False, True])
def test_changing_the_arrays_of_a_graph_later_does_not_change_the_graph(kind, directed):
    edges, weights, labels = kind(np.array(PAIRS)), kind(np.array(WEIGHTS)), kind(np.array([0, 1, 1, -1]))
    features, mask = kind(np.eye(4)), kind(np.ones((1, 4), dtype=bool))
    info = Info(masks={part: mask for part in ("train", "validation", "test")})  # type: ignore[arg-type]
    graph = Graph(edges, features, labels, weights=weights, directed=directed, info=info)
    relabelled = graph.relabelled(labels)
    before = dense(graph)
    for array in (edges, features, labels, weights, mask):
        array[:] = 0
    np.testing.assert_array_equal(dense(graph), before)
    assert graph.x.equal(torch.eye(4).double())
    assert graph.y.tolist() == relabelled.y.tolist() == [0, 1, 1, -1]
    assert graph.info.masks is not None
    assert all(bool(mask.all()) for mask in graph.info.masks.values())


def test_changing_the_scipy_matrices_of_a_graph_later_does_not_change_the_graph():
    adjacency, features = sp.csr_array(np.diag([1.0, 2, 3])), sp.csr_array(np.eye(3))
    graph = Graph.from_scipy(adjacency, features, weighted=True, directed=True)
    adjacency.data[:], features.data[:] = 9, 9
    np.testing.assert_array_equal(dense(graph), np.diag([1.0, 2, 3]))
    assert graph.x.equal(torch.eye(3).double())


def test_derived_graphs_share_features_and_labels():
    graph = random_graph(0, directed=True)
    assert all(other.features is graph.features for other in (graph.undirected(), graph.with_self_loops()))


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (Info(class_names=("a", "b")), r"a name for each of the 3 classes, .*; got 2: a, b\. Add names"),
        (Info(node_ids=("a",)), r"node_ids must have one name per node, 4 in all; got 1\."),
        (Info(feature_names=("a", "b")), r"feature_names must have one name per feature column, 1 in all; got 2\."),
    ],
)
def test_names_that_do_not_fit_are_refused(info, message):
    with pytest.raises(ValueError, match=message):
        Graph(PAIRS, np.ones((4, 1)), [0, 1, 2, -1], info=info)
    Graph(PAIRS, np.ones((4, 1)), [0, 1, 2, -1], info=Info(class_names=("a", "b", "c", "d"), node_ids="abcd"))


# --- features and labels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_sparse_features_equal_dense_ones(layout, dtype):
    features = np.eye(4, 3).astype(dtype)
    x = Graph(PAIRS, sp.csr_array(features).asformat(layout)).x
    expected = Graph(PAIRS, features).x
    assert x.dtype == expected.dtype
    assert x.equal(expected)


@pytest.mark.parametrize(("given_", "kept"), [("float64", "float64"), ("float16", "float32"), ("int32", "float32")])
def test_features_become_float32_unless_they_are_float64(given_, kept):
    assert Graph(PAIRS, np.eye(4).astype(given_)).x.dtype == getattr(torch, kept)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_integers_above_two_to_the_24_keep_their_values_as_features(wrap):
    features = np.array([[2**24 + 1], [3], [-(2**40) - 1], [0]])
    x = Graph(PAIRS, wrap(features)).x
    assert x.dtype == torch.float64
    assert x.flatten().tolist() == features.flatten().tolist()


def test_labels_may_be_a_column_and_default_to_unknown():
    assert Graph(PAIRS, labels=[[0], [1], [-1], [2]]).y.tolist() == [0, 1, -1, 2]
    bare = Graph(PAIRS)
    assert bare.y.tolist() == [-1] * 4
    assert bare.classes == 0


# --- conversions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_from_scipy_keeps_the_matrix(layout, directed, weighted):
    matrix = sp.coo_array((WEIGHTS, PAIRS), shape=(5, 5)).asformat(layout)
    graph = Graph.from_scipy(matrix, weighted=weighted, directed=directed)
    np.testing.assert_array_equal(dense(graph), brute(PAIRS, WEIGHTS if weighted else None, 5, directed=directed))


@given(graphs())
def test_a_graph_converted_to_scipy_and_back_is_the_same(graph):
    back = Graph.from_scipy(graph.adjacency, weighted=graph.weights is not None, directed=graph.is_directed)
    np.testing.assert_array_equal(dense(back), dense(graph))


@pytest.mark.parametrize("weights", [None, torch.tensor(WEIGHTS)], ids=["plain", "weighted"])
def test_from_pyg_keeps_the_direction_of_edges(weights):
    data = Data(torch.rand(5, 2), torch.tensor(PAIRS), edge_weight=weights, y=torch.tensor([0, 1, 0, 1, 0]))
    graph = Graph.from_pyg(data)
    assert graph.is_directed
    np.testing.assert_array_equal(dense(graph), brute(PAIRS, weights, 5, directed=True))
    assert graph.x.equal(data["x"])
    assert graph.y.equal(data["y"])


def test_from_pyg_detects_undirected_edges():
    pairs, weights = [[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]], [0.5, 0.5, 2.0, 2.0, 1.0]
    data = Data(edge_index=torch.tensor(pairs), edge_weight=torch.tensor(weights), num_nodes=4)
    graph = Graph.from_pyg(data)
    assert not graph.is_directed
    np.testing.assert_array_equal(dense(graph), brute(pairs, weights, 4, directed=False))
    assert Graph.from_pyg(data, directed=True, self_loops=False).entries == 4


@pytest.mark.parametrize("weight", [None, "strength"])
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_from_networkx_equals_the_matrix_of_networkx(kind, weight):
    theirs = kind()
    theirs.add_nodes_from("dcbae")  # not in alphabetical order, and e is isolated
    for source, target, strength in zip(*PAIRS, WEIGHTS, strict=True):
        theirs.add_edge("abcd"[source], "abcd"[target], strength=strength)
    graph = Graph.from_networkx(theirs, weight=weight)
    expected = nx.to_numpy_array(theirs, weight=weight)  # type: ignore[arg-type]
    assert graph.is_directed == theirs.is_directed()
    np.testing.assert_array_equal(dense(graph), expected if weight else expected > 0)


# --- properties and derived graphs -----------------------------------------------------------------------------------


@given(graphs())
def test_degrees_are_the_sums_of_the_dense_matrix(graph):
    A = dense(graph)
    both = np.maximum(A, A.T).sum(1)
    np.testing.assert_allclose(graph.degree("out"), A.sum(1))
    np.testing.assert_allclose(graph.degree("in"), A.sum(0))
    np.testing.assert_allclose(graph.degree(), both)
    np.testing.assert_array_equal(graph.isolated(), both == 0)
    assert graph.degree().dtype == torch.float64


@given(graphs())
def test_components_are_those_of_networkx(graph):
    theirs = nx.from_numpy_array(np.maximum(dense(graph), dense(graph).T))
    count, member = graph.components()
    ours = {frozenset(np.flatnonzero(member.numpy() == part).tolist()) for part in range(count)}
    assert ours == {frozenset(part) for part in nx.connected_components(theirs)}


@given(graphs())
def test_derived_graphs_equal_their_dense_counterparts(graph):
    A = dense(graph)
    np.testing.assert_array_equal(dense(graph.undirected()), np.maximum(A, A.T))
    np.testing.assert_array_equal(dense(graph.transposed()), A.T)
    np.testing.assert_array_equal(dense(graph.without_self_loops()), A - np.diag(np.diag(A)))
    for derived in (graph.undirected(), graph.transposed(), graph.without_self_loops()):
        assert derived.x.equal(graph.x)
        assert derived.y.equal(graph.y)
        assert (derived.weights is None) == (graph.weights is None)
    assert not graph.undirected().is_directed
    assert graph.transposed().is_directed == graph.without_self_loops().is_directed == graph.is_directed


def test_undirected_and_transposed_return_an_undirected_graph_itself():
    graph = random_graph(seed=3)
    assert graph.undirected() is graph
    assert graph.transposed() is graph


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "Graph(nodes=4, entries=7, features=0, classes=0, undirected)"),
        ({"directed": True}, "Graph(nodes=4, entries=5, features=0, classes=0, directed)"),
        (
            {"features": torch.ones(4, 2), "labels": [0, 2, -1, 0], "weights": WEIGHTS},
            "Graph(nodes=4, entries=7, features=2, classes=3, undirected, weighted)",
        ),
    ],
)
def test_repr_shows_size_and_kind(options, expected):
    assert repr(Graph(PAIRS, **options)) == expected


@given(st.integers(0, 999), st.integers(2, 12), st.integers(0, 30), st.booleans(), st.booleans())
def test_an_edited_graph_equals_one_that_is_built_from_the_same_edges(seed, n, m, weighted, directed):
    pairs, weights = random_edges(seed, n, m), random_weights(seed, m) if weighted else None
    graph = Graph(pairs, nodes=n, weights=weights, directed=directed, labels=np.arange(n) % 2)
    added, more = random_edges(seed + 1, n + 2, 6), random_weights(seed + 1, 6)
    gone = np.asarray(pairs)[:, : min(m, 2)].reshape(2, -1)
    gone = gone[:, dense(graph)[gone[0], gone[1]] > 0]
    found = graph.edited(n + 2, torch.as_tensor(added), torch.as_tensor(gone), torch.as_tensor(more), graph.info)
    A = np.zeros((n + 2, n + 2))
    A[:n, :n] = dense(graph)
    A[gone[0], gone[1]] = 0
    if not directed:
        A[gone[1], gone[0]] = 0
    A += brute(added, more, n + 2, directed=directed)
    np.testing.assert_allclose(dense(found), A if weighted else A > 0, rtol=1e-15)
    assert found.indices.diff()[(found.indices.diff() <= 0)].numel() <= n + 1  # rows stay sorted
    for kind in ("out", "in", "both"):
        sums = A if weighted else (A > 0).astype(float)
        sums = np.maximum(sums, sums.T) if kind == "both" and directed else sums
        np.testing.assert_allclose(found.degree(kind), sums.sum(0 if kind == "in" else 1), rtol=1e-14)
    assert found.y.tolist() == [*graph.y.tolist(), -1, -1]
