"""Dropout on a GPU without masks in memory, in Triton: a decision is a function of member, step, layer and position.

Random numbers are hashes of the seed of the member, the step, the layer, and the position among the numbers of that
member. Hence the decisions of one member depend neither on the other members of the batch nor on restarts, and the
backward pass finds them again. The hash is a bijection of 32 bits with two multiplications and three shifts (lowbias32
of Chris Wellons' hash prospector).
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from adaptkry.spectral.kernels.launch import launch

DROPPED_NUMBERS = 1024  # of a program
GOLDEN = tl.constexpr(0x9E3779B9)  # 2**32 / golden ratio: neighbouring numbers become distant ones
FACTOR1, FACTOR2 = tl.constexpr(0x21F0AAAD), tl.constexpr(0xD35A2D97)


@triton.jit
def scrambled(x):
    """A hash of 32 bits."""
    x = x.to(tl.uint32, bitcast=True)
    x = (x ^ (x >> 16)) * FACTOR1
    x = (x ^ (x >> 15)) * FACTOR2
    return x ^ (x >> 15)


@triton.jit
def seed_of(seeds, step, layer, b):
    """A hash of member, step and layer."""
    seed = scrambled(tl.load(seeds + b).to(tl.int32))
    return scrambled(seed + tl.load(step).to(tl.uint32) * 65536 + layer.to(tl.uint32))


@triton.jit
def number_at(seed, place):
    """The random number [BLOCK] of a place; places differ by less than 2^32."""
    return scrambled(seed + place.to(tl.uint32) * GOLDEN)


@triton.jit(do_not_specialize=["layer", "size"])
def _drop(x, out, seeds, step, layer, thresholds, scales, size, BLOCK: tl.constexpr):
    """Out = x keep / (1 - p) for one member's `size` numbers."""
    b = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = b.to(tl.int64) * size + place
    is_kept = number_at(seed_of(seeds, step, layer, b), place) >= tl.load(thresholds + b).to(tl.uint32, bitcast=True)
    value = tl.load(x + at, mask=place < size, other=0.0)
    tl.store(out + at, tl.where(is_kept, value * tl.load(scales + b), 0.0), mask=place < size)


class DropoutRates:
    """The dropout rate p of each member as thresholds of 9 and 32 bits, and the scales 1 / (1 - p) of kept entries.

    With 9 bits the probability is rounded, and its scale is that of the rounded one.
    """

    def __init__(self, rates, device):
        p = torch.tensor(list(rates), dtype=torch.float64)
        rounded = (p * 2**9).round().clamp(max=2**9 - 1)
        self.thresholds9 = rounded.int().to(device)
        self.thresholds32 = (p * 2**32).long().to(torch.int32).to(device)  # the same bits as unsigned
        self.scales = (1 / (1 - p)).float().to(device)
        self.scales9 = (1 / (1 - rounded / 2**9)).float().to(device)


class Drop(NamedTuple):
    """What a dropout needs: the seed of each member [b], the number of the step [], the layer, and the rates."""

    seeds: Tensor
    step: Tensor
    layer: int
    rates: DropoutRates


class TritonDropout(torch.autograd.Function):
    """Dropout of x [b, m, h] with a rate and a seed per member."""

    @staticmethod
    def forward(ctx, x: Tensor, drop: Drop) -> Tensor:  # type: ignore[override]
        ctx.drop = drop
        return dropped(x.contiguous(), drop)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return dropped(gradient.contiguous(), ctx.drop), None


def dropped(x: Tensor, drop: Drop) -> Tensor:
    """Set the dropped entries of x [b, m, h] to 0 and scale the others."""
    size, out = x[0].numel(), torch.empty_like(x)
    grid = (triton.cdiv(size, DROPPED_NUMBERS), len(x))
    launch(_drop, grid, x, out, *drop[:3], drop.rates.thresholds32, drop.rates.scales, size, DROPPED_NUMBERS)
    return out
