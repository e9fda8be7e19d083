r"""The decoupled model: a fixed basis, learned hop weights, an MLP on top. The leading axis is always members.

Members are trainings that run at once: splits, seeds, settings. They share the basis and the layer sizes and nothing
else; every product is a batched one, so what happens to one member never touches another.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

Weights = dict[str, Tensor]  # name -> [b, ...]


@dataclass(frozen=True)
class Chance:
    """What is random in a training step: each member's dice, dropout chances and number of real rows.

    Dice are thrown for real rows only, and not at all where the chance is 0: what one member draws must not depend
    on how long the others' lists of rows are.
    """

    dice: Sequence[torch.Generator]
    filter_dropout: Sequence[float]
    mlp_dropout: Sequence[float]
    sizes: Sequence[int]
    on_gpu: "OnGpu | None" = None  # there the kernels throw the dice


class OnGpu:
    """The same for `kernels.dropout`: odds and sizes as tensors, and seeds that follow from member, step and layer."""

    def __init__(self, seeds: Sequence[int], filter_dropout: Sequence[float], mlp_dropout: Sequence[float], device):
        from adaptkry.kernels import dropout as kernels  # Triton comes with torch's CUDA builds only

        self.kernels = kernels
        self.base = torch.tensor([seed % 2**32 for seed in seeds], device=device)  # [b]
        self.filter_odds, self.mlp_odds = (kernels.Odds(p, device) for p in (filter_dropout, mlp_dropout))
        self.step, self.sizes = 0, self.base  # both set before every step; sizes [b] counts real rows

    def seeds(self, layer: int) -> Tensor:
        """Seeds of this step; layer 0 is the filter."""
        return self.base + ((self.step * 64 + layer) << 32)


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
    for layer, (wide, narrow) in enumerate(pairwise(widths)):
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
        found = []
        half = (len(rows) + 1) // 2  # half of the members at a time: this is where memory peaks
        for at, push in zip(rows.split(half), gradient.split(half), strict=True):
            whole = push.new_zeros(len(at), n, d)
            whole.scatter_add_(1, at[:, :, None].expand(-1, -1, d), push)
            found.append(whole.view(len(at), n * d) @ basis.reshape(T, n * d).T)
        return torch.cat(found), None, None


class DroppedSum(torch.autograd.Function):
    """The same with every entry of every F_k dropped independently, each member with its own chance and dice.

    The masks are not kept: the backward pass draws them again from the same state, a byte a basis entry and member
    that would otherwise be the largest thing in memory.
    """

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor, chance: Chance) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        ctx.chance, ctx.states = chance, [die.get_state() for die in chance.dice]
        out = basis.new_zeros(*rows.shape, basis.shape[2])
        for i, m in enumerate(chance.sizes):
            out[i, :m] = torch.tensordot(
                w[i] / (1 - chance.filter_dropout[i]), masked(basis, rows[i, :m], chance, i), 1
            )
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        result = gradient.new_empty(len(rows), len(basis))
        for i, m in enumerate(ctx.chance.sizes):
            die, now = ctx.chance.dice[i], ctx.chance.dice[i].get_state()
            die.set_state(ctx.states[i])
            terms = masked(basis, rows[i, :m], ctx.chance, i)
            die.set_state(now)
            result[i] = terms.flatten(1) @ gradient[i, :m].flatten() / (1 - ctx.chance.filter_dropout[i])
        return result, None, None, None


def masked(basis: Tensor, rows: Tensor, chance: Chance, i: int) -> Tensor:
    """Some rows of every term, each entry dropped with member i's chance, the rest not yet enlarged: [T, m, d]."""
    terms, p = basis[:, rows], chance.filter_dropout[i]
    return terms.mul_(keep(terms.shape, p, chance.dice[i])) if p else terms


