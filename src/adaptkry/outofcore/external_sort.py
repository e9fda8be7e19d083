"""Entries in any order become a CSR matrix on disk, whatever their number: buckets of rows first, then each sorted."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from adaptkry.outofcore.npy_files import as_bytes, checksum, header, save

MOST = 256  # buckets, each an open file or two
BUCKET = 2**22  # entries sorted at once: 32 MiB of keys, and some times that on the way


def even_starts(counts: np.ndarray, bucket: int = BUCKET) -> np.ndarray:
    """First rows of buckets that hold about as many entries each, given at most how many each row has."""
    before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    wanted = np.arange(0, before[-1], max(bucket, -(-int(before[-1]) // MOST)))
    return np.unique(np.searchsorted(before, wanted, "right") - 1) if len(wanted) else np.zeros(1, dtype=np.int64)


class Buckets:
    """Entries (row, column, weight) on their way to disk, shared out by row.

    Args:
        place: a folder for the files on the way.
        nodes: rows and columns of the matrix.
        starts: first row of each bucket, from 0.
        is_weighted: whether entries have weights; repeated ones get the largest.
    """

    def __init__(self, place: Path, nodes: int, starts: np.ndarray, is_weighted: bool = False):
        self.nodes, self.starts, self.is_weighted = nodes, starts, is_weighted
        names = ("keys", "weights") if is_weighted else ("keys",)
        self.paths = [[place / f"{name}-{i}.raw" for name in names] for i in range(len(starts))]
        self.files = [[path.open("wb") for path in paths] for paths in self.paths]

    def add(self, rows: np.ndarray, columns: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Take some entries; one number holds row and column, so that one sort orders by both."""
        bucket = (np.searchsorted(self.starts, rows, "right") - 1).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")  # of 16 bits: a radix sort
        ends = np.cumsum(np.bincount(bucket, minlength=len(self.starts)))
        parts: list[np.ndarray] = [(rows.astype(np.int64) * self.nodes + columns)[order]]
        if weights is not None:
            parts.append(weights.astype(np.float64)[order])
        for files, first, last in zip(self.files, np.concatenate([[0], ends[:-1]]), ends, strict=True):
            for file, part in zip(files, parts, strict=True):
                file.write(as_bytes(part[first:last]))

    def sorted(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray | None]]:
        """First and last row, keys and weights of each bucket, in order and without repeats."""
        for i, (files, paths) in enumerate(zip(self.files, self.paths, strict=True)):
            for file in files:
                file.close()
            stop = int(self.starts[i + 1]) if i + 1 < len(self.starts) else self.nodes
            keys, weights = np.fromfile(paths[0], np.int64), None
            if self.is_weighted:
                order = np.argsort(keys, kind="stable")
                keys, weights = keys[order], np.fromfile(paths[1], np.float64)[order]
            else:
                keys.sort()
            is_first = np.ones(len(keys), dtype=bool)
            np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
            if weights is not None and len(keys):
                weights = np.maximum.reduceat(weights, np.flatnonzero(is_first))
            yield int(self.starts[i]), stop, keys[is_first], weights
            for path in paths:
                path.unlink()

    def close(self) -> None:
        """Give up the files, after an error too."""
        for files in self.files:
            for file in files:
                file.close()

    def write(self, target: Path) -> dict[str, str]:
        """Write indptr, indices and weights as a graph folder has them; their checksums."""
        counts = np.zeros(self.nodes + 1, dtype=np.int64)
        with growing(target / "indices.npy", np.int32) as indices, growing(target / "weights.npy", np.float64) as data:
            for start, stop, keys, weights in self.sorted():
                rows, columns = np.divmod(keys, self.nodes)
                counts[start + 1 : stop + 1] = np.bincount(rows - start, minlength=stop - start)
                indices(columns.astype(np.int32))
                if weights is not None:
                    data(weights)
        sums = {"indptr": save(target / "indptr.npy", np.cumsum(counts))}
        sums["indices"] = checksum(target / "indices.npy")
        if self.is_weighted:
            sums["weights"] = checksum(target / "weights.npy")
        else:
            (target / "weights.npy").unlink()
        return sums


@contextmanager
def buckets(place: Path, nodes: int, starts: np.ndarray, is_weighted: bool = False) -> Iterator[Buckets]:
    """Buckets in a folder of their own that is gone afterwards."""
    shutil.rmtree(place, ignore_errors=True)  # of a run that was killed
    place.mkdir(parents=True)
    made = Buckets(place, nodes, starts, is_weighted)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def growing(path: Path, dtype):
    """A one-dimensional .npy file whose length is known at the end only; call what it yields with each part."""
    count, room = 0, len(header((0,), np.dtype(dtype)))  # NumPy leaves room for any length
    with path.open("wb") as file:
        file.write(bytes(room))

        def add(part: np.ndarray) -> None:
            nonlocal count
            count += len(part)
            file.write(as_bytes(part))

        yield add
        file.seek(0)
        file.write(header((count,), np.dtype(dtype)))
