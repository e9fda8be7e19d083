"""The command line: one file per command.

Nothing here imports torch, NumPy or SciPy at import time, so that `adaptkry --help` answers at once: a command imports
the library when it runs.
"""

import os
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

started = time.monotonic()  # when the command started, for those with a time limit
is_interrupted = False  # whether Ctrl-C was pressed
SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


def main() -> None:
    """Run the command line. Ctrl-C at any time, also during imports, ends it with exit code 130 and no traceback."""
    global started, is_interrupted
    started, is_interrupted = time.monotonic(), False
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background jobs ignore it
        signal.signal(signal.SIGINT, interrupt)
    # OpenMP threads spin while they wait and slow each other down on shared cores: with other processes on the same
    # cores, the test suite ran ten times slower. This must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from adaptkry.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        if is_interrupted:  # while the interpreter shuts down
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def interrupt(_signal: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; the second time, or during an import, exit at once.

    A second KeyboardInterrupt in code that handles the first would show a traceback. And some libraries catch it while
    they import others, and fail later: an interrupted import of NumPy by torch ended in a RecursionError.
    """
    global is_interrupted
    if is_interrupted:
        exit_at_once()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            exit_at_once()
        frame = frame.f_back
    is_interrupted = True
    raise KeyboardInterrupt


def exit_at_once() -> NoReturn:
    """End the process with the exit code of Ctrl-C, without cleaning up; files are complete at any time."""
    if sys.stderr.isatty():
        os.write(2, SHOW_CURSOR.encode())
    os._exit(130)
