"""Learned weights of edges: a softmax over the neighbours of each node, and weighted sums over neighbours (GAT).

Everything is computed for k independent columns at once, one for each member and head. Sums over the edges of a node
add in the order of the edges and use no atomic operations, so that the same input gives the same bits.

Memory: the softmax keeps about six numbers per edge and column, [m, k] each. A weighted sum of signals with f channels
keeps no more than its arguments; the backward pass takes as many edges at a time as CHUNK_NUMBERS allows.
"""

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, leaky_relu

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.kernels.cpu import gather_sum

CHUNK_NUMBERS = 2**23  # numbers that a backward pass copies to edges at once: 32 MiB, which stay in cache
NEGATIVE_SLOPE = 0.2  # of the LeakyReLU, as in the paper of GAT


class EdgeLists:
    """The m edges of a graph on a device, sorted by the node that hears and by the node that is heard.

    Row i of the adjacency matrix lists the nodes that node i hears. Weights of edges are not used.
    """

    def __init__(self, graph: Graph, device: torch.device | str = "cpu"):
        listening = torch.repeat_interleave(torch.arange(graph.nodes), graph.indptr.diff())  # [m], in ascending order
        order = graph.indices.long().sort(stable=True).indices
        counts = torch.bincount(graph.indices.long(), minlength=graph.nodes)
        ends = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
        lists = (graph.indptr, graph.indices, listening, torch.arange(graph.entries), order, ends, listening[order])
        (
            self.indptr, self.heard, self.listening,  # [n + 1], [m], [m]
            self.numbers,  # [m] 0, 1, ..., m - 1
            self.order, self.heard_indptr, self.listening_in_order,  # [m], [n + 1], [m] sorted by the node heard
        ) = (part.to(device, graph.indices.dtype) for part in lists)  # fmt: skip

    def softmax(self, heard: Tensor, listening: Tensor) -> Tensor:
        """Return the weights of edges, whose sum over the neighbours of each node is 1.

        The weight of edge (i, j) is proportional to exp(LeakyReLU(heard[j] + listening[i])): [n, k] each -> [m, k].
        """
        scores = leaky_relu(
            _AtEdges.apply(heard, self, True) + _AtEdges.apply(listening, self, False),  # type: ignore[operator]
            NEGATIVE_SLOPE,
        )
        with torch.no_grad():  # LeakyReLU increases, so that this is the highest score of each node
            highest = embedding_bag(self.heard, heard, self.indptr, mode="max", include_last_offset=True)
            highest = leaky_relu(highest + listening, NEGATIVE_SLOPE).index_select(0, self.listening)
        weights = (scores - highest).exp()
        sums: Tensor = _SumOfEdges.apply(weights, self, False)  # type: ignore[assignment]
        return weights / _AtEdges.apply(sums, self, False)  # type: ignore[operator]

    def weighted_sum(self, weights: Tensor, x: Tensor) -> Tensor:
        """Sum the signals of the nodes that each node hears: weights [k, m], x [k, n, f] -> [k, n, f]."""
        return _WeightedSum.apply(weights, x, self)  # type: ignore[return-value]


class _AtEdges(torch.autograd.Function):
    """Copy the values of nodes to their edges: [n, k] -> [m, k]; the gradient is a sum over the edges of each node."""

    @staticmethod
    def forward(ctx, x: Tensor, edges: EdgeLists, is_heard: bool) -> Tensor:  # type: ignore[override]
        ctx.edges, ctx.is_heard = edges, is_heard
        return x.index_select(0, edges.heard if is_heard else edges.listening)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return _SumOfEdges.apply(gradient, ctx.edges, ctx.is_heard), None, None


class _SumOfEdges(torch.autograd.Function):
    """Sum values over the edges of each node, [m, k] -> [n, k]; the gradient is a copy to edges."""

    @staticmethod
    def forward(ctx, values: Tensor, edges: EdgeLists, is_heard: bool) -> Tensor:  # type: ignore[override]
        ctx.edges, ctx.is_heard = edges, is_heard
        lists = (edges.heard_indptr, edges.order) if is_heard else (edges.indptr, edges.numbers)
        return gather_sum(*lists, values.contiguous())

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return _AtEdges.apply(gradient, ctx.edges, ctx.is_heard), None, None


class _WeightedSum(torch.autograd.Function):
    """Sums with one set of edge weights per column, one column at a time: one sparse product each."""

    @staticmethod
    def forward(ctx, weights: Tensor, x: Tensor, edges: EdgeLists) -> Tensor:  # type: ignore[override]
        weights, x = weights.contiguous(), x.contiguous()
        ctx.save_for_backward(weights, x)
        ctx.edges = edges
        sums = [gather_sum(edges.indptr, edges.heard, part, w) for w, part in zip(weights, x, strict=True)]
        return torch.stack(sums)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        weights, x = ctx.saved_tensors
        edges, gradient = ctx.edges, gradient.contiguous()
        in_order = weights.index_select(1, edges.order)
        sums = [
            gather_sum(edges.heard_indptr, edges.listening_in_order, g, w)
            for g, w in zip(gradient, in_order, strict=True)
        ]
        # The gradient of the weight of edge (i, j) is the product of gradient[i] and x[j]. All columns of a node are
        # copied together: short rows would make this several times slower on a GPU.
        k, n, f = x.shape
        gradients, signals = (part.transpose(0, 1).reshape(n, k * f) for part in (gradient, x))
        step = max(1, CHUNK_NUMBERS // (k * f))
        parts = [
            (gradients.index_select(0, i) * signals.index_select(0, j)).view(-1, k, f).sum(2)
            for i, j in zip(edges.listening.split(step), edges.heard.split(step), strict=True)
        ]
        return torch.cat(parts).T, torch.stack(sums), None
