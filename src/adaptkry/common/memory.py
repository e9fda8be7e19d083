"""The only place that asks how much memory something took at most, and that tells the C library what to keep of it."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of malloc.h
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """Bytes, once the block is over; None where the system does not say."""

    bytes: int | None = None


@contextmanager
def peak(device: torch.device | str = "cpu") -> Iterator[Peak]:
    """The most memory held inside a block: allocated on the GPU, or resident in this process (Linux)."""
    found = Peak()
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield found
        found.bytes = torch.cuda.max_memory_allocated(device)
        return
    _library("malloc_trim", 0)  # what was kept is nobody's, and does not count for what is measured next
    can = _reset()
    yield found
    found.bytes = highest() if can else None


def _reset() -> bool:
    """Forget the highest resident size so far (proc(5), clear_refs)."""
    try:
        RESET.write_text("5")
    except OSError:
        return False
    return STATUS.exists()


def highest() -> int | None:
    """The highest resident size of this process so far, or since the last `peak` began; None where none is told."""
    if not STATUS.exists():
        return None
    line = next((line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM")), None)
    return None if line is None else int(line.split()[1]) * 1024


def keep_freed() -> bool:
    """Have freed memory kept for what comes next instead of given back; whether the C library can (glibc's can).

    A training on the CPU asks for the same tens of megabytes again and again, and each time the system clears every
    page anew. For a program that trains and ends; a library must not decide this for others.
    """
    sizes = ((MMAP_THRESHOLD, 2**30), (TRIM_THRESHOLD, 2**31 - 1))
    return all(_library("mallopt", which, size) for which, size in sizes)


def _library(name: str, *given: int) -> int:
    """Call a function of the C library; 0 where it has none of this name."""
    try:
        return getattr(ctypes.CDLL(None), name)(*given)
    except (OSError, AttributeError, TypeError):  # musl has none; Windows has no library called None
        return 0
