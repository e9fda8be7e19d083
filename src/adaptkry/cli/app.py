"""The Typer app: all commands, `--version`, messages on stderr, and how errors are shown."""

import logging
import platform
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from adaptkry.cli import (
    auto,
    compare,
    datasets,
    demo,
    export,
    fit,
    generate,
    inspect,
    predict,
    propagate,
    report,
    reproduce,
    tour,
    tune,
)
from adaptkry.common.errors import is_declared, reason
from adaptkry.common.files import DISK_FULL, named_error
from adaptkry.common.version import VERSION, commit

USER_ERROR, BUG = 2, 70  # exit codes; 70 is EX_SOFTWARE in sysexits.h

# In the order of `adaptkry --help`. Each module has a function of its own name, and EXAMPLES.
COMMANDS = (
    demo,
    datasets,
    inspect,
    auto,
    fit,
    predict,
    export,
    tune,
    compare,
    report,
    propagate,
    generate,
    tour,
    reproduce,
)


def examples(lines: tuple[str, ...]) -> str:
    """The epilog of a help text: one example per line. Typer joins lines without a blank line between them."""
    return "\n\n".join(["Examples:", *lines])


app = typer.Typer(
    help="Learning with polynomial graph filters.",
    epilog=examples(
        (
            "adaptkry demo",
            "adaptkry auto csbm --time 30s",
            "adaptkry fit csbm",
            "adaptkry inspect cora",
            "adaptkry datasets",
        )
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def show_version(is_given: bool) -> None:
    """Print the version and exit."""
    if is_given:
        typer.echo(f"adaptkry {VERSION} (commit {commit()})")
        raise typer.Exit


@app.callback()
def common(
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Learning with polynomial graph filters."""


class CheckedCommand(TyperCommand):
    """A command that refuses empty values, which an unset shell variable gives: an empty path is the current folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, after a check of the values as they were given."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            values = given.get(parameter.name or "")
            for value in values if isinstance(values, list | tuple) else [values]:
                if isinstance(value, str) and not value.strip():
                    is_option = parameter.param_type_name == "option"
                    what = parameter.opts[0] if is_option else getattr(parameter, "metavar", None) or parameter.name
                    raise ValueError(f"{what} must not be empty; got {value!r}. Is a shell variable unset?")
        return super().parse_args(ctx, args)


for module in COMMANDS:
    name = module.__name__.rpartition(".")[2]
    app.command(name, cls=CheckedCommand, epilog=examples(module.EXAMPLES))(getattr(module, name))


class StderrHandler(logging.Handler):
    """Writes log records to stderr as plain lines; stdout is for results."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        prefix = "warning: " if record.levelno == logging.WARNING else ""
        typer.echo(prefix + self.format(record), err=True)


@contextmanager
def messages_on_stderr() -> Iterator[None]:
    """Show messages of the logger "adaptkry" from level INFO; with --json, only warnings and errors."""
    logger, handler = logging.getLogger("adaptkry"), StderrHandler()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def run() -> None:
    """Run the command in sys.argv; an error gives one line on stderr, not a traceback."""
    try:
        with messages_on_stderr():
            app()
    except Exception as error:  # the only handler of unexpected errors
        text, code = describe_error(error)
        typer.echo(f"{typer.style('adaptkry:', fg='red')} {text}", err=True)
        sys.exit(code)


def describe_error(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code of an error: 2 for the user's, 70 for a bug, whose traceback is saved."""
    is_foreign = isinstance(error, ImportError) and not str(error.name).startswith("adaptkry")
    if isinstance(error, OSError) or is_foreign:  # a missing file, a full disk, a package that is not installed
        return message_of(error), USER_ERROR
    text = reason(error)
    if text is not None:
        advice = "" if is_declared(error) else ". Use less data, smaller settings or fewer trainings at a time."
        return text + advice, USER_ERROR
    what = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    place = save_traceback(error)
    return f"this is a bug in adaptkry ({what}). Please report it, with the details {place}.", BUG


def save_traceback(error: Exception) -> str:
    """Write the traceback, the command and the versions to a new file; return where they are."""
    versions = f"adaptkry {VERSION}, Python {platform.python_version()}, {platform.platform()}"
    text = "\n".join([f"{sys.argv}", versions, "", *traceback.format_exception(error)])
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="adaptkry-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
    except OSError:  # such as a full disk
        return f"below\n{text}"
    return f"in {file.name}"


def message_of(error: Exception) -> str:
    """The message of an error; for an error of the operating system, the file and the reason without its number.

    >>> message_of(FileNotFoundError(2, "No such file or directory", "x.csv"))
    'x.csv: No such file or directory'
    """
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        error = named_error(error, error.filename or "the output")
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
