"""A disk that becomes full at the n-th write: files below a folder raise ENOSPC from then on."""

import builtins
import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock


class FullDisk:
    """Counts writes below a folder, and fails from number `room` on."""

    def __init__(self, folder: Path, room: float):
        self.folder, self.room, self.writes = str(folder), room, 0

    @property
    def is_full(self) -> bool:
        """Whether a write has failed."""
        return self.writes >= self.room

    def spend(self, path: Any = None) -> None:
        """Count a write, or fail; the operating system names folders, but not files."""
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        self.writes += 1

    def holds(self, path: Any) -> bool:
        """Whether a path is on this disk."""
        return isinstance(path, str | os.PathLike) and str(path).startswith(self.folder)


class FileOnFullDisk:
    """A file whose writes, and the flush of what is buffered, fail when the disk is full."""

    def __init__(self, file: Any, disk: FullDisk):
        self.file, self.disk, self.is_dirty = file, disk, False

    def write(self, content: Any) -> int:
        """Write, or fail."""
        self.disk.spend()
        self.is_dirty = not isinstance(self.file, io.RawIOBase)
        return self.file.write(content)

    def flush(self) -> None:
        """Write what is buffered, or fail."""
        if self.is_dirty:
            self.disk.spend()
        self.is_dirty = False
        self.file.flush()

    def close(self) -> None:
        """Close the file; what is buffered is written, or lost."""
        self.file.close()
        if self.is_dirty:
            self.is_dirty = False
            self.disk.spend()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "FileOnFullDisk":
        return self

    def __exit__(self, *_) -> None:
        self.close()


@contextmanager
def full_disk(folder: Path, room: float) -> Iterator[FullDisk]:
    """Let the disk below `folder` have room for some writes only; files that are read are not affected."""
    disk, real, mkdir = FullDisk(folder, room), io.open, os.mkdir

    def opened(path, mode="r", *args, **options):
        file = real(path, mode, *args, **options)
        return FileOnFullDisk(file, disk) if disk.holds(path) and set(mode) & set("wax+") else file

    def made(path, *args, **options):
        if disk.holds(path):
            disk.spend(path)
        return mkdir(path, *args, **options)

    with (
        mock.patch.object(io, "open", opened),
        mock.patch.object(builtins, "open", opened),
        mock.patch.object(os, "mkdir", made),
    ):
        yield disk
