import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from adaptkry.common.choices import Direction, MixedDirection, Normalisation
from adaptkry.graphs.graph import Graph
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.operators import ALL_COLUMNS, Diagonal
from adaptkry.spectral.propagation_matrix import (
    CpuProduct,
    CsrProduct,
    Laplacian,
    MixedPropagation,
    Propagation,
    backend,
)
from contracts import OPERATOR_CONTRACT, TOLERANCE, assert_close, assert_same_bits, random_signal
from strategies import graphs, random_edges, random_graph, random_weights

DIRECTIONS: tuple[Direction, ...] = ("both", "out", "in")
MIXED_DIRECTIONS: tuple[MixedDirection, ...] = ("out-in", "in-out")
NORMALISATIONS: tuple[Normalisation, ...] = ("symmetric", "row", "column")
FLOATS = (torch.float32, torch.float64)
TAUS = [0.1, 0.5, 1.0, 1.5, 1.9]
one_tau = st.floats(0.1, 1.9) | st.sampled_from(TAUS)
some_taus = one_tau | st.lists(one_tau, min_size=1, max_size=3)
normalisations = st.sampled_from(NORMALISATIONS)


@OPERATOR_CONTRACT
@given(graph=graphs(), tau=some_taus, direction=st.sampled_from(DIRECTIONS), normalisation=normalisations)
def test_propagation_satisfies_the_operator_contract(check, graph, tau, direction, normalisation):
    check(Propagation(graph, tau, direction, normalisation=normalisation))


@OPERATOR_CONTRACT
@given(graph=graphs(), tau=one_tau)
def test_laplacian_satisfies_the_operator_contract(check, graph, tau):
    check(Laplacian(graph, tau))


@OPERATOR_CONTRACT
@given(graph=graphs(), tau=some_taus, direction=st.sampled_from(MIXED_DIRECTIONS))
def test_mixed_propagation_satisfies_the_operator_contract(check, graph, tau, direction):
    check(MixedPropagation(graph, tau, direction))


@given(
    graph=graphs(max_nodes=12), tau=one_tau, direction=st.sampled_from(MIXED_DIRECTIONS), normalisation=normalisations
)
def test_mixed_propagation_is_the_product_of_two_directions_applied_k_times(graph, tau, direction, normalisation):
    outer, inner = (by_formula(graph, tau, each, normalisation) for each in direction.split("-"))
    P, x = MixedPropagation(graph, tau, direction, normalisation=normalisation), random_signal(graph.nodes, 3)
    x.requires_grad_()
    found, size = P @ (P @ (P @ x)), 1 + float((outer @ inner).abs().sum(1).max()) ** 3
    assert_close(found, torch.linalg.matrix_power(outer @ inner, 3) @ x, rtol=1e-10, atol=1e-12 * size)
    g = random_signal(graph.nodes, 3)
    gradient = torch.linalg.matrix_power(outer @ inner, 3).mT @ g
    assert_close(torch.autograd.grad(found, x, g)[0], gradient, rtol=1e-10, atol=1e-12 * size)
    assert_close(P.T @ x, (outer @ inner).mT @ x, rtol=1e-10, atol=1e-12 * size)
    assert P.is_symmetric == (normalisation == "symmetric")


def test_mixed_propagation_of_several_taus_is_that_of_each():
    graph = random_graph(3, directed=True)
    x = random_signal(graph.nodes, 4)
    several = MixedPropagation(graph, [0.5, 1.0], "out-in") @ x
    assert_close(several, torch.stack([MixedPropagation(graph, tau, "out-in") @ x for tau in (0.5, 1.0)]))
    assert repr(MixedPropagation(graph, 0.5, "in-out")) == "MixedPropagation(n=20, tau=0.5, in-out)"


def by_formula(
    graph: Graph, tau: float, direction: Direction, normalisation: Normalisation = "symmetric"
) -> torch.Tensor:
    """The formula in the docstring of `Propagation`, entry by entry."""
    A = graph.adjacency.toarray()
    A = {"both": np.maximum(A, A.T), "out": A, "in": A.T}[direction] if graph.is_directed else A
    n = len(A)
    rows, columns = A.sum(1), A.sum(0)
    isolated = (rows == 0) & (columns == 0)
    P = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            left, right = abs(tau * rows[i] + 1 - tau), abs(tau * columns[j] + 1 - tau)
            size = {"symmetric": np.sqrt(left * right), "row": left, "column": right}[normalisation]
            # A zero degree scales only the diagonal entry 1 - tau = 0 of its node, and 0 stays 0.
            P[i, j] = 0 if size == 0 else (tau * A[i, j] + (1 - tau) * (i == j)) / size
        P[i, i] = 1 if isolated[i] else P[i, i]
    return torch.from_numpy(P)


