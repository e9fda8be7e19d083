"""What a hidden layer does after its product, in one pass over memory on a GPU, in Triton.

drop(relu(norm(z) + x)): batch norm if any, the residual connection if any, ReLU, and the dropout of the next layer's
input. The backward pass needs no mask: an entry has a gradient if the result is positive.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from adaptkry.spectral.kernels.launch import launch
from adaptkry.spectral.kernels.triton_dropout import Drop, number_at, seed_of

LAYER_NUMBERS = 2048  # of a program
TILE_ROWS, TILE_COLUMNS = 128, 16  # of a tile, where statistics of columns are computed
NORM_MOMENTUM, NORM_EPSILON = tl.constexpr(0.1), tl.constexpr(1e-5)  # of batch norm, as in torch


@triton.jit
def _standardised(value, mean, variance, at, inside):
    """The value minus mean, over the standard deviation, and one over the latter."""
    over = tl.rsqrt(tl.load(variance + at, mask=inside, other=1.0) + NORM_EPSILON)
    return (value - tl.load(mean + at, mask=inside, other=0.0)) * over, over


@triton.jit(do_not_specialize=["m", "layer"])
def _forward(
    z, x, out, mean, variance, scale, shift, seeds, step, layer, thresholds, scales, m, h, x_member, x_row,
    IS_NORMED: tl.constexpr, IS_RESIDUAL: tl.constexpr, IS_DROPPED: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(1).to(tl.int64)
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    c = tl.arange(0, H)[None, :]
    inside = (r < m) & (c < h)
    value = tl.load(z + (b * m + r) * h + c, mask=inside, other=0.0).to(tl.float32)
    if IS_NORMED:
        value, _ = _standardised(value, mean, variance, b * h + c, c < h)
        value = value * tl.load(scale + b * h + c, mask=c < h) + tl.load(shift + b * h + c, mask=c < h)
    if IS_RESIDUAL:
        value += tl.load(x + b * x_member + r.to(tl.int64) * x_row + c, mask=inside, other=0.0).to(tl.float32)
    value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if IS_DROPPED:
        number = number_at(seed_of(seeds, step, layer, b), r * h + c)
        is_kept = number >= tl.load(thresholds + b).to(tl.uint32, bitcast=True)
        value = tl.where(is_kept, value * tl.load(scales + b), 0.0)
    tl.store(out + (b * m + r) * h + c, value, mask=inside)


@triton.jit(do_not_specialize=["m"])
def _backward(
    gradient, out, z, grad_z, grad_x, mean, variance, scale, grad_scale, grad_shift, counts, row_mask, scales, m, h,
    IS_NORMED: tl.constexpr, IS_RESIDUAL: tl.constexpr, IS_DROPPED: tl.constexpr, ROWS: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(1).to(tl.int64)
    r = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    c = tl.arange(0, H)[None, :]
    inside = (r < m) & (c < h)
    at = (b * m + r) * h + c
    value = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    if IS_DROPPED:
        value *= tl.load(scales + b)
    value = tl.where(tl.load(out + at, mask=inside, other=0.0) > 0, value, 0.0)
    if IS_NORMED:
        if IS_RESIDUAL:
            tl.store(grad_x + at, value, mask=inside)
        x_hat, over = _standardised(
            tl.load(z + at, mask=inside, other=0.0).to(tl.float32), mean, variance, b * h + c, c < h
        )
        mean_gradient = tl.load(grad_shift + b * h + c, mask=c < h) + x_hat * tl.load(
            grad_scale + b * h + c, mask=c < h
        )
        value -= mean_gradient / tl.load(counts + b) * tl.load(row_mask + b * m + r, mask=r < m, other=0.0)
        value *= over * tl.load(scale + b * h + c, mask=c < h)
    tl.store(grad_z + at, value, mask=inside)


@triton.jit(do_not_specialize=["m"])
def _column_statistics(
    z, row_mask, mean, variance, counts, running_mean, running_variance, m, h, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Mean and variance of each column over the real rows, tile by tile; running ones are updated."""
    b = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = c < h
    count = 0.0
    average = tl.zeros((COLUMNS,), dtype=tl.float32)
    squares = tl.zeros((COLUMNS,), dtype=tl.float32)  # sum of squared differences from the mean
    for start in range(0, m, ROWS):
        r = start + tl.arange(0, ROWS)
        real = tl.load(row_mask + b * m + r, mask=r < m, other=0.0)
        value = tl.load(z + (b * m + r[:, None]) * h + c[None, :], mask=(r < m)[:, None] & inside[None, :], other=0.0)
        value = value.to(tl.float32)
        size = tl.sum(real)
        tile_mean = tl.sum(value * real[:, None], 0) / tl.maximum(size, 1.0)
        rest = (value - tile_mean[None, :]) * real[:, None]
        both = tl.maximum(count + size, 1.0)
        change = tile_mean - average
        squares += tl.sum(rest * rest, 0) + change * change * (count * size / both)
        average += change * (size / both)
        count += size
    total = tl.maximum(count, 1.0)
    at = b * h + c
    tl.store(mean + at, average, mask=inside)
    tl.store(variance + at, squares / total, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(counts + b, total)
    before = tl.load(running_mean + at, mask=inside, other=0.0)
    tl.store(running_mean + at, before + NORM_MOMENTUM * (average - before), mask=inside)
    before = tl.load(running_variance + at, mask=inside, other=0.0)
    unbiased = squares / tl.maximum(total - 1, 1.0)
    tl.store(running_variance + at, before + NORM_MOMENTUM * (unbiased - before), mask=inside)


@triton.jit(do_not_specialize=["m"])
def _column_gradients(
    gradient, out, z, mean, variance, scales, grad_scale, grad_shift, m, h,
    IS_DROPPED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of scale and shift: sums over rows."""
    b = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    of_scale = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    of_shift = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, m, ROWS):
        r = (start + tl.arange(0, ROWS))[:, None]
        inside = (r < m) & (c < h)
        at = (b * m + r) * h + c
        value = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.where(tl.load(out + at, mask=inside, other=0.0) > 0, value, 0.0)
        x_hat, _ = _standardised(
            tl.load(z + at, mask=inside, other=0.0).to(tl.float32), mean, variance, b * h + c, c < h
        )
        of_scale += value * x_hat
        of_shift += value
    factor = 1.0
    if IS_DROPPED:
        factor = tl.load(scales + b)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(grad_scale + b * h + column, tl.sum(of_scale, 0) * factor, mask=column < h)
    tl.store(grad_shift + b * h + column, tl.sum(of_shift, 0) * factor, mask=column < h)


class BatchNorm(NamedTuple):
    """Running mean and variance [b, 1, h], and whether the statistics are those of the rows."""

    running_mean: Tensor
    running_variance: Tensor
    is_training: bool


class TritonHiddenLayer(torch.autograd.Function):
    """drop(relu(norm(z) + x)) of z [b, m, h]; in plain torch: `ResidualMLP`."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, z: Tensor, x: Tensor | None, scale: Tensor | None, shift: Tensor | None, norm: BatchNorm | None,
        row_mask: Tensor, drop: Drop | None,
    ) -> Tensor:  # fmt: skip
        (b, m, h), z, mean, variance, counts = z.shape, z.contiguous(), None, None, None
        row_mask = row_mask.contiguous()
        if norm:
            mean, variance = norm.running_mean, norm.running_variance
            if norm.is_training:
                mean, variance = (row_mask.new_empty(b, h) for _ in range(2))
                counts = row_mask.new_empty(b)
                running = norm.running_mean, norm.running_variance
                launch(
                    _column_statistics, (triton.cdiv(h, TILE_COLUMNS), b),
                    z, row_mask, mean, variance, counts, *running, m, h, TILE_ROWS, TILE_COLUMNS,
                )  # fmt: skip
        if x is not None and x.stride(2) != 1:
            x = x.contiguous()
        out, (rows, width) = torch.empty_like(z), tile(h)
        launch(
            _forward, (triton.cdiv(m, rows), b),
            z, x, out, mean, variance, scale, shift, *(drop[:3] if drop else (None, None, 0)),
            *((drop.rates.thresholds32, drop.rates.scales) if drop else (None, None)), m, h,
            *((0, 0) if x is None else x.stride()[:2]), norm is not None, x is not None, drop is not None, rows, width,
        )  # fmt: skip
        ctx.save_for_backward(out, z if norm else None, mean, variance, counts, scale, row_mask)
        ctx.scales, ctx.is_residual = drop.rates.scales if drop else None, x is not None
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        out, z, mean, variance, counts, scale, row_mask = ctx.saved_tensors
        (b, m, h), gradient = out.shape, gradient.contiguous()
        is_dropped, is_normed = ctx.scales is not None, z is not None
        grad_scale = grad_shift = None
        grad_z, (rows, width) = torch.empty_like(out), tile(h)
        grad_x = torch.empty_like(out) if is_normed and ctx.is_residual else grad_z if ctx.is_residual else None
        if is_normed:
            grad_scale, grad_shift = torch.empty_like(mean), torch.empty_like(mean)
            launch(
                _column_gradients, (triton.cdiv(h, TILE_COLUMNS), b),
                gradient, out, z, mean, variance, ctx.scales, grad_scale, grad_shift, m, h, is_dropped,
                TILE_ROWS, TILE_COLUMNS,
            )  # fmt: skip
        launch(
            _backward, (triton.cdiv(m, rows), b),
            gradient, out, z, grad_z, grad_x, mean, variance, scale, grad_scale, grad_shift, counts, row_mask,
            ctx.scales, m, h, is_normed, ctx.is_residual, is_dropped, rows, width,
        )  # fmt: skip
        norms = [None if t is None else t.view(b, 1, h) for t in (grad_scale, grad_shift)]
        return grad_z, grad_x, *norms, None, None, None


def tile(h: int) -> tuple[int, int]:
    """Return rows and columns, powers of 2, of a tile with all h columns."""
    columns = max(16, triton.next_power_of_2(h))
    return max(1, LAYER_NUMBERS // columns), columns
