"""Features cut into the columns of every block, where there are many blocks.

A file of features lies row by row, so a block's columns cannot be read alone: the file is read whole for each of them,
and time grows with the square of d. With many blocks it pays to read it once, write it once and read that once.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from adaptkry.common import timing
from adaptkry.outofcore.block import Job, columns_file
from adaptkry.outofcore.npy_files import Stored, streaming

MANY = 6  # blocks: below, reading the file again costs less than writing it once more
AT_ONCE = 64  # files written in one pass: each has a buffer, and systems allow about a thousand open ones

Block = tuple[int, int]


def needed(job: Job, todo: Sequence[Block]) -> int:
    """Bytes that the cut features take on disk meanwhile."""
    features = Stored.open(Path(job.features))
    return features.shape[0] * features.row_bytes if len(todo) >= MANY else 0


@contextmanager
def cut(job: Job, todo: Sequence[Block], place: Path, quiet: bool = True) -> Iterator[Job]:
    """The job with its features cut into `place` where that pays; the files are gone when all has gone well.

    Args:
        job: what is to be done.
        todo: its blocks that are not there yet.
        place: a folder whose name stands for these features, so that an earlier command's files can be used.
        quiet: show no progress.
    """
    if len(todo) < MANY and not place.is_dir():
        yield job
        return
    place.mkdir(parents=True, exist_ok=True)
    missing = [block for block in todo if not columns_file(place, *block).is_file()]
    _write_all(Stored.open(Path(job.features)), missing, place, quiet)
    yield replace(job, columns=str(place.resolve()))
    shutil.rmtree(place)
    with suppress(OSError):  # the folder of graphs that were made for this basis stays
        place.parent.rmdir()


def _write_all(features: Stored, blocks: Sequence[Block], place: Path, quiet: bool) -> None:
    passes = [blocks[start : start + AT_ONCE] for start in range(0, len(blocks), AT_ONCE)]
    with timing.progress("rows cut into columns", len(passes) * features.shape[0], quiet) as tick:
        for some in passes:
            _write(features, some, place, tick)


def _write(features: Stored, blocks: Sequence[Block], place: Path, tick: Callable[[int], object]) -> None:
    """One pass over the features; a file is there when it is whole."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(streaming(columns_file(place, a, b), (features.shape[0], b - a), features.dtype))
            for a, b in blocks
        ]
        for _, piece in features.pieces():
            for (a, b), file in zip(blocks, files, strict=True):
                file.write(np.ascontiguousarray(piece[:, a:b]))
            tick(len(piece))