@given(graph=graphs(max_nodes=12), tau=one_tau, direction=st.sampled_from(DIRECTIONS), normalisation=normalisations)
def test_matrix_equals_its_formula_also_at_sinks_and_sources(graph, tau, direction, normalisation):
    P = Propagation(graph, tau, direction, normalisation=normalisation)
    assert_close(P.to_dense(), by_formula(graph, tau, direction, normalisation), rtol=1e-12, atol=1e-14)
    assert (P @ torch.ones(graph.nodes, 2)).isfinite().all()


@given(graph=graphs(), direction=st.sampled_from(DIRECTIONS))
def test_row_normalisation_is_the_mean_over_neighbours_and_zero_without_any(graph, direction):
    P = Propagation(graph, 1.0, direction, isolated=0.0, normalisation="row")
    has_neighbours = P.graph.degree("out") > 0
    means = P @ torch.ones(graph.nodes, 1, dtype=torch.float64)
    assert_close(means[:, 0], has_neighbours.double(), rtol=0, atol=1e-14)
    assert P.T.normalisation == "column"


def normalised_by_pyg(graph: Graph, loops: bool) -> torch.Tensor:
    matrix = graph.adjacency.tocoo()
    edges, weights = torch.from_numpy(np.stack([matrix.row, matrix.col])).long(), torch.from_numpy(matrix.data)
    edges, weights = gcn_norm(edges, weights, graph.nodes, add_self_loops=loops, dtype=torch.float64)
    assert isinstance(edges, torch.Tensor)
    return to_dense_adj(edges, edge_attr=weights, max_num_nodes=graph.nodes)[0]


@given(graph=graphs(directed=False, self_loops=False))
def test_tau_one_half_is_the_renormalised_matrix_of_gcn(graph):
    assert_close(Propagation(graph, 0.5).to_dense(), normalised_by_pyg(graph, loops=True))


@given(graph=graphs(directed=False, self_loops=False, connected=True, min_nodes=2))
def test_tau_one_is_the_normalised_adjacency_matrix(graph):
    assert_close(Propagation(graph, 1.0).to_dense(), normalised_by_pyg(graph, loops=False))


@given(graph=graphs(min_nodes=8), tau=one_tau, direction=st.sampled_from(DIRECTIONS), dtype=st.sampled_from(FLOATS))
def test_isolated_node_keeps_its_signal_to_the_bit_for_every_tau(graph, tau, direction, dtype):
    x, isolated = random_signal(graph.nodes, 3, dtype=dtype), graph.isolated()
    assert isolated.any()
    assert_same_bits((Propagation(graph, tau, direction) @ x)[isolated], x[isolated])


@given(graph=graphs(), tau=some_taus, direction=st.sampled_from(DIRECTIONS), dtype=st.sampled_from(FLOATS))
def test_csr_matrix_is_the_dense_one(graph, tau, direction, dtype):
    P = Propagation(graph, tau, direction)
    for i, dense in enumerate(P.to_dense().reshape(-1, *P.shape)):
        assert_close(P.to_csr(i, dtype).to_dense(), dense.to(dtype))


@given(graph=graphs(directed=True), tau=some_taus)
def test_in_is_the_transpose_of_out(graph, tau):
    out, into = (Propagation(graph, tau, direction) for direction in DIRECTIONS[1:])
    assert_close(into.to_dense(), out.to_dense().mT)
    assert (out.T.direction, into.T.direction, out.T.T.direction) == ("in", "out", "out")


@given(graph=graphs(directed=False), tau=one_tau)
def test_the_direction_does_not_matter_for_an_undirected_graph(graph, tau):
    both, out, into = (Propagation(graph, tau, direction) for direction in DIRECTIONS)
    assert both.is_symmetric
    assert both.T is both
    assert_same_bits(out.to_dense(), both.to_dense())
    assert_same_bits(into.to_dense(), both.to_dense())


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_several_taus_have_the_same_bits_as_single_ones_in_one_pass_or_several(dtype, weighted, direction):
    graph = random_graph(7, directed=True, weighted=weighted)
    x = random_signal(len(TAUS), graph.nodes, 6, dtype=dtype)
    P = Propagation(graph, TAUS, direction)
    singly = torch.stack([Propagation(graph, tau, direction) @ part for tau, part in zip(TAUS, x, strict=True)])
    assert_same_bits(P @ x, singly)
    assert kernels.shares_pass(graph.nodes, 6, len(TAUS))
    assert not kernels.shares_pass(graph.nodes, 6, len(TAUS), private_cache=0)
    assert_same_bits(CpuProduct(P, dtype, private_cache=0)(x), singly)


