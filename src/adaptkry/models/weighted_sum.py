"""Weighted sums of a fixed basis at each member's own rows: the one place a decoupled model reads its basis."""

import torch
from torch import Tensor

from adaptkry.models.dropout import DropoutState, keep


def flat(rows: Tensor, n: int) -> Tensor:
    """Each member's rows [b, m] as rows of all members' nodes one after the other: [b m]."""
    return (rows + n * torch.arange(len(rows), device=rows.device)[:, None]).flatten()


class WeightedSum(torch.autograd.Function):
    """sum_k w[b, k] F_k at each member's own rows: [b, m, d]. The basis is read once for all members."""

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        T, n, d = basis.shape
        whole = (w @ basis.reshape(T, n * d)).view(len(w) * n, d)
        return whole.index_select(0, flat(rows, n)).view(*rows.shape, d)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        _, n, d = basis.shape
        found = []
        few = -(-len(rows) // 4)  # a quarter of the members at a time: this is where memory peaks
        for at, push in zip(rows.split(few), gradient.split(few), strict=True):
            whole = push.new_zeros(len(at) * n, d).index_add_(0, flat(at, n), push.reshape(-1, d))
            # Node by node: as one long thin product [b, n d] @ [n d, T] it is slower.
            nodes = torch.bmm(whole.view(len(at), n, d).transpose(0, 1), basis.permute(1, 2, 0))  # [n, b, T]
            found.append(nodes.sum(0))
        return torch.cat(found), None, None


class DroppedSum(torch.autograd.Function):
    """The same with every entry of every F_k dropped independently, each member with its own chance and dice.

    The masks are not kept: the backward pass draws them again from the same state, a byte a basis entry and member
    that would otherwise be the largest thing in memory.
    """

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor, chance: DropoutState) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        ctx.chance, ctx.states = chance, [die.get_state() for die in chance.dice]
        out = basis.new_zeros(*rows.shape, basis.shape[2])
        for i, (m, p) in enumerate(zip(chance.sizes, chance.dropouts["filter_dropout"], strict=True)):
            out[i, :m] = torch.tensordot(w[i] / (1 - p), dropped(basis, rows[i, :m], p, chance.dice[i]), 1)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        result = gradient.new_empty(len(rows), len(basis))
        for i, (m, p) in enumerate(zip(ctx.chance.sizes, ctx.chance.dropouts["filter_dropout"], strict=True)):
            die, now = ctx.chance.dice[i], ctx.chance.dice[i].get_state()
            die.set_state(ctx.states[i])
            terms = dropped(basis, rows[i, :m], p, die)
            die.set_state(now)
            result[i] = terms.flatten(1) @ gradient[i, :m].flatten() / (1 - p)
        return result, None, None, None


def dropped(basis: Tensor, rows: Tensor, p: float, die: torch.Generator) -> Tensor:
    """Some rows of every term, each entry dropped with chance p, the rest not yet enlarged: [T, m, d]."""
    terms = basis.index_select(1, rows)
    return terms.mul_(keep(terms.shape, p, die)) if p else terms


def weighted_sum(w: Tensor, basis: Tensor, rows: Tensor, chance: DropoutState | None) -> Tensor:
    """sum_k w[b, k] F_k at each member's rows, with filter dropout where there is a chance of it."""
    if chance is None or not chance.on("filter_dropout"):
        return WeightedSum.apply(w, basis, rows)  # type: ignore[return-value]
    if chance.on_gpu:
        gpu = chance.on_gpu
        odds = gpu.odds["filter_dropout"]
        return gpu.kernels.DroppedSum.apply(w, basis, rows, gpu.seeds(0), odds, gpu.sizes)
    return DroppedSum.apply(w, basis, rows, chance)  # type: ignore[return-value]
