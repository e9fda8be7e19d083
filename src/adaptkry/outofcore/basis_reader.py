"""Runs of rows of a basis folder, read into buffers that are used again, the next run while the last one is used."""

import math
import queue
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from adaptkry.outofcore.folders import BasisFolder, block_name
from adaptkry.outofcore.npy_files import Stored

BUFFERS = 2  # one is used while the other is filled
PIECE = 2**18  # bytes read at once where they must be copied to their place: they are still in the cache then
Rows = tuple[int, int]  # from, up to and without


class Reader:
    """Some terms of a basis folder, as many rows at a time as one likes.

    Args:
        folder: the basis.
        wanted: for every term that is wanted the stored terms whose mean it is, as numbers 0 .. T - 1; None is every
            stored term.
    """

    def __init__(self, folder: BasisFolder, wanted: Sequence[Sequence[int]] | None = None):
        self.folder = folder
        self.wanted = [[term] for term in range(folder.terms)] if wanted is None else [list(mean) for mean in wanted]
        is_mean = any(len(mean) > 1 for mean in self.wanted)
        self.is_short = folder.dtype == "bfloat16"
        self.dtype = torch.bfloat16 if self.is_short and not is_mean else torch.float32  # of what is handed out
        self.blocks = [
            (a, b, self._flat(Stored.open(folder.path / f"{block_name(a, b)}.npy"))) for a, b in folder.blocks
        ]
        self.spare: list[Tensor] = []  # fresh memory costs more than reading into it

    @staticmethod
    def _flat(block: Stored) -> Stored:
        """A block as one long table: the rows of a term are a run of its rows."""
        bases, hops, rows, width = block.shape
        return Stored(block.path, (bases * hops * rows, width), block.dtype, block.offset)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of all wanted terms."""
        return len(self.wanted) * self.folder.features * self.dtype.itemsize

    def buffer(self, rows: int, *, pinned: bool = False) -> Tensor:
        """Room for so many rows or more, new or used: [T, rows, d]."""
        while self.spare:
            found = self.spare.pop()
            if found.shape[1] >= rows and found.is_pinned() == pinned:
                return found
        return torch.empty(len(self.wanted), rows, self.folder.features, dtype=self.dtype, pin_memory=pinned)

    def read(self, start: int, stop: int, target: Tensor) -> Tensor:
        """Fill [T, at least stop - start, d] with these stored rows, and return the part that was filled."""
        shape = (len(self.wanted), stop - start, self.folder.features)
        filled = target.view(-1)[: math.prod(shape)].view(shape)  # one run of memory: copies to a GPU need that
        # NumPy and not torch: this runs in a thread beside the training, and torch would start threads of its own.
        table = (filled.view(torch.uint16) if self.dtype == torch.bfloat16 else filled).numpy()
        for first, last, block in self.blocks:
            with block.path.open("rb", buffering=0) as file:
                for term, mean in zip(table, self.wanted, strict=True):
                    place = term[:, first:last]
                    at = [one * self.folder.count + start for one in mean]
                    if len(mean) == 1 and place.flags.c_contiguous and place.dtype == block.dtype:
                        block.read_into(file, place, at[0])
                    else:
                        self._gather(block, file, place, at)
        return filled

    def _gather(self, block: Stored, file, place: np.ndarray, at: Sequence[int]) -> None:
        """The mean of the runs of rows that begin `at`, into a place that is no run of memory."""
        step = max(1, PIECE // block.row_bytes)
        room = np.empty((min(step, len(place)), place.shape[1]), block.dtype)
        for first in range(0, len(place), step):
            some = place[first : first + step]
            part = room[: len(some)]
            for number, start in enumerate(at):
                block.read_into(file, part, start + first)
                new = part if part.dtype == some.dtype else widened(part)
                if number:
                    np.add(some, new, out=some)
                else:
                    np.copyto(some, new)
            if len(at) > 1:
                some /= len(at)

    def runs(self, bounds: Sequence[Rows], device: torch.device | str = "cpu") -> Iterator[Tensor]:
        """These runs of rows in turn as [T, rows, d]; each is gone when the next one is asked for.

        For a GPU they are copied there from pinned memory while it computes.
        """
        if not bounds:
            return
        with Background(self, bounds, torch.device(device)) as found:
            for _ in bounds:
                yield found.next()

    def whole(self) -> Tensor:
        """All rows: [T, n, d]."""
        return self.read(0, self.folder.count, self.buffer(self.folder.count))


def widened(part: np.ndarray) -> np.ndarray:
    """bfloat16, which NumPy does not know, as float32: it is the upper half."""
    return (part.astype(np.uint32) << 16).view(np.float32)


class Background:
    """A thread that reads ahead."""

    def __init__(self, reader: Reader, bounds: Sequence[Rows], device: torch.device):
        self.reader, self.bounds, self.on_gpu, self.device = reader, bounds, device.type == "cuda", device
        most = max(stop - start for start, stop in bounds)
        self.free: queue.SimpleQueue = queue.SimpleQueue()
        self.ready: queue.SimpleQueue = queue.SimpleQueue()
        self.buffers = [reader.buffer(most, pinned=self.on_gpu) for _ in range(BUFFERS)]
        for buffer in self.buffers:
            self.free.put((buffer, None))
        self.used: Tensor | None = None
        self.stream = torch.cuda.Stream(device) if self.on_gpu else None  # where copies are made
        self.is_over = False
        self.thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        try:
            stream = self.stream
            for start, stop in self.bounds:
                buffer, copied = self.free.get()
                if self.is_over:
                    return
                if copied is not None:
                    copied.synchronize()  # the GPU may still be reading what is to be overwritten
                filled = self.reader.read(start, stop, buffer)
                if stream is None:
                    self.ready.put((buffer, filled, None))
                    continue
                with torch.cuda.stream(stream):
                    there = filled.to(self.device, non_blocking=True)
                    event = torch.cuda.Event()
                    event.record(stream)
                self.ready.put((buffer, there, event))
        except BaseException as error:  # raised again in the thread that waits
            self.ready.put(error)

    def next(self) -> Tensor:
        """The next run; the one before may be overwritten from now on."""
        if self.used is not None:
            self.free.put((self.used, None))
            self.used = None
        found = self.ready.get()
        if isinstance(found, BaseException):
            raise found
        buffer, filled, event = found
        if event is None:
            self.used = buffer
        else:
            torch.cuda.current_stream(self.device).wait_event(event)
            filled.record_stream(torch.cuda.current_stream(self.device))
            self.free.put((buffer, event))  # the copy on the GPU is a tensor of its own
        return filled

    def __enter__(self) -> "Background":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.is_over = True
        self.free.put((None, None))
        self.thread.join()
        if self.stream is not None:
            self.stream.synchronize()  # copies from these buffers are over when they are used again
        self.reader.spare = self.buffers
