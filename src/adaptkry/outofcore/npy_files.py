"""Plain .npy files, read in chunks and written sequentially.

Nothing is memory-mapped: mapped pages count as resident memory and could exceed the user's memory limit.
"""

import errno
import io
import math
import mmap
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from adaptkry.common.files import TEMPORARY_SUFFIX, named_error
from adaptkry.outofcore.read_process import fill

CHUNK_BYTES = 16 * 2**20  # bytes read or computed at once
WRITE_BYTES = 2**22  # bytes per write to disk
HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class NpyFile:
    """An array in an .npy file: its shape and type, and methods that read ranges of rows."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int  # bytes before the first number

    @classmethod
    def open(cls, path: Path) -> "NpyFile":
        """Read only the header."""
        if not path.is_file():
            raise FileNotFoundError(f"{path} must be an .npy file; there is no such file. Check the path.")
        try:
            with path.open("rb") as file:
                shape, is_fortran, dtype = HEADER_READERS[np.lib.format.read_magic(file)](file)
                offset = file.tell()
            if dtype.hasobject or not dtype.itemsize or any(size < 0 for size in shape):
                raise ValueError(f"{dtype} {list(shape)} is not possible")  # noqa: TRY301
            if path.stat().st_size < offset + math.prod(shape) * dtype.itemsize:
                raise ValueError("the file is shorter than its header says")  # noqa: TRY301
        except OSError:
            raise
        except Exception as error:  # a damaged header can raise almost anything in NumPy and the tokenizer
            raise ValueError(
                f"{path} must be a plain .npy array; it cannot be read ({error!s:.200}). Write it with np.save."
            ) from None
        if is_fortran and len(shape) > 1:
            raise ValueError(f"{path} must be in C order; got Fortran order. Write it with np.ascontiguousarray.")
        return cls(path, shape, dtype, offset)

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
        """Fill a contiguous array with the rows from `start` on, from a file that is already open."""
        if fill(file.fileno(), as_bytes(target), self.offset + start * self.row_bytes):
            raise ValueError(
                f"{self.path} must hold {list(self.shape)} {self.dtype}; the file is shorter. Create it again."
            )

    def chunks(self, limit: int = CHUNK_BYTES) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (number of the first row, rows) in order; a chunk is overwritten by the next one.

        All chunks share one buffer: allocating new memory takes as long as reading into it.
        """
        step = max(1, limit // max(1, self.row_bytes))
        buffer = np.empty((min(step, self.shape[0]), *self.shape[1:]), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            for start in range(0, self.shape[0], step):
                chunk = buffer[: min(step, self.shape[0] - start)]
                self.read_into(file, chunk, start)
                yield start, chunk


def as_bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


class NpyWriter:
    """Writes an array sequentially and computes its checksum."""

    def __init__(self, file):
        self.file, self.hash = file, xxhash.xxh3_128()

    def write(self, content) -> None:
        """Append bytes or a contiguous array."""
        if isinstance(content, np.ndarray):
            content = as_bytes(content)
        self.hash.update(content)
        self.file.write(content)

    @property
    def checksum(self) -> str:
        """The checksum of what has been written so far."""
        return self.hash.hexdigest()


@contextmanager
def npy_writer(path: Path, shape: tuple[int, ...], dtype) -> Iterator[NpyWriter]:
    """Write an .npy file sequentially and atomically; two machines may write the same file at the same time."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "wb", buffering=0, opener=open_direct) as file:
            direct = DirectWriter(file)
            writer = NpyWriter(direct)
            writer.write(npy_header(shape, np.dtype(dtype)))
            yield writer
            direct.finish()
        temporary.replace(path)
    except OSError as error:
        raise named_error(error, path) from None
    finally:
        temporary.unlink(missing_ok=True)


def open_direct(path: str, flags: int) -> int:
    """Open a file with O_DIRECT, which bypasses the page cache, if the system supports it.

    A basis is larger than the page cache: copying it there takes longer than writing to the disk, and evicts the graph.
    """
    try:
        return os.open(path, flags | getattr(os, "O_DIRECT", 0), 0o666)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o666)


class DirectWriter:
    """Collects bytes into aligned writes of `WRITE_BYTES`, as O_DIRECT requires; `finish` writes the rest."""

    def __init__(self, file: io.FileIO):
        self.file, self.filled = file, 0
        self.buffer = np.frombuffer(mmap.mmap(-1, WRITE_BYTES), dtype=np.uint8)

    def write(self, content) -> None:
        """Append bytes."""
        left = np.frombuffer(content, dtype=np.uint8)
        while len(left):
            part = left[: WRITE_BYTES - self.filled]
            self.buffer[self.filled : self.filled + len(part)] = part
            self.filled, left = self.filled + len(part), left[len(part) :]
            if self.filled == WRITE_BYTES:
                self._flush()

    def _flush(self) -> None:
        left = self.buffer[: self.filled].data
        while len(left):  # a write may be partial
            try:
                left = left[self.file.write(left) or 0 :]
            except OSError as error:  # some file systems accept O_DIRECT in open() but not in write()
                if error.errno != errno.EINVAL or not self._disable_direct():
                    raise
        self.filled = 0

    def _disable_direct(self) -> bool:
        """Write through the page cache from now on; return False if O_DIRECT was not set."""
        if not hasattr(os, "O_DIRECT"):
            return False
        import fcntl  # does not exist on Windows

        descriptor = self.file.fileno()
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        return bool(flags & os.O_DIRECT)

    def finish(self) -> None:
        """Write the remaining bytes and flush everything to disk."""
        self._disable_direct()
        self._flush()
        os.fsync(self.file.fileno())


def npy_header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The header of an .npy file in C order."""
    buffer = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(map(int, shape))}
    np.lib.format.write_array_header_1_0(buffer, fields)  # type: ignore[arg-type]
    return buffer.getvalue()


def save(path: Path, array: np.ndarray) -> str:
    """Write an array atomically and return its checksum."""
    with npy_writer(path, array.shape, array.dtype) as writer:
        writer.write(array)
    return writer.checksum


def array_checksum(array: np.ndarray) -> str:
    """The checksum that `save` would return."""
    digest = xxhash.xxh3_128(npy_header(array.shape, array.dtype))
    digest.update(as_bytes(array))
    return digest.hexdigest()


def file_checksum(path: Path) -> str:
    """XXH3-128 of a file (`xxh128sum`): as fast as a disk, while SHA-256 would occupy a whole core."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be a file; it is missing. Restore it, or create the folder again.")
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        chunk = bytearray(CHUNK_BYTES)
        while size := file.readinto(chunk):
            digest.update(memoryview(chunk)[:size])
    return digest.hexdigest()
