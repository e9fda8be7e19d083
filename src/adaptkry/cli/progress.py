"""Progress of long commands, on stderr: a bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import typer

INTERVAL = 5.0  # seconds between two lines of progress if stderr is not a terminal


@contextmanager
def progress(what: str, total: int, quiet: bool = False, every: float = INTERVAL) -> Iterator[Callable[..., None]]:
    """Show progress over `total` steps; yields a function to call after each step, or with a number of steps."""
    done = 0
    with display(total, quiet, every, remaining=True) as show:

        def advance(steps: int = 1) -> None:
            nonlocal done
            done += steps
            show(done, f"{what}: {done} of {total}")

        yield advance


@contextmanager
def byte_progress(quiet: bool = False, every: float = INTERVAL) -> Iterator[Callable[[int, int], None]]:
    """Show bytes done, bytes per second and the remaining time; yields a function of (bytes done, bytes in total)."""
    from adaptkry.common.memory import format_bytes

    start = time.monotonic()
    with display(100, quiet, every) as show:

        def on_progress(done: int, total: int) -> None:
            rate = max(done, 1) / max(time.monotonic() - start, 1e-9)
            left = timedelta(seconds=round((total - done) / rate))
            text = f"{format_bytes(done)} of {format_bytes(total)}, {rate / 1e6:.0f} MB/s, {left} left"
            show(100 * done // max(total, 1), text)

        yield on_progress


@contextmanager
def training_progress(
    epochs: int, metric: str = "accuracy", task: str = "classification", quiet: bool = False, every: float = INTERVAL
) -> Iterator[Callable[..., None]]:
    """Show epoch, members still running and best validation score of a training; yields a callback of `fit`."""
    from adaptkry.common.tables import number_text
    from adaptkry.training.metrics import pick_metric

    measure = pick_metric(metric, task)
    best_of = max if measure.greater_is_better else min
    as_text = "{:.1%}".format if measure.is_share else number_text
    with display(epochs, quiet, every) as show:

        def on_epoch(state) -> None:
            epoch, running = state.epoch, state.running
            scores = [score for score in state.best_score.tolist() if math.isfinite(score)]
            text = f"epoch {epoch}, {int(running.sum())} of {len(running)} running"
            show(epoch, text + (f", best validation {as_text(best_of(scores))}" if scores else ""))

        yield on_epoch


@contextmanager
def search_progress(spare: float, quiet: bool = False, every: float = INTERVAL) -> Iterator[Callable[..., None]]:
    """Show the time left and the best score of `auto`; yields its `on_progress`. `spare` seconds are for the report."""
    with display(100, quiet, every) as show:

        def on_progress(state) -> None:
            left = timedelta(seconds=round(max(state.time_limit - state.elapsed + spare, 0)))
            best = "" if state.best is None else f", best validation {state.best:.1%}"
            text = f"{left} left{best}, {state.trials} trials, training {state.what}"
            show(min(100, round(100 * state.elapsed / state.time_limit)), text)

        yield on_progress


@contextmanager
def display(total: int, quiet: bool, every: float, *, remaining: bool = False) -> Iterator[Callable[[int, str], None]]:
    """Yield a function of (steps done, text); `remaining` shows the remaining time instead of the elapsed time."""
    if quiet:
        yield lambda _done, _text: None
    elif not sys.stderr.isatty():
        yield line_printer(every)
    else:
        from rich import progress as bars
        from rich.console import Console

        clock = bars.TimeRemainingColumn() if remaining else bars.TimeElapsedColumn()
        columns = (bars.BarColumn(), bars.TextColumn("{task.fields[text]}", markup=False), clock)
        with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total, text="")
            yield lambda done, text: bar.update(task, completed=done, text=text)


def line_printer(every: float) -> Callable[[int, str], None]:
    """Return a function that prints its text to stderr, at most once every `every` seconds."""
    last = time.monotonic()

    def show(_: int, text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= every:
            last = time.monotonic()
            typer.echo(text, err=True)

    return show
