"""Kernels are compiled in parallel before their first launch."""

import threading

import pytest
import torch

from adaptkry.spectral.kernels.launch import compiled_together, launch


class Kernel:
    """Records how it was called, like a kernel of Triton."""

    def __init__(self, error: Exception | None = None):
        self.compiled, self.launched, self.error = [], [], error

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launched.append((grid, arguments, options))

    def warmup(self, *arguments, grid, **options):
        if self.error:
            raise self.error
        self.compiled.append((grid, arguments, options, threading.current_thread()))


def test_kernels_are_only_compiled_in_the_block_and_launched_after_it():
    kernel, x = Kernel(), torch.zeros(8)
    with compiled_together():
        launch(kernel, (3, 2), x, 5, True, num_warps=2)
    [(grid, (pointer, number, flag), options, thread)] = kernel.compiled
    assert (grid, number, flag, options) == ((3, 2), 5, True, {"num_warps": 2})
    assert (pointer.dtype, pointer.data_ptr()) == (x.dtype, x.data_ptr())
    assert thread is not threading.current_thread()
    assert not kernel.launched
    launch(kernel, (3, 2), x, 5, True, num_warps=2)
    assert kernel.launched == [((3, 2), (x, 5, True), {"num_warps": 2})]
    assert len(kernel.compiled) == 1


def test_a_kernel_is_compiled_once_for_arguments_of_the_same_kind():
    kernel, x = Kernel(), torch.zeros(8)
    with compiled_together():
        for number in (32, 48, 33):  # 33 is no multiple of 16
            launch(kernel, (1,), x, number, 0.5)
        launch(kernel, (1,), x.double(), 32, 0.5)
        launch(kernel, (1,), x[1:], 32, 0.5)  # not aligned
        launch(kernel, (1,), x, 32, 0.25)
        launch(kernel, (1,), x, 32, 0.5, num_warps=1)
    assert len(kernel.compiled) == 6


def test_launches_in_other_threads_are_only_compiled_too():
    kernel = Kernel()
    with compiled_together():
        thread = threading.Thread(target=launch, args=(kernel, (1,), torch.zeros(4)))
        thread.start()
        thread.join()
    assert len(kernel.compiled) == 1
    assert not kernel.launched


def test_errors_of_the_compilation_are_raised_and_launches_work_again():
    broken, kernel = Kernel(ValueError("not supported")), Kernel()
    with pytest.raises(ValueError, match="not supported"), compiled_together():
        launch(broken, (1,), 1)
    with pytest.raises(RuntimeError, match="stop"), compiled_together():
        raise RuntimeError("stop")
    launch(kernel, (1,), 1)
    assert len(kernel.launched) == 1
