"""Plain .npy files read in pieces and written in one stream.

Nothing is mapped into memory: mapped pages count as memory held, and the limit that a user gave is a promise.
"""

import errno
import io
import mmap
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

PIECE = 16 * 2**20  # bytes read or written at once
STAGE = 2**22  # bytes that go to disk at once
PART = ".part"


@dataclass(frozen=True)
class Stored:
    """An array in a file: what it is, and any run of its rows."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int  # bytes before the first number

    @classmethod
    def open(cls, path: Path) -> "Stored":
        """Read the header alone."""
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}.")
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path} must be a plain .npy array, but cannot be read ({error}).") from None
        if not isinstance(mapped, np.memmap):
            raise TypeError(f"{path} must be a plain .npy array, but it holds {type(mapped).__name__}.")
        if not mapped.flags.c_contiguous:
            raise ValueError(f"{path} must be in C order, but it is transposed. Write it with np.ascontiguousarray.")
        return cls(path, mapped.shape, mapped.dtype, mapped.offset)

    @property
    def row_bytes(self) -> int:
        """Bytes from one row to the next."""
        return self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def read(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows start..stop-1."""
        stop = self.shape[0] if stop is None else stop
        found = np.empty((stop - start, *self.shape[1:]), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            self.read_into(file, found, start)
        return found

    def read_into(self, file: io.RawIOBase, target: np.ndarray, start: int) -> None:
        """Fill a contiguous array with the rows from `start` on, from the file that is open already."""
        file.seek(self.offset + start * self.row_bytes)
        left = as_bytes(target)
        while len(left):
            got = file.readinto(left)
            if not got:
                raise ValueError(f"{self.path} ends too early: {list(self.shape)} {self.dtype} does not fit in it.")
            left = left[got:]

    def pieces(self, limit: int = PIECE) -> Iterator[tuple[int, np.ndarray]]:
        """All rows in order, some at a time, with the number of the first; gone when the next ones are asked for.

        One buffer serves for all: fresh memory costs as much as reading into it.
        """
        step = max(1, limit // max(1, self.row_bytes))
        buffer = np.empty((min(step, self.shape[0]), *self.shape[1:]), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            for start in range(0, self.shape[0], step):
                piece = buffer[: min(step, self.shape[0] - start)]
                self.read_into(file, piece, start)
                yield start, piece


def as_bytes(array: np.ndarray) -> memoryview:
    """The numbers of a contiguous array where they lie."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


class Stream:
    """A file that grows in order and is hashed on the way."""

    def __init__(self, file):
        self.file, self.hash = file, xxhash.xxh3_128()

    def write(self, content) -> None:
        """Add bytes, or the numbers of a contiguous array."""
        if isinstance(content, np.ndarray):
            content = as_bytes(content)
        self.hash.update(content)
        self.file.write(content)

    @property
    def checksum(self) -> str:
        """Of what has been written so far."""
        return self.hash.hexdigest()


@contextmanager
def streaming(path: Path, shape: tuple[int, ...], dtype) -> Iterator[Stream]:
    """Write an .npy file in order, whole or not at all; two machines that write the same file do not meet."""
    beside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}{PART}")
    try:
        with open(beside, "wb", buffering=0, opener=direct) as file:
            straight = Straight(file)
            stream = Stream(straight)
            stream.write(header(shape, np.dtype(dtype)))
            yield stream
            straight.finish()
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def direct(path: str, flags: int) -> int:
    """Open a file past the file cache, where system and disk allow that.

    A basis is larger than the cache: copying it there costs more than the disk does, and pushes the graph out.
    """
    try:
        return os.open(path, flags | getattr(os, "O_DIRECT", 0), 0o666)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o666)


class Straight:
    """Collects bytes into whole, aligned pieces, as disks want them without a cache; `finish` writes what is left."""

    def __init__(self, file: io.FileIO):
        self.file, self.filled = file, 0
        self.stage = np.frombuffer(mmap.mmap(-1, STAGE), dtype=np.uint8)

    def write(self, content) -> None:
        """Add bytes."""
        left = np.frombuffer(content, dtype=np.uint8)
        while len(left):
            some = left[: STAGE - self.filled]
            self.stage[self.filled : self.filled + len(some)] = some
            self.filled, left = self.filled + len(some), left[len(some) :]
            if self.filled == STAGE:
                self._put()

    def _put(self) -> None:
        left = self.stage[: self.filled].data
        while len(left):  # a write may be cut short
            try:
                left = left[self.file.write(left) or 0 :]
            except OSError as error:  # some file systems open such a file and then refuse to write to it
                if error.errno != errno.EINVAL or not self._use_cache():
                    raise
        self.filled = 0

    def _use_cache(self) -> bool:
        """From here on through the file cache; False where it was so already."""
        if not hasattr(os, "O_DIRECT"):
            return False
        import fcntl  # there is none on Windows

        number = self.file.fileno()
        flags = fcntl.fcntl(number, fcntl.F_GETFL)
        fcntl.fcntl(number, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        return bool(flags & os.O_DIRECT)

    def finish(self) -> None:
        """The last bytes, which fill no piece, and all of it on disk."""
        self._use_cache()
        self._put()
        os.fsync(self.file.fileno())


def header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """What stands before the numbers of an .npy file in C order."""
    made = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(map(int, shape))}
    np.lib.format.write_array_header_1_0(made, about)  # type: ignore[arg-type]
    return made.getvalue()


def save(path: Path, array: np.ndarray) -> str:
    """Write one array, whole or not at all, and return its checksum."""
    with streaming(path, array.shape, array.dtype) as stream:
        stream.write(array)
    return stream.checksum


def digest(array: np.ndarray) -> str:
    """The checksum that `save` would return."""
    found = xxhash.xxh3_128(header(array.shape, array.dtype))
    found.update(as_bytes(array))
    return found.hexdigest()


def checksum(path: Path) -> str:
    """XXH3 of a file, 128 bits (`xxh128sum`): it finds damage as fast as a disk reads; SHA-256 takes a core for it."""
    found = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        piece = bytearray(PIECE)
        while got := file.readinto(piece):
            found.update(memoryview(piece)[:got])
    return found.hexdigest()
