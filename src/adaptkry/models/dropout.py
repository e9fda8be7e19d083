"""What is random in a training step: each member's dice, and dropout with them.

Dice are thrown for real rows only, and not at all where the chance is 0: what one member draws must not depend on how
long the others' lists of rows are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DropoutState:
    """Each member's dice, dropout chances by name, and number of real rows."""

    dice: Sequence[torch.Generator]
    dropouts: Mapping[str, Sequence[float]]
    sizes: Sequence[int]
    on_gpu: "OnGpu | None" = None  # there the kernels throw the dice

    def on(self, which: str) -> bool:
        """Whether any member drops anything of that name."""
        return any(self.dropouts[which])


class OnGpu:
    """The same for `kernels.dropout`: odds and sizes as tensors, and seeds that follow from member, step and layer."""

    def __init__(self, seeds: Sequence[int], dropouts: Mapping[str, Sequence[float]], device):
        from adaptkry.spectral.kernels import triton_dropout as kernels

        self.kernels = kernels
        self.base = torch.tensor([seed % 2**32 for seed in seeds], device=device)  # [b]
        self.odds = {name: kernels.Odds(chances, device) for name, chances in dropouts.items()}
        # Both are set before every step: the number of the step [], and how many rows of each member are real [b].
        self.step, self.sizes = self.base[0], self.base

    def seeds(self, layer: int) -> Tensor:
        """Seeds of this step; layer 0 is the filter of a decoupled model."""
        return self.base + ((self.step * 64 + layer) << 32)


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


def dropout(x: Tensor, chance: DropoutState | None, which: str, layer: int) -> Tensor:
    """Dropout of x [b, m, h], each member with its own chance and dice; nothing happens without a chance."""
    if chance is None or not chance.on(which):
        return x
    if chance.on_gpu:
        gpu = chance.on_gpu
        return gpu.kernels.Dropout.apply(x, gpu.seeds(layer), gpu.odds[which])
    p = chance.dropouts[which]
    kept = [keep((m, x.shape[2]), p[i], chance.dice[i]) if p[i] else None for i, m in enumerate(chance.sizes)]
    return Dropped.apply(x, kept, [1 / (1 - chance) for chance in p])  # type: ignore[return-value]


class Dropped(torch.autograd.Function):
    """x with each member's unkept entries at 0 and the rest enlarged. The masks stay bool: a byte an entry."""

    @staticmethod
    def forward(ctx, x: Tensor, kept: Sequence[Tensor | None], scales: Sequence[float]) -> Tensor:  # type: ignore[override]
        ctx.kept, ctx.scales = kept, scales
        return masked(x, kept, scales)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return masked(gradient, ctx.kept, ctx.scales), None, None


def masked(x: Tensor, kept: Sequence[Tensor | None], scales: Sequence[float]) -> Tensor:
    """Each member's leading rows times its mask and scale."""
    out = x * torch.tensor(scales, dtype=x.dtype, device=x.device)[:, None, None]
    for own, mask in zip(out, kept, strict=True):
        if mask is not None:
            own[: len(mask)].mul_(mask)
    return out
