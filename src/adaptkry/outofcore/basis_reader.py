"""Read ranges of rows of a basis folder into reusable buffers; the next range is read while the current one is used."""

import io
import math
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import torch
from torch import Tensor

from adaptkry.outofcore.basis_folder import BasisFolder, block_name
from adaptkry.outofcore.npy_files import NpyFile

BUFFERS = 2  # one is used while the other one is filled
READ_THREADS = 4  # that read parts of a range for a GPU at the same time
SWITCH_SECONDS = 1e-4  # after which Python lets another thread run, instead of 0.005: reads take a millisecond each
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
        self.stream: torch.cuda.Stream | None = None
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

    def buffer(self, rows: int, *, pinned: bool = False) -> Tensor:
        """A new or reused buffer for at least `rows` rows: [T, rows, d]; a pinned one is for terms as stored."""
        while self.spare:
            buffer = self.spare.pop()
            if buffer.shape[1] >= rows and buffer.is_pinned() == pinned:
                return buffer
        count, dtype = (len(self.numbers), self.stored_dtype) if pinned else (len(self.means), self.dtype)
        return torch.empty(count, rows, self.folder.features, dtype=dtype, pin_memory=pinned)

    def copying_stream(self, device: torch.device) -> torch.cuda.Stream:
        """The stream for copies to a GPU, always the same: a new one would not reuse memory of the others."""
        self.stream = self.stream or torch.cuda.Stream(device)
        return self.stream

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

    def read_as_stored(
        self, start: int, stop: int, target: Tensor, files: Sequence[io.FileIO], pool: ThreadPoolExecutor
    ) -> Tensor:
        """Read stored rows start..stop-1 as they are stored, block after block, and return the filled part, flat.

        This needs few, large reads. The columns of blocks are put beside each other on the GPU; see `arranged`.

        Args:
            start: first row.
            stop: row after the last.
            target: see `buffer`.
            files: the open files of all blocks.
            pool: the threads that read.
        """
        rows, flat, first, reads = stop - start, target.view(-1), 0, []
        table = as_numpy(flat)
        for (_, _, block), file in zip(self.blocks, files, strict=True):
            for number in self.numbers:
                size = rows * block.shape[1]
                part = table[first : first + size].reshape(rows, -1)
                reads.append(pool.submit(block.read_into, file, part, number * self.folder.count + start))
                first += size
        for read in reads:
            read.result()
        return flat[:first]

    def arranged(self, stored: Tensor, rows: int) -> Tensor:
        """Return what `read` does, from what `read_as_stored` returned for so many rows, on any device."""
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
        """Yield these ranges of rows as [T, rows, d]; a range may be overwritten when the next one is requested.

        Ranges for a GPU are copied from pinned memory while the GPU computes.
        """
        if not bounds:
            return
        with BackgroundReader(self, bounds, torch.device(device)) as background:
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

    def __init__(self, reader: BasisReader, bounds: Sequence[RowRange], device: torch.device):
        self.reader, self.bounds, self.on_gpu, self.device = reader, bounds, device.type == "cuda", device
        largest = max(stop - start for start, stop in bounds)
        self.free: queue.SimpleQueue = queue.SimpleQueue()
        self.ready: queue.SimpleQueue = queue.SimpleQueue()
        self.buffers = [reader.buffer(largest, pinned=self.on_gpu) for _ in range(BUFFERS)]
        for buffer in self.buffers:
            self.free.put((buffer, None))
        self.used: Tensor | None = None
        self.stream = reader.copying_stream(device) if self.on_gpu else None
        self.is_closed = False
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            with ExitStack() as stack:
                blocks = self.reader.blocks if self.on_gpu else []
                files = [stack.enter_context(block.path.open("rb", buffering=0)) for _, _, block in blocks]
                self._read_ranges(files, stack.enter_context(ThreadPoolExecutor(READ_THREADS)))
        except BaseException as error:  # raised again by `next` in the main thread
            self.ready.put(error)

    def _read_ranges(self, files: Sequence[io.FileIO], pool: ThreadPoolExecutor) -> None:
        for start, stop in self.bounds:
            buffer, copied = self.free.get()
            if self.is_closed:
                return
            if copied is not None:
                copied.synchronize()  # the GPU may still be reading this buffer
            if self.stream is None:
                self.ready.put((buffer, self.reader.read(start, stop, buffer), None))
                continue
            filled = self.reader.read_as_stored(start, stop, buffer, files, pool)
            with torch.cuda.stream(self.stream):
                copy = self.reader.arranged(filled.to(self.device, non_blocking=True), stop - start)
                event = torch.cuda.Event()
                event.record(self.stream)
            self.ready.put((buffer, copy, event))

    def next(self) -> Tensor:
        """The next range; the previous one may be overwritten from now on."""
        if self.used is not None:
            self.free.put((self.used, None))
            self.used = None
        result = self.ready.get()
        if isinstance(result, BaseException):
            raise result
        buffer, filled, event = result
        if event is None:
            self.used = buffer
        else:
            torch.cuda.current_stream(self.device).wait_event(event)
            filled.record_stream(torch.cuda.current_stream(self.device))
            self.free.put((buffer, event))  # the copy on the GPU is another tensor
        return filled

    def __enter__(self) -> "BackgroundReader":
        self.switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.is_closed = True
        self.free.put((None, None))
        self.thread.join()
        sys.setswitchinterval(max(self.switch_seconds, sys.getswitchinterval()))  # another reader may have ended first
        if self.stream is not None:
            self.stream.synchronize()  # copies from these buffers must be finished before they are reused
        self.reader.spare = self.buffers
