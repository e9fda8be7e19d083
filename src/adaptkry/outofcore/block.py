"""Compute one block, some columns of every basis and hop, from the file of features, and write it to its file.

`compute_block` may be called any number of times, in this process or on another machine: it writes the same bytes, and
does nothing for a block that is finished.
"""

import itertools
import json
import math
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import files
from adaptkry.common.errors import is_declared
from adaptkry.outofcore.basis_folder import DISK_DTYPES, block_name
from adaptkry.outofcore.edge_runs import StoredAdjacency
from adaptkry.outofcore.graph_folder import GraphFolder
from adaptkry.outofcore.memory_plan import BUFFER_BYTES, MemoryPlan
from adaptkry.outofcore.npy_files import NpyFile, NpyWriter, file_checksum, npy_writer
from adaptkry.spectral.kernels import cpu as kernels

BLOCK_LOCK = threading.Lock()  # one block at a time: several blocks in memory would exceed the memory limit
BlockBounds = tuple[int, int]  # columns start..stop-1


@dataclass(frozen=True)
class PropagationJob:
    """Everything that a worker needs for a block, as plain values that can be sent to other processes and machines."""

    out: str  # the basis folder
    key: str  # digest of the request: a block with another key belongs to another basis
    graphs: tuple[str, ...]  # one graph folder per direction
    features: str  # an .npy file [n, d]
    taus: tuple[float, ...]
    degree: int
    dtype: str
    rows: int
    plan: MemoryPlan
    fingerprints: tuple[str, ...] = ()  # of the edges in the graph folders, which must not change meanwhile
    columns: str | None = None  # a folder with one file of features per block, to use instead of `features`

    def shape(self, width: int) -> tuple[int, int, int, int]:
        """The shape of a block: bases, hops, rows, columns."""
        return (len(self.graphs) * len(self.taus), self.degree + 1, self.rows, width)

    def bytes_of(self, width: int) -> int:
        """Bytes of a block of `width` columns, without its header."""
        return math.prod(self.shape(width)) * DISK_DTYPES[self.dtype].itemsize


class WorkerCache:
    """The edges of one graph and buffers, which a worker reuses for the next block.

    Allocating new memory pages costs as much time as a product.
    """

    def __init__(self):
        self.edges: dict[tuple, StoredAdjacency] = {}
        self.buffers: dict[str, Tensor] = {}

    def adjacency(self, graph: str, fingerprint: str, entries_in_memory: int | None) -> StoredAdjacency:
        """The edges of a graph folder; those of the previous graph are released first."""
        folder = GraphFolder.open(graph)
        if folder.edges_fingerprint != fingerprint:
            raise ValueError(
                f"{graph} must not change while its basis is computed; it was written again. Run the command again."
            )
        key = (graph, fingerprint, entries_in_memory)
        if key not in self.edges:
            self.edges.clear()
            self.edges[key] = StoredAdjacency(folder, entries_in_memory)
        return self.edges[key]

    def buffer(self, name: str, count: int, rows: int, width: int) -> Tensor:
        """An uninitialised float32 array [count, rows, width]."""
        size = count * rows * width
        if name not in self.buffers or len(self.buffers[name]) < size:
            self.buffers.pop(name, None)
            self.buffers[name] = kernels.empty(size, dtype=torch.float32)
        return self.buffers[name][:size].view(count, rows, width)

    def clear(self) -> None:
        """Release all memory."""
        self.edges.clear()
        self.buffers.clear()


WORKER_CACHE = WorkerCache()  # one per process


def columns_file(folder: Path, start: int, stop: int) -> Path:
    """The file with the features of one block, if features were split."""
    return folder / f"columns-{start}-{stop}.npy"


def finished_checksum(job: PropagationJob, start: int, stop: int) -> str | None:
    """The checksum of a block that is finished, undamaged and of this request; otherwise None."""
    block = Path(job.out) / block_name(start, stop)
    try:
        record = json.loads(block.with_suffix(".json").read_text())
        checksum = record["xxh128"]
        is_finished = record["key"] == job.key and file_checksum(block.with_suffix(".npy")) == checksum
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return checksum if is_finished else None


def compute_block(
    job: PropagationJob, start: int, stop: int, on_bytes: Callable[[int], object] = lambda _: None
) -> str:
    """Compute columns start..stop-1, unless they are finished, and return their checksum.

    Args:
        job: the job.
        start: the first column.
        stop: the column after the last.
        on_bytes: called after every hop with its number of bytes.
    """
    with BLOCK_LOCK:
        return finished_checksum(job, start, stop) or _compute(job, start, stop, on_bytes)


