"""Dropout on a GPU without masks in memory, in Triton: a mask is a function of member, step and position.

Every member has one seed per step. Which entries are kept follows from the seed and from the position of the entry in
the rows of that member, so the mask depends neither on the other members of the batch nor on restarts, and the backward
pass computes the same mask again. One call of the Philox generator gives four numbers, enough for four hops of an
entry.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from adaptkry.spectral.kernels import fused_kernels

PHILOX_ROUNDS = 7  # pass BigCrush (Salmon et al. 2011); the default of 10 leaves a margin that dropout does not need
COLUMNS_PER_PROGRAM = 256
ROWS_PER_PROGRAM = 16  # of the backward pass


@triton.jit
def _kept(number, threshold):
    """Whether a random 32-bit number is at least the threshold; the probability is 1 - threshold / 2^32."""
    return number.to(tl.uint32, bitcast=True).to(tl.int64) >= threshold


@triton.jit
def _sum_forward(
    w, basis, rows, seeds, thresholds, sizes, out, n, d, m, T, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out[b, r] = sum_k w[b, k] keep F_k[rows[b, r]]: one row and BLOCK columns per program, all hops."""
    r = tl.program_id(0)
    b = tl.program_id(2)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (c < d) & (r < tl.load(sizes + b))
    row = tl.load(rows + b * m + r)
    seed = tl.load(seeds + b)
    threshold = tl.load(thresholds + b)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for g in range(GROUPS):
        n0, n1, n2, n3 = tl.randint4x(seed, (r * d + c) * GROUPS + g)
        at = basis + (g * 4 * n + row) * d + c
        k = g * 4
        f0 = tl.load(at, mask=inside & (k < T), other=0.0) * tl.load(w + b * T + k, mask=k < T, other=0.0)
        f1 = tl.load(at + n * d, mask=inside & (k + 1 < T), other=0.0) * tl.load(
            w + b * T + k + 1, mask=k + 1 < T, other=0.0
        )
        f2 = tl.load(at + 2 * n * d, mask=inside & (k + 2 < T), other=0.0) * tl.load(
            w + b * T + k + 2, mask=k + 2 < T, other=0.0
        )
        f3 = tl.load(at + 3 * n * d, mask=inside & (k + 3 < T), other=0.0) * tl.load(
            w + b * T + k + 3, mask=k + 3 < T, other=0.0
        )
        total += tl.where(_kept(n0, threshold), f0, 0.0) + tl.where(_kept(n1, threshold), f1, 0.0)
        total += tl.where(_kept(n2, threshold), f2, 0.0) + tl.where(_kept(n3, threshold), f3, 0.0)
    tl.store(out + (b.to(tl.int64) * m + r) * d + c, total, mask=c < d)


