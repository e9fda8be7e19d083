import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.propagation_matrix import Propagation
from contracts import TOLERANCE, assert_close, assert_same_bits, random_signal
from strategies import graphs, random_graph

nodes, columns, taus = (st.integers(1, high) for high in (10**8, 500, 8))
both_dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def summed(graph: Graph, table: torch.Tensor) -> torch.Tensor:
    weights = None if graph.weights is None else graph.weights.to(table.dtype)
    return kernels.gather_sum(graph.indptr, graph.indices, table, weights)


@both_dtypes
@given(graph=graphs(), width=st.integers(1, 70))
def test_gather_sum_equals_the_dense_product(dtype, graph, width):
    table = random_signal(graph.nodes, width, dtype=dtype)
    found = summed(graph, table)
    assert found.dtype == dtype
    wanted = torch.from_numpy(graph.adjacency.toarray()) @ table.double()
    assert_close(found.double(), wanted, rtol=0, atol=TOLERANCE[dtype] * 10)


@both_dtypes
def test_row_products_are_inner_products_of_rows(dtype):
    x, table = random_signal(6, 5, dtype=dtype), random_signal(20, 5, dtype=dtype)
    places = torch.randint(20, (6, 3), generator=torch.Generator().manual_seed(0))
    wanted = torch.einsum("mw,mkw->mk", x, table[places])
    assert_close(kernels.row_products(x, table, places), wanted, rtol=0, atol=TOLERANCE[dtype] * 10)


@both_dtypes
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
def test_gather_sum_accepts_int32_and_int64_indices(index, dtype):
    graph, table = random_graph(1), random_signal(20, 5, dtype=dtype)
    found = kernels.gather_sum(graph.indptr.to(index), graph.indices.to(index), table)
    assert_same_bits(found, summed(graph, table))


@both_dtypes
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_one_thread_and_two_give_the_same_bits(weighted, dtype):
    graph = random_graph(2, n=4000, m=40_000, weighted=weighted)  # large enough for torch to use both threads
    table, P = random_signal(4000, 64, dtype=dtype), Propagation(graph, [0.4, 1.3])
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append((summed(graph, table), P @ table))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert_same_bits(one, two)


@given(nodes)
def test_a_panel_stays_in_cache_or_is_wide(n):
    width = kernels.panel_width(n)
    assert width % kernels.NARROW == 0
    assert kernels.NARROW <= width <= kernels.WIDE
    fits = [w for w in range(kernels.NARROW, kernels.WIDE + 1, kernels.NARROW) if 4 * n * w <= kernels.CACHE]
    assert width == max(fits, default=kernels.WIDE)


@given(nodes, columns, taus)
def test_narrower_signals_and_fewer_taus_share_a_pass_too(n, d, r):
    assert kernels.shares_pass(n, d, 1)
    if kernels.shares_pass(n, d, r):
        assert all(kernels.shares_pass(n, w, s) for w, s in ((max(d - 1, 1), r), (d, max(r - 1, 1))))


@pytest.mark.parametrize(
    ("n", "d", "r", "shared"),
    [(100, 64, 3, True), (20_000, 64, 2, False), (20_000, 64, 1, True), (10**6, 16, 3, True), (10**6, 64, 2, False)],
)
def test_taus_share_a_pass_where_measurements_were_faster(n, d, r, shared):
    assert kernels.shares_pass(n, d, r) == shared


@both_dtypes
@pytest.mark.parametrize("huge_page_threshold", [0, 2**40], ids=["from numpy", "from torch"])
@pytest.mark.parametrize("shape", [(3,), (2, 5, 4)], ids=str)
def test_empty_returns_a_contiguous_tensor_from_either_allocator(shape, huge_page_threshold, dtype):
    found = kernels.empty(*shape, dtype=dtype, huge_page_threshold=huge_page_threshold)
    assert (found.shape, found.dtype, found.device.type) == (shape, dtype, "cpu")
    assert found.is_contiguous()
    assert_same_bits(found.fill_(2).sum(), torch.tensor(2.0 * math.prod(shape), dtype=dtype))
    assert kernels.empty(*shape, dtype=dtype, device="meta").device.type == "meta"


def test_csr_does_not_warn_about_beta_state():
    graph = random_graph(3)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # otherwise torch warns once per process only
    try:
        matrix = kernels.csr(graph.indptr, graph.indices, torch.ones(graph.entries), (20, 20))
    finally:
        torch.set_warn_always(before)
    assert_same_bits(matrix.to_dense(), torch.from_numpy(graph.adjacency.toarray()).float())
