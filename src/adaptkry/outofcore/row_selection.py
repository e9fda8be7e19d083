"""Which rows of a basis are stored, and in what order."""

from pathlib import Path

import numpy as np

from adaptkry.outofcore.folders import GraphFolder
from adaptkry.outofcore.npy_files import Stored


def choose(folder: GraphFolder, rows) -> np.ndarray:
    """Node numbers, rising: "all", "labelled", those in a file (.npy, or text with a number a line), or a list."""
    if not isinstance(rows, str | Path):
        return _within(np.asarray(rows), folder.nodes, "rows")
    if rows == "all":
        return np.arange(folder.nodes, dtype=np.int64)
    if rows == "labelled":
        return _labelled(folder)
    path = Path(rows).expanduser()
    if not path.is_file():
        raise ValueError(f"rows must be all, labelled or a file of node numbers, but {str(rows)!r} came: no such file.")
    try:
        found = Stored.open(path).read() if path.suffix == ".npy" else np.loadtxt(path, dtype=np.int64, ndmin=1)
    except ValueError as error:
        raise ValueError(f"{path} must hold node numbers, one a line ({error}).") from None
    return _within(found, folder.nodes, str(path))


def kind_of(rows) -> str:
    """How the manifest names the choice."""
    return rows if isinstance(rows, str) and rows in ("all", "labelled") else "listed"


def _labelled(folder: GraphFolder) -> np.ndarray:
    if not folder.has("labels"):
        raise ValueError(f"{folder.name} has no labels, so no row is labelled. Use --rows all, or a file of nodes.")
    parts = [start + np.flatnonzero(labels >= 0) for start, labels in folder.stored("labels").pieces()]
    found = np.concatenate(parts).astype(np.int64)
    if not len(found):
        raise ValueError(f"none of the {folder.nodes:,} nodes of {folder.name} has a label. Use --rows all.")
    return found


def _within(found: np.ndarray, nodes: int, what: str) -> np.ndarray:
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(f"{what} must be a list of node numbers, but {found.dtype} {list(found.shape)} came.")
    chosen = np.unique(found.astype(np.int64))
    if chosen[0] < 0 or chosen[-1] >= nodes:
        bad = chosen[0] if chosen[0] < 0 else chosen[-1]
        raise ValueError(f"{what} must be node numbers 0 .. {nodes - 1}, but {bad} came.")
    return chosen


def shuffled(chosen: np.ndarray, seed: int) -> np.ndarray:
    """The same nodes in an order that the seed decides."""
    return chosen[np.random.default_rng(seed).permutation(len(chosen))]


def labels_of(folder: GraphFolder, rows: np.ndarray) -> np.ndarray:
    """The class of each of these nodes, -1 where none is known."""
    if not folder.has("labels"):
        return np.full(len(rows), -1, dtype=np.int64)
    return folder.stored("labels").read()[rows]
