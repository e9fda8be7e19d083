"""Kernels that PyTorch does not have, for the CPU and for GPUs."""

import os
from functools import cache
from types import ModuleType

import torch


@cache
def fused_kernels() -> ModuleType | None:
    """Return `triton_weighted_sum` if ADAPTKRY_FUSED is 1 and Triton is installed: see docs/results.md, "Speed"."""
    if os.environ.get("ADAPTKRY_FUSED") != "1" or not torch.cuda.is_available():
        return None
    try:
        from adaptkry.spectral.kernels import triton_weighted_sum
    except ImportError:
        return None
    return triton_weighted_sum
