"""The sparse product A @ table on the CPU, without a value array where the entries of A are 0 and 1.

Measured on two cores and an H200 (`benchmarks/basis.py`, rows in `results/`):

* CPU float32: torch's embedding_bag sums gathered rows of the table, several times faster than CSR @ dense as long as
  the table is narrow enough to stay in the last-level cache: hence column panels.
* CPU float64: embedding_bag has no fast path for doubles; torch.sparse.mm(..., reduce="sum") has one, and accepts a
  value array of stride 0, so none is stored there either.
* CUDA: `triton_product.py`, a kernel without a value array; cuSPARSE is as fast but not reproducible.

Each output row is summed by one thread in the order of its entries, so the same input gives the same bits.
"""

import math
import warnings

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

CACHE = 24 * 2**20  # bytes of table that stay in the last-level cache while rows are gathered at random
PRIVATE_CACHE = 5 * 2**19  # bytes of table that stay in the private caches of the cores
NARROW, WIDE = 16, 64  # columns of a panel: with fewer, cache lines are not fully used; more are not faster
HUGE_PAGE_THRESHOLD = 32 * 2**20  # bytes; glibc maps new pages for larger allocations instead of reusing freed ones


def panel_width(nodes: int) -> int:
    """Number of columns to multiply at a time: as many as stay in cache, or WIDE if not even NARROW columns would.

    >>> panel_width(5_201), panel_width(169_343), panel_width(10_000_000)
    (64, 32, 64)
    """
    fitting = CACHE // (4 * nodes) // NARROW * NARROW
    return min(fitting, WIDE) if fitting else WIDE


def shares_pass(nodes: int, columns: int, taus: int, private_cache: int = PRIVATE_CACHE) -> bool:
    """Whether several taus share one pass over the edges; otherwise there is one pass for each.

    Sharing reads each edge once, which saves 4 bytes where hundreds are gathered, but makes the table wider. In
    measurements it was faster where all tables fit into the private caches of the cores (`private_cache` bytes), and
    for narrow signals of graphs that fit into no cache (longer rows are gathered faster); elsewhere the taus evict each
    other from the cache, and sharing is up to 1.3x slower.
    """
    table = 4 * nodes * columns * taus
    return taus == 1 or table <= private_cache or (4 * nodes * NARROW > CACHE and columns * taus <= WIDE)


def empty(
    *shape: int, dtype: torch.dtype, device: torch.device | str = "cpu", huge_page_threshold: int = HUGE_PAGE_THRESHOLD
) -> Tensor:
    """An uninitialised tensor; from `huge_page_threshold` bytes on allocated by NumPy, which requests huge pages.

    A basis may be a gigabyte that is written once; with 4 KiB pages the page faults take as long as the products.
    """
    width = torch.finfo(dtype).bits // 8
    if torch.device(device).type != "cpu" or math.prod(shape) * width < huge_page_threshold:
        return torch.empty(*shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, dtype={4: np.float32, 8: np.float64}[width]))


def csr(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A torch CSR matrix, without torch's warning that CSR is in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)


def as_csr(matrix: Tensor) -> Tensor:
    """A COO matrix as CSR, with int32 indices where they suffice (MKL and cuSPARSE are faster with those)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        wide = matrix.to_sparse_csr()
    index = torch.int32 if wide.values().numel() < 2**31 else torch.int64
    return csr(wide.crow_indices().to(index), wide.col_indices().to(index), wide.values(), tuple(wide.shape))


def row_products(x: Tensor, table: Tensor, places: Tensor) -> Tensor:
    """Compute the inner products of row i of x and the table's rows `places[i]`, without a copy of these rows.

    Shapes: x [m, w], table [any, w], places [m, k] -> [m, k].
    """
    m, k = places.shape
    start = torch.arange(0, m * k + 1, k, device=x.device)
    pattern = csr(start, places.flatten(), x.new_zeros(m * k), (m, len(table)))
    return torch.sparse.sampled_addmm(pattern, x, table.t(), beta=0.0).values().view(m, k)


def gather_sum(indptr: Tensor, indices: Tensor, table: Tensor, weights: Tensor | None = None) -> Tensor:
    """Row i of the result is the (weighted) sum of the table's rows `indices[indptr[i]:indptr[i + 1]]`.

    Shapes: indptr [n + 1], indices [nnz], table [any, w] contiguous, weights [nnz] or None -> [n, w].
    """
    if table.dtype == torch.float32 or table.is_cuda:
        return embedding_bag(indices, table, indptr, mode="sum", include_last_offset=True, per_sample_weights=weights)
    values = table.new_ones(1).expand(len(indices)) if weights is None else weights
    matrix = csr(indptr, indices, values, (len(indptr) - 1, len(table)))
    return torch.sparse.mm(matrix, table, "sum")
