"""Ctrl-C and SIGTERM end a long command with a sentence and the exit code that shells expect."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def stoppable(ending: Callable[[], str]) -> Iterator[None]:
    """Say what is kept, as `ending` tells, when the block is stopped."""

    def stop(*_) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt as stopped:
        typer.echo(f"stopped; {ending()}", err=True)
        raise typer.Exit(128 + (signal.SIGTERM if isinstance(stopped, Terminated) else signal.SIGINT)) from None
    finally:
        signal.signal(signal.SIGTERM, before)
