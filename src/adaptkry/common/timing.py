"""Wall time of work on a device (which is synchronised before the clock is read), and time limits."""

import math
import re
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import torch

MAX_SECONDS = 10**8  # three years
SECONDS_PER_UNIT = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}


def time_limit(value: Any) -> float:
    """Return a time limit in seconds, from a number of seconds or a text such as "30s", "5min" or "1h".

    >>> time_limit("5min"), time_limit("1.5 h"), time_limit(90)
    (300.0, 5400.0, 90.0)
    """
    limit = math.nan
    if isinstance(value, str):
        found = re.fullmatch(r"(\d+\.?\d*|\.\d+) *([a-z]*)", value.strip().lower(), re.ASCII)
        if found and found[2] in SECONDS_PER_UNIT:
            limit = float(found[1]) * SECONDS_PER_UNIT[found[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        limit = float(value)
    if not 0 < limit <= MAX_SECONDS:
        raise ValueError(
            f"a time limit must be a positive number of at most {MAX_SECONDS:,} seconds, or a number with s, min or h; "
            f"got {value!r}. Use for example 30s, 5min or 1h."
        )
    return limit


def seconds(job: Callable[[], object], device: torch.device | str = "cpu") -> float:
    """Wall time of one call, including all work that it started on the device."""
    wait = torch.cuda.synchronize if torch.device(device).type == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    job()
    wait()
    return time.perf_counter() - start


def interleaved(
    jobs: Mapping[str, Callable[[], object]],
    rounds: int = 7,
    device: torch.device | str = "cpu",
    on_job: Callable[[], object] = lambda: None,
    warm: bool = True,
) -> dict[str, float]:
    """Median wall time of each job in seconds; jobs alternate, so that other load on the machine affects all equally.

    Args:
        jobs: functions without arguments, by name.
        rounds: number of measured calls of each job.
        device: the device that the jobs use.
        on_job: called after each job.
        warm: whether to run a first round that is not measured, to warm up caches and compilers.
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for current in range(not warm, rounds + 1):
        for name, job in jobs.items():
            elapsed = seconds(job, device)
            if current:
                times[name].append(elapsed)
            on_job()
    return {name: median(of_job) for name, of_job in times.items()}
