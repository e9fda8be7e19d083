"""The command from its first moment: Ctrl-C while torch is being imported ends it without a traceback."""

import sys


def main() -> None:
    """Run the command."""
    try:
        from adaptkry.cli import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()
