r"""The decoupled model: a fixed basis, learned hop weights, an MLP on top. The leading axis is always members.

Members are trainings that run at once: splits, seeds, settings. They share the basis and the layer sizes and nothing
else; every product is a batched one, so what happens to one member never touches another.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Weights = dict[str, Tensor]  # name -> [b, ...]


@dataclass(frozen=True)
class Layout:
    """The sizes all members share."""

    terms: int  # T basis terms a node: (K + 1) x directions (x taus, if untied)
    features: int  # d
    hidden: int  # h
    classes: int  # c
    layers: int
    combine: str = "sum"  # "sum": hops weighted and added; "concat": side by side
    batch_norm: bool = False
    start: tuple[float, ...] | None = None  # hop weights at the start; None is 1 / (K + 1)

    @property
    def widths(self) -> list[int]:
        """Width of the signal before and after each dense map."""
        first = self.features * (self.terms if self.combine == "concat" else 1)
        return [first, *[self.hidden] * (self.layers - 1), self.classes]


def initial_weights(layout: Layout, seeds: Sequence[int], hops: int) -> Weights:
    """Fresh weights, drawn member by member on the CPU: the same on every device and in any company.

    Dense maps are uniform in +-1/sqrt(fan out), as in the published program; hop weights 1 / (K + 1).
    """
    weights: Weights = {}
    widths = layout.widths
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for layer, (wide, narrow) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
        bound = 1 / math.sqrt(narrow)
        drawn = [(torch.rand(wide, narrow, generator=g) * 2 - 1) * bound for g in generators]
        weights[f"dense{layer}"] = torch.stack(drawn)
    if layout.batch_norm:
        for layer in range(layout.layers - 1):
            weights[f"scale{layer}"] = torch.ones(len(seeds), 1, layout.hidden)
            weights[f"shift{layer}"] = torch.zeros(len(seeds), 1, layout.hidden)
    if layout.combine == "sum":
        start = torch.full((layout.terms,), 1 / hops) if layout.start is None else torch.tensor(layout.start)
        weights["filter"] = start.repeat(len(seeds), 1)
    return weights


def running_statistics(layout: Layout, members: int) -> Weights:
    """Batch norm's running mean and variance; remembered with the weights, but not trained."""
    if not layout.batch_norm:
        return {}
    zeros = {f"mean{layer}": torch.zeros(members, 1, layout.hidden) for layer in range(layout.layers - 1)}
    ones = {f"variance{layer}": torch.ones(members, 1, layout.hidden) for layer in range(layout.layers - 1)}
    return zeros | ones


class WeightedSum(torch.autograd.Function):
    """sum_k w[b, k] F_k at each member's own rows: [b, m, d]. The basis is read once for all members."""

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        T, n, d = basis.shape
        whole = (w @ basis.reshape(T, n * d)).view(len(w), n, d)
        return whole.gather(1, rows[:, :, None].expand(-1, -1, d))

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        T, n, d = basis.shape
        whole = gradient.new_zeros(len(rows), n, d)
        whole.scatter_add_(1, rows[:, :, None].expand(-1, -1, d), gradient)
        return whole.view(len(rows), n * d) @ basis.reshape(T, n * d).T, None, None


class DroppedSum(torch.autograd.Function):
    """The same with every entry of every F_k dropped independently, each member with its own chance and dice.

    The masks are not kept: the backward pass draws them again from the same state, a byte a basis entry and member
    that would otherwise be the largest thing in memory.
    """

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor, drop: list[float], dice) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        ctx.drop, ctx.dice, ctx.states = drop, dice, [die.get_state() for die in dice]
        out = basis.new_empty(*rows.shape, basis.shape[2])
        for i, p in enumerate(drop):
            terms = masked(basis, rows[i], p, dice[i])
            torch.tensordot(w[i], terms, 1, out=out[i])
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        result = gradient.new_empty(len(rows), len(basis))
        for i, p in enumerate(ctx.drop):
            die, now = ctx.dice[i], ctx.dice[i].get_state()
            die.set_state(ctx.states[i])
            terms = masked(basis, rows[i], p, die)
            die.set_state(now)
            torch.mv(terms.flatten(1), gradient[i].flatten(), out=result[i])
        return result, None, None, None, None


def masked(basis: Tensor, rows: Tensor, p: float, die: torch.Generator) -> Tensor:
    """Some rows of every term, each entry dropped with chance p and the rest enlarged: [T, m, d]."""
    terms = basis[:, rows]
    return terms.mul_(keep(terms.shape, p, die, terms)) if p else terms


def keep(shape, p: float, die: torch.Generator, like: Tensor) -> Tensor:
    """1 / (1 - p) with chance 1 - p, else 0."""
    if p >= 1:
        return like.new_zeros(shape)
    mask = torch.empty(shape, dtype=like.dtype, device=like.device)
    return mask.bernoulli_(1 - p, generator=die).div_(1 - p)


def dropout(x: Tensor, drop: list[float], dice) -> Tensor:
    """Dropout of x [b, m, h], each member with its own chance and dice."""
    if not any(drop):
        return x
    mask = torch.stack([keep(x.shape[1:], p, die, x) for p, die in zip(drop, dice, strict=True)])
    return x * mask


def combine(layout: Layout, weights: Weights, basis: Tensor, rows: Tensor, drop=None, dice=None) -> Tensor:
    """What enters the MLP: [b, m, d] or, for concat, [b, m, T d]. With `dice`, filter dropout is on."""
    if layout.combine == "concat":
        return basis[:, rows].permute(1, 2, 0, 3).flatten(2)
    if dice is not None and any(drop):
        return DroppedSum.apply(weights["filter"], basis, rows, drop, dice)  # type: ignore[return-value]
    return WeightedSum.apply(weights["filter"], basis, rows)  # type: ignore[return-value]


def mlp(layout: Layout, weights: Weights, statistics: Weights, z: Tensor, counted: Tensor, drop=None, dice=None) -> Tensor:
    """Dense maps without bias: dropout before each, residual where widths agree, ReLU after all but the last.

    Shapes: z [b, m, d], counted [b, m, 1] (1 for real rows, 0 for padding) -> logits [b, m, c].
    With `dice` it trains: dropout is on and batch norm uses (and updates) the batch's statistics.
    """
    for layer in range(layout.layers):
        if dice is not None:
            z = dropout(z, drop, dice)
        fed, z = z, z @ weights[f"dense{layer}"]
        last = layer == layout.layers - 1
        if layout.batch_norm and not last:
            z = batch_norm(z, layer, weights, statistics, counted, training=dice is not None)
        if fed.shape[-1] == z.shape[-1]:
            z = z + fed
        z = z if last else torch.relu(z)
    return z


def batch_norm(z: Tensor, layer: int, weights: Weights, statistics: Weights, counted: Tensor, training: bool) -> Tensor:
    """Batch norm over each member's real rows (momentum 0.1, epsilon 1e-5, as torch has them)."""
    if training:
        count = counted.sum(1, keepdim=True)
        mean = (z * counted).sum(1, keepdim=True) / count
        variance = ((z - mean).square() * counted).sum(1, keepdim=True) / count
        with torch.no_grad():
            statistics[f"mean{layer}"].lerp_(mean, 0.1)
            statistics[f"variance{layer}"].lerp_(variance * count / (count - 1).clamp(min=1), 0.1)
    else:
        mean, variance = statistics[f"mean{layer}"], statistics[f"variance{layer}"]
    return (z - mean) * torch.rsqrt(variance + 1e-5) * weights[f"scale{layer}"] + weights[f"shift{layer}"]
