"""Compute a whole basis on disk, block by block; after an interruption, the same call keeps the finished blocks."""

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from adaptkry.common.files import DISK_FULL, TEMPORARY_SUFFIX, checked_path
from adaptkry.common.journal import Journal
from adaptkry.common.memory import format_bytes
from adaptkry.outofcore.basis_folder import BasisFolder, block_name
from adaptkry.outofcore.block import (
    WORKER_CACHE,
    BlockBounds,
    PropagationJob,
    compute_block,
    compute_in_worker,
    finished_checksum,
)
from adaptkry.outofcore.executors import InlineExecutor, check_executor, open_executor
from adaptkry.outofcore.feature_columns import bytes_to_split, disk_space_for_columns, split_features
from adaptkry.outofcore.manifest import MANIFEST, check_output, read_manifest, write_manifest
from adaptkry.outofcore.node_ids import NODE_IDS
from adaptkry.outofcore.npy_files import save
from adaptkry.outofcore.request import PreparedBasis, Request, check_free_space, prepare, settings_of
from adaptkry.outofcore.work_folder import work_folder

logger = logging.getLogger(__name__)


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
    executor: str = "inline",
    workers: int | None = None,
    scheduler: str | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> BasisFolder:
    """Compute x, Px, ..., P^K x for every direction and tau, and write them to a folder.

    The numbers have the same bits as those of `Propagation`, and the folder has the same bytes for every executor.
    After an interruption, the same call keeps the finished blocks.

    Args:
        graph: a graph folder, a `Graph`, or anything that `load` accepts.
        out: the basis folder. Intermediate files are written beside it, to `OUT.work`.
        taus: one or several positive numbers.
        degree: number of hops K.
        directions: "both", "out", "in".
        rows: "all", "labelled", a file of node numbers, or a list of them.
        dtype: type of the stored numbers, "float32" or "bfloat16"; products are computed in float32.
        memory: maximum memory of each process that computes blocks, such as "4GiB".
        columns: maximum number of columns per block; by default the fastest that fits in memory.
        features: an .npy or .parquet file to use instead of the features of the graph.
        seed: seed of the order in which rows are stored.
        executor: what computes the blocks: "inline" (this process), "processes" or "dask".
        workers: number of worker processes, for "processes" and "dask"; by default one per core.
        scheduler: address of a Dask scheduler; by default a new cluster on this machine.
        on_progress: called with (bytes done, bytes in total).
    """
    out = checked_path(out, "the output folder")
    request = Request(taus, degree, directions, rows, dtype, memory, columns, features, seed)  # type: ignore[arg-type]
    check_executor(executor, workers, scheduler)
    with Journal(out, command="propagate", file=None) as journal:  # locks OUT before OUT.work is changed
        check_output(out, "basis")
        with cleanup_on_error(out):
            prepared = prepare(graph, out, request)
            checksums = prepared.checksums
            prepared = open_journal(journal, prepared, checksums["rows.npy"])
            missing = [block for block in prepared.blocks if block_name(*block) not in journal.done]
            check_disk_space(out, prepared.job, missing)
            if journal.is_new:
                write_manifest(out, {**prepared.manifest, "xxh128": checksums})
            for name, array in prepared.arrays.items():
                save(out / name, array)
            prepared = replace(prepared, arrays={})  # frees memory for the panels
            if missing:
                with open_executor(executor, workers and min(workers, len(missing)), scheduler) as pool:
                    compute_blocks(journal, prepared, missing, pool, on_progress)
            checksums |= {f"{block}.npy": record["xxh128"] for block, record in journal.done.items()}
            write_manifest(out, {**prepared.manifest, "xxh128": checksums})
            remove_partial_files(out)  # left by workers that died
        return BasisFolder.open(out)


@contextmanager
def cleanup_on_error(out: Path) -> Iterator[None]:
    """Remove what a failed command has written, unless a block is finished: the same command continues from it.

    Sorted edges and split features, which take long, are kept too, but not if the request is refused.
    """
    work = work_folder(out)
    existed = work.exists()
    try:
        yield
    except BaseException as error:
        if any(out.glob("block-*.json")):
            raise
        remove_partial_files(out)
        for file in (
            *out.glob("block-*.npy"),
            *(out / name for name in (MANIFEST, "rows.npy", "labels.npy", NODE_IDS)),
        ):
            file.unlink(missing_ok=True)
        kept = [work / "both", work / "in", *work.glob("columns-*")]
        if not existed and (isinstance(error, ValueError | TypeError) or not any(map(Path.exists, kept))):
            shutil.rmtree(work, ignore_errors=True)
        elif not existed:
            shutil.rmtree(work / "graph", ignore_errors=True)
            (work / "features.npy").unlink(missing_ok=True)
        raise


