"""Split the features into one file per block, if there are many blocks.

A file of features is stored row by row, so it must be read completely for every block, and the total time grows with
the square of d. With many blocks it is faster to read it once, write the columns of each block, and read those once.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from adaptkry.outofcore.block import BlockBounds, PropagationJob, columns_file
from adaptkry.outofcore.npy_files import NpyFile, npy_writer
from adaptkry.outofcore.work_folder import make_work_folder, remove_if_unused

MIN_BLOCKS = 6  # with fewer blocks, reading the whole file for each costs less than splitting it
FILES_AT_ONCE = 64  # files written in one pass: each has a buffer, and systems allow about a thousand open files


def disk_space_for_columns(job: PropagationJob, blocks: Sequence[BlockBounds]) -> int:
    """Bytes on disk that the split features need temporarily."""
    features = NpyFile.open(Path(job.features))
    return features.shape[0] * features.row_bytes if len(blocks) >= MIN_BLOCKS else 0


def bytes_to_split(
    job: PropagationJob, blocks: Sequence[BlockBounds], folder: Path, files_at_once: int = FILES_AT_ONCE
) -> int:
    """Bytes of features that `split_features` will read."""
    if len(blocks) < MIN_BLOCKS and not folder.is_dir():
        return 0
    features, passes = NpyFile.open(Path(job.features)), -(-len(_missing(blocks, folder)) // files_at_once)
    return passes * features.shape[0] * features.row_bytes


def _missing(blocks: Sequence[BlockBounds], folder: Path) -> list[BlockBounds]:
    return [block for block in blocks if not columns_file(folder, *block).is_file()]


@contextmanager
def split_features(
    job: PropagationJob,
    blocks: Sequence[BlockBounds],
    folder: Path,
    *,
    files_at_once: int = FILES_AT_ONCE,
    on_bytes: Callable[[int], object] = lambda _: None,
) -> Iterator[PropagationJob]:
    """Split the features into `folder` if that is faster, and yield the job that uses them.

    The files are removed after success.

    Args:
        job: the job.
        blocks: the blocks that are not finished.
        folder: its name identifies the features, so that files of an interrupted command can be reused.
        files_at_once: number of files that are written in one pass over the features.
        on_bytes: called with the number of bytes of features read.
    """
    if len(blocks) < MIN_BLOCKS and not folder.is_dir():
        yield job
        return
    make_work_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    missing = _missing(blocks, folder)
    for start in range(0, len(missing), files_at_once):
        _write_columns(NpyFile.open(Path(job.features)), missing[start : start + files_at_once], folder, on_bytes)
    yield replace(job, columns=str(folder.resolve()))
    shutil.rmtree(folder)
    remove_if_unused(folder.parent)


def _write_columns(
    features: NpyFile, blocks: Sequence[BlockBounds], folder: Path, on_bytes: Callable[[int], object]
) -> None:
    """Write these blocks in one pass over the features; incomplete files have temporary names."""
    with ExitStack() as stack:
        writers = [
            stack.enter_context(npy_writer(columns_file(folder, a, b), (features.shape[0], b - a), features.dtype))
            for a, b in blocks
        ]
        for _, chunk in features.chunks():
            for (a, b), writer in zip(blocks, writers, strict=True):
                writer.write(np.ascontiguousarray(chunk[:, a:b]))
            on_bytes(chunk.nbytes)
