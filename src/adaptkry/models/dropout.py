"""Dropout with a random generator and rates per member.

Random numbers are drawn for real rows only, and not at all where the rate is 0: what one member draws must not depend
on the number of rows of the others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DropoutState:
    """Each member's generator, its dropout rates by name, and its number of real rows."""

    generators: Sequence[torch.Generator]
    rates: Mapping[str, Sequence[float]]
    row_counts: Sequence[int]
    gpu: "GpuDropout | None" = None  # then kernels draw the random numbers

    def is_active(self, name: str) -> bool:
        """Whether any member drops anything under that name."""
        return any(self.rates[name])


class GpuDropout:
    """Rates and row counts as tensors for the Triton kernels; seeds follow from member, step and layer."""

    def __init__(self, seeds: Sequence[int], rates: Mapping[str, Sequence[float]], device):
        from adaptkry.spectral.kernels import triton_dropout as kernels  # Triton comes with torch's CUDA builds only

        self.kernels = kernels
        self.member_seeds = torch.tensor([seed % 2**32 for seed in seeds], device=device)  # [b]
        self.rates = {name: kernels.DropoutRates(values, device) for name, values in rates.items()}
        # Both are set before every step: the number of the step [], and each member's number of real rows [b].
        self.step, self.row_counts = self.member_seeds[0], self.member_seeds

    def seeds(self, layer: int) -> Tensor:
        """Seeds of this step [b]; layer 0 is the filter of a decoupled model."""
        return self.member_seeds + ((self.step * 64 + layer) << 32)


def keep_mask(shape: Sequence[int], p: float, generator: torch.Generator) -> Tensor:
    """True with probability 1 - p: bool of the given shape, on the generator's device.

    On the CPU four entries come from one 64-bit number, which is 5x faster than torch's own bernoulli_; the
    probability is exact to 1 / 65536.
    """
    if generator.device.type != "cpu":
        return torch.empty(*shape, dtype=torch.bool, device=generator.device).bernoulli_(1 - p, generator=generator)
    count = math.prod(shape)
    numbers = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return (numbers.view(torch.int16)[:count] >= round(p * 2**16) - 2**15).view(*shape)


def dropout(x: Tensor, state: DropoutState | None, name: str, layer: int) -> Tensor:
    """Dropout of x [b, m, h], each member with its own rate and generator; without a state, x itself."""
    if state is None or not state.is_active(name):
        return x
    if state.gpu:
        gpu = state.gpu
        return gpu.kernels.TritonDropout.apply(x, gpu.seeds(layer), gpu.rates[name])
    p = state.rates[name]
    masks = [
        keep_mask((m, x.shape[2]), p[i], state.generators[i]) if p[i] else None for i, m in enumerate(state.row_counts)
    ]
    return _MaskedScale.apply(x, masks, [1 / (1 - rate) for rate in p])  # type: ignore[return-value]


class _MaskedScale(torch.autograd.Function):
    """x with each member's dropped entries at 0 and the rest scaled up. Masks stay bool: one byte per entry."""

    @staticmethod
    def forward(ctx, x: Tensor, masks: Sequence[Tensor | None], scales: Sequence[float]) -> Tensor:  # type: ignore[override]
        ctx.masks, ctx.scales = masks, scales
        return _masked(x, masks, scales)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return _masked(gradient, ctx.masks, ctx.scales), None, None


def _masked(x: Tensor, masks: Sequence[Tensor | None], scales: Sequence[float]) -> Tensor:
    """Each member's leading rows times its mask and scale."""
    out = x * torch.tensor(scales, dtype=x.dtype, device=x.device)[:, None, None]
    for member, mask in zip(out, masks, strict=True):
        if mask is not None:
            member[: len(mask)].mul_(mask)
    return out
