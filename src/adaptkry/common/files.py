"""Files and folders: atomic writes, an exclusive lock, and checks of an output folder before it is used."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

FOLDER_MARKERS = {  # the file that shows what a folder holds
    "run.json": "a run",
    "comparison.json": "a comparison",
    "trials.jsonl": "a search",
    "manifest.json": "a basis or graph",
}


def check_markers(folder: Path, *allowed_markers: str) -> None:
    """Refuse a folder with a marker that is not allowed: its content would be partly overwritten."""
    for marker, content in FOLDER_MARKERS.items():
        if marker not in allowed_markers and (folder / marker).exists():
            raise ValueError(f"{folder} holds {content}, which would be overwritten. Use another output folder.")


def check_output_folder(folder: Path, *allowed_markers: str) -> Path:
    """Create a folder, or raise an error that says why it cannot be written to, before a long computation starts.

    Args:
        folder: where results are written.
        allowed_markers: files of `FOLDER_MARKERS` that may be in the folder; a folder with others is refused. By
            default the content is not checked.
    """
    if allowed_markers:
        check_markers(folder, *allowed_markers)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"the output folder must be writable; got {folder} ({error.strerror}). Choose another.") from None
    if not os.access(folder, os.W_OK):
        raise OSError(f"the output folder must be writable; got {folder}, which is read-only. Choose another.")
    return folder


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Lock an existing folder; raise an error if another process on this machine has locked it.

    The operating system releases the lock when the process ends, also when it is killed.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"another command is writing to {folder}. Wait for it to finish, or use another output folder."
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that replaces `path` when the block succeeds and is deleted when it raises."""
    if path.exists() and not path.is_file():  # /dev/stdout or a pipe is written to, not replaced
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        file = temporary.open("wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the requested file, not the temporary one
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write(path: Path, content: str | bytes) -> None:
    """Write a file atomically: a killed program leaves either the old or the new content. Text is UTF-8."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
