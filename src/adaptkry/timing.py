"""The only clock: it waits for the device before it reads the time. And the only progress bar."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    jobs: dict[str, Callable[[], object]],
    rounds: int = 7,
    device: torch.device | str = "cpu",
    tick: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Median seconds of each job, taken in turns so that a noisy neighbour disturbs all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            spent = seconds(job, device)
            if turn:  # the first round warms caches and compilers up
                taken[name].append(spent)
            tick()
    return {name: median(times) for name, times in taken.items()}


@contextmanager
def progress(what: str, total: int, quiet: bool = False) -> Iterator[Callable[[], object]]:
    """A bar on the screen for `total` steps; call what it yields after each one."""
    try:
        from rich import progress as bars  # on the way, so that the core runs where rich is not installed
    except ImportError:
        yield lambda: None
        return
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn())
    with bars.Progress(*columns, bars.TimeRemainingColumn(), transient=True, disable=quiet) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def live(what: str, epochs: int, quiet: bool = False) -> Iterator[Callable[[object], object]]:
    """A line on the screen while members train: epoch, members still running, best validation score."""
    try:
        from rich import progress as bars
    except ImportError:
        yield lambda _: None
        return
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.TextColumn("{task.fields[news]}"))
    with bars.Progress(*columns, bars.TimeElapsedColumn(), transient=True, disable=quiet) as bar:
        task = bar.add_task(what, total=epochs, news="")

        def look(training) -> None:
            state = training.state.tensors
            best, running = float(state["best_score"].max()), int(state["running"].sum())
            epoch, members = int(state["epoch"]), len(state["running"])
            news = f"epoch {epoch}, {running} of {members} running, best validation {best:.2%}"
            bar.update(task, completed=epoch, news=news)

        yield look
