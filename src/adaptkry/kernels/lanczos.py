"""The orthonormal basis on a GPU: two passes over a hop beside its product, and no question to the device.

Written with torch's operations a Lanczos step moves a hop about eighteen times through memory. Here it is seven: one
kernel reads the product and the vector, writes the vector at unit length and sums what alpha needs; the other reads
three vectors, writes the next one and sums its norm. Sums are kept a block of rows and added up, in order, by whoever
needs them: the same bits every time, and no launch for a handful of numbers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCKS = 128  # of rows at most: each program of the next kernel adds up as many partial sums
ROWS, COLUMNS = 16, 128  # a tile


@triton.jit
def _unit(
    u, w, out, squares, dots, lengths, state, k, n, d, height, blocks, tiny,
    LAST: tl.constexpr, BLOCKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Out = u at unit length (or the length of x); sums of u w and w w. The first block keeps beta, alive, 1/beta."""
    strip, block = tl.program_id(0), tl.program_id(1)
    columns = strip * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < d
    part = tl.arange(0, BLOCKS)
    there = (part < blocks)[:, None] & inside[None, :]
    sums = tl.load(squares + part[:, None] * d + columns[None, :], mask=there, other=0.0)
    beta = tl.sqrt(tl.sum(sums.to(tl.float64), axis=0)).to(tl.float32)
    # state: beta, alive, 1 / beta and the largest size of P seen before, [K + 3, 4, d] with a line before the first
    here = state + (k + 1) * 4 * d + columns
    scale = tl.load(here + 3 * d, mask=inside, other=1.0)
    before = tl.load(here - 3 * d, mask=inside, other=0.0)
    alive = (beta > tiny * scale) & (before > 0)
    inverse = tl.where(alive, 1.0 / tl.where(alive, beta, 1.0), 0.0)
    if block == 0:
        tl.store(here, tl.where(alive, beta, 0.0), mask=inside)
        tl.store(here + d, alive.to(tl.float32), mask=inside)
        tl.store(here + 2 * d, inverse, mask=inside)
    length = inverse * tl.load(lengths + columns, mask=inside, other=0.0)
    dot = tl.zeros((COLUMNS,), dtype=tl.float32)
    square = tl.zeros((COLUMNS,), dtype=tl.float32)
    for row in range(block * height, tl.minimum(n, (block + 1) * height), ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows < tl.minimum(n, (block + 1) * height))[:, None] & inside[None, :]
        at = rows[:, None].to(tl.int64) * d + columns[None, :]
        vector = tl.load(u + at, mask=mask, other=0.0)
        tl.store(out + at, vector * length[None, :], mask=mask)
        if not LAST:
            product = tl.load(w + at, mask=mask, other=0.0)
            dot += tl.sum(vector * product, axis=0)
            square += tl.sum(product * product, axis=0)
    if not LAST:
        tl.store(dots + block * d + columns, dot, mask=inside)
        tl.store(dots + (blocks + block) * d + columns, square, mask=inside)


@triton.jit
def _next(
    u, w, older, squares, dots, state, alphas, lengths, k, n, d, height, blocks,
    FIRST: tl.constexpr, BLOCKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """W = w / beta_k - alpha_k q_k - beta_k q_{k-1}, with q_k = u / beta_k, and sums of its squares."""
    strip, block = tl.program_id(0), tl.program_id(1)
    columns = strip * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < d
    part = tl.arange(0, BLOCKS)
    there = (part < blocks)[:, None] & inside[None, :]
    here = state + (k + 1) * 4 * d + columns
    beta = tl.load(here, mask=inside, other=0.0)
    inverse = tl.load(here + 2 * d, mask=inside, other=0.0)
    sums = tl.load(dots + part[:, None] * d + columns[None, :], mask=there, other=0.0)
    alpha = tl.sum(sums.to(tl.float64), axis=0).to(tl.float32) * inverse * inverse
    sums = tl.load(dots + (blocks + part)[:, None] * d + columns[None, :], mask=there, other=0.0)
    size = tl.sqrt(tl.sum(sums.to(tl.float64), axis=0)).to(tl.float32) * inverse
    if block == 0:
        tl.store(alphas + k * d + columns, alpha, mask=inside)
        tl.store(here + 7 * d, tl.maximum(tl.load(here + 3 * d, mask=inside, other=1.0), size), mask=inside)
    length = tl.load(lengths + columns, mask=inside, other=0.0)
    back = tl.where(length > 0, beta / tl.where(length > 0, length, 1.0), 0.0)  # `older` is stored at this length
    square = tl.zeros((COLUMNS,), dtype=tl.float32)
    for row in range(block * height, tl.minimum(n, (block + 1) * height), ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows < tl.minimum(n, (block + 1) * height))[:, None] & inside[None, :]
        at = rows[:, None].to(tl.int64) * d + columns[None, :]
        made = tl.load(w + at, mask=mask, other=0.0) * inverse[None, :]
        made -= tl.load(u + at, mask=mask, other=0.0) * (alpha * inverse)[None, :]
        if not FIRST:
            made -= tl.load(older + at, mask=mask, other=0.0) * back[None, :]
        tl.store(w + at, made, mask=mask)
        square += tl.sum(made * made, axis=0)
    tl.store(squares + block * d + columns, square, mask=inside)


def orthonormal(P, x: Tensor, out: Tensor, keep_norm: bool, tiny: float) -> None:
    """Fill `out` [K + 1, n, d] with the orthonormal basis of x [n, d]; zeros past a column's grade."""
    degree, (n, d) = len(out) - 1, x.shape
    height = max(ROWS * 8, triton.cdiv(triton.cdiv(n, BLOCKS), ROWS) * ROWS)
    blocks = triton.cdiv(n, height)
    grid, sizes = (triton.cdiv(d, COLUMNS), blocks), (n, d, height, blocks)
    tile = {"BLOCKS": triton.next_power_of_2(blocks), "ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": 4}
    state = x.new_zeros(degree + 3, 4, d)
    state[0, 1] = state[1, 3] = 1.0  # a new direction is held against the size of P seen so far, at least 1
    alphas, squares, dots = x.new_empty(max(degree, 1), d), x.new_zeros(blocks, d), x.new_empty(2, blocks, d)
    squares[0] = x.square().sum(0)
    lengths = squares[0].sqrt() if keep_norm else torch.ones_like(squares[0])
    u = x.contiguous()
    for k in range(degree):
        w = P @ u
        least = tiny if k else 0.0  # a signal of any size is a signal
        _unit[grid](u, w, out[k], squares, dots, lengths, state, k, *sizes, least, LAST=False, **tile)
        older = out[max(k - 1, 0)]
        _next[grid](u, w, older, squares, dots, state, alphas, lengths, k, *sizes, FIRST=k == 0, **tile)
        u = w
    _unit[grid](u, u, out[degree], squares, dots, lengths, state, degree, *sizes, tiny if degree else 0.0, LAST=True,
                **tile)  # fmt: skip
