"""The command line: one file per command.

Nothing here imports torch, NumPy or SciPy at import time, so that `adaptkry --help` answers at once: a command imports
the library when it runs.
"""

import os
import signal
import sys
import time
from types import FrameType

started = time.monotonic()  # when the command started, for those with a time limit


def main() -> None:
    """Run the command line. Ctrl-C at any time, also during imports, ends it with exit code 130 and no traceback."""
    global started
    started = time.monotonic()
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


def interrupt(_signal: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import, exit at once.

    Some libraries catch KeyboardInterrupt while they import others, and fail later: an interrupted import of NumPy by
    torch ended in a RecursionError.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt
