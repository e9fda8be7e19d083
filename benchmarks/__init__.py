"""Speed: one file per question, one JSON row per run in results/benchmarks.jsonl."""

import os
import sys

KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**62), "MALLOC_TOP_PAD_": str(2**26)}


def keep_memory() -> None:
    """Start this program again with a heap that keeps freed memory, for every contender alike.

    A whole basis is half a gigabyte or more. Given back to the system and asked for again, its pages cost as much as
    the products on a virtual machine whose host takes free memory away, and whoever comes after a pause pays most.
    """
    if any(os.environ.get(name) != value for name, value in KEEP_MEMORY.items()):
        module = sys.modules["__main__"].__spec__
        words = ["-m", module.name] if module else [sys.argv[0]]
        os.execve(sys.executable, [sys.executable, *words, *sys.argv[1:]], {**os.environ, **KEEP_MEMORY})
