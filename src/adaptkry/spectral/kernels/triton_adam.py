"""One step of Adam for one weight of all members in one launch, in Triton."""

import triton
import triton.language as tl
from torch import Tensor

from adaptkry.spectral.kernels.launch import launch

NUMBERS_PER_PROGRAM = 1024


@triton.jit(do_not_specialize=["size"])
def _adam(
    w, g, g_member, first, second, lr, decay, corrections, beta2, rest1, rest2, epsilon, size,
    DECOUPLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One member's `size` numbers; rates are [b], corrections [2]; rest1 and rest2 are 1 - beta1 and 1 - beta2."""
    b = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    at = b.to(tl.int64) * size + place
    rate = tl.load(lr + b)
    shrink = tl.load(decay + b)
    value = tl.load(w + at, mask=inside, other=0.0)
    push = tl.load(g + b.to(tl.int64) * g_member + place, mask=inside, other=0.0)
    if DECOUPLED:
        value *= 1 - rate * shrink
    else:
        push += value * shrink
    mean = tl.load(first + at, mask=inside, other=0.0)
    mean += (push - mean) * rest1
    square = tl.load(second + at, mask=inside, other=0.0) * beta2 + push * push * rest2
    step = mean * (rate / tl.load(corrections)) / (tl.sqrt_rn(square / tl.load(corrections + 1)) + epsilon)
    tl.store(first + at, mean, mask=inside)
    tl.store(second + at, square, mask=inside)
    tl.store(w + at, value - step, mask=inside)


def adam(
    w: Tensor, g: Tensor, first: Tensor, second: Tensor, lr: Tensor, decay: Tensor, corrections: Tensor,
    constants: tuple[float, float, float, float], *, decoupled: bool,
) -> None:  # fmt: skip
    """Update one weight [b, ...] and its moments in place; all are float32 and contiguous but the gradient.

    `corrections` [2] are those of the moments; `constants` are beta2, 1 - beta1, 1 - beta2 and epsilon.
    """
    size = w[0].numel()
    g = g if g[0].is_contiguous() else g.contiguous()  # members may be parts of larger matrices, with padded rows
    launch(
        _adam, (triton.cdiv(size, NUMBERS_PER_PROGRAM), len(w)),
        w, g, g.stride(0), first, second, lr, decay, corrections, *constants, size,
        decoupled, NUMBERS_PER_PROGRAM, num_warps=4,
    )  # fmt: skip
