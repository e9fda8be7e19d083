r"""Terms of a basis after edges or nodes changed: only rows within K hops of the changes are computed again.

Let :math:`S_0` hold the new nodes and the ends of new and removed edges; only their degrees differ. A row of
:math:`P_\tau` changes if it is in :math:`S_0` or has an entry in a column of :math:`S_0`, which the degree of that
column scales. Row i of term k depends on row i of the terms before, and on the rows of term k - 1 where row i of P has
entries. So the rows of term k that change are those of :math:`S_k`: :math:`S_{k-1}` and the rows with an entry in a
column of :math:`S_{k-1}`. This holds for bases whose k-th product is that of P with term k - 1
(`BasisFunction.multiplies_terms`); each of them is run on the changed rows only, as it is.

>>> from adaptkry.graphs.graph import Graph
>>> from adaptkry.spectral.bases import krylov
>>> x = torch.eye(6).double()
>>> terms = stack(krylov(Propagation(Graph([[0, 1, 2], [1, 2, 3]], nodes=6)), x, 1)).transpose(0, 1).contiguous()
>>> P = Propagation(Graph([[0, 1, 2, 4], [1, 2, 3, 5]]))            # one more edge, 4 - 5
>>> changed = torch.tensor([False, False, False, False, True, True])
>>> update_terms(krylov, P, terms, changed)                         # the numbers of the rows that changed
tensor([4, 5])
>>> torch.allclose(terms[1], P.to_dense())
True
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.spectral.bases import stack
from adaptkry.spectral.basis_function import BasisFunction
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.operators import Operator
from adaptkry.spectral.propagation_matrix import MixedPropagation, Propagation, factors, finish

GraphOperator = Propagation | MixedPropagation


def update_terms(
    function: BasisFunction,
    P: GraphOperator,
    terms: Tensor,
    changed: "Tensor | Reach",
    options: dict[str, Any] | None = None,
) -> Tensor:
    """Compute the changed rows of terms [K + 1, n, d] in place, and return their numbers.

    Args:
        function: the basis.
        P: the operator of the graph after the change, with one tau.
        terms: those of the graph before the change; term 0 must hold the signal of new nodes already, and the other
            rows of new nodes may hold anything.
        changed: mask [n] of the new nodes and of the ends of all new and removed edges, or what `reach` found for it:
            operators of one direction can share that.
        options: of the basis.
    """
    if not function.multiplies_terms:
        raise ValueError(f"the terms of the basis {function.name} cannot be updated by rows. Compute all of them.")
    near = reach(P, changed, len(terms) - 1) if isinstance(changed, Tensor) else changed
    rows, counts = near.rows, near.counts
    if len(rows) > terms.shape[1] / 2:  # most rows change: computing all of them takes no longer
        stack(function(P, terms[0], len(terms) - 1, **(options or {})), out=terms.transpose(0, 1))
        return rows
    local = LocalProduct(P, terms, near)
    for k, term in enumerate(function(local, terms[0].index_select(0, rows), len(terms) - 1, **(options or {}))):
        far = rows[counts[k] :]  # too far from the changes for a difference at this term
        torch.index_select(terms[k], 0, far, out=term[counts[k] :])
        if k:
            put_rows(terms[k], rows[: counts[k]], term[: counts[k]])
        local.done, local.latest = k, term
    return rows


def put_rows(table: Tensor, rows: Tensor, values: Tensor) -> None:
    """Write values [m, d] to rows of a table. With NumPy, which copies whole rows: torch takes 3x as long."""
    table.numpy()[rows.numpy()] = values.numpy()


@dataclass(frozen=True)
class Reach:
    """The rows that change within K hops, nearest first, and how many of them do within 0, 1, ..., K hops."""

    rows: Tensor  # [m]
    counts: list[int]
    P: GraphOperator  # its graph and direction decide which rows change; they do not depend on tau

    @cached_property
    def entries(self) -> "list[RowEntries]":
        """The entries of these rows: one part, or two for a product of two matrices, whose outer one is first."""
        return row_entries(self.P, self.rows)


def reach(P: GraphOperator, changed: Tensor, hops: int) -> Reach:
    """Find the rows that change within this number of hops of those of a mask [n]."""
    return Reach(*rows_by_distance(P, changed, hops), P)


def rows_by_distance(P: GraphOperator, changed: Tensor, hops: int) -> tuple[Tensor, list[int]]:
    """Return the rows [m] that change within this number of hops, nearest first, and how many do within 0, 1, ..."""
    found = changed.clone()
    rings = [found.nonzero()[:, 0]]
    for _ in range(hops):
        ring = dependents(P, found) & ~found
        found = found | ring
        rings.append(ring.nonzero()[:, 0])
    return torch.cat(rings), np.cumsum([len(ring) for ring in rings]).tolist()


def dependents(P: GraphOperator, mask: Tensor) -> Tensor:
    """Return the mask [n] of the rows of P that have an entry in a column of a mask, which are added to that mask."""
    if isinstance(P, MixedPropagation):
        middle = mask | dependents(P.inner, mask)
        return middle | dependents(P.outer, middle)  # the outer matrix has a diagonal
    return torch.from_numpy(P.graph.adjacency @ mask.double().numpy() > 0)


@dataclass(frozen=True)
class RowEntries:
    """The entries of some rows [m] of a propagation matrix, with the numbers of columns among `nodes`."""

    nodes: Tensor  # these rows, then the other nodes that they read, in the order in which they do
    indptr: Tensor  # [m + 1]
    columns: Tensor  # [entries] places in `nodes`
    weights: Tensor | None  # [entries]

    def reads(self, count: int) -> int:
        """Return how many of the nodes the first rows need."""
        used = self.columns[: int(self.indptr[count])]
        return max(count, int(used.max()) + 1) if len(used) else count


def row_entries(P: GraphOperator, rows: Tensor) -> list[RowEntries]:
    """Return the entries of some rows of P, and with two matrices those of the rows of the inner one they read."""
    if isinstance(P, MixedPropagation):
        outer = row_entries(P.outer, rows)
        return outer + row_entries(P.inner, outer[0].nodes)
    indptr, columns, weights = entries_of(P, rows)
    place = torch.full((P.shape[0],), -1)
    place[rows] = torch.arange(len(rows))
    others, first = np.unique(columns[place[columns] < 0].numpy(), return_index=True)
    others = torch.from_numpy(others[np.argsort(first)])
    place[others] = torch.arange(len(rows), len(rows) + len(others))
    return [RowEntries(torch.cat([rows, others]), indptr, place[columns], weights)]


def entries_of(P: Propagation, rows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the entries of some rows of the graph of P as the parts of a CSR matrix: indptr, columns, weights."""
    graph = P.graph
    starts, ends = graph.indptr[rows].long(), graph.indptr[rows + 1].long()
    indptr = torch.cat([starts.new_zeros(1), (ends - starts).cumsum(0)])
    shift = torch.repeat_interleave(starts - indptr[:-1], ends - starts)
    places = torch.arange(int(indptr[-1])) + shift
    return indptr, graph.indices[places].long(), None if graph.weights is None else graph.weights[places]


