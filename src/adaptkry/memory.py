"""The only place that asks how much memory something took at most."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

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
