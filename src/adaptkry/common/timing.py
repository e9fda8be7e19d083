"""The only clock: it waits for the device before it reads the time. And the only progress bar."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median

import torch

PAUSE = 5.0  # seconds between two lines of progress where there is no terminal


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
    tick: Callable[[], object] = lambda: None,
    warm: bool = True,
) -> dict[str, float]:
    """Median seconds of each job, taken in turns so that a noisy neighbour disturbs all of them alike.

    A round that does not count warms caches and compilers up, unless the jobs are warm already (`warm` False).
    """
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(not warm, rounds + 1):
        for name, job in jobs.items():
            spent = seconds(job, device)
            if turn:
                taken[name].append(spent)
            tick()
    return {name: median(times) for name, times in taken.items()}


@contextmanager
def progress(what: str, total: int, quiet: bool = False, every: float = PAUSE) -> Iterator[Callable[..., object]]:
    """Progress over `total` steps; call what it yields after each one, or with the number of steps that were made."""
    done = 0
    with shown(total, quiet, every, remaining=True) as show:

        def tick(steps: int = 1) -> None:
            nonlocal done
            done += steps
            show(done, f"{what}: {done} of {total}")

        yield tick


@contextmanager
def shown(total: int, quiet: bool, every: float, *, remaining: bool = False) -> Iterator[Callable[[int, str], object]]:
    """Where news are shown: a bar on a terminal, else plain lines; always on stderr, since stdout is for results."""
    if quiet:
        yield lambda _done, _news: None
    elif not sys.stderr.isatty() or find_spec("rich") is None:  # the core runs where rich is not installed
        yield lines(every)
    else:
        from rich import progress as bars
        from rich.console import Console

        clock = bars.TimeRemainingColumn() if remaining else bars.TimeElapsedColumn()
        columns = (bars.BarColumn(), bars.TextColumn("{task.fields[news]}", markup=False), clock)
        with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total, news="")
            yield lambda done, news: bar.update(task, completed=done, news=news)


def clock(seconds: float) -> str:
    """A stretch of time for people.

    >>> clock(59.6), clock(3725)
    ('1:00', '1:02:05')
    """
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def lines(every: float) -> Callable[[int, str], object]:
    """Print news to stderr, at most one line every so many seconds."""
    last = time.monotonic()

    def show(_: int, news: str) -> None:
        nonlocal last
        if time.monotonic() - last >= every:
            last = time.monotonic()
            print(news, file=sys.stderr, flush=True)

    return show