@triton.jit
def _sum_backward(
    gradient, basis, rows, seeds, thresholds, sizes, partial, n, d, m, T, chunks,
    GROUPS: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """partial[b, chunk, k]: the part of dw[b, k] from CHUNK rows, four hops per program."""
    chunk = tl.program_id(0)
    g = tl.program_id(1)
    b = tl.program_id(2)
    seed = tl.load(seeds + b)
    threshold = tl.load(thresholds + b)
    size = tl.load(sizes + b)
    k = g * 4
    a0 = tl.zeros((BLOCK,), dtype=tl.float32)
    a1 = tl.zeros((BLOCK,), dtype=tl.float32)
    a2 = tl.zeros((BLOCK,), dtype=tl.float32)
    a3 = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(CHUNK):
        r = chunk * CHUNK + step
        real = r < size
        row = tl.load(rows + b * m + r, mask=real, other=0)
        for start in range(0, d, BLOCK):
            c = start + tl.arange(0, BLOCK)
            inside = (c < d) & real
            n0, n1, n2, n3 = tl.randint4x(seed, (r * d + c) * GROUPS + g)
            push = tl.load(gradient + (b.to(tl.int64) * m + r) * d + c, mask=inside, other=0.0)
            at = basis + (k * n + row) * d + c
            f0 = tl.load(at, mask=inside & (k < T), other=0.0)
            f1 = tl.load(at + n * d, mask=inside & (k + 1 < T), other=0.0)
            f2 = tl.load(at + 2 * n * d, mask=inside & (k + 2 < T), other=0.0)
            f3 = tl.load(at + 3 * n * d, mask=inside & (k + 3 < T), other=0.0)
            a0 += tl.where(_kept(n0, threshold), f0, 0.0) * push
            a1 += tl.where(_kept(n1, threshold), f1, 0.0) * push
            a2 += tl.where(_kept(n2, threshold), f2, 0.0) * push
            a3 += tl.where(_kept(n3, threshold), f3, 0.0) * push
    to = partial + (b * chunks + chunk) * GROUPS * 4 + k
    tl.store(to, tl.sum(a0))
    tl.store(to + 1, tl.sum(a1))
    tl.store(to + 2, tl.sum(a2))
    tl.store(to + 3, tl.sum(a3))


@triton.jit
def _drop(x, out, seeds, thresholds, scales, size, BLOCK: tl.constexpr):
    """Out = x keep / (1 - p) for one member's `size` numbers."""
    b = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    kept = _kept(tl.randint(tl.load(seeds + b), place), tl.load(thresholds + b))
    value = tl.load(x + b.to(tl.int64) * size + place, mask=inside, other=0.0)
    tl.store(out + b.to(tl.int64) * size + place, tl.where(kept, value * tl.load(scales + b), 0.0), mask=inside)


@triton.jit(do_not_specialize=["size"])
def _drop_eight(x, out, seeds, thresholds, scales, size, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """The same with eight decisions of 16 bits per call of the generator: 8 BLOCK numbers per program."""
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
    """The dropout rate p of each member as thresholds of 32 and 16 bits, and the scale 1 / (1 - p) of kept entries."""

    def __init__(self, rates, device):
        p = torch.tensor(list(rates), dtype=torch.float64)
        self.thresholds = (p * 2**32).long().to(device)
        self.thresholds16 = (p * 2**16).round().int().to(device)
        self.scales = (1 / (1 - p)).float().to(device)


class TritonDroppedSum(torch.autograd.Function):
    """sum_k w[b, k] dropout(F_k) at each member's rows: [b, m, d]; in plain torch: `models/weighted_sum.py`."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, w: Tensor, basis: Tensor, rows: Tensor, seeds: Tensor, rates: DropoutRates, sizes: Tensor
    ) -> Tensor:
        (T, n, d), (b, m) = basis.shape, rows.shape
        ctx.save_for_backward(basis, rows, seeds, sizes)
        ctx.rates = rates
        out = basis.new_empty(b, m, d)
        scaled = (w * rates.scales[:, None]).contiguous()
        _sum_forward[(m, triton.cdiv(d, COLUMNS_PER_PROGRAM), b)](
            scaled, basis, rows, seeds, rates.thresholds, sizes, out, n, d, m, T, triton.cdiv(T, 4),
            COLUMNS_PER_PROGRAM, num_warps=2,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows, seeds, sizes = ctx.saved_tensors
        (T, n, d), (b, m) = basis.shape, rows.shape
        groups, chunks = triton.cdiv(T, 4), triton.cdiv(m, ROWS_PER_PROGRAM)
        partial = gradient.new_empty(b, chunks, groups * 4)
        _sum_backward[(chunks, groups, b)](
            gradient.contiguous(), basis, rows, seeds, ctx.rates.thresholds, sizes, partial, n, d, m, T, chunks,
            groups, ROWS_PER_PROGRAM, COLUMNS_PER_PROGRAM, num_warps=4,
        )  # fmt: skip
        return partial.sum(1)[:, :T] * ctx.rates.scales[:, None], None, None, None, None, None


class TritonDropout(torch.autograd.Function):
    """Dropout of x [b, m, h] with a rate and a seed per member."""

    @staticmethod
    def forward(ctx, x: Tensor, seeds: Tensor, rates: DropoutRates) -> Tensor:  # type: ignore[override]
        ctx.seeds, ctx.rates = seeds, rates
        return _dropped(x.contiguous(), seeds, rates)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        return _dropped(gradient.contiguous(), ctx.seeds, ctx.rates), None, None


def _dropped(x: Tensor, seeds: Tensor, rates: DropoutRates) -> Tensor:
    size = x[0].numel()
    out = torch.empty_like(x)
    if fused_kernels():
        grid = (triton.cdiv(size, 8 * 256), len(x))
        _drop_eight[grid](x, out, seeds, rates.thresholds16, rates.scales, size, PHILOX_ROUNDS, 256, num_warps=2)
        return out
    _drop[(triton.cdiv(size, 1024), len(x))](x, out, seeds, rates.thresholds, rates.scales, size, 1024)
    return out
