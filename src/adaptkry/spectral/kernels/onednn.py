"""Dense products of float32 matrices on the CPU by oneDNN, which torch uses for convolutions and compiled models.

torch multiplies float32 matrices with MKL, which leaves half of the width of the vector units of AMD processors unused.
On two cores of an EPYC (Zen 5) oneDNN takes half the time (`benchmarks/ensemble.py`, the floor before and with it in
`results/benchmarks.jsonl`).
"""

import torch
from torch import Tensor

LEAST_OPERATIONS = 2**20  # multiplications; smaller products are dominated by the call
HAS_PRODUCT = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def is_faster(x: Tensor, weight: Tensor) -> bool:
    """Return whether to compute x W for x [1, m, h] and W [1, h, o] with `Product`."""
    return (
        HAS_PRODUCT
        and not torch.compiler.is_compiling()  # sizes are not known
        and len(x) == 1
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and x.shape[1] * weight.numel() >= LEAST_OPERATIONS
        and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    )


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Compute x W^T for x [m, h] and W [o, h]; W may be a transposed view, x would be copied."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


class Product(torch.autograd.Function):
    """x W for x [m, h] and W [h, o]."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(x, weight)
        return product(x, weight.t())

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        x, weight = ctx.saved_tensors
        of_x = product(gradient, weight) if ctx.needs_input_grad[0] else None
        return of_x, product(gradient.t(), x.t()).t()  # the gradient is the smaller matrix, so it is the one to copy
