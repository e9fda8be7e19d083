"""Dropout with a random generator and a rate per member.

Random numbers are drawn for real rows only, and none if the rate is 0. Hence the numbers of one member do not depend on
how many rows the others have.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DropoutState:
    """The generator of each member, its dropout rates by name, and its number of real rows."""

    generators: Sequence[torch.Generator]  # [b]
    rates: Mapping[str, Sequence[float]]  # name -> [b]
    row_counts: Sequence[int]  # [b]
    gpu: "GpuDropout | None" = None  # if given, kernels draw the random numbers
    visible: Tensor | None = None  # bool [b, n] nodes whose training labels are inputs in this step

    def is_active(self, name: str) -> bool:
        """Return whether the rate of that name is positive for any member."""
        return any(self.rates[name])

    def generator_states(self) -> list[Tensor]:
        """Return the state of each generator; none if kernels draw the random numbers."""
        return [] if self.gpu else [generator.get_state() for generator in self.generators]

    @contextmanager
    def restored(self, states: Sequence[Tensor]) -> Iterator[None]:
        """Draw the numbers that followed these states again within a `with` block."""
        before = self.generator_states()
        self._set(states)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, states: Sequence[Tensor]) -> None:
        for generator, state in zip(self.generators, states, strict=False):  # no states if there are kernels
            generator.set_state(state)


class GpuDropout:
    """Rates and row counts as tensors for the Triton kernels, which derive seeds from member, step and layer."""

    def __init__(self, seeds: Sequence[int], rates: Mapping[str, Sequence[float]], device):
        from adaptkry.spectral.kernels import triton_dropout as kernels  # Triton comes with torch's CUDA builds only

        self.kernels = kernels
        self.member_seeds = torch.tensor([seed % 2**32 for seed in seeds], device=device)  # [b]
        self.rates = {name: kernels.DropoutRates(values, device) for name, values in rates.items()}
        # Placeholders, set before every step: the number of the step [] and the number of real rows [b].
        self.step, self.row_counts = self.member_seeds[0], self.member_seeds

    def seeds(self, layer: int, part: int = 0) -> Tensor:
        """Return the seeds of this step [b]; layer 0 is the filter of a decoupled model, and its parts are hops."""
        members = (self.member_seeds + part * 0x9E3779B9) % 2**32 if part else self.member_seeds  # 2**32 / golden ratio
        return members + ((self.step * 64 + layer) << 32)


def random_half(seeds: Tensor, step: Tensor, count: int) -> Tensor:
    """Draw a bool mask [b, count] that is True with probability 1/2, as a function of seed, step and position.

    It needs no generator, so that it can be recorded in a CUDA graph, and is the same on every device.

    Args:
        seeds: the seed of each member [b], int64.
        step: the number of the step [], int64, on the same device.
        count: number of entries per member.
    """
    positions = torch.arange(count, device=seeds.device)
    return scrambled(scrambled(scrambled(seeds) ^ step)[:, None] ^ positions) >= 2**31


def scrambled(x: Tensor) -> Tensor:
    """Map integers to pseudorandom 32-bit ones, in int64, by multiplications and shifts."""
    x = (x + 0x9E3779B9) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF  # below 2^63, since the factor is below 2^31
    x = ((x ^ (x >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)


def keep_mask(shape: Sequence[int], p: float, generator: torch.Generator) -> Tensor:
    """Draw a bool mask of the given shape that is True with probability 1 - p, on the device of the generator.

    On the CPU four entries are drawn as one 64-bit integer, which is 5x faster than `Tensor.bernoulli_`; the
    probability is exact to 1 / 65536.
    """
    if generator.device.type != "cpu":
        return torch.empty(*shape, dtype=torch.bool, device=generator.device).bernoulli_(1 - p, generator=generator)
    count = math.prod(shape)
    numbers = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return (numbers.view(torch.int16)[:count] >= round(p * 2**16) - 2**15).view(*shape)


def dropout(x: Tensor, state: DropoutState | None, name: str, layer: int, part: int = 0) -> Tensor:
    """Apply dropout to x [b, m, h] with the rate and the generator of each member; without a state, return x."""
    if state is None or not state.is_active(name):
        return x
    if state.gpu:
        gpu = state.gpu
        return gpu.kernels.TritonDropout.apply(x, gpu.seeds(layer, part), gpu.rates[name])
    p = state.rates[name]
    masks = [
        keep_mask((m, x.shape[2]), p[i], state.generators[i]) if p[i] else None for i, m in enumerate(state.row_counts)
    ]
    return _MaskedScale.apply(x, masks, [1 / (1 - rate) for rate in p])  # type: ignore[return-value]


class _MaskedScale(torch.autograd.Function):
    """Set the dropped entries of each member to 0 and scale the others. Masks stay bool to save memory."""

    @staticmethod
    def forward(ctx, x: Tensor, masks: Sequence[Tensor | None], scales: Sequence[float]) -> Tensor:  # type: ignore[override]
        ctx.masks, ctx.scales = masks, scales
        return _masked(x, masks, scales)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return _masked(gradient, ctx.masks, ctx.scales), None, None


def _masked(x: Tensor, masks: Sequence[Tensor | None], scales: Sequence[float]) -> Tensor:
    """Multiply the leading rows of each member of x [b, m, h] by its mask [<= m, h] and its scale."""
    out = x * torch.tensor(scales, dtype=x.dtype, device=x.device)[:, None, None]
    for member, mask in zip(out, masks, strict=True):
        if mask is not None:
            member[: len(mask)].mul_(mask)
    return out
