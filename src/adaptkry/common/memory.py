"""Peak memory of a block of code, and a setting of the C library that makes it keep freed memory."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of malloc.h
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Bytes, once the block has ended; None where the system does not report them."""

    bytes: int | None = None


@contextmanager
def peak(device: torch.device | str = "cpu") -> Iterator[Peak]:
    """Measure the peak memory inside a block: allocated on the GPU, or resident in this process (Linux)."""
    found = Peak()
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield found
        found.bytes = torch.cuda.max_memory_allocated(device)
        return
    _library("malloc_trim", 0)  # freed memory that was kept must not count in what is measured next
    is_reset = _reset()
    yield found
    found.bytes = highest() if is_reset else None


def _reset() -> bool:
    """Forget the highest resident size so far (proc(5), clear_refs)."""
    try:
        RESET.write_text("5")
    except OSError:
        return False
    return STATUS.exists()


def highest() -> int | None:
    """The highest resident size of this process so far, or since the last `peak` began; None where it is unknown."""
    if not STATUS.exists():
        return None
    line = next((line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM")), None)
    return None if line is None else int(line.split()[1]) * 1024


def keep_freed() -> bool:
    """Keep freed memory instead of returning it to the system; returns whether the C library can (glibc can).

    A training on the CPU requests the same tens of megabytes again and again, and each time the system clears every
    page again. For a program that trains and ends; a library must not decide this for others.
    """
    sizes = ((MMAP_THRESHOLD, 2**30), (TRIM_THRESHOLD, 2**31 - 1))
    return all(_library("mallopt", which, size) for which, size in sizes)


def _library(name: str, *arguments: int) -> int:
    """Call a function of the C library; 0 where it has none of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)(*arguments)
    except (OSError, AttributeError, TypeError):  # musl has none; Windows has no library called None
        return 0
