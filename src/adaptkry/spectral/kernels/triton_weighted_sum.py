"""Weighted sums of a precomputed basis at the rows of each member on a GPU, in Triton.

A program reads the terms at a node once, for all members that have the node among their rows: no array for all nodes
and members is written. The backward pass does the same in reverse for a few members at a time, whose sums fit in
registers; programs of other members at the same nodes run next to it, so that they find the terms in the cache. It
loads the numbers of the next node while it adds.

Dropout of the entries of terms needs one decision per entry and member. A random word of 32 bits gives three, for three
terms, by one addition: it has three numbers of 9 bits with a free bit above each, into which the sum with 512 minus the
threshold carries if the number is at least the threshold. The probability is exact to 1 / 512. Dropout of the sum
itself, which the next stage would do otherwise, takes a word. Decisions depend on the seed of the member and on row,
column and term, so neither on other members nor on restarts. The forward pass keeps them, one bit each, for the
backward pass.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.weak import WeakTensorKeyDictionary

from adaptkry.spectral.kernels.launch import launch
from adaptkry.spectral.kernels.triton_dropout import Drop, number_at, seed_of

TERMS = 12  # of a group: those that four random words decide about
PROGRAM_MEMBERS = 5  # of a program of the backward pass: splits usually come in fives or tens
BACKWARD_COLUMNS, NODES_PER_PROGRAM = 64, 16  # of the backward pass
WORD_FACTOR0, WORD_FACTOR1 = tl.constexpr(0x2C1B3C6D), tl.constexpr(0x297A2D39)  # of the four words
WORD_FACTOR2, WORD_FACTOR3 = tl.constexpr(0x85EBCA6B), tl.constexpr(0xC2B2AE35)
THREE_NUMBERS = tl.constexpr(0x1FF7FDFF)  # the bits of three numbers of 9 bits; a carry goes to bit 9, 19 or 29
SIZES = [
    "n",
    "m",
    "members",
    "T",
    "groups",
    "parts",
    "blocks",
]  # arguments that do not need a compilation for each value


@triton.jit
def _decisions(number, least):
    """Twelve decisions [BLOCK] from a random number each, as four words with three carries: at bits 9, 19 and 29."""
    words = ()
    for q in tl.static_range(4):
        word = number * (
            WORD_FACTOR0 if q == 0 else WORD_FACTOR1 if q == 1 else WORD_FACTOR2 if q == 2 else WORD_FACTOR3
        )
        word = (word ^ (word >> 15)) & THREE_NUMBERS
        words = words + (word.to(tl.int32, bitcast=True) + least,)
    return words


@triton.jit
def _packed(words):
    """The carries of four words as the lowest twelve bits: bit 4 f + q is number f of word q."""
    carried = (words[0] >> 9) & 0x100401
    for q in tl.static_range(1, 4):
        carried |= (words[q] >> (9 - q)) & (0x100401 << q)
    return (carried & 0xF) | ((carried >> 6) & 0xF0) | ((carried >> 12) & 0xF00)


@triton.jit(do_not_specialize=[*SIZES, "layer", "sum_layer"])  # one compilation for all sizes
def _sum_forward(
    w, basis, places, padding, seeds, step, layer, thresholds, sum_layer, sum_thresholds, sum_scales, sums, out, kept,
    n, d, m, members, T, groups, blocks,
    DROPS_TERMS: tl.constexpr, DROPS_SUM: tl.constexpr, TERMS: tl.constexpr, BLOCK: tl.constexpr, INT: tl.constexpr,
):  # fmt: skip
    """out[b, r] = drop(sum_k w[b, k] drop(F_k[node])) for every member b that has the node as its row r."""
    node = (tl.program_id(0) // blocks).to(INT)
    c = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = c < d
    for g in range(groups):
        values = ()
        for j in tl.static_range(TERMS):
            at = basis + (node + (g * TERMS + j) * n) * d + c
            is_there = inside & (node < n) & (g * TERMS + j < T)
            values = values + (tl.load(at, mask=is_there, other=0.0).to(tl.float32),)
        for b in range(members):
            r = tl.load(places + node * members + b, mask=node < n, other=-1)
            if r >= 0:
                row = r.to(INT) + b * m
                total = tl.zeros((BLOCK,), dtype=tl.float32)
                if g > 0:
                    total = tl.load(sums + row * d + c, mask=inside).to(tl.float32)
                bits = c * 0
                if DROPS_TERMS:
                    least = (512 - tl.load(thresholds + b)) * 0x100401  # for each of the three numbers
                    number = number_at(seed_of(seeds, step, layer, b), (g * m + r) * d + c)
                    words = _decisions(number, least)
                    bits = _packed(words) << 1
                for j in tl.static_range(TERMS):
                    weight = tl.load(w + (b * groups + g) * TERMS + j)
                    if DROPS_TERMS:
                        weight = tl.where((words[j % 4] & (512 << (10 * (j // 4)))) != 0, weight, 0.0)
                    total += weight * values[j]
                if DROPS_SUM:
                    number = number_at(seed_of(seeds, step, sum_layer, b), r * d + c)
                    is_kept = number >= tl.load(sum_thresholds + b).to(tl.uint32, bitcast=True)
                    bits |= tl.where(is_kept, 1, 0)
                if DROPS_TERMS or DROPS_SUM:
                    tl.store(kept + (row * groups + g) * d + c, bits.to(kept.dtype.element_ty), mask=inside)
                if g < groups - 1:
                    tl.store(sums + row * d + c, total, mask=inside)
                else:
                    if DROPS_SUM:
                        total = tl.where(is_kept, total * tl.load(sum_scales + b), 0.0)
                    tl.store(out + row * d + c, total, mask=inside)
    if node < m:  # the row of that number
        for b in range(members):
            if tl.load(padding + node * members + b):
                tl.store(out + (node + b * m) * d + c, tl.zeros((BLOCK,), dtype=tl.float32), mask=inside)


@triton.jit
def _at_node(
    rows, gradient, basis, kept, node, first, c, inside, n, d, m, T, g, groups,
    DROPS_TERMS: tl.constexpr, DROPS_SUM: tl.constexpr, TERMS: tl.constexpr, MEMBERS: tl.constexpr, INT: tl.constexpr,
):  # fmt: skip
    """The terms of a group at a node, and gradient and decisions at the row of each member."""
    values = ()
    for j in tl.static_range(TERMS):
        at = basis + (node + (g * TERMS + j) * n) * d + c
        values = values + (tl.load(at, mask=inside & (node < n) & (g * TERMS + j < T), other=0.0),)
    pushes = ()
    decisions = ()
    for i in tl.static_range(MEMBERS):
        there = inside & (rows[i] >= 0)
        row = rows[i].to(INT) + (first + i) * m
        push = tl.load(gradient + row * d + c, mask=there, other=0.0)
        bits = c * 0
        if DROPS_TERMS or DROPS_SUM:
            bits = tl.load(kept + (row * groups + g) * d + c, mask=there, other=0).to(tl.int32)
        if DROPS_SUM:
            push = tl.where((bits & 1) != 0, push, 0.0)
        pushes = pushes + (push,)
        decisions = decisions + (bits,)
    return values, pushes, decisions


@triton.jit
def _rows_at(places, node, first, n, members, MEMBERS: tl.constexpr):
    """The row of each member at a node, or -1."""
    rows = ()
    for i in tl.static_range(MEMBERS):
        is_there = (node < n) & (first + i < members)
        rows = rows + (tl.load(places + node * members + first + i, mask=is_there, other=-1),)
    return rows


@triton.jit(do_not_specialize=SIZES)
def _sum_backward(
    gradient, basis, places, sum_scales, kept, partial, n, d, m, members, T, groups, parts, blocks,
    DROPS_TERMS: tl.constexpr, DROPS_SUM: tl.constexpr,
    TERMS: tl.constexpr, MEMBERS: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr, INT: tl.constexpr,
):  # fmt: skip
    """partial[b, k]: the part of dw[b, k] from NODES nodes and BLOCK columns, for MEMBERS members and TERMS terms."""
    first = (tl.program_id(0) % parts) * MEMBERS
    g = (tl.program_id(0) // parts) % groups
    block = (tl.program_id(0) // parts // groups) % blocks
    chunk = (tl.program_id(0) // parts // groups // blocks).to(INT)
    c = block * BLOCK + tl.arange(0, BLOCK)
    inside = c < d
    node = chunk * NODES
    totals = ()
    for _ in tl.static_range(MEMBERS * TERMS):
        totals = totals + (tl.zeros((BLOCK,), dtype=tl.float32),)
    values = ()
    for _ in tl.static_range(TERMS):
        values = values + (tl.zeros((BLOCK,), dtype=basis.dtype.element_ty),)
    pushes = ()
    decisions = ()
    rows = ()
    for _ in tl.static_range(MEMBERS):
        pushes = pushes + (tl.zeros((BLOCK,), dtype=gradient.dtype.element_ty),)
        decisions = decisions + (c * 0,)
        rows = rows + (-1,)
    next_rows = _rows_at(places, node, first, n, members, MEMBERS)
    for _ in range(NODES + 1):  # the first adds nothing, the last reads a node for nothing
        later_rows = _rows_at(places, node + 1, first, n, members, MEMBERS)
        next_values, next_pushes, next_decisions = _at_node(
            next_rows, gradient, basis, kept, node, first, c, inside, n, d, m, T, g, groups,
            DROPS_TERMS, DROPS_SUM, TERMS, MEMBERS, INT,
        )  # fmt: skip
        added = ()
        for i in tl.static_range(MEMBERS):
            of_member = totals[i * TERMS : (i + 1) * TERMS]
            if rows[i] >= 0:
                sums = ()
                for j in tl.static_range(TERMS):
                    push = pushes[i].to(tl.float32)
                    if DROPS_TERMS:
                        push = tl.where((decisions[i] & (2 << j)) != 0, push, 0.0)
                    sums = sums + (of_member[j] + push * values[j].to(tl.float32),)
                of_member = sums
            added = added + of_member
        totals = added
        values = next_values
        pushes = next_pushes
        decisions = next_decisions
        rows = next_rows
        next_rows = later_rows
        node += 1
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
        ctx, w: Tensor, basis: Tensor, rows: Tensor, terms: Drop | None, sums: Drop | None, dtype: torch.dtype
    ) -> Tensor:
        (T, n, d), (b, m), groups = basis.shape, rows.shape, triton.cdiv(basis.shape[0], TERMS)
        places, padding = places_of(rows, n)
        out, kept = w.new_empty(b, m, d, dtype=dtype), None
        drop = terms or sums
        if terms:
            w = w * terms.rates.scales9[:, None]
        if drop:  # a bit for the sum, and one for each term
            kept = torch.empty(b, m, groups, d, dtype=torch.int16 if terms else torch.int8, device=w.device)
        columns, warps = (128, 2) if terms else (256, 2)  # per program
        blocks = triton.cdiv(d, columns)
        # Sums over several groups of terms are added in float32.
        partial = out if groups == 1 or dtype == torch.float32 else torch.empty_like(out, dtype=torch.float32)
        launch(
            _sum_forward, (max(n, m) * blocks,),
            pad(w, (0, groups * TERMS - T)).contiguous(), basis, places, padding, *(drop[:2] if drop else (None, None)),
            *((terms.layer, terms.rates.thresholds9) if terms else (0, None)),
            *((sums.layer, sums.rates.thresholds32, sums.rates.scales) if sums else (0, None, None)),
            partial, out, kept, n, d, m, b, T, groups, blocks,
            terms is not None, sums is not None, TERMS, columns, index_type(basis, out, kept), num_warps=warps,
        )  # fmt: skip
        ctx.save_for_backward(basis, places, kept)
        ctx.terms, ctx.sums, ctx.rows = terms, sums, m
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, places, kept = ctx.saved_tensors
        (T, n, d), b, groups = basis.shape, places.shape[1], triton.cdiv(basis.shape[0], TERMS)
        parts, blocks = triton.cdiv(b, PROGRAM_MEMBERS), triton.cdiv(d, BACKWARD_COLUMNS)
        chunks = triton.cdiv(n, NODES_PER_PROGRAM)
        partial = gradient.new_empty(chunks * blocks, b, groups * TERMS, dtype=torch.float32)
        launch(
            _sum_backward, (chunks * blocks * groups * parts,),
            gradient.contiguous(), basis, places, ctx.sums.rates.scales if ctx.sums else None, kept, partial,
            n, d, ctx.rows, b, T, groups, parts, blocks, ctx.terms is not None, ctx.sums is not None,
            TERMS, PROGRAM_MEMBERS, NODES_PER_PROGRAM, BACKWARD_COLUMNS, index_type(basis, gradient, kept),
            num_warps=1,
        )  # fmt: skip
        result = partial.sum(0)[:, :T]
        return result * ctx.terms.rates.scales9[:, None] if ctx.terms else result, None, None, None, None, None


def index_type(*tensors: Tensor | None) -> tl.dtype:
    """Return the type of offsets: 32 bits are faster, where they suffice."""
    return tl.int32 if all(t is None or t.numel() < 2**31 - 2**16 for t in tensors) else tl.int64


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
