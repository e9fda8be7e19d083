"""The command line: one file per command.

Nothing here imports torch, NumPy or SciPy at import time, so that `adaptkry --help` answers at once: a command imports
the library when it runs.
"""

import os
import sys


def main() -> None:
    """Run the command line. Ctrl-C at any time, also during imports, ends it with exit code 130 and no traceback."""
    # OpenMP threads that spin while they wait starve each other where cores are shared: with a second process on the
    # same two cores, trainings took ten times as long. This must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from adaptkry.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
