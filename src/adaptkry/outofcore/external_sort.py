"""External sort: entries in any order become a CSR matrix on disk, through buckets of rows, sorted one by one."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

from adaptkry.common.files import named_error, replacing
from adaptkry.outofcore.npy_files import as_bytes, file_checksum, npy_header, save

MAX_BUCKETS = 256  # each is one or two open files
BUCKET_ENTRIES = 2**22  # entries sorted at once: 32 MiB of keys, and a few times that during sorting


def even_starts(counts: np.ndarray, bucket: int = BUCKET_ENTRIES) -> np.ndarray:
    """First rows of buckets of about equal size, given the maximum number of entries of each row."""
    before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    targets = np.arange(0, before[-1], max(bucket, -(-int(before[-1]) // MAX_BUCKETS)))
    return np.unique(np.searchsorted(before, targets, "right") - 1) if len(targets) else np.zeros(1, dtype=np.int64)


class Buckets:
    """Collects entries (row, column, weight) in temporary files by row, and sorts them.

    Args:
        folder: a folder for temporary files.
        nodes: number of rows and columns of the matrix.
        starts: first row of each bucket, from 0.
        is_weighted: whether entries have weights; of repeated entries the largest weight is kept.
    """

    def __init__(self, folder: Path, nodes: int, starts: np.ndarray, is_weighted: bool = False):
        self.nodes, self.starts, self.is_weighted = nodes, starts, is_weighted
        names = ("keys", "weights") if is_weighted else ("keys",)
        self.paths = [[folder / f"{name}-{i}.raw" for name in names] for i in range(len(starts))]
        self.files = [[path.open("wb") for path in paths] for paths in self.paths]

    def add(self, rows: np.ndarray, columns: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Add some entries; row and column are encoded as one number, so that one sort orders by both."""
        bucket = (np.searchsorted(self.starts, rows, "right") - 1).astype(np.uint16)
        order = np.argsort(bucket, kind="stable")  # NumPy uses a radix sort for 16 bits
        ends = np.cumsum(np.bincount(bucket, minlength=len(self.starts)))
        parts: list[np.ndarray] = [(rows.astype(np.int64) * self.nodes + columns)[order]]
        if weights is not None:
            parts.append(weights.astype(np.float64)[order])
        for files, first, last in zip(self.files, np.concatenate([[0], ends[:-1]]), ends, strict=True):
            for file, part in zip(files, parts, strict=True):
                file.write(as_bytes(part[first:last]))

    def sorted_buckets(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray | None]]:
        """Yield (first row, row after the last, keys, weights) of each bucket, sorted and without duplicates."""
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
        """Close the files; what is buffered is lost if the disk is full."""
        for files in self.files:
            for file in files:
                with suppress(OSError):
                    file.close()

    def write(self, target: Path) -> dict[str, str]:
        """Write indptr, indices and weights of a graph folder, and return their checksums."""
        counts = np.zeros(self.nodes + 1, dtype=np.int64)
        (target / "weights.npy").unlink(missing_ok=True)  # of another graph
        with ExitStack() as stack:
            append_indices = stack.enter_context(growing_npy(target / "indices.npy", np.int32))
            append_weights = None
            if self.is_weighted:
                append_weights = stack.enter_context(growing_npy(target / "weights.npy", np.float64))
            for start, stop, keys, weights in self.sorted_buckets():
                rows, columns = np.divmod(keys, self.nodes)
                counts[start + 1 : stop + 1] = np.bincount(rows - start, minlength=stop - start)
                append_indices(columns.astype(np.int32))
                if append_weights is not None and weights is not None:
                    append_weights(weights)
        checksums = {"indptr": save(target / "indptr.npy", np.cumsum(counts))}
        checksums["indices"] = file_checksum(target / "indices.npy")
        if self.is_weighted:
            checksums["weights"] = file_checksum(target / "weights.npy")
        return checksums


@contextmanager
def buckets(folder: Path, nodes: int, starts: np.ndarray, is_weighted: bool = False) -> Iterator[Buckets]:
    """Buckets in a temporary folder, which is removed afterwards."""
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
    folder.mkdir(parents=True)
    sorter = Buckets(folder, nodes, starts, is_weighted)
    try:
        yield sorter
    except OSError as error:
        raise named_error(error, folder) from None
    finally:
        sorter.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def growing_npy(path: Path, dtype):
    """Write a one-dimensional .npy file of unknown length atomically; yields a function that appends an array."""
    count, header_bytes = 0, len(npy_header((0,), np.dtype(dtype)))  # NumPy pads headers for any length
    with replacing(path) as file:
        file.write(bytes(header_bytes))

        def append(part: np.ndarray) -> None:
            nonlocal count
            count += len(part)
            file.write(as_bytes(part))

        yield append
        file.seek(0)
        file.write(npy_header((count,), np.dtype(dtype)))
