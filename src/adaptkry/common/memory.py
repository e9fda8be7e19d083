"""Measure the peak memory of a block of code, refuse sizes above it, and let the C library keep it."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD in malloc.h
KEEP = 2**30, 2**31 - 1  # sizes to map and to trim from: practically never
LARGEST_BY_ITSELF = 2**25, 2**26  # glibc raises both with the sizes that a program frees, up to these
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MEMORY_ADVICE = "Check the sizes, or use a machine with more memory."
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """Peak memory in bytes, set when the block ends; None if the system does not report it."""

    bytes: int | None = None


@contextmanager
def peak(device: torch.device | str = "cpu") -> Iterator[PeakMemory]:
    """Measure the peak memory inside a block: allocated on the GPU, or resident in this process (Linux only)."""
    found = PeakMemory()
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield found
        found.bytes = torch.cuda.max_memory_allocated(device)
        return
    _call_libc("malloc_trim", 0)  # freed memory that the process still holds must not count
    is_reset = _reset_peak()
    yield found
    found.bytes = peak_resident_bytes() if is_reset else None


def _reset_peak() -> bool:
    """Reset the peak resident size of this process (see clear_refs in proc(5)); return whether that worked."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return STATUS.exists()


def peak_resident_bytes() -> int | None:
    """Peak resident size of this process, since its start or since the last `peak` began; None if unknown."""
    if not STATUS.exists():
        return None
    line = next((line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM")), None)
    return None if line is None else int(line.split()[1]) * 1024


class NotEnoughMemoryError(ValueError, MemoryError):
    """Something needs more memory than the machine has."""


def machine_bytes() -> float:
    """Memory that this process may use: of the machine, or of its control group; infinity if that is unknown."""
    try:
        limit = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return float("inf")
    try:  # a container, or a job of a cluster
        return min(limit, float(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # there is no such file, or it says "max"
        return limit


def check_memory(needed: float, what: str, device: torch.device | str = "cpu", *, remedy: str = MEMORY_ADVICE) -> None:
    """Refuse what needs more bytes than this machine or its GPU has, before they are allocated."""
    device = torch.device(device)
    limit = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else machine_bytes()
    if needed > limit:
        raise NotEnoughMemoryError(
            f"{what} must fit in memory, {limit / 2**30:.0f} GiB here; got a size of {needed / 2**30:,.0f} "
            f"GiB. {remedy}"
        )


def keep_freed_memory() -> bool:
    """Keep freed memory instead of returning it to the system; return whether the C library supports it (glibc does).

    Call this in programs only: a library must not decide it for its users (see `reused_memory`).
    """
    _reuse.is_kept = True
    return _set_thresholds(KEEP)


class _Reuse:
    """Which parts of this process want freed memory to be kept."""

    lock, blocks, is_kept = Lock(), 0, False  # blocks: `reused_memory` blocks that have not ended yet


_reuse = _Reuse()


@contextmanager
def reused_memory() -> Iterator[None]:
    """Keep freed memory for the next allocation inside a `with` block, and return it to the system at the end.

    A training on the CPU allocates the same tens of megabytes in every step, and otherwise the system would clear every
    page each time. A process whose environment has settings of malloc keeps those.
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        yield
        return
    with _reuse.lock:
        _reuse.blocks += 1
        _set_thresholds(KEEP)
    try:
        yield
    finally:
        with _reuse.lock:
            _reuse.blocks -= 1
            if not _reuse.blocks and not _reuse.is_kept:
                _set_thresholds(LARGEST_BY_ITSELF)
                _call_libc("malloc_trim", 0)


def _set_thresholds(sizes: tuple[int, int]) -> bool:
    """Set the sizes from which malloc maps a block of its own, and from which it returns free memory to the system."""
    return all(
        _call_libc("mallopt", name, size) for name, size in zip((MMAP_THRESHOLD, TRIM_THRESHOLD), sizes, strict=True)
    )


def _call_libc(name: str, *arguments: int) -> int:
    """Call a function of the C library; return 0 if it does not exist."""
    try:
        return getattr(ctypes.CDLL(None), name)(*arguments)
    except (OSError, AttributeError, TypeError):  # musl does not have it; CDLL(None) fails on Windows
        return 0
