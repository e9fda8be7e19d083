"""Sparse products with the edges of a graph on disk: all in memory, or read again in runs of rows for every product.

Each row of a product is summed by one thread in the order of its entries, so runs of rows give the same bits as the
whole product.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.outofcore.graph_folder import GraphFolder, check_indices, check_weights
from adaptkry.outofcore.npy_files import CHUNK_BYTES
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.propagation_matrix import factors, finish, scalings

NODES_AT_ONCE = 2**20  # nodes or entries processed at once for sums and scalings


@dataclass(frozen=True)
class EdgeRun:
    """Rows start..stop-1 of the adjacency matrix."""

    start: int
    stop: int
    indptr: Tensor  # int32 [stop - start + 1], from 0
    indices: Tensor  # int32
    weights: Tensor | None  # float32


class StoredAdjacency:
    """The adjacency matrix of a graph folder.

    Args:
        folder: the graph folder.
        entries_in_memory: maximum number of entries in memory at once; None is all of them.
        nodes_at_once: nodes or entries processed at once for sums and scalings, which are in float64.
    """

    def __init__(
        self, folder: GraphFolder, entries_in_memory: int | None = None, *, nodes_at_once: int = NODES_AT_ONCE
    ):
        self.folder, self.nodes, self.nodes_at_once = folder, folder.nodes, nodes_at_once
        self.indptr = folder.array("indptr").read()  # int64 [n + 1]
        self.files = [folder.array(name) for name in ("indices", "weights") if folder.has(name)]
        largest_row = int(np.diff(self.indptr).max())
        fits = entries_in_memory is None or entries_in_memory >= folder.entries
        self.entries_per_run = None if fits else max(entries_in_memory or 0, largest_row)
        self.row_sums, self.column_sums = self._degrees()  # float64 [n]
        self.loaded = self._load(0, folder.entries) if fits else None

    def _load(self, first: int, last: int) -> tuple[Tensor, Tensor | None]:
        """Columns and weights of entries first..last-1; weights are converted to float32 in chunks."""
        indices = torch.from_numpy(self.files[0].read(first, last))
        if len(self.files) == 1:
            return indices, None
        weights = torch.empty(last - first)
        for start in range(first, last, self.nodes_at_once):
            stop = min(start + self.nodes_at_once, last)
            weights[start - first : stop - first] = torch.from_numpy(self.files[1].read(start, stop))
        return indices, weights

    def runs(self, rows: int) -> Iterator[EdgeRun]:
        """Yield all rows in order; if edges are not in memory, the next run is read while this one is used."""
        if self.loaded is not None:
            indices, weights = self.loaded
            yield from (self._run(a, b, indices, weights, 0) for a, b in row_ranges(self.indptr, rows, 2**31 - 1))
            return
        yield from prefetch(
            row_ranges(self.indptr, rows, self.entries_per_run or 0), lambda bounds: self._read(*bounds)
        )

    def _read(self, start: int, stop: int) -> EdgeRun:
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return self._run(start, stop, *self._load(first, last), first)

    def _run(self, start: int, stop: int, indices: Tensor, weights: Tensor | None, first: int) -> EdgeRun:
        """The run whose entries are in `indices`, which starts with entry number `first`."""
        pointers = self.indptr[start : stop + 1]
        part = slice(int(pointers[0]) - first, int(pointers[-1]) - first)
        local = torch.from_numpy((pointers - pointers[0]).astype(np.int32))
        return EdgeRun(start, stop, local, indices[part], None if weights is None else weights[part])

    def _degrees(self) -> tuple[Tensor, Tensor]:
        """Row and column sums with the same bits as `Graph.degree`, without an array of values."""
        is_weighted = len(self.files) == 2
        rows = np.diff(self.indptr).astype(np.float64)
        columns = rows if self.folder.is_symmetric and not is_weighted else np.zeros(self.nodes)
        for start, stop in row_ranges(self.indptr, self.nodes, self.nodes_at_once):
            first, last = int(self.indptr[start]), int(self.indptr[stop])
            indices = check_indices(self.files[0], self.files[0].read(first, last), self.nodes)
            if is_weighted:
                weights = check_weights(self.files[1], self.files[1].read(first, last)).astype(np.float64)
                local = (weights, indices, self.indptr[start : stop + 1] - first)
                rows[start:stop] = sp.csr_array(local, shape=(stop - start, self.nodes)).sum(axis=1)
                np.add.at(columns, indices, weights)  # one after the other, as SciPy adds them
            elif columns is not rows:
                np.add.at(columns, indices, 1.0)
        return torch.from_numpy(rows), torch.from_numpy(columns)

    def factors(self, tau: float) -> list[Tensor]:
        """The scalings of a product, each float32 [n, 1], computed in chunks of nodes to save memory."""
        result = [torch.empty(self.nodes, 1) for _ in range(3)]
        for start in range(0, self.nodes, self.nodes_at_once):
            chunk = slice(start, start + self.nodes_at_once)
            exact = scalings(self.row_sums[chunk], self.column_sums[chunk], [tau], first=start)
            for whole, part in zip(result, factors(*exact, [tau], torch.float32), strict=True):
                whole[chunk] = part[0]
        return result

    def propagate(self, x: Tensor, scaling: list[Tensor], out: Tensor, *, run_bytes: int = CHUNK_BYTES) -> None:
        """Write P x to `out`, both [n, w]; x is scaled in place.

        Args:
            x: the signal.
            scaling: from `factors`.
            out: the result.
            run_bytes: bytes of the result that are computed at once.
        """
        right, left_tau, left_diagonal = scaling
        scaled = x.mul_(right)
        for run in self.runs(max(1, run_bytes // (4 * x.shape[1]))):
            sums = kernels.gather_sum(run.indptr, run.indices, scaled, run.weights)
            rows = slice(run.start, run.stop)
            finish(sums, scaled[rows], left_tau[rows], left_diagonal[rows], out[rows])


def row_ranges(indptr: np.ndarray, rows: int, entries: int) -> Iterator[tuple[int, int]]:
    """Split all rows into ranges of at most `rows` rows and `entries` entries, but at least one row."""
    start, nodes = 0, len(indptr) - 1
    while start < nodes:
        limit = int(np.searchsorted(indptr, indptr[start] + entries, "right")) - 1
        stop = max(min(limit, start + rows, nodes), start + 1)
        yield start, stop
        start = stop


def prefetch(items: Iterator, function: Callable) -> Iterator:
    """Yield function(item) in order, each computed in a thread while the previous result is used."""
    with ThreadPoolExecutor(1) as thread:
        following = None
        for item in items:
            current, following = following, thread.submit(function, item)
            if current is not None:
                yield current.result()
        if following is not None:
            yield following.result()