class RowProduct:
    """Some rows of a propagation matrix with one tau, as an operator of the nodes that they read."""

    def __init__(self, P: GraphOperator, entries: list[RowEntries], dtype: torch.dtype):
        self.entries, self.nodes = entries[0], entries[-1].nodes
        self.inner = RowProduct(P.inner, entries[1:], dtype) if isinstance(P, MixedPropagation) else None
        P = P.outer if isinstance(P, MixedPropagation) else P
        read = self.entries.nodes
        parts = factors(P.left[:, read], P.right[:, read], P.diagonal[:, read], P.taus, dtype)
        self.right, self.left_tau, self.left_diagonal = (part[0] for part in parts)
        self.weights = None if self.entries.weights is None else self.entries.weights.to(dtype)

    def reads(self, count: int) -> int:
        """Return how many of the nodes the first rows need."""
        middle = self.entries.reads(count)
        return middle if self.inner is None else self.inner.reads(middle)

    def product(self, parts: list[Tensor], out: Tensor) -> Tensor:
        """Write the first rows of the product to `out`; the parts are the signal of the first nodes, one after another.

        The order of operations is that of `Propagation`, so that rows have the same bits.
        """
        count, entries = len(out), self.entries
        needed = entries.reads(count)
        if self.inner is not None:
            parts = [self.inner.product(parts, out.new_empty(needed, out.shape[1]))]
        table, start = out.new_empty(needed, out.shape[1]), 0
        for part in parts:
            stop = min(start + len(part), needed)
            torch.mul(part[: stop - start], self.right[start:stop], out=table[start:stop])
            start = stop
        stored = int(entries.indptr[count])
        weights = None if self.weights is None else self.weights[:stored]
        sums = kernels.gather_sum(entries.indptr[: count + 1], entries.columns[:stored], table, weights)
        return finish(sums, table[:count], self.left_tau[:count], self.left_diagonal[:count], out)


def product_rows(P: GraphOperator, x: Tensor, rows: Tensor) -> Tensor:
    """Return some rows [m] of P x for a signal [n, d], of which only the rows that these need are read: [m, d]."""
    local = RowProduct(P, row_entries(P, rows), x.dtype)
    return local.product([x[local.nodes]], x.new_empty(len(rows), x.shape[1]))


class LocalProduct(Operator):
    """P times the latest term, at the rows that change: what a basis needs to compute its next term there."""

    def __init__(self, P: GraphOperator, terms: Tensor, near: Reach):
        super().__init__((len(near.rows), len(near.rows)), is_symmetric=False)
        self.P, self.terms, self.rows, self.counts = P, terms, near.rows, near.counts
        self.local = RowProduct(P, near.entries, terms.dtype)
        self.done, self.latest = 0, terms[0]

    def __matmul__(self, x: Tensor) -> Tensor:
        if x is not self.latest:
            raise ValueError("a basis that multiplies its terms must multiply the latest one; got another signal.")
        product, count = torch.empty_like(x), self.counts[self.done + 1]
        others = self.local.nodes[len(self.rows) : self.local.reads(count)]  # nodes that do not change
        parts = [x, self.terms[self.done].index_select(0, others)]
        self.local.product(parts, product[:count])
        return product

    @property
    def T(self) -> "Operator":  # noqa: N802
        """There is none: the rows that a transposed product needs are others."""
        raise TypeError("a product at some rows has no transpose. Use the operator itself.")

    def to_dense(self) -> Tensor:
        """The block of P of these rows and columns in float64."""
        return self.P.to_dense()[self.rows][:, self.rows]
