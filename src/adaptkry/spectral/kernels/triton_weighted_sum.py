"""Weighted sums of a precomputed basis at the rows of each member on a GPU, in Triton.

A program reads the terms at a node once for several members, of those that have the node among their rows: no array for
all nodes and members is written. Programs of other members at the same node run next to it, so that they find the terms
in the cache. The backward pass does the same in reverse.

Dropout of the entries of terms needs one decision per entry and member. One call of the Philox generator gives twelve
decisions of 10 bits, for twelve terms; the probability is exact to 1 / 1024. Dropout of the sum itself, which the next
stage would do otherwise, takes one call for four columns. Decisions depend on the seed of the member and on row, column
and term, so neither on other members nor on restarts. The forward pass keeps them, one bit each, for the backward pass.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from adaptkry.spectral.kernels.triton_dropout import PHILOX_ROUNDS, Drop, kept_columns

TERMS = 12  # of a group: those that one call of the generator decides about
MEMBERS = 5  # that a program reads the terms for: splits usually come in fives or tens
FORWARD_COLUMNS, FORWARD_WARPS = 256, 2  # columns and warps per program
BACKWARD_COLUMNS, BACKWARD_WARPS = 64, 1
NODES_PER_PROGRAM = 16  # of the backward pass


@triton.jit(do_not_specialize=["n", "m", "members", "T", "groups", "parts", "blocks"])  # one compilation for all sizes
def _sum_forward(
    w, basis, places, padding, seeds, thresholds, sum_seeds, sum_thresholds, sum_scales, out, kept,
    n, d, m, members, T, groups, parts, blocks,
    DROPS_TERMS: tl.constexpr, DROPS_SUM: tl.constexpr, ROUNDS: tl.constexpr,
    TERMS: tl.constexpr, MEMBERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[b, r] = drop(sum_k w[b, k] drop(F_k[node])) for MEMBERS members b that have the node as their row r."""
    first = (tl.program_id(0) % parts) * MEMBERS
    block = (tl.program_id(0) // parts) % blocks
    node = (tl.program_id(0) // parts // blocks).to(tl.int64)
    c = block * BLOCK + tl.arange(0, BLOCK)
    inside = c < d
    rows = ()
    totals = ()
    sums_kept = ()
    for i in tl.static_range(MEMBERS):
        r = tl.load(places + node * members + first + i, mask=(first + i < members) & (node < n), other=-1)
        rows = rows + (r,)
        totals = totals + (tl.zeros((BLOCK,), dtype=tl.float32),)
        if DROPS_SUM:
            sums_kept = sums_kept + (
                kept_columns(sum_seeds, sum_thresholds, tl.minimum(first + i, members - 1), r, block, ROUNDS, BLOCK),
            )
    for g in range(groups):
        values = ()
        for j in tl.static_range(TERMS):
            at = basis + (node + (g * TERMS + j) * n) * d + c
            values = values + (tl.load(at, mask=inside & (node < n) & (g * TERMS + j < T), other=0.0).to(tl.float32),)
        added = ()
        for i in tl.static_range(MEMBERS):
            b = first + i
            r = rows[i]
            total = totals[i]
            if r >= 0:
                bits = c * 0
                if DROPS_TERMS:
                    n0, n1, n2, n3 = tl.philox(tl.load(seeds + b), c, bits + r, bits + g, bits, ROUNDS)
                    threshold = tl.load(thresholds + b).to(tl.uint32, bitcast=True)
                for j in tl.static_range(TERMS):
                    weight = tl.load(w + b * T + g * TERMS + j, mask=g * TERMS + j < T, other=0.0)
                    if DROPS_TERMS:
                        word = n0 if j < 3 else n1 if j < 6 else n2 if j < 9 else n3
                        # The three numbers of a word start at its bits 2, 12 and 22.
                        is_kept = (word & (1023 << (2 + 10 * (j % 3)))) >= (threshold << (2 + 10 * (j % 3)))
                        bits |= tl.where(is_kept, 2 << j, 0)
                        total += tl.where(is_kept, weight, 0.0) * values[j]
                    else:
                        total += weight * values[j]
                if DROPS_SUM:
                    bits |= tl.where(sums_kept[i], 1, 0)
                if DROPS_TERMS or DROPS_SUM:
                    row = r.to(tl.int64) + b * m
                    tl.store(kept + (row * groups + g) * d + c, bits.to(kept.dtype.element_ty), mask=inside)
            added = added + (total,)
        totals = added
    for i in tl.static_range(MEMBERS):
        b = first + i
        r = rows[i]
        if r >= 0:
            total = totals[i]
            if DROPS_SUM:
                total = tl.where(sums_kept[i], total * tl.load(sum_scales + b), 0.0)
            tl.store(out + (r.to(tl.int64) + b * m) * d + c, total, mask=inside)
        if (b < members) & (node < m):  # the row of that number
            if tl.load(padding + node * members + b):
                tl.store(out + (node + b * m) * d + c, tl.zeros((BLOCK,), dtype=tl.float32), mask=inside)


@triton.jit(do_not_specialize=["n", "m", "members", "T", "groups", "parts", "blocks"])
def _sum_backward(
    gradient, basis, places, sum_scales, kept, partial, n, d, m, members, T, groups, parts, blocks,
    DROPS_TERMS: tl.constexpr, DROPS_SUM: tl.constexpr,
    TERMS: tl.constexpr, MEMBERS: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """partial[b, k]: the part of dw[b, k] from NODES nodes and BLOCK columns, for MEMBERS members and TERMS terms."""
    first = (tl.program_id(0) % parts) * MEMBERS
    g = (tl.program_id(0) // parts) % groups
    block = (tl.program_id(0) // parts // groups) % blocks
    chunk = (tl.program_id(0) // parts // groups // blocks).to(tl.int64)
    c = block * BLOCK + tl.arange(0, BLOCK)
    inside = c < d
    totals = ()
    for _ in tl.static_range(MEMBERS * TERMS):
        totals = totals + (tl.zeros((BLOCK,), dtype=tl.float32),)
    for step in range(NODES):
        node = chunk * NODES + step
        there = inside & (node < n)
        values = ()
        for j in tl.static_range(TERMS):
            at = basis + (node + (g * TERMS + j) * n) * d + c
            values = values + (tl.load(at, mask=there & (g * TERMS + j < T), other=0.0).to(tl.float32),)
        pushes = ()
        decisions = ()
        for i in tl.static_range(MEMBERS):
            b = first + i
            r = tl.load(places + node * members + b, mask=(node < n) & (b < members), other=-1)
            row = r.to(tl.int64) + b * m
            push = tl.load(gradient + row * d + c, mask=inside & (r >= 0), other=0.0).to(tl.float32)
            bits = c * 0
            if DROPS_SUM:
                bits = tl.load(kept + row * groups * d + c, mask=inside & (r >= 0), other=0).to(tl.int32)
                push = tl.where((bits & 1) != 0, push, 0.0)
            if DROPS_TERMS:
                bits = tl.load(kept + (row * groups + g) * d + c, mask=inside & (r >= 0), other=0).to(tl.int32)
            pushes = pushes + (push,)
            decisions = decisions + (bits,)
        added = ()
        for i in tl.static_range(MEMBERS):
            for j in tl.static_range(TERMS):
                push = pushes[i]
                if DROPS_TERMS:
                    push = tl.where((decisions[i] & (2 << j)) != 0, push, 0.0)
                added = added + (totals[i * TERMS + j] + push * values[j],)
        totals = added
    to = partial + ((chunk * blocks + block) * members * groups + g) * TERMS
    for i in tl.static_range(MEMBERS):
        b = first + i
        if b < members:
            scale = 1.0
            if DROPS_SUM:
                scale = tl.load(sum_scales + b)
            for j in tl.static_range(TERMS):
                tl.store(to + b * groups * TERMS + j, tl.sum(totals[i * TERMS + j]) * scale)


class TritonSumAtRows(torch.autograd.Function):
    """Dropout of sum_k w[b, k] dropout(F_k) at each member's rows: [b, m, d]; in plain torch: `SumAtRows`."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, w: Tensor, basis: Tensor, rows: Tensor, terms: Drop | None, sums: Drop | None
    ) -> Tensor:
        (T, n, d), (b, m), groups = basis.shape, rows.shape, triton.cdiv(basis.shape[0], TERMS)
        places, padding = places_of(rows, n)
        out, kept = w.new_empty(b, m, d), None
        if terms:
            w = w * terms.rates.scales10[:, None]
        if terms or sums:  # a bit for the sum, and one for each term
            kept = torch.empty(b, m, groups, d, dtype=torch.int16 if terms else torch.int8, device=w.device)
        parts, blocks = triton.cdiv(b, MEMBERS), triton.cdiv(d, FORWARD_COLUMNS)
        _sum_forward[(max(n, m) * blocks * parts,)](
            w.contiguous(), basis, places, padding, *((terms.seeds, terms.rates.thresholds10) if terms else (None, None)),
            *((sums.seeds, sums.rates.thresholds32, sums.rates.scales) if sums else (None, None, None)), out, kept,
            n, d, m, b, T, groups, parts, blocks,
            terms is not None, sums is not None, PHILOX_ROUNDS, TERMS, MEMBERS, FORWARD_COLUMNS,
            num_warps=FORWARD_WARPS,
        )  # fmt: skip
        ctx.save_for_backward(basis, places, kept)
        ctx.terms, ctx.sums, ctx.rows = terms, sums, m
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, places, kept = ctx.saved_tensors
        (T, n, d), b, groups = basis.shape, places.shape[1], triton.cdiv(basis.shape[0], TERMS)
        parts, blocks, chunks = triton.cdiv(b, MEMBERS), triton.cdiv(d, BACKWARD_COLUMNS), triton.cdiv(n, NODES_PER_PROGRAM)
        partial = gradient.new_empty(chunks * blocks, b, groups * TERMS, dtype=torch.float32)
        _sum_backward[(chunks * blocks * groups * parts,)](
            gradient.contiguous(), basis, places, ctx.sums.rates.scales if ctx.sums else None, kept, partial,
            n, d, ctx.rows, b, T, groups, parts, blocks, ctx.terms is not None, ctx.sums is not None,
            TERMS, MEMBERS, NODES_PER_PROGRAM, BACKWARD_COLUMNS, num_warps=BACKWARD_WARPS,
        )  # fmt: skip
        result = partial.sum(0)[:, :T]
        return result * ctx.terms.rates.scales10[:, None] if ctx.terms else result, None, None, None, None


_PLACES = WeakTensorKeyDictionary()  # rows -> their places: the same rows are used in every epoch


def places_of(rows: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return for each node and member the row of that node, or -1: [n, b], and which rows are padding: bool [m, b].

    Args:
        rows: the node of each row [b, m]. A member has no node twice, but for padding, which names node 0 again.
        n: number of nodes.
    """
    if rows not in _PLACES:
        m = rows.shape[1]
        numbers = torch.arange(m, dtype=torch.int32, device=rows.device).expand_as(rows)
        first = torch.full((len(rows), n), m, dtype=torch.int32, device=rows.device)
        first.scatter_reduce_(1, rows, numbers, "amin")  # the minimum does not depend on the order
        is_padding = first.gather(1, rows) != numbers
        _PLACES[rows] = first.masked_fill(first == m, -1).T.contiguous(), is_padding.T.contiguous()
    return _PLACES[rows]