def compute_in_worker(job: PropagationJob, start: int, stop: int) -> tuple[str | None, str]:
    """As `compute_block`, in another process: (checksum, ""), or (None, message) for bad input.

    An exception that is sent to another process loses its traceback, which tells bad input from a bug.
    """
    try:
        return compute_block(job, start, stop), ""
    except (ValueError, TypeError) as error:
        if not is_declared(error):
            raise
        return None, str(error)


def _compute(job: PropagationJob, start: int, stop: int, on_bytes: Callable[[int], object]) -> str:
    block = Path(job.out) / block_name(start, stop)
    block.with_suffix(".json").unlink(missing_ok=True)
    rows = torch.from_numpy(NpyFile.open(Path(job.out) / "rows.npy").read().astype(np.int32))
    width, dtype = stop - start, DISK_DTYPES[job.dtype]
    with (
        npy_writer(block.with_suffix(".npy"), job.shape(width), dtype) as writer,
        BackgroundWriter(writer, job, width) as background,
    ):
        for hop in hops(job, start, stop):
            background.store(hop, rows)
            on_bytes(job.rows * width * dtype.itemsize)
    record = {"key": job.key, "xxh128": writer.checksum}
    files.write(block.with_suffix(".json"), json.dumps(record) + "\n")
    return writer.checksum


def hops(job: PropagationJob, start: int, stop: int) -> Iterator[Tensor]:
    """Yield every direction, tau and hop in turn as [n, w]; each is overwritten when the next one is computed."""
    features = NpyFile.open(columns_file(Path(job.columns), start, stop) if job.columns else Path(job.features))
    panels = WORKER_CACHE.buffer("panels", 2, features.shape[0], stop - start)
    for (graph, fingerprint), tau in itertools.product(zip(job.graphs, job.fingerprints, strict=True), job.taus):
        x, other = panels
        read_columns(features, start, x, job.features)
        yield x
        adjacency = WORKER_CACHE.adjacency(graph, fingerprint, job.plan.entries_in_memory)
        scaling = adjacency.factors(tau)
        for _ in range(job.degree):
            adjacency.propagate(x, scaling, other)
            x, other = other, x
            yield x
        del adjacency, scaling  # frees memory before the next ones are allocated


def read_columns(features: NpyFile, start: int, target: Tensor, source: str) -> None:
    """Read columns from `start` on into the target, as float32, as many as the target has.

    A file with exactly that many columns holds the columns of one block. `source` is the file to name in errors.
    """
    width = target.shape[1]
    first_column = 0 if features.shape[1] == width else start
    for first, chunk in features.chunks():
        part = target[first : first + len(chunk)]
        part.copy_(torch.from_numpy(chunk)[:, first_column : first_column + width])
        if not torch.isfinite(part.sum()) and not torch.isfinite(part).all():  # the sum is faster, but may overflow
            row, column = (~torch.isfinite(part)).nonzero()[0].tolist()
            raise ValueError(
                f"{source} must be finite; node {first + row} has {float(part[row, column])} in column "
                f"{start + column}. Fill in missing values first."
            )


class BackgroundWriter:
    """Writes rows in a thread, through a few buffers, while the next hop is computed."""

    def __init__(self, writer: NpyWriter, job: PropagationJob, width: int):
        self.writer, self.is_bfloat16 = writer, job.dtype == "bfloat16"
        self.step = max(1, BUFFER_BYTES // (4 * width))
        self.free: queue.SimpleQueue[Tensor] = queue.SimpleQueue()
        count = max(2, min(job.plan.buffers, -(-job.rows // self.step)))
        for buffer in WORKER_CACHE.buffer("rows to write", count, self.step, width):
            self.free.put(buffer)
        self.error: BaseException | None = None
        self.thread = ThreadPoolExecutor(1)

    def store(self, panel: Tensor, rows: Tensor) -> None:
        """Copy these rows of a panel to buffers; the panel may be changed afterwards."""
        for chunk in rows.split(self.step):
            buffer = self.free.get()
            if self.error:
                raise self.error
            torch.index_select(panel, 0, chunk, out=buffer[: len(chunk)])
            self.thread.submit(self._write, buffer, len(chunk))

    def _write(self, buffer: Tensor, count: int) -> None:
        try:
            if not self.error:
                part = buffer[:count]
                stored = part.to(torch.bfloat16).view(torch.uint16) if self.is_bfloat16 else part
                self.writer.write(stored.numpy())
        except BaseException as error:  # raised again by `store` or `__exit__` in the main thread
            self.error = error
        finally:
            self.free.put(buffer)

    def __enter__(self) -> "BackgroundWriter":
        return self

    def __exit__(self, kind, *_) -> None:
        self.thread.shutdown(wait=True)
        if self.error and kind is None:
            raise self.error