def keep(shape: Sequence[int], p: float, die: torch.Generator) -> Tensor:
    """True with chance 1 - p, bool of the given shape, on the dice's device.

    On the CPU four coins come from one 64-bit number, which is 5x faster than torch's own bernoulli_; the chance is
    met to 1 / 65536.
    """
    if die.device.type != "cpu":
        return torch.empty(*shape, dtype=torch.bool, device=die.device).bernoulli_(1 - p, generator=die)
    count = math.prod(shape)
    numbers = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=die)
    return (numbers.view(torch.int16)[:count] >= round(p * 2**16) - 2**15).view(*shape)


def dropout(x: Tensor, chance: Chance, layer: int) -> Tensor:
    """Dropout of x [b, m, h], each member with its own chance and dice."""
    if not any(chance.mlp_dropout):
        return x
    if chance.on_gpu:
        gpu = chance.on_gpu
        return gpu.kernels.Dropout.apply(x, gpu.seeds(layer + 1), gpu.mlp_odds)
    mask = torch.ones_like(x)
    for i, (p, m) in enumerate(zip(chance.mlp_dropout, chance.sizes, strict=True)):
        if p:
            mask[i, :m] = keep(x[i, :m].shape, p, chance.dice[i]) / (1 - p)
    return x * mask


def combine(layout: Layout, weights: Weights, basis: Tensor, rows: Tensor, chance: Chance | None = None) -> Tensor:
    """What enters the MLP: [b, m, d] or, for concat, [b, m, T d]. With `chance`, filter dropout is on."""
    if layout.combine == "concat":
        return basis[:, rows].permute(1, 2, 0, 3).flatten(2)
    if chance is not None and any(chance.filter_dropout):
        if chance.on_gpu:
            gpu, w = chance.on_gpu, weights["filter"]
            return gpu.kernels.DroppedSum.apply(w, basis, rows, gpu.seeds(0), gpu.filter_odds, gpu.sizes)
        return DroppedSum.apply(weights["filter"], basis, rows, chance)  # type: ignore[return-value]
    return WeightedSum.apply(weights["filter"], basis, rows)  # type: ignore[return-value]


def mlp(
    layout: Layout, weights: Weights, statistics: Weights, z: Tensor, counted: Tensor, chance: Chance | None = None
) -> Tensor:
    """Dense maps without bias: dropout before each, residual where widths agree, ReLU after all but the last.

    Shapes: z [b, m, d], counted [b, m, 1] (1 for real rows, 0 for padding) -> logits [b, m, c].
    With `chance` it trains: dropout is on and batch norm uses (and updates) the batch's statistics.
    """
    for layer in range(layout.layers):
        if chance is not None:
            z = dropout(z, chance, layer)
        fed, z = z, z @ weights[f"dense{layer}"]
        last = layer == layout.layers - 1
        if layout.batch_norm and not last:
            z = batch_norm(z, layer, weights, statistics, counted, training=chance is not None)
        if fed.shape[-1] == z.shape[-1]:
            z = z + fed
        z = z if last else torch.relu(z)
    return z


def batch_norm(z: Tensor, layer: int, weights: Weights, statistics: Weights, counted: Tensor, training: bool) -> Tensor:
    """Batch norm over each member's real rows (momentum 0.1, epsilon 1e-5, as torch has them)."""
    if training:
        count = counted.sum(1, keepdim=True).clamp(min=1)
        mean = (z * counted).sum(1, keepdim=True) / count
        variance = ((z - mean).square() * counted).sum(1, keepdim=True) / count
        with torch.no_grad():
            statistics[f"mean{layer}"].lerp_(mean, 0.1)
            statistics[f"variance{layer}"].lerp_(variance * count / (count - 1).clamp(min=1), 0.1)
    else:
        mean, variance = statistics[f"mean{layer}"], statistics[f"variance{layer}"]
    return (z - mean) * torch.rsqrt(variance + 1e-5) * weights[f"scale{layer}"] + weights[f"shift{layer}"]
