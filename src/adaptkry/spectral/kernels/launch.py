"""Launches of Triton kernels, which can be compiled in parallel before their first launch.

A kernel is compiled at its first launch, in a tenth of a second to a second. A training needs about a dozen of them, so
that one after the other they would take longer than the training of a small graph.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

ALIGNED = 16  # bytes, or a factor of an integer

_compile: Callable[..., None] | None = None  # of all threads, since gradients are computed in threads of torch


class Pointer:
    """Stands for a tensor where a kernel is only compiled, so that its memory can be used again."""

    def __init__(self, tensor: Tensor):
        self.dtype, self.address = tensor.dtype, tensor.data_ptr()

    def data_ptr(self) -> int:
        """Return the address, whose alignment a kernel is compiled for."""
        return self.address


def launch(kernel: Any, grid: tuple[int, ...], *arguments, **options) -> None:
    """Launch a kernel; within `compiled_together` it is only compiled."""
    if _compile is None:
        kernel[grid](*arguments, **options)
    else:
        _compile(kernel, grid, *arguments, **options)


@contextmanager
def compiled_together() -> Iterator[None]:
    """Compile in parallel what is launched in a `with` block, at whose end all of it is compiled.

    Nothing is launched in the block, so that outputs of kernels are memory that was not written.
    """
    global _compile
    jobs: dict[tuple, Future] = {}

    def compile_kernel(kernel: Any, grid: tuple[int, ...], *arguments, **options) -> None:
        key = (kernel, *map(kind_of, arguments), *options.items())
        if key not in jobs:
            shown = [Pointer(value) if isinstance(value, Tensor) else value for value in arguments]
            jobs[key] = pool.submit(kernel.warmup, *shown, grid=grid, **options)

    device = torch.cuda.current_device() if torch.cuda.is_available() else -1  # a negative one has no effect
    with ThreadPoolExecutor(os.cpu_count(), initializer=torch.cuda.set_device, initargs=(device,)) as pool:
        _compile = compile_kernel
        try:
            yield
        finally:
            _compile = None
    for job in jobs.values():
        job.result()


def kind_of(value: Any) -> Any:
    """Return what a kernel is compiled for: the type and alignment of a tensor, or properties of an integer.

    >>> kind_of(32) == kind_of(48), kind_of(32) == kind_of(33), kind_of(0.5)
    (True, False, 0.5)
    """
    if isinstance(value, Tensor):
        return value.dtype, value.data_ptr() % ALIGNED == 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value == 1, value % ALIGNED == 0, value.bit_length() > 31
    return value
