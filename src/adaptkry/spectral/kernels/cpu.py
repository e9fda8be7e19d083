"""The sparse product A @ table, where A is 0/1 and has no value array.

Measured on two cores and an H200 (`benchmarks/basis.py`, rows in `results/`):

* CPU float32: torch's embedding_bag is a gather-sum over the CSR rows, several times faster than CSR @ dense,
  as long as the table is narrow enough to stay in the last-level cache: hence column panels.
* CPU float64: embedding_bag has no fast path for doubles; torch.sparse.mm(..., reduce="sum") has one, and takes
  a value array of stride 0, so none is stored there either.
* CUDA: `kernels.cuda`, a Triton kernel without values; cuSPARSE's is as fast but not repeatable.

Each output row is summed by one thread in the order of its entries, so the same input gives the same bits.
"""

import math
import warnings

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

CACHE = 24 * 2**20  # bytes of table that stay in the last-level cache while rows are gathered at random
CLOSE = 5 * 2**19  # bytes that stay in the cores' own caches
NARROW, WIDE = 16, 64  # columns: below, a gathered row wastes cache lines; above, nothing is gained
HEAP = 32 * 2**20  # bytes from which glibc maps fresh pages for every allocation instead of reusing old ones


def panel_width(nodes: int) -> int:
    """Columns to propagate at once: as many as stay in cache, or WIDE where not even NARROW would.

    >>> panel_width(5_201), panel_width(169_343), panel_width(10_000_000)
    (64, 32, 64)
    """
    fitting = CACHE // (4 * nodes) // NARROW * NARROW
    return min(fitting, WIDE) if fitting else WIDE


def together(nodes: int, columns: int, taus: int, close: int = CLOSE) -> bool:
    """Whether several taus share one pass over the edges, or take a pass each.

    Sharing saves reading the edges again, 4 bytes beside hundreds that are gathered, but makes the table wider.
    It was measured faster where all tables fit in the cores' own caches, and for narrow signals of graphs that
    fit in no cache (longer rows gather better); elsewhere the taus push each other out, up to 1.3x slower.
    """
    table = 4 * nodes * columns * taus
    return taus == 1 or table <= close or (4 * nodes * NARROW > CACHE and columns * taus <= WIDE)


def empty(*shape: int, dtype: torch.dtype, device: torch.device | str = "cpu", heap: int = HEAP) -> Tensor:
    """An uninitialised tensor. Large ones on the CPU come from NumPy, which asks for huge pages; torch does not.

    A basis is a gigabyte that is written once; with 4 KiB pages the page faults cost as much as the products.
    """
    width = torch.finfo(dtype).bits // 8
    if torch.device(device).type != "cpu" or math.prod(shape) * width < heap:
        return torch.empty(*shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, dtype={4: np.float32, 8: np.float64}[width]))


def csr(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A torch CSR matrix, without torch's remark that CSR is in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)


def as_csr(matrix: Tensor) -> Tensor:
    """A COO matrix as CSR with int32 indices where they fit (MKL and cuSPARSE like those better)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = matrix.to_sparse_csr()
    kind = torch.int32 if made.values().numel() < 2**31 else torch.int64
    return csr(made.crow_indices().to(kind), made.col_indices().to(kind), made.values(), tuple(made.shape))


def gather_sum(indptr: Tensor, indices: Tensor, table: Tensor, weights: Tensor | None = None) -> Tensor:
    """Row i of the result is the (weighted) sum of the table's rows `indices[indptr[i]:indptr[i + 1]]`.

    Shapes: indptr [n + 1], indices [nnz], table [n, w] contiguous on the CPU, weights [nnz] or None -> [n, w].
    """
    if table.dtype == torch.float32:
        return embedding_bag(indices, table, indptr, mode="sum", include_last_offset=True, per_sample_weights=weights)
    values = table.new_ones(1).expand(len(indices)) if weights is None else weights
    matrix = csr(indptr, indices, values, (len(indptr) - 1, len(table)))
    return torch.sparse.mm(matrix, table, "sum")
