"""Benchmarks of speed, one module per question; each run appends JSON rows to a file in results/."""

import os
import sys

KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**62), "MALLOC_TOP_PAD_": str(2**26)}


def keep_memory() -> None:
    """Restart this program with malloc settings that keep freed memory, for all compared implementations.

    A whole basis is half a gigabyte or more. On a virtual machine whose host reclaims free memory, returning its pages
    to the system and requesting them again takes as long as the products, and longest after a pause.
    """
    if any(os.environ.get(name) != value for name, value in KEEP_MEMORY.items()):
        module = sys.modules["__main__"].__spec__
        program = ["-m", module.name] if module else [sys.argv[0]]
        os.execve(sys.executable, [sys.executable, *program, *sys.argv[1:]], {**os.environ, **KEEP_MEMORY})
