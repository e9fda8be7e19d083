"""The same graph turned round, or with every edge both ways, when it lies on disk and may not fit in memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from adaptkry.outofcore.edge_runs import SOME, cuts
from adaptkry.outofcore.external_sort import buckets, even_starts
from adaptkry.outofcore.folders import MANIFEST, GraphFolder, is_kind
from adaptkry.outofcore.graph_folder import finalise


def turned(folder: GraphFolder, direction: str, place: Path) -> GraphFolder:
    """The folder whose rows are what a node hears in this direction: itself where it can be, else made in `place`.

    "both" merges every edge with its reverse (the heavier of two weights), "in" reverses: `Graph.undirected` and
    `Graph.transposed` for graphs on disk.
    """
    if direction == "out" or folder.is_symmetric:
        return folder
    target, mark = place / direction, f"{folder.name} {direction} {folder.fingerprint}"
    if is_kind(target, "graph") and (made := GraphFolder.open(target)).name == mark:
        return made
    return _make(folder, direction, target, mark)


def _make(folder: GraphFolder, direction: str, target: Path, mark: str) -> GraphFolder:
    target.mkdir(parents=True, exist_ok=True)
    (target / MANIFEST).unlink(missing_ok=True)
    is_both = direction == "both"
    starts = even_starts(_arriving(folder) + (np.diff(folder.stored("indptr").read()) if is_both else 0))
    with buckets(target / "buckets", folder.nodes, starts, folder.has("weights")) as sorter:
        for sources, targets, weights in _entries(folder):
            sorter.add(targets, sources, weights)
            if is_both:
                sorter.add(sources, targets, weights)
        sums = sorter.write(target)
    return finalise(target, symmetric=is_both, name=mark, sums=sums)


def _arriving(folder: GraphFolder) -> np.ndarray:
    counts = np.zeros(folder.nodes, dtype=np.int64)
    for _, part in folder.stored("indices").pieces():
        np.add.at(counts, part, 1)
    return counts


def _entries(folder: GraphFolder) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    indptr, indices = folder.stored("indptr").read(), folder.stored("indices")
    weights = folder.stored("weights") if folder.has("weights") else None
    for start, stop in cuts(indptr, folder.nodes, 4 * SOME):
        first, last = int(indptr[start]), int(indptr[stop])
        sources = np.repeat(np.arange(start, stop), np.diff(indptr[start : stop + 1]))
        yield sources, indices.read(first, last), weights.read(first, last) if weights else None
