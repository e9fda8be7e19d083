"""A graph's edges as a product needs them: all in memory, or read again for every product, in runs of rows.

Each row of a product is summed by one thread in the order of its entries, so runs of rows give the bits of the whole.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.outofcore.folders import GraphFolder
from adaptkry.outofcore.npy_files import PIECE
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.propagation import factors, finish, scalings

SOME = 2**20  # nodes or entries looked at together when sums are made


@dataclass(frozen=True)
class Run:
    """Rows start..stop-1 of the adjacency matrix."""

    start: int
    stop: int
    indptr: Tensor  # int32 [stop - start + 1], from 0
    indices: Tensor  # int32
    weights: Tensor | None  # float32


class Edges:
    """The adjacency matrix of a graph folder.

    Args:
        folder: where it lies.
        held: entries that may be in memory at once; None for all of them.
    """

    def __init__(self, folder: GraphFolder, held: int | None = None):
        self.folder, self.nodes = folder, folder.nodes
        self.indptr = folder.stored("indptr").read()  # int64 [n + 1]
        self.files = [folder.stored(name) for name in ("indices", "weights") if folder.has(name)]
        self.held = None if held is None or held >= folder.entries else max(held, int(np.diff(self.indptr).max()))
        self.rows, self.columns = self._degrees()  # float64 [n]
        self.kept = self._load(0, folder.entries) if self.held is None else None

    def _load(self, first: int, last: int) -> tuple[Tensor, Tensor | None]:
        """Columns and weights of entries first..last-1; weights become float32 some at a time."""
        indices = torch.from_numpy(self.files[0].read(first, last))
        if len(self.files) == 1:
            return indices, None
        weights = torch.empty(last - first)
        for start in range(first, last, SOME):
            stop = min(start + SOME, last)
            weights[start - first : stop - first] = torch.from_numpy(self.files[1].read(start, stop))
        return indices, weights

    def runs(self, rows: int) -> Iterator[Run]:
        """All rows in order; where edges are not kept, the next run is read while this one is worked on."""
        if self.kept is not None:
            indices, weights = self.kept
            yield from (self._run(a, b, indices, weights, 0) for a, b in cuts(self.indptr, rows, 2**31 - 1))
            return
        entries = self.held or 0
        yield from ahead(cuts(self.indptr, rows, entries), lambda cut: self._read(*cut))

    def _read(self, start: int, stop: int) -> Run:
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return self._run(start, stop, *self._load(first, last), first)

    def _run(self, start: int, stop: int, indices: Tensor, weights: Tensor | None, first: int) -> Run:
        """The run whose entries lie in `indices`, which begins with entry number `first`."""
        pointers = self.indptr[start : stop + 1]
        own = slice(int(pointers[0]) - first, int(pointers[-1]) - first)
        local = torch.from_numpy((pointers - pointers[0]).astype(np.int32))
        return Run(start, stop, local, indices[own], None if weights is None else weights[own])

    def _degrees(self) -> tuple[Tensor, Tensor]:
        """Row and column sums as `Graph.degree` has them, bit for bit, without a value array."""
        is_weighted = len(self.files) == 2
        rows = np.diff(self.indptr).astype(np.float64)
        columns = rows if self.folder.is_symmetric and not is_weighted else np.zeros(self.nodes)
        for start, stop in cuts(self.indptr, self.nodes, SOME):
            first, last = int(self.indptr[start]), int(self.indptr[stop])
            indices = self.files[0].read(first, last)
            self._check(indices)
            if is_weighted:
                weights = self.files[1].read(first, last).astype(np.float64)
                local = (weights, indices, self.indptr[start : stop + 1] - first)
                rows[start:stop] = sp.csr_array(local, shape=(stop - start, self.nodes)).sum(axis=1)
                np.add.at(columns, indices, weights)  # one after the other, as SciPy adds them
            elif columns is not rows:
                np.add.at(columns, indices, 1.0)
        return torch.from_numpy(rows), torch.from_numpy(columns)

    def _check(self, indices: np.ndarray) -> None:
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.nodes:
            bad = int(indices[(indices < 0) | (indices >= self.nodes)][0])
            raise ValueError(
                f"{self.files[0].path} must name nodes 0 .. {self.nodes - 1}, but names {bad}. Make the folder again."
            )

    def factors(self, tau: float) -> list[Tensor]:
        """What a product multiplies by, each float32 [n, 1], made some nodes at a time: doubles take room."""
        made = [torch.empty(self.nodes, 1) for _ in range(3)]
        for start in range(0, self.nodes, SOME):
            some = slice(start, start + SOME)
            made_here = scalings(self.rows[some], self.columns[some], [tau], first=start)
            parts = factors(*made_here, [tau], torch.float32)
            for whole, part in zip(made, parts, strict=True):
                whole[some] = part[0]
        return made

    def propagate(self, x: Tensor, by: list[Tensor], out: Tensor) -> None:
        """P x into `out`, both [n, w]; x is used up (it becomes T x). `by` comes from `factors`."""
        right, left_tau, left_own = by
        table = x.mul_(right)
        for run in self.runs(max(1, PIECE // (4 * x.shape[1]))):
            sums = kernels.gather_sum(run.indptr, run.indices, table, run.weights)
            some = slice(run.start, run.stop)
            finish(sums, table[some], left_tau[some], left_own[some], out[some])


def cuts(indptr: np.ndarray, rows: int, entries: int) -> Iterator[tuple[int, int]]:
    """All rows in runs of at most so many rows and entries, but never less than a row."""
    start, nodes = 0, len(indptr) - 1
    while start < nodes:
        full = int(np.searchsorted(indptr, indptr[start] + entries, "right")) - 1
        stop = max(min(full, start + rows, nodes), start + 1)
        yield start, stop
        start = stop


def ahead(items: Iterator, job: Callable) -> Iterator:
    """job(item) of every item in order, each worked on while the one before is being used."""
    with ThreadPoolExecutor(1) as reader:
        coming = None
        for item in items:
            current, coming = coming, reader.submit(job, item)
            if current is not None:
                yield current.result()
        if coming is not None:
            yield coming.result()
