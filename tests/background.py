"""Commands that run in the background until a test interrupts them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def start_command(folder: Path, words: Sequence[str], is_ready: Callable[[], bool]) -> subprocess.Popen:
    """Start `adaptkry WORDS` in a folder; returns when it is ready, or after a minute."""
    process = subprocess.Popen(
        [sys.executable, "-m", "adaptkry", *words], cwd=folder, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs of a shell ignore SIGINT
    )  # fmt: skip
    deadline = time.time() + 60
    while not is_ready() and time.time() < deadline:
        time.sleep(0.05)
    return process
