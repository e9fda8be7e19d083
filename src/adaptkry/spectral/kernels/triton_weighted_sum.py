"""Weighted sums of a precomputed basis at the rows of each member on a GPU, in Triton.

One program reads the terms at a node once, for all members that have the node among their rows: no array for all nodes
and members is written, and the terms are not read again for each member. The backward pass does the same in reverse.

Dropout of the entries of terms needs one decision per entry and member. One call of the Philox generator gives eight
decisions of 16 bits, for eight terms. They depend on the seed of the member and on row, column and term, so neither on
other members nor on restarts. The forward pass keeps them, one bit each, for the backward pass.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from adaptkry.spectral.kernels.triton_dropout import PHILOX_ROUNDS, DropoutRates

FORWARD_COLUMNS, FORWARD_WARPS = 256, 2  # columns and warps per program
BACKWARD_COLUMNS, BACKWARD_WARPS = 256, 2
NODES_PER_PROGRAM = 4  # of the backward pass


@triton.jit(do_not_specialize=["n", "m", "members", "T", "groups"])  # one compilation for all sizes
def _sum_forward(
    w, basis, places, seeds, thresholds, out, kept, n, d, m, members, T, groups,
    IS_DROPPED: tl.constexpr, ROUNDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[b, r] = sum_k w[b, k] keep F_k[node] for every member b that has the node as its row r."""
    node = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = c < d
    for b in range(members):
        r = tl.load(places + b * n + node)
        if r >= 0:
            row = r.to(tl.int64) + b * m
            total = tl.zeros((BLOCK,), dtype=tl.float32)
            for g in range(groups):
                if IS_DROPPED:
                    zero = c * 0
                    threshold = tl.load(thresholds + b)
                    n0, n1, n2, n3 = tl.philox(tl.load(seeds + b), c, zero + r, zero + g, zero, ROUNDS)
                    bits = zero
                for j in tl.static_range(8):
                    k = g * 8 + j
                    at = basis + (node + k * n) * d + c
                    value = tl.load(at, mask=inside & (k < T), other=0.0).to(tl.float32)
                    value *= tl.load(w + b * T + k, mask=k < T, other=0.0)
                    if IS_DROPPED:
                        word = n0 if j < 2 else n1 if j < 4 else n2 if j < 6 else n3
                        is_kept = ((word >> (16 * (j % 2))) & 0xFFFF).to(tl.int32) >= threshold
                        bits |= is_kept.to(tl.int32) << j
                        value = tl.where(is_kept, value, 0.0)
                    total += value
                if IS_DROPPED:
                    tl.store(kept + (row * groups + g) * d + c, bits.to(tl.uint8), mask=inside)
            tl.store(out + row * d + c, total, mask=inside)


@triton.jit(do_not_specialize=["n", "m", "members", "T", "groups"])
def _sum_backward(
    gradient, basis, places, kept, partial, n, d, m, members, T, groups,
    IS_DROPPED: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """partial[b, k]: the part of dw[b, k] from NODES nodes and BLOCK columns."""
    chunk = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = c < d
    j = tl.arange(0, 8)
    to = partial + (chunk * tl.num_programs(1) + tl.program_id(1)) * members * groups * 8 + j
    for b in range(members):
        for g in range(groups):
            k = (g * 8 + j)[:, None]  # [8, 1]
            total = tl.zeros((8, BLOCK), dtype=tl.float32)
            for step in tl.static_range(NODES):
                node = chunk * NODES + step
                r = tl.load(places + b * n + node, mask=node < n, other=-1)
                there = inside & (r >= 0)
                row = r.to(tl.int64) + b * m
                push = tl.load(gradient + row * d + c, mask=there, other=0.0)[None, :]
                at = basis + (node + k * n) * d + c[None, :]
                value = tl.load(at, mask=(k < T) & there[None, :], other=0.0).to(tl.float32)
                if IS_DROPPED:
                    bits = tl.load(kept + (row * groups + g) * d + c, mask=there, other=0).to(tl.int32)
                    value = tl.where(((bits[None, :] >> j[:, None]) & 1) == 1, value, 0.0)
                total += value * push
            tl.store(to + (b * groups + g) * 8, tl.sum(total, axis=1))


class TritonSumAtRows(torch.autograd.Function):
    """sum_k w[b, k] dropout(F_k) at each member's rows: [b, m, d]; in plain torch: `SumAtRows`."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, w: Tensor, basis: Tensor, places: Tensor, rows: int, seeds: Tensor | None, rates: DropoutRates | None
    ) -> Tensor:
        (T, n, d), b, groups = basis.shape, len(w), triton.cdiv(basis.shape[0], 8)
        out = basis.new_zeros(b, rows, d, dtype=torch.float32)  # rows that pad a member stay 0
        is_dropped, kept = rates is not None and seeds is not None, None
        if is_dropped:
            w = w * rates.scales[:, None]
            kept = torch.empty(b, rows, groups, d, dtype=torch.uint8, device=w.device)
        thresholds = rates.thresholds16 if is_dropped else None
        _sum_forward[(n, triton.cdiv(d, FORWARD_COLUMNS))](
            w.contiguous(), basis, places, seeds, thresholds, out, kept, n, d, rows, b, T, groups,
            is_dropped, PHILOX_ROUNDS, FORWARD_COLUMNS, num_warps=FORWARD_WARPS,
        )  # fmt: skip
        ctx.save_for_backward(basis, places, kept)
        ctx.rates, ctx.rows = rates, rows
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, places, kept = ctx.saved_tensors
        (T, n, d), b, groups = basis.shape, len(places), triton.cdiv(basis.shape[0], 8)
        grid = (triton.cdiv(n, NODES_PER_PROGRAM), triton.cdiv(d, BACKWARD_COLUMNS))
        partial = gradient.new_empty(grid[0] * grid[1], b, groups * 8)
        _sum_backward[grid](
            gradient.contiguous(), basis, places, kept, partial, n, d, ctx.rows, b, T, groups,
            kept is not None, NODES_PER_PROGRAM, BACKWARD_COLUMNS, num_warps=BACKWARD_WARPS,
        )  # fmt: skip
        result = partial.sum(0)[:, :T]
        return result if kept is None else result * ctx.rates.scales[:, None], None, None, None, None, None


def places_of(rows: Tensor, is_real: Tensor, n: int) -> Tensor:
    """Return for each member and node the row of that node, or -1 if the member has no such row: int32 [b, n].

    Args:
        rows: the node of each row [b, m]; a member has no node twice.
        is_real: bool [b, m], False for rows that pad a member.
        n: number of nodes.
    """
    places = torch.where(is_real, torch.arange(rows.shape[1], device=rows.device), -1).to(torch.int32)
    # Padding names node 0 again with -1: the maximum does not depend on the order.
    return places.new_full((len(rows), n), -1).scatter_reduce_(1, rows, places, "amax")
