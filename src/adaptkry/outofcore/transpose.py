"""Transpose a graph on disk, or store every edge in both directions; the graph need not fit in memory."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from adaptkry.outofcore.edge_runs import NODES_AT_ONCE, row_ranges
from adaptkry.outofcore.external_sort import buckets, even_starts
from adaptkry.outofcore.graph_folder import GraphFolder, finalise
from adaptkry.outofcore.manifest import MANIFEST, is_kind

logger = logging.getLogger(__name__)


def oriented(folder: GraphFolder, direction: str, work: Path) -> GraphFolder:
    """The graph folder for a direction: the same folder if possible, otherwise a new one in `work`.

    "both" stores every edge in both directions (with the larger of two weights), "in" reverses the edges, as
    `Graph.undirected` and `Graph.transposed` do in memory.
    """
    if direction == "out" or folder.is_symmetric:
        return folder
    target, name = work / direction, f"{folder.name} {direction} {folder.fingerprint}"
    if is_kind(target, "graph") and (existing := GraphFolder.open(target)).name == name:
        return existing
    logger.info('%s is directed: sorting its edges for direction "%s" into %s', folder.name, direction, target)
    return _write(folder, direction, target, name)


def _write(folder: GraphFolder, direction: str, target: Path, name: str) -> GraphFolder:
    target.mkdir(parents=True, exist_ok=True)
    (target / MANIFEST).unlink(missing_ok=True)
    is_both = direction == "both"
    starts = even_starts(_in_degrees(folder) + (np.diff(folder.array("indptr").read()) if is_both else 0))
    with buckets(target / "buckets", folder.nodes, starts, folder.has("weights")) as sorter:
        for sources, targets, weights in _entries(folder):
            sorter.add(targets, sources, weights)
            if is_both:
                sorter.add(sources, targets, weights)
        checksums = sorter.write(target)
    return finalise(target, symmetric=is_both, name=name, checksums=checksums)


def _in_degrees(folder: GraphFolder) -> np.ndarray:
    counts = np.zeros(folder.nodes, dtype=np.int64)
    for _, part in folder.array("indices").chunks():
        np.add.at(counts, part, 1)
    return counts


def _entries(folder: GraphFolder) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield sources, targets and weights of the entries in order."""
    indptr, indices = folder.array("indptr").read(), folder.array("indices")
    weights = folder.array("weights") if folder.has("weights") else None
    for start, stop in row_ranges(indptr, folder.nodes, 4 * NODES_AT_ONCE):
        first, last = int(indptr[start]), int(indptr[stop])
        sources = np.repeat(np.arange(start, stop), np.diff(indptr[start : stop + 1]))
        yield sources, indices.read(first, last), weights.read(first, last) if weights else None
