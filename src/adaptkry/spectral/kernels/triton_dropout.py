"""Dropout on a GPU without masks in memory, in Triton: a mask is a function of member, step and position.

Every member has one seed per step. Which entries are kept follows from the seed and from the position of the entry in
the rows of that member, so the mask depends neither on the other members of the batch nor on restarts, and the backward
pass computes the same mask again.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

PHILOX_ROUNDS = 7  # pass BigCrush (Salmon et al. 2011); the default of 10 leaves a margin that dropout does not need


@triton.jit
def kept_columns(seeds, thresholds, b, r, block, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Decide about BLOCK columns of row r of member b, with one call of the generator for four columns: bool [BLOCK]."""
    quarter = block * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    zero = quarter * 0
    n0, n1, n2, n3 = tl.philox(tl.load(seeds + b), quarter, zero + r, zero, zero, ROUNDS)
    words = tl.reshape(tl.join(tl.join(n0, n1), tl.join(n2, n3)), (BLOCK,))
    return words >= tl.load(thresholds + b).to(tl.uint32, bitcast=True)


@triton.jit(do_not_specialize=["size"])
def _drop(x, out, seeds, thresholds, scales, size, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Out = x keep / (1 - p) for one member's `size` numbers: eight decisions of 16 bits per call, 8 BLOCK per program."""
    b = tl.program_id(1)
    column = tl.arange(0, BLOCK)
    zero = column * 0
    n0, n1, n2, n3 = tl.philox(tl.load(seeds + b), column, zero + tl.program_id(0), zero, zero, ROUNDS)
    threshold = tl.load(thresholds + b)
    scale = tl.load(scales + b)
    for j in tl.static_range(8):
        place = (tl.program_id(0) * 8 + j).to(tl.int64) * BLOCK + column
        word = n0 if j < 2 else n1 if j < 4 else n2 if j < 6 else n3
        is_kept = ((word >> (16 * (j % 2))) & 0xFFFF).to(tl.int32) >= threshold
        value = tl.load(x + b.to(tl.int64) * size + place, mask=place < size, other=0.0)
        tl.store(out + b.to(tl.int64) * size + place, tl.where(is_kept, value * scale, 0.0), mask=place < size)


class DropoutRates:
    """The dropout rate p of each member as thresholds of 10, 16 and 32 bits, and the scales 1 / (1 - p) of kept entries.

    With 10 bits the probability is rounded, so that the scale is that of the rounded one.
    """

    def __init__(self, rates, device):
        p = torch.tensor(list(rates), dtype=torch.float64)
        rounded = (p * 2**10).round().clamp(max=2**10 - 1)
        self.thresholds10 = rounded.int().to(device)
        self.thresholds16 = (p * 2**16).round().int().to(device)
        self.thresholds32 = (p * 2**32).long().to(torch.int32).to(device)  # the same bits as unsigned
        self.scales = (1 / (1 - p)).float().to(device)
        self.scales10 = (1 / (1 - rounded / 2**10)).float().to(device)


class Drop(NamedTuple):
    """What a dropout needs: the seeds of this step [b] and the rates."""

    seeds: Tensor
    rates: DropoutRates


class TritonDropout(torch.autograd.Function):
    """Dropout of x [b, m, h] with a rate and a seed per member."""

    @staticmethod
    def forward(ctx, x: Tensor, drop: Drop) -> Tensor:  # type: ignore[override]
        ctx.drop = drop
        return dropped(x.contiguous(), *drop)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return dropped(gradient.contiguous(), *ctx.drop), None


def dropped(x: Tensor, seeds: Tensor, rates: DropoutRates) -> Tensor:
    """Set the dropped entries of x [b, m, h] to 0 and scale the others."""
    size = x[0].numel()
    out = torch.empty_like(x)
    grid = (triton.cdiv(size, 8 * 256), len(x))
    _drop[grid](x, out, seeds, rates.thresholds16, rates.scales, size, PHILOX_ROUNDS, 256, num_warps=2)
    return out
