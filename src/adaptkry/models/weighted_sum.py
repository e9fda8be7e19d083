"""Weighted sums of a precomputed basis at the rows of each member.

Shapes: b members, m rows per member, T terms, n nodes, d features.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from adaptkry.models.dropout import Decisions, DropoutState, dropout, dropped, gpu_drop, is_kept, rows_in_cache, slices
from adaptkry.spectral.kernels import triton_kernels
from adaptkry.spectral.kernels.cpu import row_products


def weighted_sum(
    w: Tensor,
    basis: Tensor,
    rows: Tensor,
    state: DropoutState | None,
    output_dropout: tuple[str, int] | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Compute sum_k w_k F_k at the rows [b, m] of each member, with filter dropout if any: [b, m, d].

    The weights are [b, T], or [b, m, 1, T] if they depend on the row, or [b, 1, d, T] if they depend on the channel.
    Rows that pad a member may have any finite value. `output_dropout` is the name and the layer of the dropout of the
    sum, if there is one: a GPU does both at once, and stores the result as `dtype` (default: that of the weights).
    """
    is_gpu = basis.device.type == "cuda" and w.dtype == torch.float32 and w.ndim == 2
    if is_gpu and (kernels := triton_kernels()) and (state is None or state.gpu):
        drops = gpu_drop(state, "filter_dropout", 0), gpu_drop(state, *output_dropout) if output_dropout else None
        return kernels.triton_weighted_sum.TritonSumAtRows.apply(w, basis, rows, *drops, dtype or w.dtype)
    filtered = state if state is not None and state.is_active("filter_dropout") else None
    if w.ndim == 4:
        z = VaryingSum.apply(w, basis, rows, filtered)
    elif filtered is None and (basis.device.type != "cpu" or torch.compiler.is_compiling()):
        z = sum_at_nodes(w, basis, rows)
    else:
        return SumAtRows.apply(w, basis, rows, state, output_dropout)  # type: ignore[return-value]
    return dropout(z, state, *output_dropout) if output_dropout else z  # type: ignore[arg-type, return-value]


def sum_at_nodes(w: Tensor, basis: Tensor, rows: Tensor) -> Tensor:
    """Compute sum_k w[b, k] F_k at all nodes, and select the rows of each member: [b, m, d]."""
    T, n, d = basis.shape
    sums = (w @ basis.reshape(T, n * d)).view(len(w) * n, d)
    flat = (rows + n * torch.arange(len(rows), device=rows.device)[:, None]).flatten()  # of a table with all members
    return sums.index_select(0, flat).view(*rows.shape, d)


class SumAtRows(torch.autograd.Function):
    """Dropout of the same sums with dropout of every entry of every F_k, on the CPU.

    There is no array for all nodes: a few rows at a time are read, and their dropped entries set to 0, so that they
    stay in the cache. The random numbers of the forward pass are kept for the backward pass: a byte per entry of the
    basis and member.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, w: Tensor, basis: Tensor, rows: Tensor, state: DropoutState | None, output: tuple[str, int] | None
    ) -> Tensor:
        (T, _, d), (b, m) = basis.shape, rows.shape
        ctx.save_for_backward(basis, rows)
        ctx.counts, ctx.filter = state.row_counts if state else [m] * b, Decisions.none(b)
        if state and state.is_active("filter_dropout"):
            ctx.filter = Decisions.draw(state, "filter_dropout", d, [T])
        out = sum_at_rows(w[0], basis, rows[0])[None] if b == 1 and not ctx.filter.rates[0] else w.new_empty(b, m, d)
        for i, (numbers, p) in enumerate(zip(*ctx.filter, strict=True)):
            if numbers is not None:
                for part, terms in kept_terms(basis, rows[i, : ctx.counts[i]], numbers, p):
                    torch.mv(terms.flatten(1).T, w[i] / (1 - p), out=out[i, part].view(-1))
                out[i, ctx.counts[i] :] = 0
            elif b > 1:
                out[i] = sum_at_rows(w[i], basis, rows[i])
        ctx.output = Decisions.draw(state, output[0], d) if state and output and state.is_active(output[0]) else None
        return dropped(out, ctx.output, out) if ctx.output else out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        if ctx.output:
            gradient = dropped(gradient, ctx.output, torch.empty_like(gradient, memory_format=torch.contiguous_format))
        result, gradient = gradient.new_zeros(len(rows), len(basis)), gradient.contiguous()  # [b, T]
        for i, (numbers, p) in enumerate(zip(*ctx.filter, strict=True)):
            real = slice(ctx.counts[i])
            if numbers is None:
                result[i] = row_products(gradient[i, real], *table_of(basis, rows[i, real])).sum(0)
                continue
            for part, terms in kept_terms(basis, rows[i, real], numbers, p):
                result[i] += terms.flatten(1) @ gradient[i, part].view(-1)
            result[i] /= 1 - p
        return result, None, None, None, None


def table_of(basis: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the terms as a table [T n, d], and the place in it of every term at rows [m]: [m, T]."""
    T, n, d = basis.shape
    return basis.reshape(T * n, d), rows[:, None] + n * torch.arange(T, device=rows.device)


