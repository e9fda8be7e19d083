"""The orthonormal basis on a GPU: two passes over a hop beside its product, and no question to the device.

Written with torch's operations a Lanczos step moves a hop about eighteen times through memory. Here it is seven: one
kernel reads the product and the vector, writes the vector at unit length and sums what alpha needs; the other reads
three vectors, writes the next one and sums its norm. Every block of rows keeps its partial sums; the block of a strip
of columns that comes last adds them up, in order, and works out what the next kernel multiplies by: the same bits every
time, no launch for a handful of numbers, and no block that starts with other blocks' sums.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCKS = 128  # of rows at most: as many partial sums are added up by the block that comes last
ROWS, COLUMNS, WARPS = 16, 64, 4  # a tile, and who works on it
TILES = 4  # of a block at least
PARTS = 16  # partial sums that are in flight together


@triton.jit
def _is_last(counters, strip, blocks):
    """Whether the other blocks of this strip have all left their partial sums; the counter is then 0 again."""
    tl.debug_barrier()  # every thread's part is written before one thread says so
    came = tl.atomic_add(counters + strip, 1, sem="acq_rel")
    if came == blocks - 1:
        tl.store(counters + strip, 0)
    return came == blocks - 1


@triton.jit
def _total(partial, blocks, d, columns, inside, PARTS: tl.constexpr, COLUMNS: tl.constexpr):
    """The partial sums of a strip added up in a fixed order."""
    total = tl.zeros((PARTS, COLUMNS), dtype=tl.float32)
    for first in range(0, blocks, PARTS):
        part = first + tl.arange(0, PARTS)
        there = (part < blocks)[:, None] & inside[None, :]
        total += tl.load(partial + part[:, None] * d + columns[None, :], mask=there, other=0.0, cache_modifier=".cg")
    return tl.sum(total, axis=0)


# state: beta, 1 / beta (0 past the grade), the largest size of P seen before, alpha: [K + 2, 4, d]
@triton.jit(do_not_specialize=["k", "n", "height", "blocks"])
def _unit(
    u, w, out, partial, counters, state, k, n, parts, height, blocks,
    LAST: tl.constexpr, KEEP: tl.constexpr, UNIT: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """out[k] = u at unit length (or the length of x); from sums of u w and w w follow alpha_k and the size of P."""
    strip, block = tl.program_id(0), blocks - 1 - tl.program_id(1)
    d = parts * UNIT
    columns = strip * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < d
    here = state + k * 4 * d + columns
    inverse = tl.load(here + d, mask=inside, other=0.0)
    length = inverse
    if KEEP:
        length *= tl.load(state + columns, mask=inside, other=0.0)
    dot = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)  # added up once, after the loop: no warp waits inside it
    square = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    first = block.to(tl.int64) * height * d  # numbers inside a block are short
    u, w, out = u + first, w + first, out + k.to(tl.int64) * n * d + first
    end = tl.minimum(n - block * height, height)
    for row in range(0, end, ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & inside[None, :]
        at = rows[:, None] * d + columns[None, :]
        vector = tl.load(u + at, mask=mask, other=0.0)
        tl.store(out + at, vector * length[None, :], mask=mask, eviction_policy="evict_first")
        if not LAST:
            product = tl.load(w + at, mask=mask, other=0.0)
            dot += vector * product
            square += product * product
    if not LAST:
        tl.store(partial + block * d + columns, tl.sum(dot, axis=0), mask=inside)
        tl.store(partial + (blocks + block) * d + columns, tl.sum(square, axis=0), mask=inside)
        if _is_last(counters, strip, blocks):
            dots = _total(partial, blocks, d, columns, inside, PARTS, COLUMNS)
            tl.store(here + 3 * d, dots * inverse * inverse, mask=inside)
            size = tl.sqrt(_total(partial + blocks * d, blocks, d, columns, inside, PARTS, COLUMNS)) * inverse
            before = tl.load(here + 2 * d, mask=inside, other=1.0)
            tl.store(here + 6 * d, tl.maximum(before, size), mask=inside)


@triton.jit(do_not_specialize=["k", "n", "height", "blocks"])
def _next(
    u, w, out, partial, counters, state, k, n, parts, height, blocks, tiny,
    START: tl.constexpr, FIRST: tl.constexpr, KEEP: tl.constexpr, UNIT: tl.constexpr, PARTS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """W = w / beta_k - alpha_k q_k - beta_k q_{k-1}, with q_k = u / beta_k; from its squares follows beta_{k+1}.

    START, with k = -1, only takes the squares of u, which is x.
    """
    strip, block = tl.program_id(0), tl.program_id(1)
    d = parts * UNIT
    columns = strip * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < d
    here = state + k * 4 * d + columns
    square = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    first = block.to(tl.int64) * height * d
    u, w = u + first, w + first
    if not START:
        inverse = tl.load(here + d, mask=inside, other=0.0)
        alpha = tl.load(here + 3 * d, mask=inside, other=0.0) * inverse
    if not START and not FIRST:
        back = tl.load(here, mask=inside, other=0.0)
        if KEEP:  # q_{k-1} is stored at the length of x
            length = tl.load(state + columns, mask=inside, other=0.0)
            back = tl.where(length > 0, back / tl.where(length > 0, length, 1.0), 0.0)
        out += (k - 1).to(tl.int64) * n * d + first
    end = tl.minimum(n - block * height, height)
    for row in range(0, end, ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & inside[None, :]
        at = rows[:, None] * d + columns[None, :]
        made = tl.load(u + at, mask=mask, other=0.0)
        if not START:
            made = tl.load(w + at, mask=mask, other=0.0) * inverse[None, :] - made * alpha[None, :]
            if not FIRST:
                made -= tl.load(out + at, mask=mask, other=0.0, eviction_policy="evict_first") * back[None, :]
            tl.store(w + at, made, mask=mask)
        square += made * made
    tl.store(partial + block * d + columns, tl.sum(square, axis=0), mask=inside)
    if _is_last(counters, strip, blocks):
        beta = tl.sqrt(_total(partial, blocks, d, columns, inside, PARTS, COLUMNS))
        if START:  # a signal of any size is a signal; a new direction is held against the size of P, at least 1
            alive = beta > 0
            tl.store(here + 6 * d, tl.full((COLUMNS,), 1.0, tl.float32), mask=inside)
        else:
            alive = (beta > tiny * tl.load(here + 6 * d, mask=inside, other=1.0)) & (inverse > 0)
        tl.store(here + 4 * d, tl.where(alive, beta, 0.0), mask=inside)
        tl.store(here + 5 * d, tl.where(alive, 1.0 / tl.where(alive, beta, 1.0), 0.0), mask=inside)


def orthonormal(P, x: Tensor, out: Tensor, keep_norm: bool, tiny: float) -> None:
    """Fill `out` [K + 1, n, d] with the orthonormal basis of x [n, d]; zeros past a column's grade."""
    degree, (n, d) = len(out) - 1, x.shape
    height = max(ROWS * TILES, triton.cdiv(triton.cdiv(n, BLOCKS), ROWS) * ROWS)
    blocks, strips = triton.cdiv(n, height), triton.cdiv(d, COLUMNS)
    unit = 4 if d % 4 == 0 else 1  # whether four columns can be loaded at once
    sizes = (n, d // unit, height, blocks)
    tile = {"KEEP": keep_norm, "UNIT": unit, "PARTS": PARTS, "ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": WARPS}
    common = (
        out, x.new_empty(2, blocks, d), torch.zeros(strips, dtype=torch.int32, device=x.device),
        x.new_empty(degree + 2, 4, d),
    )  # fmt: skip
    grid, u = (strips, blocks), x.contiguous()
    _next[grid](u, u, *common, -1, *sizes, tiny, START=True, FIRST=True, **tile)
    for k in range(degree):
        w = P @ u
        # One goes over the rows backwards and the other forwards: what either read last is still in the cache.
        _unit[grid](u, w, *common, k, *sizes, LAST=False, **tile)
        _next[grid](u, w, *common, k, *sizes, tiny, START=False, FIRST=k == 0, **tile)
        u = w
    _unit[grid](u, u, *common, degree, *sizes, LAST=True, **tile)
