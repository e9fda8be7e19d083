"""Wall time of work on a device: the device is synchronised before the clock is read."""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch


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
