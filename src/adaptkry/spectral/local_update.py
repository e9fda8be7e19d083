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

from typing import Any

import torch
from torch import Tensor

from adaptkry.spectral.bases import stack
from adaptkry.spectral.basis_function import BasisFunction
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.operators import Operator
from adaptkry.spectral.propagation_matrix import MixedPropagation, Propagation, factors, finish

GraphOperator = Propagation | MixedPropagation


def update_terms(
    function: BasisFunction, P: GraphOperator, terms: Tensor, changed: Tensor, options: dict[str, Any] | None = None
) -> Tensor:
    """Compute the changed rows of terms [K + 1, n, d] in place, and return their numbers.

    Args:
        function: the basis.
        P: the operator of the graph after the change, with one tau.
        terms: those of the graph before the change; term 0 must hold the signal of new nodes already, and the other
            rows of new nodes may hold anything.
        changed: mask [n] of the new nodes and of the ends of all new and removed edges.
        options: of the basis.
    """
    if not function.multiplies_terms:
        raise ValueError(f"the terms of the basis {function.name} cannot be updated by rows. Compute all of them.")
    rows, counts = rows_by_distance(P, changed, len(terms) - 1)
    if len(rows) > terms.shape[1] / 2:  # most rows change: computing all of them takes no longer
        stack(function(P, terms[0], len(terms) - 1, **(options or {})), out=terms.transpose(0, 1))
        return rows
    local = LocalProduct(P, terms, rows, counts)
    for k, term in enumerate(function(local, terms[0][rows], len(terms) - 1, **(options or {}))):
        term[counts[k] :] = terms[k][rows[counts[k] :]]  # too far from the changes for a difference at this term
        terms[k][rows[: counts[k]]] = term[: counts[k]]
        local.done, local.latest = k, term
    return rows


def rows_by_distance(P: GraphOperator, changed: Tensor, hops: int) -> tuple[Tensor, list[int]]:
    """Return the rows [m] that change within this number of hops, nearest first, and how many do within 0, 1, ..."""
    found = changed.clone()
    rings = [found.nonzero()[:, 0]]
    for _ in range(hops):
        ring = dependents(P, found) & ~found
        found = found | ring
        rings.append(ring.nonzero()[:, 0])
    return torch.cat(rings), torch.tensor([len(ring) for ring in rings]).cumsum(0).tolist()


def dependents(P: GraphOperator, mask: Tensor) -> Tensor:
    """Return the mask [n] of the rows of P that have an entry in a column of a mask, which are added to that mask."""
    if isinstance(P, MixedPropagation):
        middle = mask | dependents(P.inner, mask)
        return middle | dependents(P.outer, middle)  # the outer matrix has a diagonal
    return torch.from_numpy(P.graph.adjacency @ mask.double().numpy() > 0)


def product_rows(P: GraphOperator, x: Tensor, rows: Tensor) -> Tensor:
    """Return some rows [m] of P x for a signal [n, d], of which only the rows that these need are read: [m, d]."""
    if isinstance(P, MixedPropagation):
        needed = torch.zeros(P.shape[0], dtype=torch.bool)
        needed[rows] = needed[entries_of(P.outer, rows)[1].long()] = True
        middle, inner = torch.empty_like(x), needed.nonzero()[:, 0]
        middle[inner] = product_rows(P.inner, x, inner)
        return product_rows(P.outer, middle, rows)
    indptr, columns, weights = entries_of(P, rows)
    is_read = torch.zeros(P.shape[0], dtype=torch.bool)
    is_read[rows] = is_read[columns.long()] = True
    place = is_read.cumsum(0) - 1  # of each node among those that are read
    right, left_tau, left_diagonal = (part[0] for part in factors(P.left, P.right, P.diagonal, P.taus, x.dtype))
    table = x[is_read] * right[is_read]
    weights = None if weights is None else weights.to(x.dtype)
    sums = kernels.gather_sum(indptr, place[columns.long()], table, weights)
    return finish(sums, table[place[rows]], left_tau[rows], left_diagonal[rows])


def entries_of(P: Propagation, rows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the entries of some rows of the graph of P as the parts of a CSR matrix: indptr, columns, weights."""
    graph = P.graph
    starts, ends = graph.indptr[rows].long(), graph.indptr[rows + 1].long()
    indptr = torch.cat([starts.new_zeros(1), (ends - starts).cumsum(0)])
    shift = torch.repeat_interleave(starts - indptr[:-1], ends - starts)
    places = torch.arange(int(indptr[-1])) + shift
    return indptr, graph.indices[places], None if graph.weights is None else graph.weights[places]


class LocalProduct(Operator):
    """P times the latest term, at the rows that change: what a basis needs to compute its next term there."""

    def __init__(self, P: GraphOperator, terms: Tensor, rows: Tensor, counts: list[int]):
        super().__init__((len(rows), len(rows)), is_symmetric=False)
        self.P, self.terms, self.rows, self.counts = P, terms, rows, counts
        self.done, self.latest = 0, terms[0]

    def __matmul__(self, x: Tensor) -> Tensor:
        if x is not self.latest:
            raise ValueError("a basis that multiplies its terms must multiply the latest one; got another signal.")
        product, count = torch.empty_like(x), self.counts[self.done + 1]
        product[:count] = product_rows(self.P, self.terms[self.done], self.rows[:count])
        return product

    @property
    def T(self) -> "Operator":  # noqa: N802
        """There is none: the rows that a transposed product needs are others."""
        raise TypeError("a product at some rows has no transpose. Use the operator itself.")

    def to_dense(self) -> Tensor:
        """The block of P of these rows and columns in float64."""
        return self.P.to_dense()[self.rows][:, self.rows]
