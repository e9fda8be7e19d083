"""Dropout with a random generator and a rate per member.

Random numbers are drawn for real rows only, and none if the rate is 0. Hence the numbers of one member do not depend on
how many rows the others have.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from adaptkry.spectral.kernels.triton_dropout import Drop

LAYERS = 64  # numbers of layers of a model
CACHE_BYTES = 4 * 2**20  # of rows that are handled at a time on the CPU


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

    def of(self, members: slice) -> "DropoutState":
        """Return the state of some members; not for the GPU kernels."""
        rates = {name: values[members] for name, values in self.rates.items()}
        visible = None if self.visible is None else self.visible[members]
        return DropoutState(self.generators[members], rates, self.row_counts[members], None, visible)

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
    """Seeds and rates as tensors for the Triton kernels, which draw no numbers but hash seed, step, layer and place."""

    def __init__(self, seeds: Sequence[int], rates: Mapping[str, Sequence[float]], device):
        from adaptkry.spectral.kernels import triton_dropout as kernels  # Triton comes with torch's CUDA builds only

        self.kernels = kernels
        self.member_seeds = torch.tensor([seed % 2**32 for seed in seeds], device=device)  # [b]
        self.rates = {name: kernels.DropoutRates(values, device) for name, values in rates.items()}
        self.step = self.member_seeds[0]  # a placeholder, set before every step: the number of the step []

    def drop(self, name: str, layer: int, part: int = 0) -> "Drop":
        """Return what a dropout needs in this step; layer 0 is the filter of a decoupled model, its parts are hops."""
        return self.kernels.Drop(self.member_seeds, self.step, layer + LAYERS * part, self.rates[name])


def gpu_drop(state: DropoutState | None, name: str, layer: int, part: int = 0) -> "Drop | None":
    """Return what a kernel needs for a dropout; None if its rate is 0 for all members, or without a state."""
    return state.gpu.drop(name, layer, part) if state and state.gpu and state.is_active(name) else None


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
    """Draw a bool mask of the given shape that is True with probability 1 - p, on the device of the generator."""
    return is_kept(random_numbers(shape, p, generator), p)


def random_numbers(shape: Sequence[int], p: float, generator: torch.Generator) -> Tensor:
    """Draw a number per entry, from which `is_kept` decides; on a GPU it is the decision itself.

    On the CPU four numbers of 16 bits are drawn as one integer, which is 5x faster than `Tensor.bernoulli_`; the
    probability is exact to 1 / 65536. The backward pass decides again from the numbers, faster than from a mask.
    """
    if generator.device.type != "cpu":
        return torch.empty(*shape, dtype=torch.bool, device=generator.device).bernoulli_(1 - p, generator=generator)
    count = math.prod(shape)
    numbers = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    return numbers.view(torch.int16)[:count].view(*shape)


def is_kept(numbers: Tensor, p: float, out: Tensor | None = None) -> Tensor:
    """Return for each random number whether its entry is kept with dropout rate p; in `out` as 0 or 1."""
    if numbers.dtype == torch.bool:
        return numbers if out is None else out.copy_(numbers)
    return torch.ge(numbers, round(p * 2**16) - 2**15, out=out)


def dropout(x: Tensor, state: DropoutState | None, name: str, layer: int, part: int = 0) -> Tensor:
    """Apply dropout to x [b, m, h] with the rate and the generator of each member; without a state, return x."""
    if state is None or not state.is_active(name):
        return x
    if state.gpu:
        return state.gpu.kernels.TritonDropout.apply(x, gpu_drop(state, name, layer, part))
    p = state.rates[name]
    numbers = [
        random_numbers((m, x.shape[2]), p[i], state.generators[i]) if p[i] else None
        for i, m in enumerate(state.row_counts)
    ]
    return _Dropout.apply(x, numbers, p)  # type: ignore[return-value]


class _Dropout(torch.autograd.Function):
    """Set the dropped entries of each member to 0 and scale the others."""

    @staticmethod
    def forward(ctx, x: Tensor, numbers: Sequence[Tensor | None], rates: Sequence[float]) -> Tensor:  # type: ignore[override]
        ctx.numbers, ctx.rates = numbers, rates
        return _dropped(x, numbers, rates)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return _dropped(gradient, ctx.numbers, ctx.rates), None, None


def _dropped(x: Tensor, numbers: Sequence[Tensor | None], rates: Sequence[float]) -> Tensor:
    """Scale each member of x [b, m, h], and set entries of its leading rows to 0 by its random numbers [<= m, h]."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    factors = x.new_empty(rows_in_cache(x[0, :1]), x.shape[2])
    for source, target, drawn, p in zip(x, out, numbers, rates, strict=True):
        count = 0
        if drawn is not None:
            count = len(drawn)
            for rows in slices(count, len(factors)):
                factor = is_kept(drawn[rows], p, out=factors[: rows.stop - rows.start]).mul_(1 / (1 - p))
                torch.mul(source[rows], factor, out=target[rows])
        torch.mul(source[count:], 1 / (1 - p), out=target[count:])
    return out


def rows_in_cache(row: Tensor) -> int:
    """Return how many rows of this size are handled at a time, so that they stay in the cache."""
    return max(1, CACHE_BYTES // max(1, row.numel() * row.element_size()))


def slices(count: int, size: int) -> Iterator[slice]:
    """Divide `count` rows into slices of at most `size` rows."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
