"""A whole basis onto disk: prepared, compared with what is there, and then made block by block."""

import errno
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common import timing
from adaptkry.common.files import exclusive_lock
from adaptkry.outofcore import executors as engines
from adaptkry.outofcore import feature_columns as columns_of
from adaptkry.outofcore import folders
from adaptkry.outofcore import resume as resuming
from adaptkry.outofcore import row_selection as choosing
from adaptkry.outofcore.block import Job, forget, make_block
from adaptkry.outofcore.folders import BasisFolder, block_name
from adaptkry.outofcore.memory_plan import show_bytes
from adaptkry.outofcore.npy_files import digest, save
from adaptkry.outofcore.request import Prepared, Request, prepare, work_of

Block = tuple[int, int]
Tick = Callable[[int], object]


def propagate(
    graph,
    out: Path | str,
    *,
    taus: Sequence[float] | float,
    degree: int,
    directions: Sequence[str] = ("both",),
    rows: Any = "all",
    dtype: str = "float32",
    memory: str | int = "4GiB",
    columns: int | None = None,
    features: Path | str | None = None,
    seed: int = 0,
    engine: str = "here",
    workers: int | None = None,
    scheduler: str | None = None,
    say: Callable[[str], object] = lambda _: None,
    quiet: bool = True,
) -> BasisFolder:
    """Compute x, Px, ..., P^K x for every direction and tau, and write them to a folder.

    The numbers are those of `Propagation` to the bit. Killed at any moment, the same call goes on with the blocks
    that are finished. The folder is the same to the byte whichever engine made it.

    Args:
        graph: a graph folder, a `Graph`, or whatever `load` takes.
        out: the basis folder. What must be made before lies beside it, in `OUT.work`.
        taus: one or several, above 0.
        degree: hops K.
        directions: "both", "out", "in".
        rows: "all", "labelled", a file of node numbers, or a list of them.
        dtype: of what is stored, "float32" or "bfloat16"; products are made in float32.
        memory: the most that each process that makes blocks may hold, such as "4GiB".
        columns: of a block at most; by default what is fastest and fits in memory.
        features: an .npy or .parquet file in place of the graph's own features.
        seed: of the order in which rows are stored.
        engine: "here", "processes" or "dask".
        workers: how many, for the other engines.
        scheduler: address of a Dask cluster; without it Dask starts one on this machine.
        say: called with each piece of news.
        quiet: show no progress.
    """
    out = Path(out)
    asked = Request(taus, degree, directions, rows, dtype, memory, columns, features, seed)  # type: ignore[arg-type]
    prepared = prepare(graph, out, asked, say)
    out.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(out):
        prepared, sums = _begin(out, prepared)
        done = resuming.kept(prepared, say)
        todo = [(start, stop) for start, stop in prepared.manifest["blocks"] if (start, stop) not in done]
        _room(out, prepared.job, todo)
        if todo:
            with (
                engines.executor(engine, workers, scheduler) as pool,
                columns_of.cut(prepared.job, todo, _place(out, prepared), quiet) as job,
                progress(job, todo, quiet) as tick,
            ):
                try:
                    _run(job, todo, done, pool, tick)
                finally:
                    forget()
        resuming.clean(out)  # after workers that died
        sums |= {f"{block_name(*block)}.npy": told for block, told in done.items()}
        folders.write_manifest(out, {**prepared.manifest, "xxh128": sums})
    return BasisFolder.open(out)


def _begin(out: Path, prepared: Prepared) -> tuple[Prepared, dict[str, str]]:
    """Write what is known before any block: the manifest, without their checksums, and the stored rows."""
    labels = choosing.labels_of(prepared.source, prepared.rows)
    arrays = {"rows.npy": prepared.rows, "labels.npy": labels}
    sums = {name: digest(array) for name, array in arrays.items()}
    agreed, is_new = resuming.agree(out, prepared, sums)
    if is_new:
        folders.write_manifest(out, {**agreed.manifest, "xxh128": sums})
    for name, array in arrays.items():
        save(out / name, array)
    return replace(agreed, rows=np.empty(0, dtype=np.int64)), sums  # the list of rows makes room for the panels


def _place(out: Path, prepared: Prepared) -> Path:
    """Where these features are cut into columns, and no others; the fingerprint has their checksum in it."""
    return work_of(out) / f"columns-{prepared.source.fingerprint[:16]}"


def _room(out: Path, job: Job, todo: Sequence[Block]) -> None:
    """Refuse to begin what the disk cannot hold."""
    needed, free = sum(job.bytes_of(stop - start) + 4096 for start, stop in todo), shutil.disk_usage(out).free
    needed += columns_of.needed(job, todo)
    if needed > free:
        raise OSError(
            f"{len(todo)} blocks of this basis need {show_bytes(needed)} on disk, but {out} has {show_bytes(free)} "
            f"free. Free some, use another disk, or store less: --rows labelled, --dtype bfloat16, fewer --taus."
        )


def _run(job: Job, todo: Sequence[Block], done: dict[Block, str], pool: Executor, tick: Tick) -> None:
    """Have all blocks made; what is finished when something goes wrong stays."""
    total, is_here = len(todo) + len(done), isinstance(pool, engines.InlineExecutor)
    try:
        if is_here:
            for block in todo:
                done[block] = pool.submit(make_block, job, *block, tick).result()
            return
        waiting = {pool.submit(make_block, job, *block): block for block in todo}
        for future in as_completed(waiting):
            start, stop = block = waiting[future]
            done[block] = future.result()
            tick(job.bytes_of(stop - start))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        left = sum(job.bytes_of(stop - start) for start, stop in todo if (start, stop) not in done)
        raise OSError(
            f"the disk of {job.out} is full. {len(done)} of {total} blocks are finished and kept; free "
            f"{show_bytes(left)} and the same command goes on with them."
        ) from None
    except Exception as error:
        if not isinstance(error, BrokenExecutor) and type(error).__name__ != "KilledWorker":  # the latter is Dask's
            raise
        raise OSError(
            f"workers died again and again, perhaps for want of memory: {len(done)} of {total} blocks are finished and "
            f"kept. The same command goes on with them; fewer --workers or less --memory take less each."
        ) from None


@contextmanager
def progress(job: Job, todo: Sequence[Block], quiet: bool) -> Iterator[Tick]:
    """Bytes written so far, how fast, and the time left; call what it yields with each number of bytes."""
    total, begun, done = sum(job.bytes_of(stop - start) for start, stop in todo), time.monotonic(), 0
    with timing.shown(total, quiet, timing.PAUSE, remaining=True) as show:

        def tick(size: int) -> None:
            nonlocal done
            done += size
            rate = done / max(time.monotonic() - begun, 1e-9)
            left = timing.clock((total - done) / rate)
            show(done, f"{show_bytes(done)} of {show_bytes(total)}, {rate / 1e6:.0f} MB/s, {left} left")

        yield tick
