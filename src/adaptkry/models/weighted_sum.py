"""Weighted sums of a precomputed basis at the rows of each member.

Shapes: b members, m rows per member, T terms, n nodes, d features.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from adaptkry.models.dropout import DropoutState, dropout, keep_mask


def weighted_sum(w: Tensor, basis: Tensor, rows: Tensor, dropout: DropoutState | None) -> Tensor:
    """Compute sum_k w_k F_k at the rows [b, m] of each member, with filter dropout if any: [b, m, d].

    The weights are [b, T], or [b, m, 1, T] if they depend on the row, or [b, 1, d, T] if they depend on the channel.
    """
    if w.ndim == 4:
        return VaryingSum.apply(w, basis, rows, dropout)  # type: ignore[return-value]
    if dropout is None or not dropout.is_active("filter_dropout"):
        return WeightedSum.apply(w, basis, rows)  # type: ignore[return-value]
    if dropout.gpu:
        gpu = dropout.gpu
        rates = gpu.rates["filter_dropout"]
        return gpu.kernels.TritonDroppedSum.apply(w, basis, rows, gpu.seeds(0), rates, gpu.row_counts)
    return DroppedSum.apply(w, basis, rows, dropout)  # type: ignore[return-value]


class WeightedSum(torch.autograd.Function):
    """sum_k w[b, k] F_k at the rows of each member: [b, m, d]. The basis is read once for all members."""

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        T, n, d = basis.shape
        sums = (w @ basis.reshape(T, n * d)).view(len(w) * n, d)
        return sums.index_select(0, flat_rows(rows, n)).view(*rows.shape, d)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        _, n, d = basis.shape
        parts = []
        quarter = -(-len(rows) // 4)  # a quarter of the members at a time, because memory peaks here
        for part_rows, part in zip(rows.split(quarter), gradient.split(quarter), strict=True):
            at_nodes = part.new_zeros(len(part) * n, d).index_add_(0, flat_rows(part_rows, n), part.reshape(-1, d))
            # Node by node, which is faster than one long thin product [b, n d] @ [n d, T].
            per_node = torch.bmm(at_nodes.view(len(part), n, d).transpose(0, 1), basis.permute(1, 2, 0))
            parts.append(per_node.sum(0))  # [n, b, T] -> [b, T]
        return torch.cat(parts), None, None


def flat_rows(rows: Tensor, n: int) -> Tensor:
    """Convert the rows of each member [b, m] to rows of a table with the n nodes of all members: [b m]."""
    return (rows + n * torch.arange(len(rows), device=rows.device)[:, None]).flatten()


class DroppedSum(torch.autograd.Function):
    """The same with dropout of every entry of every F_k, with the rate and the generator of each member.

    The backward pass draws the masks again from the same generator state. Kept masks, one byte per basis entry and
    member, would be the largest array in memory.
    """

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor, dropout: DropoutState) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        ctx.dropout, ctx.states = dropout, dropout.generator_states()
        out = basis.new_zeros(*rows.shape, basis.shape[2])
        for i, (m, p) in enumerate(zip(dropout.row_counts, dropout.rates["filter_dropout"], strict=True)):
            terms = dropped_terms(basis, rows[i, :m], p, dropout.generators[i])
            out[i, :m] = torch.tensordot(w[i] / (1 - p), terms, 1)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        result = gradient.new_empty(len(rows), len(basis))  # [b, T]
        with ctx.dropout.restored(ctx.states):
            for i, (m, p) in enumerate(zip(ctx.dropout.row_counts, ctx.dropout.rates["filter_dropout"], strict=True)):
                terms = dropped_terms(basis, rows[i, :m], p, ctx.dropout.generators[i])
                result[i] = terms.flatten(1) @ gradient[i, :m].flatten() / (1 - p)
        return result, None, None, None


def dropped_terms(basis: Tensor, rows: Tensor, p: float, generator: torch.Generator) -> Tensor:
    """Return rows [m] of every term with entries set to 0 with probability p, and the others not scaled: [T, m, d]."""
    terms = basis.index_select(1, rows)
    return terms.mul_(keep_mask(terms.shape, p, generator)) if p else terms


class VaryingSum(torch.autograd.Function):
    """sum_k w_k F_k with weights that depend on the row [b, m, 1, T] or on the channel [b, 1, d, T].

    One term is in memory at a time; the backward pass selects its rows and draws its dropout again.
    """

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor, dropout: DropoutState | None) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        ctx.dropout, ctx.reduced = dropout, [axis for axis in (1, 2) if w.shape[axis] == 1]
        ctx.states = dropout.generator_states() if dropout else []
        out = basis.new_zeros(*rows.shape, basis.shape[2])
        for k, term in enumerate(terms_at_rows(basis, rows, dropout)):
            out.addcmul_(w[..., k], term)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        with ctx.dropout.restored(ctx.states) if ctx.dropout else nullcontext():
            terms = terms_at_rows(basis, rows, ctx.dropout)
            parts = [(term * gradient).sum(ctx.reduced, keepdim=True) for term in terms]
        return torch.stack(parts, -1), None, None, None


def terms_at_rows(basis: Tensor, rows: Tensor, state: DropoutState | None) -> Iterator[Tensor]:
    """Yield each term at the rows of each member, with filter dropout if any: [b, m, d]."""
    for k, term in enumerate(basis):
        at_rows = term.index_select(0, rows.flatten()).view(*rows.shape, -1)
        yield dropout(at_rows, state, "filter_dropout", 0, part=k)
