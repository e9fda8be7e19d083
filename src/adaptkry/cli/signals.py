"""Ctrl-C and SIGTERM end a long command with one line and the exit code that shells expect."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


@contextmanager
def interruptible(hint: Callable[[], str]) -> Iterator[None]:
    """Run a block that Ctrl-C or SIGTERM may end; `hint` returns a message about how to continue."""

    def terminate(*_) -> None:
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(f"interrupted; {hint()}", err=True)
        raise typer.Exit(128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