def sum_at_rows(w: Tensor, basis: Tensor, rows: Tensor) -> Tensor:
    """Compute sum_k w[k] F_k at rows [m] in one pass: [m, d]."""
    table, places = table_of(basis, rows)
    return embedding_bag(places, table, mode="sum", per_sample_weights=w.expand(len(rows), -1))


def kept_terms(basis: Tensor, rows: Tensor, numbers: Tensor, p: float) -> Iterator[tuple[slice, Tensor]]:
    """Yield a slice of rows [m] and every term there [T, m, d], with dropped entries 0 and the others not scaled.

    Each overwrites the last one.
    """
    T, _, d = basis.shape
    table, places = table_of(basis, rows)
    size = rows_in_cache(basis[:, :1])
    terms, mask = (basis.new_empty(T * min(size, len(rows)), d) for _ in range(2))
    for part in slices(len(rows), size):
        chosen = places[part].T.flatten()
        kept = torch.index_select(table, 0, chosen, out=terms[: len(chosen)]).view(T, -1, d)
        kept.mul_(is_kept(numbers[:, part], p, out=mask[: len(chosen)].view_as(kept)))
        yield part, kept


class VaryingSum(torch.autograd.Function):
    """sum_k w_k F_k with weights that depend on the row [b, m, 1, T] or on the channel [b, 1, d, T].

    One term is in memory at a time; the backward pass selects its rows and draws its dropout again.
    """

    @staticmethod
    def forward(ctx, w: Tensor, basis: Tensor, rows: Tensor, dropout: DropoutState | None) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(basis, rows)
        ctx.dropout, ctx.reduced = dropout, [axis for axis in (1, 2) if w.shape[axis] == 1]
        ctx.states = dropout.generator_states() if dropout else []
        out = basis.new_zeros(*rows.shape, basis.shape[2])
        for k, term in enumerate(terms_at_rows(basis, rows, dropout)):
            out.addcmul_(w[..., k], term)
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        basis, rows = ctx.saved_tensors
        with ctx.dropout.restored(ctx.states) if ctx.dropout else nullcontext():
            terms = terms_at_rows(basis, rows, ctx.dropout)
            parts = [(term * gradient).sum(ctx.reduced, keepdim=True) for term in terms]
        return torch.stack(parts, -1), None, None, None


def terms_at_rows(basis: Tensor, rows: Tensor, state: DropoutState | None) -> Iterator[Tensor]:
    """Yield each term at the rows of each member, with filter dropout if any: [b, m, d]."""
    for k, term in enumerate(basis):
        at_rows = term.index_select(0, rows.flatten()).view(*rows.shape, -1)
        yield dropout(at_rows, state, "filter_dropout", 0, part=k)
