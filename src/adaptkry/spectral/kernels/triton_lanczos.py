"""The orthonormal basis on a GPU: two passes over the data per product, without synchronising with the host.

With torch's operations a Lanczos step moves a term about eighteen times through memory. Here it is seven: one kernel
reads the product and the vector, writes the unit vector and sums for alpha; the other reads three vectors, writes the
next one and sums for its norm. Every block of rows stores partial sums; the last block of a strip of columns to finish
adds them in a fixed order and computes the factors of the next kernel. Results are the same to the bit every time, and
no kernel is launched for a handful of numbers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCKS = 128  # of rows at most; the last block to finish adds as many partial sums
ROWS, COLUMNS, WARPS = 16, 64, 4  # the size of a tile, and warps per program
TILES = 4  # per block at least
PARTIAL_SUMS = 16  # partial sums that are loaded at the same time


@triton.jit
def _is_last(counters, strip, blocks):
    """Whether all other blocks of this strip have stored their partial sums; the counter is then reset to 0."""
    tl.debug_barrier()  # every thread has stored its part before one thread counts the block
    finished = tl.atomic_add(counters + strip, 1, sem="acq_rel")
    if finished == blocks - 1:
        tl.store(counters + strip, 0)
    return finished == blocks - 1


@triton.jit
def _total(partial, blocks, d, columns, inside, PARTS: tl.constexpr, COLUMNS: tl.constexpr):
    """The partial sums of a strip, added in a fixed order."""
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
    dot = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)  # summed once, after the loop: no warp waits inside it
    square = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    first = block.to(tl.int64) * height * d  # offsets inside a block fit into 32 bits
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
        vector = tl.load(u + at, mask=mask, other=0.0)
        if not START:
            vector = tl.load(w + at, mask=mask, other=0.0) * inverse[None, :] - vector * alpha[None, :]
            if not FIRST:
                vector -= tl.load(out + at, mask=mask, other=0.0, eviction_policy="evict_first") * back[None, :]
            tl.store(w + at, vector, mask=mask)
        square += vector * vector
    tl.store(partial + block * d + columns, tl.sum(square, axis=0), mask=inside)
    if _is_last(counters, strip, blocks):
        beta = tl.sqrt(_total(partial, blocks, d, columns, inside, PARTS, COLUMNS))
        if START:  # a signal of any size counts; later directions are compared with the size of P, at least 1
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
    tile = {
        "KEEP": keep_norm,
        "UNIT": unit,
        "PARTS": PARTIAL_SUMS,
        "ROWS": ROWS,
        "COLUMNS": COLUMNS,
        "num_warps": WARPS,
    }
    common = (
        out, x.new_empty(2, blocks, d), torch.zeros(strips, dtype=torch.int32, device=x.device),
        x.new_empty(degree + 2, 4, d),
    )  # fmt: skip
    grid, u = (strips, blocks), x.contiguous()
    _next[grid](u, u, *common, -1, *sizes, tiny, START=True, FIRST=True, **tile)
    for k in range(degree):
        w = P @ u
        # One kernel reads the rows backwards and the other forwards: what was read last is still in the cache.
        _unit[grid](u, w, *common, k, *sizes, LAST=False, **tile)
        _next[grid](u, w, *common, k, *sizes, tiny, START=False, FIRST=k == 0, **tile)
        u = w
    _unit[grid](u, u, *common, degree, *sizes, LAST=True, **tile)
