"""Files written whole or not at all: a killed program leaves the old file or the new one, never half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MARKS = {  # the file that tells what a folder holds
    "run.json": "a run",
    "comparison.json": "a comparison",
    "trials.jsonl": "a search",
    "manifest.json": "a basis or graph",
}


def refuse_others(folder: Path, *own: str) -> None:
    """Refuse a folder that holds something of another kind than these marks: it would be overwritten in part."""
    for mark, what in MARKS.items():
        if mark not in own and (folder / mark).exists():
            raise ValueError(f"{folder} holds {what}, which would be overwritten. Use another --out.")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its place when the block ends well, and vanishes when it does not."""
    if path.exists() and not path.is_file():  # /dev/stdout or a pipe is written to, never replaced
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # a link stays a link
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        file = beside.open("wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # about the file that was asked for
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; text as UTF-8."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
