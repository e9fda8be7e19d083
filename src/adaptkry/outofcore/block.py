"""One block: some columns of every basis and hop, from the features' file to the block's file.

`make_block` may be called anywhere and any number of times, in this process or on another machine: it leaves the same
bytes, and a block that is there already is left alone.
"""

import itertools
import json
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import files as storage
from adaptkry.outofcore.edge_runs import Edges
from adaptkry.outofcore.folders import DTYPES, GraphFolder, block_name
from adaptkry.outofcore.memory_plan import CHUNK, Plan
from adaptkry.outofcore.npy_files import Stored, Stream, checksum, streaming
from adaptkry.spectral.kernels import cpu as kernels

ONE_AT_A_TIME = threading.Lock()  # a worker with several threads would hold several blocks, above the limit
KEPT: dict[tuple, Edges] = {}
ROOM: dict[str, Tensor] = {}


@dataclass(frozen=True)
class Job:
    """Everything a block needs, as plain values: it travels to other processes and machines."""

    out: str  # the basis folder
    graphs: tuple[str, ...]  # a folder with edges for each direction
    features: str  # an .npy file [n, d]
    taus: tuple[float, ...]
    degree: int
    dtype: str
    rows: int
    plan: Plan
    columns: str | None = None  # a folder with a file of features for each block, in place of `features`

    def shape(self, width: int) -> tuple[int, int, int, int]:
        """Of a block: bases, hops, rows, columns."""
        return (len(self.graphs) * len(self.taus), self.degree + 1, self.rows, width)

    def bytes_of(self, width: int) -> int:
        """Of a block of so many columns, without its header."""
        return int(np.prod(self.shape(width), dtype=np.int64)) * DTYPES[self.dtype].itemsize


def columns_file(place: Path, start: int, stop: int) -> Path:
    """Where the features of one block lie, if they were cut."""
    return place / f"columns-{start}-{stop}.npy"


def finished(job: Job, start: int, stop: int) -> str | None:
    """The checksum of a block that is there and undamaged."""
    block = Path(job.out) / block_name(start, stop)
    try:
        told = json.loads(block.with_suffix(".json").read_text())["xxh128"]
        return told if checksum(block.with_suffix(".npy")) == told else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make_block(job: Job, start: int, stop: int, tick: Callable[[int], object] = lambda _: None) -> str:
    """Make columns start..stop-1, unless they are there, and return their checksum."""
    with ONE_AT_A_TIME:
        told = finished(job, start, stop)
        return told if told else _make(job, start, stop, tick)


def _make(job: Job, start: int, stop: int, tick: Callable[[int], object]) -> str:
    block = Path(job.out) / block_name(start, stop)
    block.with_suffix(".json").unlink(missing_ok=True)
    rows = torch.from_numpy(Stored.open(Path(job.out) / "rows.npy").read().astype(np.int32))
    width, kind = stop - start, DTYPES[job.dtype]
    with (
        streaming(block.with_suffix(".npy"), job.shape(width), kind) as stream,
        Background(stream, job, width) as writer,
    ):
        for hop in hops(job, start, stop):
            writer.store(hop, rows)
            tick(job.rows * width * kind.itemsize)
    storage.write(block.with_suffix(".json"), json.dumps({"xxh128": stream.checksum}) + "\n")
    return stream.checksum


def hops(job: Job, start: int, stop: int) -> Iterator[Tensor]:
    """Every direction, tau and hop in turn as [n, w]; each is gone when the next one is asked for."""
    features = Stored.open(columns_file(Path(job.columns), start, stop) if job.columns else Path(job.features))
    panels = panels_of(features.shape[0], stop - start)
    for graph, tau in itertools.product(job.graphs, job.taus):
        x, other = panels
        read_columns(features, start, x, job.features)
        yield x
        edges = edges_of(graph, job.plan.held)
        by = edges.factors(tau)
        for _ in range(job.degree):
            edges.propagate(x, by, other)
            x, other = other, x
            yield x
        del edges, by  # before the next ones take their room


def panels_of(nodes: int, width: int) -> list[Tensor]:
    """Two panels [n, w]."""
    return list(room("panels", 2, nodes, width))


def room(name: str, count: int, rows: int, width: int) -> Tensor:
    """Arrays [count, rows, width] in memory that the block before has used: fresh pages cost as much as a product."""
    size = count * rows * width
    if name not in ROOM or len(ROOM[name]) < size:
        ROOM.pop(name, None)
        ROOM[name] = kernels.empty(size, dtype=torch.float32)
    return ROOM[name][:size].view(count, rows, width)


def forget() -> None:
    """Give back what is kept from block to block."""
    KEPT.clear()
    ROOM.clear()


def edges_of(graph: str, held: int | None) -> Edges:
    """The edges of a graph folder, kept for all the blocks that a worker makes; those of one graph only."""
    folder = GraphFolder.open(graph)
    key = (graph, folder.fingerprint, held)
    if key not in KEPT:
        KEPT.clear()
        KEPT[key] = Edges(folder, held)
    return KEPT[key]


def read_columns(features: Stored, start: int, target: Tensor, source: str) -> None:
    """Columns from `start` on as float32, as many as the target has; a file that has no more begins with them.

    `source` is the file that a bad value is told of.
    """
    width = target.shape[1]
    first_column = 0 if features.shape[1] == width else start
    for first, piece in features.pieces():
        part = target[first : first + len(piece)]
        part.copy_(torch.from_numpy(piece)[:, first_column : first_column + width])
        if not torch.isfinite(part.sum()) and not torch.isfinite(part).all():  # a sum is quick, and may overflow
            row, column = (~torch.isfinite(part)).nonzero()[0].tolist()
            raise ValueError(
                f"{source} must be finite, but node {first + row} has {float(part[row, column])} in column "
                f"{start + column}. Fill missing values in first."
            )


class Background:
    """Writes and hashes rows in a thread of its own while the next hop is computed, through a few buffers."""

    def __init__(self, stream: Stream, job: Job, width: int):
        self.stream, self.is_short = stream, job.dtype == "bfloat16"
        self.step = max(1, CHUNK // (4 * width))
        self.free: queue.SimpleQueue[Tensor] = queue.SimpleQueue()
        for buffer in room("waiting", max(2, min(job.plan.buffers, -(-job.rows // self.step))), self.step, width):
            self.free.put(buffer)
        self.failed: BaseException | None = None
        self.thread = ThreadPoolExecutor(1)

    def store(self, panel: Tensor, rows: Tensor) -> None:
        """Take these rows of a panel; when it returns, the panel may change."""
        for some in rows.split(self.step):
            buffer = self.free.get()
            if self.failed:
                raise self.failed
            torch.index_select(panel, 0, some, out=buffer[: len(some)])
            self.thread.submit(self._write, buffer, len(some))

    def _write(self, buffer: Tensor, count: int) -> None:
        try:
            if not self.failed:
                part = buffer[:count]
                self.stream.write(part.to(torch.bfloat16).view(torch.uint16).numpy() if self.is_short else part.numpy())
        except BaseException as error:  # raised again in the thread that waits
            self.failed = error
        finally:
            self.free.put(buffer)

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, kind, *_) -> None:
        self.thread.shutdown(wait=True)
        if self.failed and kind is None:
            raise self.failed
