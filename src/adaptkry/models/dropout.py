"""Dropout with a random generator and a rate per member.

Random numbers are drawn for real rows only, and none if the rate is 0. Hence the numbers of one member do not depend on
how many rows the others have.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from adaptkry.spectral.kernels.triton_dropout import Drop

LAYERS = 64  # numbers of layers of a model
RATE_STEPS = 2**8  # dropout rates are multiples of one over this
CACHE_BYTES = 4 * 2**20  # of rows that are handled at a time on the CPU


@dataclass(frozen=True)
class DropoutState:
    """The generator of each member, its dropout rates by name, and its number of real rows."""

    generators: Sequence[torch.Generator]  # [b]
    rates: Mapping[str, Sequence[float]]  # name -> [b]
    row_counts: Sequence[int]  # [b]
    gpu: "GpuDropout | None" = None  # if given, kernels draw the random numbers
    visible: Tensor | None = None  # bool [b, n] nodes that have labels of similar nodes as inputs in this step

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


def rounded_rate(p: float) -> float:
    """Return the closest rate that random numbers of 8 bits can have; entries that are kept are scaled accordingly.

    >>> rounded_rate(0.5), rounded_rate(0.2)
    (0.5, 0.19921875)
    """
    return min(round(p * RATE_STEPS), RATE_STEPS - 1) / RATE_STEPS


def random_numbers(shape: Sequence[int], p: float, generator: torch.Generator) -> Tensor:
    """Draw a number per entry, from which `is_kept` decides; on a GPU it is the decision itself.

    On the CPU a number has 8 bits, and p is a multiple of 1 / 256. NumPy's SFC64 draws them faster than the generator
    of torch, which gives its seed. The backward pass decides again from the numbers, faster than from a mask.
    """
    if generator.device.type != "cpu":
        return torch.empty(*shape, dtype=torch.bool, device=generator.device).bernoulli_(1 - p, generator=generator)
    count, seed = math.prod(shape), torch.empty((), dtype=torch.int64).random_(generator=generator)
    words = np.random.SFC64(int(seed)).random_raw((count + 7) // 8)  # of 64 bits
    return torch.from_numpy(words.view(np.int8))[:count].view(*shape)


def is_kept(numbers: Tensor, p: float, out: Tensor | None = None) -> Tensor:
    """Return for each random number whether its entry is kept with dropout rate p; in `out` as 0 or 1."""
    if numbers.dtype == torch.bool:
        return numbers if out is None else out.copy_(numbers)
    return torch.ge(numbers, round(p * RATE_STEPS) - RATE_STEPS // 2, out=out)


def dropout(x: Tensor, state: DropoutState | None, name: str, layer: int, part: int = 0) -> Tensor:
    """Apply dropout to x [b, m, h] with the rate and the generator of each member; without a state, return x."""
    if state is None or not state.is_active(name):
        return x
    if state.gpu:
        return state.gpu.kernels.TritonDropout.apply(x, gpu_drop(state, name, layer, part))
    return _Dropout.apply(x, Decisions.draw(state, name, x.shape[2]))  # type: ignore[return-value]


class Decisions(NamedTuple):
    """Which entries are dropped, on the CPU: random numbers of each member, and its dropout rate."""

    numbers: Sequence[Tensor | None]  # [b] of [..., <= m, h]; None if the rate is 0
    rates: Sequence[float]  # [b]

    @classmethod
    def draw(cls, state: DropoutState, name: str, columns: int, parts: Sequence[int] = ()) -> "Decisions":
        """Draw a random number per entry and member with the dropout rates of that name: [parts, rows, columns]."""
        rates = [rounded_rate(p) for p in state.rates[name]]
        members = zip(state.row_counts, rates, state.generators, strict=True)
        return cls([random_numbers((*parts, m, columns), p, g) if p else None for m, p, g in members], rates)

    @classmethod
    def none(cls, members: int) -> "Decisions":
        """Nothing is dropped."""
        return cls([None] * members, [0.0] * members)

    def factor(self, member: int, rows: slice, out: Tensor) -> Tensor:
        """Return 0 for dropped entries of these rows and 1 / (1 - p) for others, in the first rows of `out`: [m, h]."""
        numbers, p = self.numbers[member], self.rates[member]
        assert numbers is not None
        return is_kept(numbers[rows], p, out=out[: rows.stop - rows.start]).mul_(1 / (1 - p))


class _Dropout(torch.autograd.Function):
    """Set the dropped entries of each member to 0 and scale the others."""

    @staticmethod
    def forward(ctx, x: Tensor, decisions: Decisions) -> Tensor:  # type: ignore[override]
        ctx.decisions = decisions
        return dropped(x, decisions, torch.empty_like(x, memory_format=torch.contiguous_format))

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return dropped(gradient, ctx.decisions, torch.empty_like(gradient, memory_format=torch.contiguous_format)), None


def dropped(x: Tensor, decisions: Decisions, out: Tensor) -> Tensor:
    """Scale each member of x [b, m, h], and set the dropped entries of its real rows to 0; `out` may be x."""
    factors = x.new_empty(rows_in_cache(x[0, :1]), x.shape[2])
    for i, (numbers, p) in enumerate(zip(*decisions, strict=True)):
        count = 0 if numbers is None else len(numbers)
        for rows in slices(count, len(factors)):
            torch.mul(x[i, rows], decisions.factor(i, rows, factors), out=out[i, rows])
        torch.mul(x[i, count:], 1 / (1 - p), out=out[i, count:])
    return out


def rows_in_cache(row: Tensor) -> int:
    """Return how many rows of this size are handled at a time, so that they stay in the cache."""
    return max(1, CACHE_BYTES // max(1, row.numel() * row.element_size()))


def slices(count: int, size: int) -> Iterator[slice]:
    """Divide `count` rows into slices of at most `size` rows."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
