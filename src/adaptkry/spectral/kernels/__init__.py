"""Kernels that PyTorch does not have, for the CPU and for GPUs."""

from functools import cache
from types import ModuleType

import torch


@cache
def triton_kernels() -> ModuleType | None:
    """Return this package with its Triton modules, or None without a CUDA GPU or without Triton.

    Triton comes with torch's CUDA builds.
    """
    if not torch.cuda.is_available():
        return None
    try:
        from adaptkry.spectral import kernels
        from adaptkry.spectral.kernels import triton_adam, triton_hidden_layer, triton_weighted_sum  # noqa: F401
    except ImportError:
        return None
    return kernels
