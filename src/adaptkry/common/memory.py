"""Measure the peak memory of a block of code, refuse sizes above the available memory, and let the C library keep it.

The environment variable ADAPTKRY_MEMORY, such as "8GiB", limits the memory that is planned for.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD in malloc.h
KEEP = 2**30, 2**31 - 1  # sizes to map and to trim from: practically never
LARGEST_BY_ITSELF = 2**25, 2**26  # glibc raises both with the sizes that a program frees, up to these
CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
LIMIT_VARIABLE = "ADAPTKRY_MEMORY"
MEMORY_ADVICE = "Check the sizes, or use a machine with more memory."
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MAX_BYTES = 2**60
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


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
    return _bytes_in(STATUS, "VmHWM")


def _bytes_in(file: Path, name: str) -> int | None:
    """A size in a file of /proc, in bytes; None if there is none."""
    if not file.exists():
        return None
    line = next((line for line in file.read_text().splitlines() if line.startswith(name + ":")), None)
    return None if line is None else int(line.split()[1]) * 1024


class NotEnoughMemoryError(ValueError, MemoryError):
    """Something needs more memory than the machine has."""


def parse_bytes(text: str | int) -> int:
    """Bytes from text with a unit.

    >>> parse_bytes("4GiB"), parse_bytes("1.5 MB"), parse_bytes(100)
    (4294967296, 1500000, 100)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", str(text))
    if not found or found[2].upper() not in UNITS or found[1].count(".") > 1 or found[1] == ".":
        raise ValueError(f"memory must be a size with a unit; got {text!r:.50}. Try 4GiB or 500MB.")
    size = float(found[1]) * UNITS[found[2].upper()]
    if size >= MAX_BYTES:
        raise ValueError(f"memory must be less than {format_bytes(MAX_BYTES)}; got {text!r:.50}. Try 4GiB.")
    return int(size)


def format_bytes(size: float) -> str:
    """A size as text with a unit.

    >>> format_bytes(3 * 2**30), format_bytes(1000)
    ('3.00 GiB', '1000 bytes')
    """
    for unit, name in ((2**60, "EiB"), (2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{int(size)} bytes"


def machine_bytes() -> float:
    """Memory that this process may use: of the machine, its control group or ADAPTKRY_MEMORY; infinity if unknown."""
    try:
        limit = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        limit = float("inf")
    given = os.environ.get(LIMIT_VARIABLE)
    return min(limit, _group_bytes("memory.max"), parse_bytes(given) if given else limit)


def _group_bytes(name: str) -> float:
    """A number of the control group of this process, that of a container or of a job; infinity if there is none."""
    try:
        return float((CGROUP / name).read_text())
    except (OSError, ValueError):  # there is no such file, or it says "max"
        return float("inf")


def available_bytes(device: torch.device | str = "cpu") -> float:
    """Memory that can still be allocated: what is free on a GPU, or for this process; infinity if that is unknown.

    Memory that torch has reserved on a GPU but does not use counts as free, and so does the file cache of the system.
    """
    device = torch.device(device)
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    free, used = _bytes_in(MEMINFO, "MemAvailable"), _bytes_in(STATUS, "VmRSS") or 0
    return max(0.0, min(float("inf") if free is None else free, machine_bytes() - used))


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
