"""The product on a GPU, in Triton: no value array, no scaled copy of the signal, and reproducible to the bit.

The product of cuSPARSE, which torch uses for CSR matrices, adds in an order that changes from run to run. Here every
task sums a fixed part of a row's neighbours in a fixed order. Rows with more than NEIGHBOURS neighbours are split into
several tasks, so that the GPU does not wait for one hub, and a second kernel adds their partial sums in order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from adaptkry.spectral.kernels.launch import launch

# The best of 36 settings on an H200 for both benchmark shapes: 0.23 ms (cuSPARSE: 0.31) for arxiv, 0.40 ms (0.47) for
# squirrel. Two warps per task are 1.7x slower: a row of 128 columns is too little work to divide.
NEIGHBOURS = 128  # per task at most
AT_ONCE = 8  # neighbours whose rows are loaded at the same time
PRODUCT_WARPS = 1


@triton.jit
def _gather(
    x, out, partial, indices, weights, right, left_tau, left_diagonal, row, begin, end, slot, n, d, slots,
    WEIGHTED: tl.constexpr, AT_ONCE: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One task: right-scaled neighbours of one row summed over BLOCK columns of tau number program_id(2)."""
    task = tl.program_id(0)
    tau = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < d
    i = tl.load(row + task).to(tl.int64)
    first = tl.load(begin + task)
    last = tl.load(end + task)
    to = tl.load(slot + task)
    x += tau * n * d
    right += tau * n
    total = tl.zeros((BLOCK,), dtype=WIDE)
    for e in range(first, last, AT_ONCE):
        entry = e + tl.arange(0, AT_ONCE)
        there = entry < last
        j = tl.load(indices + entry, mask=there, other=0).to(tl.int64)
        scale = tl.load(right + j, mask=there, other=0.0)
        if WEIGHTED:
            scale *= tl.load(weights + entry, mask=there, other=0.0)
        values = tl.load(x + j[:, None] * d + columns[None, :], mask=there[:, None] & inside[None, :], other=0.0)
        total += tl.sum(values * scale[:, None], axis=0)
    if to < 0:  # the task covers the whole row: scale, add the diagonal term, store
        itself = tl.load(x + i * d + columns, mask=inside, other=0.0) * tl.load(right + i)
        done = total * tl.load(left_tau + tau * n + i) + itself * tl.load(left_diagonal + tau * n + i)
        tl.store(out + (tau * n + i) * d + columns, done, mask=inside)
    else:
        tl.store(partial + (tau * slots + to) * d + columns, total, mask=inside)


@triton.jit
def _finish(
    x, out, partial, right, left_tau, left_diagonal, row, first_slot, last_slot, n, d, slots,
    BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One long row: add its partial sums in order, then proceed as in _gather."""
    hub = tl.program_id(0)
    tau = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < d
    i = tl.load(row + hub).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=WIDE)
    for s in range(tl.load(first_slot + hub), tl.load(last_slot + hub)):
        total += tl.load(partial + (tau * slots + s) * d + columns, mask=inside, other=0.0)
    itself = tl.load(x + (tau * n + i) * d + columns, mask=inside, other=0.0) * tl.load(right + tau * n + i)
    done = total * tl.load(left_tau + tau * n + i) + itself * tl.load(left_diagonal + tau * n + i)
    tl.store(out + (tau * n + i) * d + columns, done, mask=inside)


class Tasks:
    """The rows of a CSR pattern, split into tasks of at most NEIGHBOURS neighbours, on the GPU."""

    def __init__(self, indptr: Tensor, indices: Tensor, weights: Tensor | None, device):
        start, length = indptr[:-1].long(), indptr.diff().long()
        pieces = ((length + NEIGHBOURS - 1) // NEIGHBOURS).clamp(min=1)
        row = torch.repeat_interleave(torch.arange(len(length)), pieces)
        piece = torch.arange(len(row)) - torch.repeat_interleave(pieces.cumsum(0) - pieces, pieces)
        begin = start[row] + piece * NEIGHBOURS
        end = torch.minimum(begin + NEIGHBOURS, (start + length)[row])
        hubs = pieces > 1
        in_hub = hubs[row]
        slot = torch.where(in_hub, in_hub.long().cumsum(0) - 1, -1)
        last = pieces[hubs].cumsum(0)
        self.slots, self.hubs, self.count = int(in_hub.sum()), int(hubs.sum()), len(row)
        narrow = torch.int32 if len(indices) < 2**31 else torch.int64
        lists = (row, begin, end, slot, hubs.nonzero()[:, 0], last - pieces[hubs], last)
        self.row, self.begin, self.end, self.slot, self.hub, self.first, self.last = (
            part.to(device, narrow) for part in lists
        )
        self.indices = indices.to(device)
        self.weights = None if weights is None else weights.to(device)

    def product(self, x: Tensor, right: Tensor, left_tau: Tensor, left_diagonal: Tensor) -> Tensor:
        """S A_tau T x for r taus: x [r, n, d] contiguous, scalings [r, n] -> [r, n, d]."""
        r, n, d = x.shape
        out = torch.empty_like(x)
        partial = x.new_empty(r, max(self.slots, 1), d)
        block = min(128, triton.next_power_of_2(d))
        wide = tl.float64 if x.dtype == torch.float64 else tl.float32
        strips = triton.cdiv(d, block)
        scalings = (right, left_tau, left_diagonal)
        weights = x if self.weights is None else self.weights  # an unused pointer must still be a pointer
        launch(
            _gather, (self.count, strips, r),
            x, out, partial, self.indices, weights, *scalings, self.row, self.begin, self.end, self.slot,
            n, d, max(self.slots, 1), self.weights is not None, AT_ONCE, block, wide, num_warps=PRODUCT_WARPS,
        )  # fmt: skip
        if self.hubs:
            launch(
                _finish, (self.hubs, strips, r),
                x, out, partial, *scalings, self.hub, self.first, self.last, n, d, self.slots, block, wide,
                num_warps=PRODUCT_WARPS,
            )  # fmt: skip
        return out