@pytest.mark.parametrize("tau", [0.7, [0.3, 1.6]], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_backends_agree(tau, dtype):
    P = Propagation(random_graph(3, directed=True, weighted=True), tau, "out")
    x = random_signal(len(P.taus), 20, 5, dtype=dtype)
    assert isinstance(backend(P, dtype), CpuProduct)
    assert_close(CsrProduct(P, dtype)(x), CpuProduct(P, dtype)(x), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("tau", [0.7, [0.3, 1.6]], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_wide_signals_in_panels_equal_the_dense_product(tau, dtype):
    P = Propagation(random_graph(3, weighted=True), tau)
    x = random_signal(20, 2 * P.panel + 5, dtype=dtype)
    assert_close((P @ x).double(), P.to_dense() @ x.double(), rtol=0, atol=1e-14 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("layout", [lambda x: x.T.contiguous().T, lambda x: x.repeat(1, 2)[:, ::2]])
def test_the_layout_of_a_signal_in_memory_does_not_matter(layout):
    P, x = Propagation(random_graph(4), [0.4, 1.2]), random_signal(20, 6)
    moved = layout(x)
    assert not moved.is_contiguous()
    assert_same_bits(P @ moved, P @ moved.contiguous())


@pytest.mark.parametrize("tau", [0.8, [0.4, 1.0, 1.7]], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_gradient_is_the_transposed_product(directed, direction, tau, normalisation):
    graph = random_graph(5, n=10, directed=directed, weighted=True)
    P = Propagation(graph, tau, direction, normalisation=normalisation)
    x = random_signal(10, 2).requires_grad_()
    product = P @ x
    g = random_signal(*product.shape)
    (gradient,) = torch.autograd.grad(product, x, g)
    wanted = P.to_dense().mT @ g
    assert_close(gradient, wanted if wanted.ndim == 2 else wanted.sum(0))
    assert gradcheck(P.__matmul__, x)
    assert gradgradcheck(P.__matmul__, x)


def test_laplacian_is_differentiable_too():
    assert gradcheck(Laplacian(random_graph(6, n=9), 0.6).__matmul__, random_signal(9, 2).requires_grad_())


def test_the_transpose_is_on_the_device_of_the_operator():
    P = Propagation(random_graph(5, directed=True), 0.8, "out")
    moved = P.to(torch.ones(1, device="meta"))
    assert (P.device.type, moved.device.type, moved.T.device.type) == ("cpu", "meta", "meta")
    assert P.panel < moved.panel == ALL_COLUMNS


LIGHT = Graph([[0, 1], [1, 2]], weights=[0.25, 4.0])  # node 0 has degree 1/4, so tau must stay below 4/3


@pytest.mark.parametrize("tau", [4 / 3 + 1e-9, 1.9, [0.5, 1.5]], ids=str)
def test_a_tau_for_which_a_weighted_degree_becomes_negative_raises(tau):
    worst = max(np.atleast_1d(tau))
    message = rf"got tau = {worst} and node 0 with weighted degree d = 0\.25, .*\. Use tau below 1\.33333"
    with pytest.raises(ValueError, match=message):
        Propagation(LIGHT, tau)


@given(graph=graphs(weighted=True, lightest=0.4), tau=st.floats(0.1, 1.6), direction=st.sampled_from(DIRECTIONS))
def test_weighted_degrees_below_one_are_allowed_if_tau_is_small_enough(graph, tau, direction):
    P = Propagation(graph, tau, direction)  # 0.4 tau + 1 - tau > 0
    assert_close(P.to_dense(), by_formula(graph, tau, direction))


@pytest.mark.parametrize("operator", [Propagation(LIGHT, 0.5), Laplacian(LIGHT), Diagonal(torch.ones(3))], ids=repr)
@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.ones(4, 2), ValueError, r"shape \[3\] or \[3, d\].*got \[4, 2\]"),
        (torch.ones(3, 0), ValueError, r"d at least 1; got \[3, 0\]"),
        (torch.ones(3, 2, 2), ValueError, r"got \[3, 2, 2\]"),
        (torch.ones(3, dtype=torch.int64), TypeError, r"float32 or float64; got torch.int64"),
        (torch.ones(3, dtype=torch.float16), TypeError, r"got torch.float16"),
        (torch.ones(3, dtype=torch.bfloat16), TypeError, r"got torch.bfloat16"),
        (torch.ones(3, dtype=torch.complex64), TypeError, r"must be real; got torch.complex64"),
        (np.ones((3, 2)), TypeError, r"torch tensor; got ndarray\. Use torch.as_tensor"),
    ],
    ids=["4 rows", "no column", "3-D", "int", "half", "bfloat", "complex", "numpy"],
)
def test_a_wrong_signal_raises(operator, x, error, message):
    with pytest.raises(error, match=message):
        _ = operator @ x


@pytest.mark.parametrize("shape", [(3,), (3, 3, 1), (1, 3, 2)], ids=str)
def test_a_signal_for_another_number_of_taus_raises(shape):
    with pytest.raises(ValueError, match=r"shape \[3, d\] or \[2, 3, d\], d at least 1; got "):
        _ = Propagation(LIGHT, [0.5, 1.0]) @ torch.ones(shape)


@pytest.mark.parametrize(("direction", "near"), [("bot", "both"), ("outt", "out"), ("inn", "in")])
def test_an_unknown_direction_raises_and_suggests_similar_names(direction, near):
    with pytest.raises(
        ValueError, match=f"unknown direction '{direction}'. Did you mean .*'{near}'.*Known: both, in, out"
    ):
        Propagation(LIGHT, 0.5, direction)


def test_tau_raises_for_several_taus():
    assert Propagation(LIGHT, 0.5).tau == 0.5
    with pytest.raises(ValueError, match=r"one tau; got 2 taus \[0\.5, 1\.0\]\. Use \.taus"):
        _ = Propagation(LIGHT, [0.5, 1.0]).tau


def test_a_signal_on_another_device_raises():
    with pytest.raises(ValueError, match=r"same device; got cpu and meta\. Use operator\.to\(x\)"):
        _ = Propagation(LIGHT, 0.5) @ torch.ones(3, 1, device="meta")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("tau", [0.8, [0.4, 1.0, 1.7]], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS + MIXED_DIRECTIONS)
@pytest.mark.parametrize(
    ("weighted", "normalisation"), [(False, "symmetric"), (True, "symmetric"), (False, "row")], ids=str
)
def test_cuda_equals_cpu_and_repeats_to_the_bit(weighted, normalisation, direction, tau):
    edges = np.hstack([random_edges(8, 2000, 20_000), [[0] * 1000, range(1000)]])  # node 0 is a hub
    weights = random_weights(8, edges.shape[1]) if weighted else None
    graph = Graph(edges, nodes=2000, weights=weights, directed=True)
    kind = MixedPropagation if direction in MIXED_DIRECTIONS else Propagation
    P = kind(graph, tau, direction, normalisation=normalisation)  # type: ignore[arg-type]
    on_cuda = P.to("cuda")
    for dtype, tolerance in ((torch.float32, 5e-5), (torch.float64, 1e-13)):  # a gradient of the hub adds 1,000 terms
        for columns in (1, 7, 200):
            x = random_signal(2000, columns, dtype=dtype).requires_grad_()
            y = x.detach().cuda().requires_grad_()
            wanted, found = P @ x, on_cuda @ y
            g = random_signal(*wanted.shape, dtype=dtype)
            assert_close(found.cpu(), wanted, rtol=tolerance, atol=tolerance)
            assert_same_bits(on_cuda @ y, found)
            wanted, found = torch.autograd.grad(wanted, x, g), torch.autograd.grad(found, y, g.cuda())
            assert_close(found[0].cpu(), wanted[0], rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_isolated_node_keeps_its_signal_on_cuda():
    graph = random_graph(9, directed=True)
    x, isolated = random_signal(20, 5, dtype=torch.float32).cuda(), graph.isolated()
    for tau in TAUS:
        assert_same_bits((Propagation(graph, tau, "out").to(x) @ x)[isolated], x[isolated])


@pytest.mark.parametrize("weighted", [False, True])
def test_one_column_in_float64_has_the_same_bits_as_in_a_wider_signal(weighted):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 300, (2, 2000))
    P = Propagation(Graph(edges, nodes=320, weights=rng.uniform(1, 2, 2000) if weighted else None), 0.7)
    x = torch.from_numpy(rng.normal(size=(320, 3)))
    assert torch.equal(torch.cat([P @ x[:, [i]] for i in range(3)], 1), P @ x)
    assert_close(P @ x[:, 0], P.to_dense() @ x[:, 0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("direction", ["both", "out", "in-out"])
def test_single_operators_of_several_taus_equal_those_of_one(direction):
    graph = Graph(np.random.default_rng(0).integers(0, 30, (2, 80)), nodes=33, directed=True)
    kind, taus = MixedPropagation if "-" in direction else Propagation, (0.3, 1.0, 1.2)
    x = torch.randn(33, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for tau, single in zip(taus, kind(graph, taus, direction).singles(), strict=True):
        expected = kind(graph, tau, direction)
        assert single.taus == (tau,)
        assert not single.is_batched
        assert torch.equal(single @ x, expected @ x)
        assert torch.equal(single.T @ x, expected.T @ x)
        assert torch.equal(single.to_dense(), expected.to_dense())
