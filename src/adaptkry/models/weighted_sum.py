"""Weighted sums of a fixed basis at each member's rows: the one place where a decoupled model reads its basis."""

import torch
from torch import Tensor

from adaptkry.models.dropout import DropoutState, keep_mask


def weighted_sum(w: Tensor, basis: Tensor, rows: Tensor, dropout: DropoutState | None) -> Tensor:
    """sum_k w[b, k] F_k at each member's rows [b, m], with filter dropout where a member has it: [b, m, d]."""
    if dropout is None or not dropout.is_active("filter_dropout"):
        return WeightedSum.apply(w, basis, rows)  # type: ignore[return-value]
    if dropout.gpu:
        gpu = dropout.gpu
        rates = gpu.rates["filter_dropout"]
        return gpu.kernels.TritonDroppedSum.apply(w, basis, rows, gpu.seeds(0), rates, gpu.row_counts)
    return DroppedSum.apply(w, basis, rows, dropout)  # type: ignore[return-value]


class WeightedSum(torch.autograd.Function):
    """sum_k w[b, k] F_k at each member's rows: [b, m, d]. The basis is read once for all members."""

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
        found = []
        few = -(-len(rows) // 4)  # a quarter of the members at a time: this is where memory peaks
        for some_rows, some in zip(rows.split(few), gradient.split(few), strict=True):
            at_nodes = some.new_zeros(len(some_rows) * n, d).index_add_(0, flat_rows(some_rows, n), some.reshape(-1, d))
            # Node by node: as one long thin product [b, n d] @ [n d, T] it is slower.
            per_node = torch.bmm(at_nodes.view(len(some_rows), n, d).transpose(0, 1), basis.permute(1, 2, 0))
            found.append(per_node.sum(0))  # [n, b, T] -> [b, T]
        return torch.cat(found), None, None


def flat_rows(rows: Tensor, n: int) -> Tensor:
    """Each member's rows [b, m] as rows of all members' nodes one after the other: [b m]."""
    return (rows + n * torch.arange(len(rows), device=rows.device)[:, None]).flatten()


class DroppedSum(torch.autograd.Function):
    """The same with every entry of every F_k dropped independently, each member with its own rate and generator.

    The masks are not kept: the backward pass draws them again from the same generator state. One byte per basis entry
    and member would otherwise be the largest array in memory.
    """

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor, dropout: DropoutState) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        ctx.dropout, ctx.states = dropout, [generator.get_state() for generator in dropout.generators]
        out = basis.new_zeros(*rows.shape, basis.shape[2])
        for i, (m, p) in enumerate(zip(dropout.row_counts, dropout.rates["filter_dropout"], strict=True)):
            terms = dropped_terms(basis, rows[i, :m], p, dropout.generators[i])
            out[i, :m] = torch.tensordot(w[i] / (1 - p), terms, 1)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        result = gradient.new_empty(len(rows), len(basis))
        for i, (m, p) in enumerate(zip(ctx.dropout.row_counts, ctx.dropout.rates["filter_dropout"], strict=True)):
            generator = ctx.dropout.generators[i]
            now = generator.get_state()
            generator.set_state(ctx.states[i])
            terms = dropped_terms(basis, rows[i, :m], p, generator)
            generator.set_state(now)
            result[i] = terms.flatten(1) @ gradient[i, :m].flatten() / (1 - p)
        return result, None, None, None


def dropped_terms(basis: Tensor, rows: Tensor, p: float, generator: torch.Generator) -> Tensor:
    """Some rows of every term, each entry dropped with probability p, the rest not yet scaled up: [T, m, d]."""
    terms = basis.index_select(1, rows)
    return terms.mul_(keep_mask(terms.shape, p, generator)) if p else terms