def open_journal(journal: Journal, prepared: PreparedBasis, rows_checksum: str) -> PreparedBasis:
    """Refuse a folder of another request, and find the finished blocks; a folder without blocks is new.

    Returns `prepared` with the blocks that the folder already has.
    """
    out = journal.folder
    manifest = read_manifest(out, "basis") if any(out.glob("block-*")) else None
    recorded = None if manifest is None else settings_of(manifest, manifest["xxh128"].get("rows.npy"))
    journal.open(prepared.job.key, settings_of(prepared.manifest, rows_checksum), recorded=recorded)
    if manifest is None:
        return prepared
    width = max((stop - start for start, stop in manifest["blocks"]), default=0)
    if width > prepared.job.plan.width:
        raise ValueError(
            f"{out} was started with blocks of {width} columns; this memory limit allows {prepared.job.plan.width}. "
            f"Use the same --memory as before, or another output folder."
        )
    prepared = replace(prepared, manifest={**prepared.manifest, "blocks": manifest["blocks"]})
    journal.done.update(finished_blocks(prepared))
    return prepared


def finished_blocks(prepared: PreparedBasis) -> dict[str, dict[str, str]]:
    """The blocks that are finished and undamaged, with their checksums."""
    out = Path(prepared.job.out)
    remove_partial_files(out)
    started = [block for block in prepared.blocks if (out / f"{block_name(*block)}.npy").is_file()]
    checksums = {block: finished_checksum(prepared.job, *block) for block in started}
    finished = {block_name(*block): {"xxh128": checksum} for block, checksum in checksums.items() if checksum}
    if started:
        damaged = len(started) - len(finished)
        suffix = f", {damaged} damaged and computed again" if damaged else ""
        logger.info("%d of %d blocks kept%s", len(finished), len(prepared.blocks), suffix)
    return finished


def remove_partial_files(out: Path) -> None:
    """Remove the temporary files of killed workers."""
    for part in out.glob(f".*{TEMPORARY_SUFFIX}"):
        part.unlink(missing_ok=True)


def check_disk_space(out: Path, job: PropagationJob, missing: Sequence[BlockBounds]) -> None:
    """Raise an error if the missing blocks do not fit on the disk."""
    needed = sum(job.bytes_of(stop - start) + 4096 for start, stop in missing)
    check_free_space(out, needed + disk_space_for_columns(job, missing))


def compute_blocks(
    journal: Journal,
    prepared: PreparedBasis,
    missing: Sequence[BlockBounds],
    pool: Executor,
    on_progress: Callable[[int, int], object] | None,
) -> None:
    """Compute the missing blocks; blocks that are finished when an error occurs are kept."""
    job = prepared.job
    # The fingerprint of the graph includes the checksum of the features.
    folder = work_folder(Path(job.out)) / f"columns-{prepared.source.fingerprint[:16]}"
    total = sum(job.bytes_of(stop - start) for start, stop in missing) + bytes_to_split(job, missing, folder)
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        if on_progress is not None:
            on_progress(done, total)

    try:
        with split_features(job, missing, folder, on_bytes=on_bytes) as split_job:
            _run(journal, split_job, missing, pool, on_bytes)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        left = sum(job.bytes_of(stop - start) for start, stop in missing if block_name(start, stop) not in journal.done)
        raise OSError(
            f"{error.filename or job.out}: the disk is full; {len(journal.done)} of {len(prepared.blocks)} blocks are "
            f"finished and kept. Free {format_bytes(left)} and run the same command to continue."
        ) from None
    except Exception as error:
        if not isinstance(error, BrokenExecutor) and type(error).__name__ != "KilledWorker":  # KilledWorker: of Dask
            raise
        raise OSError(
            f"workers kept dying, possibly out of memory; {len(journal.done)} of {len(prepared.blocks)} blocks are "
            f"finished and kept. Run the same command to continue, with fewer --workers or less --memory."
        ) from None
    finally:
        WORKER_CACHE.clear()


def _run(
    journal: Journal,
    job: PropagationJob,
    missing: Sequence[BlockBounds],
    pool: Executor,
    on_bytes: Callable[[int], object],
) -> None:
    if isinstance(pool, InlineExecutor):
        for block in missing:
            journal.add(block_name(*block), {"xxh128": pool.submit(compute_block, job, *block, on_bytes).result()})
        return
    futures = {pool.submit(compute_in_worker, job, *block): block for block in missing}
    for future in as_completed(futures):
        start, stop = futures[future]
        checksum, message = future.result()
        if checksum is None:
            raise ValueError(message)
        journal.add(block_name(start, stop), {"xxh128": checksum})
        on_bytes(job.bytes_of(stop - start))
