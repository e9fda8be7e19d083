"""Every kind of invalid input, and its error: what was expected, what was given, what to do."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from adaptkry.common import checks
from adaptkry.graphs.graph import Graph

PATH = [[0, 1], [1, 2]]  # three nodes
NAN, INF = float("nan"), float("inf")


def with_one(value) -> np.ndarray:
    """Features of three nodes with this value at node 1."""
    return np.array([[1.0, 2.0], [value, 4.0], [5.0, 6.0]])


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        pytest.param(
            [[0, 7], [1, 2]],
            ValueError,
            r"0 \.\. 2 for 3 nodes; got 7\. Number the nodes from 0, .* all 8",
            id="too high",
        ),
        pytest.param([[0, -2], [1, 2]], ValueError, r"0 or more; got -2\. Number the nodes from 0", id="negative"),
        pytest.param(np.ones((5, 2), int), ValueError, r"\[2, m\].*got \[5, 2\]\. Transpose", id="transposed"),
        pytest.param([0, 1, 2], ValueError, r"\[2, m\].*got \[3\]\. Pass pairs", id="1-D"),
        pytest.param(np.ones((2, 2, 2), int), ValueError, r"got \[2, 2, 2\]", id="3-D"),
        pytest.param(1, ValueError, r"got \[\]", id="a number"),
        pytest.param([[0.0], [1.0]], TypeError, r"integers; got torch.float64 .*first value 0\.0", id="float"),
        pytest.param([[True], [False]], TypeError, r"integers; got torch.bool .*first value True", id="bool"),
        pytest.param([[1j], [0]], TypeError, r"edges must be real; got torch.complex128", id="complex"),
        pytest.param([[0, 1], [1]], TypeError, r"edges must be numbers.*got list.*equal length", id="ragged"),
        pytest.param(np.array([[0], [None]]), TypeError, r"edges must be numbers.*numpy.object_", id="objects"),
        pytest.param("0-1", TypeError, r"edges must be numbers in an array; got str", id="string"),
        pytest.param(None, TypeError, r"edges must be numbers in an array; got NoneType", id="None"),
        pytest.param(torch.eye(3).to_sparse(), TypeError, r"edges must be dense.*torch.sparse_coo", id="sparse"),
    ],
)
def test_bad_edges_are_refused(edges, error, message):
    with pytest.raises(error, match=message):
        Graph(edges, nodes=3)


@pytest.mark.parametrize("edges", [[[-1], [-1]], [[-1], [-4]], [[0], [-1]]])
def test_negative_ids_are_named_where_the_number_of_nodes_is_not_given(edges):
    with pytest.raises(ValueError, match=f"edge ids must be 0 or more; got {min(edges[0] + edges[1])}"):
        Graph(edges)


@pytest.mark.parametrize(
    "empty",
    [
        lambda: Graph([]),
        lambda: Graph(np.zeros((2, 0))),
        lambda: Graph([], nodes=0),
        lambda: Graph([], np.zeros((0, 3))),
        lambda: Graph([], labels=[]),
        lambda: Graph.from_scipy(sp.csr_array((0, 0))),
        lambda: Graph.from_networkx(nx.Graph()),
    ],
)
def test_a_graph_without_nodes_is_refused(empty):
    with pytest.raises(ValueError, match="a graph needs at least one node; got"):
        empty()


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        (-1, ValueError, r"number of nodes must be 0 or more; got -1\.( |$)"),
        (3.0, TypeError, r"number of nodes must be an integer; got 3\.0\.( |$)"),
        (True, TypeError, "number of nodes must be an integer; got True"),
        ("3", TypeError, "number of nodes must be an integer; got '3'"),
    ],
)
def test_a_bad_number_of_nodes_is_refused(nodes, error, message):
    with pytest.raises(error, match=message):
        Graph([[0], [0]], nodes=nodes)


@pytest.mark.parametrize("wrap", [np.asarray, torch.as_tensor, sp.csr_array], ids=["numpy", "torch", "sparse"])
@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        pytest.param(with_one(NAN), ValueError, r"features must be finite; .* has nan\. Fill or drop", id="NaN"),
        pytest.param(with_one(INF), ValueError, r"features must be finite; .* has inf\. Fill or drop", id="inf"),
        pytest.param(with_one(-INF), ValueError, r"features must be finite; .* has -inf\. Fill", id="-inf"),
        pytest.param(with_one(1j), TypeError, r"features must be real; got torch.complex128\. Pass", id="complex"),
        pytest.param(np.ones((4, 2)), ValueError, r"shape \[3, d\].*got \[4, 2\]\. Check", id="too long"),
        pytest.param(np.ones((2, 3)), ValueError, r"got \[2, 3\].*transpose", id="transposed"),
        pytest.param(np.ones((3, 0)), ValueError, r"one column; got .*\[3, 0\].*torch.eye", id="no column"),
    ],
)
def test_bad_features_are_refused(features, error, message, wrap):
    with pytest.raises(error, match=message):
        Graph(PATH, wrap(features), nodes=3)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        pytest.param([1.0, 2.0, 3.0], ValueError, r"shape \[3, d\].*got \[3\]", id="1-D"),
        pytest.param(np.ones((3, 1, 1)), ValueError, r"shape \[3, d\].*got \[3, 1, 1\]", id="3-D"),
        pytest.param([[1.0], [2.0, 3.0], [4.0]], TypeError, r"features must be numbers.*equal length", id="ragged"),
        pytest.param([["a"], ["b"], ["c"]], TypeError, r"features must be numbers in an array; got list", id="strings"),
        pytest.param([[1], [None], [2]], TypeError, r"features must be numbers.*numpy.object_", id="objects"),
        pytest.param(torch.eye(3).to_sparse(1), ValueError, r"sparse features must have shape \[n, d\]", id="hybrid"),
        pytest.param(torch.eye(3).to_sparse() * 1j, TypeError, "features must be real", id="sparse complex"),
        pytest.param(torch.eye(3).to_sparse() * torch.inf, ValueError, "features must be finite", id="sparse infinite"),
        pytest.param(5, TypeError, r"one row per node; got 5\.( |$)", id="a number"),
        pytest.param(np.float64(5), TypeError, r"one row per node; got .*5\.0.*", id="a NumPy number"),
        pytest.param((row for row in "ab"), TypeError, r"one row per node; got <generator", id="generator"),
    ],
)
def test_features_that_are_not_a_matrix_are_refused(features, error, message):
    with pytest.raises(error, match=message):
        Graph(PATH, features)


def test_the_first_bad_feature_is_named_by_its_node():
    with pytest.raises(ValueError, match="node 1 has nan"):
        Graph(PATH, with_one(NAN))


def test_a_graph_without_features_says_what_to_pass():
    with pytest.raises(ValueError, match=r"no features\. Pass features="):
        _ = Graph(PATH).x


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([-1, -1], None, "at least 2 classes; none of 2 nodes has a label"),
        ([3, -1, 3], None, r"the 2 labelled nodes \(of 3\) are all of class 3\. Label"),
        ([1, 1, -1], ("ham", "spam"), "are all of class 'spam'"),
    ],
)
def test_labels_of_one_class_are_refused_with_its_name_or_number(labels, names, message):
    with pytest.raises(ValueError, match=message):
        checks.classes(torch.tensor(labels), names)


def test_two_classes_are_enough_even_with_gaps_between_their_numbers():
    labels = torch.tensor([0, 5, -1])
    assert checks.classes(labels) is labels


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        pytest.param([0, 1], ValueError, r"labels must have shape \[3\].*got \[2\]\. Use -1", id="too short"),
        pytest.param([[0, 1]] * 3, ValueError, r"labels must have shape \[3\].*got \[3, 2\]", id="many columns"),
        pytest.param([0, -2, 1], ValueError, r"-1 for unknown; node 1 has -2\. Number the classes", id="below -1"),
        pytest.param([0.0, 1.0, NAN], TypeError, r"labels must be integers; got torch.float64", id="float"),
        pytest.param([True, False, True], TypeError, r"labels must be integers; got torch.bool", id="bool"),
        pytest.param([0, 1j, 1], TypeError, r"labels must be real; got torch.complex128", id="complex"),
        pytest.param(["a", "b", "c"], TypeError, r"labels must be numbers in an array; got list", id="strings"),
    ],
)
def test_bad_labels_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        Graph(PATH, labels=labels, nodes=3)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        pytest.param([1.0, NAN], ValueError, r"weights must be finite; edge 1 has nan", id="NaN"),
        pytest.param([INF, 1.0], ValueError, r"weights must be finite; edge 0 has inf", id="inf"),
        pytest.param([1.0, -0.5], ValueError, r"not be negative; edge 1 has -0\.5.*absolute values", id="negative"),
        pytest.param([1.0], ValueError, r"must have shape \[2\], one per edge; got shape \[1\]", id="too short"),
        pytest.param([[1.0], [2.0]], ValueError, r"weights must have shape \[2\].*got shape \[2, 1\]", id="2-D"),
        pytest.param(2.0, ValueError, r"weights must have shape \[2\].*got shape \[\]", id="a number"),
        pytest.param(NAN, ValueError, r"weights must be finite", id="a NaN"),
        pytest.param([1.0, 1j], TypeError, r"weights must be real; got torch.complex128", id="complex"),
        pytest.param([[1.0], [2.0, 3.0]], TypeError, r"weights must be numbers.*equal length", id="ragged"),
        pytest.param(["1", "2"], TypeError, r"weights must be numbers in an array", id="strings"),
    ],
)
def test_bad_weights_are_refused(weights, error, message):
    with pytest.raises(error, match=message):
        Graph(PATH, weights=weights)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Graph.from_scipy(sp.csr_array((2, 3))), ValueError, r"must be square; got shape \[2, 3\]"),
        (lambda: Graph.from_scipy(sp.coo_array(np.ones(3))), ValueError, r"must be square; got shape \[3\]"),
        (lambda: Graph.from_scipy(np.eye(3)), TypeError, "needs a SciPy sparse matrix; got ndarray"),
        (lambda: Graph.from_scipy(-sp.eye_array(3), weighted=True), ValueError, r"edge 0 has -1\.0"),
        (lambda: Graph.from_scipy(1j * sp.eye_array(3), weighted=True), TypeError, "weights must be real"),
        (lambda: Graph.from_pyg(Data(x=torch.ones(3, 1))), ValueError, r"needs a Data with edge_index; Data\("),
    ],
)
def test_bad_matrices_and_data_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_an_unknown_direction_is_refused():
    with pytest.raises(ValueError, match=r"direction must be .*got 'sideways'"):
        Graph(PATH).degree("sideways")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tau", "error", "message"),
    [
        *((bad, ValueError, f"tau must be positive and finite; got {float(bad)}") for bad in (0, -0.5, NAN, INF)),
        ([0.5, 0], ValueError, r"tau must be positive and finite; got 0\.0.*Try 0\.1 to 1\.9"),
        ([], ValueError, "got an empty list"),
        (torch.tensor([]), ValueError, "got an empty list"),
        ("0.5", TypeError, r"tau must be a positive number; got '0\.5'"),
        (["0.5"], TypeError, r"tau must be a positive number; got '0\.5'"),
        (b"5", TypeError, "got b'5'"),
        (None, TypeError, "got None"),
        (True, TypeError, "got True"),
        (np.True_, TypeError, "got .*True.*"),
        (1j, TypeError, "got 1j"),
        ([[0.5]], TypeError, r"got \[0\.5\]"),
        (torch.ones(2, 2), TypeError, r"got tensor\(\[1., 1.\]\)"),
    ],
)
def test_a_bad_tau_is_refused(tau, error, message):
    with pytest.raises(error, match=message):
        checks.taus(tau)


@pytest.mark.parametrize(
    "kind", [float, np.float64, np.array, torch.tensor], ids=["float", "float64", "0-d array", "0-d tensor"]
)
def test_one_tau_may_be_any_kind_of_number(kind):
    assert checks.taus(kind(0.5)) == (0.5,)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor], ids=["list", "tuple", "array", "tensor"])
def test_several_taus_may_be_any_kind_of_list(kind):
    assert checks.taus(kind([0.5, 1.25])) == (0.5, 1.25)


@pytest.mark.parametrize(
    ("degree", "error", "message"),
    [
        (-1, ValueError, r"degree must be 0 or more; got -1\.( |$)"),
        (2.0, TypeError, r"degree must be an integer; got 2\.0\.( |$)"),
        (True, TypeError, "degree must be an integer; got True"),
        ("3", TypeError, "degree must be an integer; got '3'"),
        (None, TypeError, "degree must be an integer; got None"),
    ],
)
def test_a_bad_degree_is_refused(degree, error, message):
    with pytest.raises(error, match=message):
        checks.count(degree, "degree")


@pytest.mark.parametrize("degree", [0, 5, np.int64(5), np.uint8(5)])
def test_any_integer_is_a_degree(degree):
    found = checks.count(degree, "degree")
    assert found == degree
    assert type(found) is int


@pytest.mark.parametrize(
    ("x", "matrices", "error", "message"),
    [
        (np.ones(3), None, TypeError, r"acts on a torch tensor; got ndarray.*torch.as_tensor"),
        (torch.ones(3, dtype=torch.complex64), None, TypeError, "signal must be real; got torch.complex64"),
        (torch.ones(3, dtype=torch.int64), None, TypeError, r"float32 or float64; got torch.int64.*x.float\(\)"),
        (torch.ones(3, dtype=torch.float16), None, TypeError, "float32 or float64; got torch.float16"),
        (torch.ones(4), None, ValueError, r"shape \[3\] or \[3, d\].*got \[4\]"),
        (torch.ones(3, 0), None, ValueError, r"d at least 1; got \[3, 0\]"),
        (torch.ones(2, 3, 1), None, ValueError, r"got \[2, 3, 1\]"),
        (torch.ones(4, 3, 1), 2, ValueError, r"\[3, d\] or \[2, 3, d\].*got \[4, 3, 1\]"),
        (torch.ones(3), 2, ValueError, r"\[3, d\] or \[2, 3, d\].*got \[3\]"),
    ],
)
def test_a_bad_signal_is_refused(x, matrices, error, message):
    with pytest.raises(error, match=message):
        checks.signal(x, 3, matrices)


@pytest.mark.parametrize(("shape", "matrices"), [((3,), None), ((3, 2), None), ((3, 2), 4), ((4, 3, 2), 4)])
def test_a_valid_signal_is_returned_unchanged(shape, matrices):
    x = torch.ones(shape)
    assert checks.signal(x, 3, matrices) is x
