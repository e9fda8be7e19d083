"""Files and folders: checks of outputs before they are written, atomic writes, and an exclusive lock."""

import errno
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

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
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)  # no space on the disk, or none left to this user
HEAD_BYTES = 4096  # the beginning of a file, by which adaptkry recognises its own output
TEMPORARY_SUFFIX = ".part"  # of temporary files


def checked_path(path: str | os.PathLike, what: str = "the path") -> Path:
    """Return a path; an empty one, often an unset variable, is refused: `Path` takes it as the current folder."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{what} must be a path; got {path!r}. Pass text or a pathlib.Path.")
    if not os.fspath(path).strip():
        raise ValueError(
            f"{what} must not be empty; got {str(path)!r}. Is a variable unset? The current folder is '.'."
        )
    if "\0" in str(path):  # the operating system cannot represent it
        raise ValueError(f"{what} must not have NUL characters; got {str(path)!r}. Remove them.")
    return Path(path)


def check_output_folder(folder: Path) -> Path:
    """Create a folder, or raise an error that says why it cannot be written to, before a long computation starts."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise named_error(error, folder) from None
        raise OSError(f"the output folder must be writable; got {folder} ({error.strerror}). Choose another.") from None
    if not os.access(folder, os.W_OK):
        raise OSError(f"the output folder must be writable; got {folder}, which is read-only. Choose another.")
    return folder


def check_output_file(path: Path | str, inputs: Iterable[Path | str], is_ours: Callable[[bytes], bool]) -> Path:
    """Return the path of an output file; refuse to overwrite an input, or another file than such an output.

    Args:
        path: the output file. Something else that exists, such as /dev/stdout or a pipe, is written to.
        inputs: files and folders that the command reads; the output must be another file, also behind links.
        is_ours: whether a file is an earlier output of this kind if it begins with these bytes (at most `HEAD_BYTES`).
    """
    path = checked_path(path, "the output file")
    if not path.is_file():
        return path
    for given in map(Path, inputs):
        files = given.iterdir() if given.is_dir() else [given]
        if any(file.exists() and file.samefile(path) for file in files):
            raise ValueError(f"the output must not be an input; got {path} for both. Use another output file.")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head and not is_ours(head):
        raise ValueError(
            f"{path} exists, and is no earlier output of this kind. Use another output file, or delete it first."
        )
    return path


def visible_names(folder: Path) -> list[str]:
    """Return the names of the files in a folder, without hidden ones such as .gitkeep; [] if there is no folder."""
    return sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Read a file that holds a JSON object; every error names the file and ends with the remedy."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise ValueError(f"{path} must be JSON; got a damaged file ({error}). {remedy}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must be a JSON object; got {type(found).__name__}. {remedy}")  # noqa: TRY004
    return found


def digest_of(content: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of text in UTF-8."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the digest of its other parts as `sha256`, so that a later change is noticed."""
    others = {name: value for name, value in document.items() if name != "sha256"}
    return others | {"sha256": digest_of(json.dumps(others, sort_keys=True))}


def read_signed(path: Path, remedy: str) -> dict[str, Any]:
    """Read what was written as JSON of a `signed` document; a changed one is refused."""
    found = read_json(path, remedy)
    if signed(found)["sha256"] != found.get("sha256"):
        raise ValueError(f"{path} must be as adaptkry wrote it; it was changed or damaged since. {remedy}")
    return found


@contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Lock an existing folder; raise an error if another process on this machine has locked it.

    The operating system releases the lock when the process ends, also when it is killed.
    """
    descriptor, is_locked = -1, False
    try:
        try:
            descriptor = os.open(folder, os.O_RDONLY)
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = os.path.samestat(os.fstat(descriptor), os.stat(folder))
        except (BlockingIOError, FileNotFoundError):  # locked; or removed meanwhile by a command that was refused
            pass
        if not is_locked:
            raise ValueError(
                f"another command is writing to {folder}. Wait for it to finish, or use another output folder."
            )
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that replaces `path` when the block succeeds and is deleted when it raises."""
    if path.exists() and not path.is_file():  # /dev/stdout or a pipe is written to, not replaced
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    remove_leftovers(path.parent, path.name)
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
    except OSError as error:
        raise named_error(error, path) from None
    finally:
        temporary.unlink(missing_ok=True)


def named_error(error: OSError, path: Path | str) -> OSError:
    """Return an error of a write with the file's path, and with a remedy if the disk is full."""
    if error.errno in DISK_FULL:
        return OSError(error.errno, "the disk is full. Free some space, and repeat the command", str(path))
    return error if error.filename or error.errno is None else OSError(error.errno, error.strerror, str(path))


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove the temporary files of `replacing` that killed processes left in a folder."""
    for part in folder.glob(f".{glob.escape(name) if name != '*' else name}.*{TEMPORARY_SUFFIX}"):
        number = part.name.removesuffix(TEMPORARY_SUFFIX).rpartition(".")[2]
        if number.isdecimal() and not is_running(int(number)):
            part.unlink(missing_ok=True)


def is_running(process: int) -> bool:
    """Return whether another process of this number is running on this machine."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def write(path: Path, content: str | bytes) -> None:
    """Write a file atomically: a killed program leaves either the old or the new content. Text is UTF-8."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
