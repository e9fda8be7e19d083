"""Wall time of work on a device: the device is synchronised before the clock is read."""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch


def seconds(job: Callable[[], object], device: torch.device | str = "cpu") -> float:
    """Wall time of one call, with everything it started on the device finished."""
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
    """Median seconds of each job, in turns, so that other processes on the machine slow all of them alike.

    Args:
        jobs: functions without arguments, by name.
        rounds: measured calls of each job.
        device: where the jobs run.
        on_job: called after each job.
        warm: first run a round that does not count, to warm up caches and compilers.
    """
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(not warm, rounds + 1):
        for name, job in jobs.items():
            spent = seconds(job, device)
            if turn:
                taken[name].append(spent)
            on_job()
    return {name: median(times) for name, times in taken.items()}
