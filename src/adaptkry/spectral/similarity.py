r"""Similar nodes: those with many neighbours in common, and the operator that sums over them.

.. math::
    c_{ij} = \frac{a_i \cdot a_j}{\|a_i\| \, \|a_j\|}, \qquad S^{(s)}_{ij} = e^{s (c_{ij} - 1)}

where a_i is row i of the adjacency matrix, beside row i of its transpose if edges have a direction: the cosine
similarity of neighbourhoods. Nodes with the same neighbours have the weight 1 for every sharpness s. Every row of S has
the few most similar nodes only, and never the node itself.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.operators import Matrix, Operator, StackedOperators

SHARPNESS = (10.0, 100.0)  # s: weights that fall to 1/e at a similarity of 0.9 and of 0.99
LEAST_SIMILARITY = 0.3  # below it a node does not count as similar; its weight would be less than 0.001
LEAST_WEIGHT = 1e-6  # smaller ones are 0
CHUNK_ENTRIES = 2**25  # products that are computed at once
MOST_PRODUCTS = 2**29  # in all; neighbours with the most links are left out if there would be more
DECIMALS = 9  # of similarities, so that equal ones are in the order of their nodes


def similar_nodes(
    graph: Graph, count: int, sides: Sequence[str], candidates: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the most similar nodes of every node [n, count], the most similar first, and their similarities.

    Args:
        graph: the graph.
        count: number of similar nodes; where there are fewer, the rest has the similarity 0.
        sides: see `structure.sides_of`.
        candidates: the nodes that may be in the table; None are all.

    >>> both = Graph([[0, 0, 1, 1, 4], [2, 3, 2, 3, 3]])  # 0 and 1 have the neighbours 2 and 3; 4 has 3
    >>> nodes, similarities = similar_nodes(both, 2, ["both"])
    >>> nodes[0].tolist(), similarities[0].numpy().round(3).tolist()
    ([1, 4], [1.0, 0.707])
    """
    adjacency = (graph.undirected() if "both" in sides else graph).adjacency
    rows: Any = sp.hstack([adjacency.T if side == "in" else adjacency for side in sides], format="csr")
    rows = rows.astype(np.float64)  # [n, n x sides]
    links = np.bincount(rows.indices, minlength=rows.shape[1])
    order = np.argsort(links, kind="stable")
    is_used = np.empty(len(order), bool)
    is_used[order] = np.cumsum(links[order].astype(float) ** 2) <= MOST_PRODUCTS
    rows = rows[:, is_used] if not is_used.all() else rows
    lengths = np.sqrt(rows.power(2).sum(1))
    unit: Any = sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ rows)
    n = graph.nodes
    is_candidate = np.ones(n, bool) if candidates is None else np.isin(np.arange(n), candidates.numpy())
    nodes, similarities = np.zeros((n, count), np.int64), np.zeros((n, count))
    transposed = unit.T.tocsr()
    for start, stop in chunks(unit):
        found = (unit[start:stop] @ transposed).tocoo()
        node, other, similarity = found.row + start, found.col, found.data.round(DECIMALS)
        used = (similarity >= LEAST_SIMILARITY) & (node != other) & is_candidate[other]
        node, other, similarity = node[used], other[used], similarity[used]
        order = np.lexsort((other, -similarity, node))
        node, other, similarity = node[order], other[order], similarity[order]
        place = np.arange(len(node)) - np.searchsorted(node, node)
        used = place < count
        nodes[node[used], place[used]] = other[used]
        similarities[node[used], place[used]] = similarity[used]
    return torch.from_numpy(nodes), torch.from_numpy(similarities)


def chunks(unit: Any) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of which the products with all rows have at most so many entries, if there are several."""
    columns = np.bincount(unit.indices, minlength=unit.shape[1])
    total = np.concatenate([[0], np.cumsum((unit != 0).astype(np.int64) @ columns)])
    start, n = 0, unit.shape[0]
    while start < n:
        stop = int(np.searchsorted(total, total[start] + CHUNK_ENTRIES, "right")) - 1
        stop = min(max(stop, start + 1), n)
        yield start, stop
        start = stop


class Similarity(Operator):
    """Weighted sums over similar nodes: one matrix S for each sharpness s.

    Args:
        graph: the graph.
        count: number of similar nodes of each node.
        sides: see `structure.sides_of`.
        candidates: the nodes that are summed; None are all.

    >>> both = Graph([[0, 0, 1, 1], [2, 3, 2, 3]])  # 0 and 1 have the same neighbours, and so do 2 and 3
    >>> (Similarity(both, 1, ["both"]) @ torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
    [[2.0, 1.0, 4.0, 3.0], [2.0, 1.0, 4.0, 3.0]]
    """

    def __init__(self, graph: Graph, count: int, sides: Sequence[str], candidates: Tensor | None = None):
        kept = graph.edge_results if candidates is None else {}  # a search trains many recipes on the same graph
        key = ("similar nodes", count, tuple(sides))
        if key not in kept:
            kept[key] = similar_nodes(graph, count, sides, candidates)
        self.nodes, similarities = kept[key]
        weights = torch.stack([torch.exp(s * (similarities - 1)) for s in SHARPNESS])  # [r, n, count]
        self.weights = torch.where((similarities > 0) & (weights >= LEAST_WEIGHT), weights, 0.0)
        super().__init__((graph.nodes, graph.nodes), is_symmetric=False, is_batched=True)

    def to(self, device: torch.device | str) -> "Similarity":
        """Return the operator on another device."""
        moved = copy(self)
        moved.nodes, moved.weights = self.nodes.to(device), self.weights.to(device)
        return moved

    @property
    def T(self) -> StackedOperators:  # noqa: N802  as in NumPy and torch
        """The transposed matrices, dense."""
        return StackedOperators([Matrix(matrix.T) for matrix in self.to_dense()])

    def __matmul__(self, x: Tensor) -> Tensor:
        """Sum over similar nodes, one after the other: [n, d] or [r, n, d] -> [r, n, d]."""
        signal = x[:, None] if x.ndim == 1 else x
        weights = self.weights.to(x.dtype)
        sums = x.new_zeros(len(weights), *signal.shape[-2:])
        for place in range(self.nodes.shape[1]):
            sums.addcmul_(weights[:, :, place, None], signal[..., self.nodes[:, place], :])
        return sums[..., 0] if x.ndim == 1 else sums

    def to_dense(self) -> Tensor:
        """The matrices in float64: [r, n, n]."""
        dense = torch.zeros(len(self.weights), *self.shape, dtype=torch.float64)
        places = self.nodes.cpu().expand(len(dense), -1, -1)
        return dense.scatter_add_(2, places, self.weights.cpu())
