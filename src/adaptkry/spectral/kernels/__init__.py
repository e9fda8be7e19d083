"""Kernels that PyTorch does not have, for the CPU and for GPUs."""

from functools import cache
from types import ModuleType

import torch


@cache
def triton_kernels() -> ModuleType | None:
    """Return `triton_weighted_sum`, or None without a CUDA GPU or without Triton, which comes with torch's CUDA builds."""
    if not torch.cuda.is_available():
        return None
    try:
        from adaptkry.spectral.kernels import triton_weighted_sum
    except ImportError:
        return None
    return triton_weighted_sum
