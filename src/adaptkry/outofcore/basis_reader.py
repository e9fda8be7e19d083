"""Read ranges of rows of a basis folder into reusable buffers; the next range is read while the current one is used."""

import math
import queue
import threading
import weakref
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from adaptkry.outofcore.basis_folder import BasisFolder, block_name
from adaptkry.outofcore.npy_files import NpyFile
from adaptkry.outofcore.read_process import Part, ReadProcess

BUFFERS = 2  # one is used while the other one is filled
CACHED_BYTES = 2**19  # bytes read at once if they must be copied afterwards: few enough for the CPU cache
RowRange = tuple[int, int]  # start, stop


class BasisReader:
    """Reads terms of a basis folder, or means of terms, any number of rows at a time.

    Args:
        folder: the basis.
        means: for every term to read, the numbers 0 .. T - 1 of the stored terms to average. By default every stored
            term is read as it is.
    """

    def __init__(self, folder: BasisFolder, means: Sequence[Sequence[int]] | None = None):
        self.folder = folder
        self.means = [[term] for term in range(folder.terms)] if means is None else [list(mean) for mean in means]
        is_mean = any(len(mean) > 1 for mean in self.means)
        self.stored_dtype = getattr(torch, folder.dtype)
        self.dtype = torch.float32 if is_mean else self.stored_dtype  # of the result
        self.numbers = sorted({number for mean in self.means for number in mean})  # the stored terms that are read
        self.blocks = [
            (a, b, self._flat(NpyFile.open(folder.path / f"{block_name(a, b)}.npy"))) for a, b in folder.blocks
        ]
        self.gpu: GpuReader | None = None  # always the same one, which keeps its memory and its process
        self.spare: list[Tensor] = []  # buffers to reuse: allocating new memory costs more than reading into it

    @staticmethod
    def _flat(block: NpyFile) -> NpyFile:
        """A block as one table [bases * hops * rows, width]: the rows of a term are a range of its rows."""
        bases, hops, rows, width = block.shape
        return NpyFile(block.path, (bases * hops * rows, width), block.dtype, block.offset)

    @property
    def row_bytes(self) -> int:
        """Bytes per row of all terms that are read."""
        return len(self.means) * self.folder.features * self.dtype.itemsize

    def buffer(self, rows: int) -> Tensor:
        """A new or reused buffer for at least `rows` rows: [T, rows, d]."""
        while self.spare:
            buffer = self.spare.pop()
            if buffer.shape[1] >= rows:
                return buffer
        return torch.empty(len(self.means), rows, self.folder.features, dtype=self.dtype)

    def read(self, start: int, stop: int, target: Tensor) -> Tensor:
        """Read stored rows start..stop-1 into a buffer [T, rows, d] of enough rows, and return the filled part."""
        shape = (len(self.means), stop - start, self.folder.features)
        filled = target.view(-1)[: math.prod(shape)].view(shape)
        # NumPy instead of torch: this runs in a thread parallel to the training, and torch would start more threads.
        table = as_numpy(filled)
        for first, last, block in self.blocks:
            with block.path.open("rb", buffering=0) as file:
                for term, mean in zip(table, self.means, strict=True):
                    part = term[:, first:last]
                    starts = [number * self.folder.count + start for number in mean]
                    if len(mean) == 1 and part.flags.c_contiguous and part.dtype == block.dtype:
                        block.read_into(file, part, starts[0])
                    else:
                        self._read_mean(block, file, part, starts)
        return filled

    def _read_mean(self, block: NpyFile, file, target: np.ndarray, starts: Sequence[int]) -> None:
        """Write the mean of several ranges of rows to an array that need not be contiguous."""
        step = max(1, CACHED_BYTES // block.row_bytes)
        buffer = np.empty((min(step, len(target)), target.shape[1]), block.dtype)
        for first in range(0, len(target), step):
            part = target[first : first + step]
            rows = buffer[: len(part)]
            for number, start in enumerate(starts):
                block.read_into(file, rows, start + first)
                values = rows if rows.dtype == part.dtype else bfloat16_to_float32(rows)
                if number:
                    np.add(part, values, out=part)
                else:
                    np.copyto(as_elements(part), as_elements(values))
            if len(starts) > 1:
                part /= len(starts)

    def parts_as_stored(self, start: int, stop: int) -> list[Part]:
        """The parts of files that hold rows start..stop-1, as they are stored: block after block, to be put in a row.

        These are few, large reads. The columns of blocks are put beside each other on the GPU; see `arranged`.
        """
        parts, first = [], 0
        for _, _, block in self.blocks:
            size = (stop - start) * block.row_bytes
            for number in self.numbers:
                position = block.offset + (number * self.folder.count + start) * block.row_bytes
                parts.append((str(block.path), position, first, size))
                first += size
        return parts

    @property
    def stored_row_bytes(self) -> int:
        """Bytes per row of all stored terms that are read."""
        return len(self.numbers) * self.folder.features * self.stored_dtype.itemsize

    def arranged(self, stored: Tensor, rows: int) -> Tensor:
        """Return what `read` does, from the numbers of so many rows as they are stored, on any device."""
        of_blocks = stored.split([len(self.numbers) * rows * block.shape[1] for _, _, block in self.blocks])
        tables = [part.view(len(self.numbers), rows, -1) for part in of_blocks]
        terms = torch.cat(tables, 2) if len(tables) > 1 else tables[0]
        if self.means == [[number] for number in self.numbers]:
            return terms
        terms, position = terms.to(self.dtype), {number: i for i, number in enumerate(self.numbers)}
        found = terms.new_empty(len(self.means), *terms.shape[1:])
        for target, mean in zip(found, self.means, strict=True):
            target.copy_(terms[position[mean[0]]])
            for number in mean[1:]:
                target += terms[position[number]]
            if len(mean) > 1:  # a tensor: a GPU multiplies by the reciprocal of a number, which rounds otherwise
                target /= torch.full((), len(mean), dtype=self.dtype, device=target.device)
        return found

    def ranges(self, bounds: Sequence[RowRange], device: torch.device | str = "cpu") -> Iterator[Tensor]:
        """Yield these ranges of rows as [T, rows, d]; a range may be overwritten when the next one is requested."""
        if not bounds:
            return
        if torch.device(device).type == "cuda":
            largest = max(stop - start for start, stop in bounds)
            if self.gpu is None or self.gpu.rows < largest:
                self.gpu = GpuReader(largest, self.stored_row_bytes, self.stored_dtype, torch.device(device))
            yield from self.gpu.ranges(self, bounds)
            return
        with BackgroundReader(self, bounds) as background:
            for _ in bounds:
                yield background.next()

    def whole(self) -> Tensor:
        """All rows: [T, n, d]."""
        return self.read(0, self.folder.count, self.buffer(self.folder.count))


def as_numpy(tensor: Tensor) -> np.ndarray:
    """Return a NumPy array with the same memory; bfloat16, which NumPy does not support, as its bits."""
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def as_elements(table: np.ndarray) -> np.ndarray:
    """View every row of a table as one element [m, 1]: NumPy then copies rows to a wider table in 2/3 of the time."""
    return table.view(f"V{table.shape[1] * table.itemsize}")


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """Convert bfloat16, which NumPy does not support: its bits are the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


class BackgroundReader:
    """Reads ranges of rows in a thread, before they are requested."""

    def __init__(self, reader: BasisReader, bounds: Sequence[RowRange]):
        self.reader, self.bounds = reader, bounds
        largest = max(stop - start for start, stop in bounds)
        self.free: queue.SimpleQueue = queue.SimpleQueue()
        self.ready: queue.SimpleQueue = queue.SimpleQueue()
        self.buffers = [reader.buffer(largest) for _ in range(BUFFERS)]
        for buffer in self.buffers:
            self.free.put(buffer)
        self.used: Tensor | None = None
        self.is_closed = False
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            for start, stop in self.bounds:
                buffer = self.free.get()
                if self.is_closed:
                    return
                self.ready.put((buffer, self.reader.read(start, stop, buffer)))
        except BaseException as error:  # raised again by `next` in the main thread
            self.ready.put(error)

    def next(self) -> Tensor:
        """The next range; the previous one may be overwritten from now on."""
        if self.used is not None:
            self.free.put(self.used)
            self.used = None
        result = self.ready.get()
        if isinstance(result, BaseException):
            raise result
        self.used, filled = result
        return filled

    def __enter__(self) -> "BackgroundReader":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.is_closed = True
        self.free.put(None)
        self.thread.join()
        self.reader.spare = self.buffers


class GpuReader:
    """Reads ranges of rows in a process of its own, before they are requested, and copies them to a GPU.

    Args:
        rows: most rows of a range.
        row_bytes: bytes of a row as it is stored.
        dtype: type of the stored numbers.
        device: the GPU.
    """

    def __init__(self, rows: int, row_bytes: int, dtype: torch.dtype, device: torch.device):
        self.rows, self.device, self.size = rows, device, rows * row_bytes
        self.process = ReadProcess(BUFFERS * self.size)
        memory = torch.frombuffer(self.process.memory, dtype=torch.uint8)
        self.buffers = [part.view(dtype) for part in memory.split(self.size)]
        self.stream = torch.cuda.Stream(device)
        pin(memory)
        weakref.finalize(self, release, self.process, memory)

    def ranges(self, reader: BasisReader, bounds: Sequence[RowRange]) -> Iterator[Tensor]:
        """Yield these ranges of rows of a reader as [T, rows, d], on the GPU."""
        copied = [torch.cuda.Event() for _ in range(BUFFERS)]  # the copies that were the last to read the buffers
        self.stream.synchronize()  # of copies of earlier ranges
        self._request(0, reader.parts_as_stored(*bounds[0]))
        for number, (start, stop) in enumerate(bounds):
            self.process.wait()
            which = number % BUFFERS
            stored = self.buffers[which][: (stop - start) * len(reader.numbers) * reader.folder.features]
            with torch.cuda.stream(self.stream):
                terms = reader.arranged(stored.to(self.device, non_blocking=True), stop - start)
                copied[which].record(self.stream)
            is_last = number + 1 == len(bounds)
            if not is_last:
                copied[(number + 1) % BUFFERS].synchronize()  # of the range before this one
                self._request((number + 1) % BUFFERS, reader.parts_as_stored(*bounds[number + 1]))
            current = torch.cuda.current_stream(self.device)
            current.wait_event(copied[which])
            terms.record_stream(current)
            try:
                yield terms
            except GeneratorExit:
                if not is_last:
                    self.process.wait()  # no answer may be left for the next call
                raise

    def _request(self, which: int, parts: Sequence[Part]) -> None:
        self.process.request([(path, at, which * self.size + first, count) for path, at, first, count in parts])


def pin(memory: Tensor) -> None:
    """Let a GPU copy from memory of the CPU while it computes."""
    code = torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0)  # type: ignore[union-attr]
    if int(code):
        raise RuntimeError(f"memory for copies to the GPU must be pinned; CUDA refused it with error {int(code)}.")


def release(process: ReadProcess, memory: Tensor) -> None:
    """End the process, and undo `pin`."""
    process.close()
    torch.cuda.synchronize()  # copies may still be under way
    torch.cuda.cudart().cudaHostUnregister(memory.data_ptr())  # type: ignore[union-attr]
