"""Transpose a graph on disk, or store every edge in both directions; the graph need not fit in memory."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from adaptkry.outofcore.edge_runs import NODES_AT_ONCE, row_ranges
from adaptkry.outofcore.external_sort import buckets, even_starts
from adaptkry.outofcore.graph_folder import GraphFolder, check_weights, finalise, in_degrees
from adaptkry.outofcore.manifest import MANIFEST
from adaptkry.outofcore.work_folder import make_work_folder

logger = logging.getLogger(__name__)


def oriented(folder: GraphFolder, direction: str, work: Path) -> GraphFolder:
    """The graph folder for a direction: the same folder if possible, otherwise a new one in `work`.

    "both" stores every edge in both directions (with the larger of two weights), "in" reverses the edges, as
    `Graph.undirected` and `Graph.transposed` do in memory.
    """
    if direction == "out" or folder.is_symmetric:
        return folder
    target, name = work / direction, f"{folder.name} {direction} {folder.fingerprint}"
    with suppress(ValueError, TypeError, OSError):  # there is none, it is damaged, or of another graph
        existing = GraphFolder.open(target)
        existing.verify()
        if existing.name == name:
            return existing
    logger.info('%s is directed: sorting its edges for direction "%s" into %s', folder.name, direction, target)
    return _write(folder, direction, target, name)


def _write(folder: GraphFolder, direction: str, target: Path, name: str) -> GraphFolder:
    make_work_folder(target.parent)
    target.mkdir(exist_ok=True)
    (target / MANIFEST).unlink(missing_ok=True)
    is_both = direction == "both"
    starts = even_starts(in_degrees(folder) + (np.diff(folder.array("indptr").read()) if is_both else 0))
    with buckets(target / "buckets", folder.nodes, starts, folder.has("weights")) as sorter:
        for sources, targets, weights in _entries(folder):
            sorter.add(targets, sources, weights)
            if is_both:
                sorter.add(sources, targets, weights)
        checksums = sorter.write(target)
    return finalise(target, symmetric=is_both, name=name, checksums=checksums)


def _entries(folder: GraphFolder) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield sources, targets and weights of the entries in order."""
    indptr, indices = folder.array("indptr").read(), folder.array("indices")
    weights = folder.array("weights") if folder.has("weights") else None
    for start, stop in row_ranges(indptr, folder.nodes, 4 * NODES_AT_ONCE):
        first, last = int(indptr[start]), int(indptr[stop])
        sources = np.repeat(np.arange(start, stop), np.diff(indptr[start : stop + 1]))
        part = check_weights(weights, weights.read(first, last)) if weights else None
        yield sources, indices.read(first, last), part
