"""Ctrl-C and SIGTERM end a long command with one line and the exit code that shells expect."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from adaptkry.cli import exit_at_once


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


class InterruptedAgain(KeyboardInterrupt):
    """Ctrl-C was pressed for the second time."""


@contextmanager
def ends_early() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; pressed again, it interrupts the block."""
    is_pressed = False

    def leave(*_) -> None:
        exit_at_once()

    def request(*_) -> None:
        nonlocal is_pressed
        if is_pressed:
            signal.signal(signal.SIGINT, leave)
            raise InterruptedAgain
        is_pressed = True
        typer.echo("ending with the best so far; Ctrl-C again stops at once", err=True)

    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.SIG_IGN:  # a shell's background jobs ignore it
        signal.signal(signal.SIGINT, request)
    try:
        yield lambda: is_pressed
    finally:
        signal.signal(signal.SIGINT, previous)


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
