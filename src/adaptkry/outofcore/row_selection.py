"""Select the rows of a basis that are stored, and their order."""

from pathlib import Path

import numpy as np

from adaptkry.outofcore.graph_folder import GraphFolder
from adaptkry.outofcore.npy_files import NpyFile


def select_rows(folder: GraphFolder, rows) -> np.ndarray:
    """Sorted numbers of the nodes: "all", "labelled", a file (.npy, or text with one per line), or a list."""
    if not isinstance(rows, str | Path):
        return _checked(np.asarray(rows), folder.nodes, "rows")
    if rows == "all":
        return np.arange(folder.nodes, dtype=np.int64)
    if rows == "labelled":
        return _labelled(folder)
    path = Path(rows).expanduser()
    if not path.is_file():
        raise ValueError(
            f"rows must be all, labelled or a file of node numbers; got {str(rows)!r}, which does not exist. "
            f"Check the path."
        )
    try:
        found = NpyFile.open(path).read() if path.suffix == ".npy" else np.loadtxt(path, dtype=np.int64, ndmin=1)
    except ValueError as error:
        raise ValueError(
            f"{path} must hold node numbers, one per line; it cannot be read ({error}). Correct the file."
        ) from None
    return _checked(found, folder.nodes, str(path))


def selection_name(rows) -> str:
    """The name of the selection in the manifest: all, labelled or listed."""
    return rows if isinstance(rows, str) and rows in ("all", "labelled") else "listed"


def _labelled(folder: GraphFolder) -> np.ndarray:
    if not folder.has("labels"):
        raise ValueError(f"--rows labelled needs labels; {folder.name} has none. Use --rows all, or a file of nodes.")
    parts = [start + np.flatnonzero(labels >= 0) for start, labels in folder.array("labels").chunks()]
    found = np.concatenate(parts).astype(np.int64)
    if not len(found):
        raise ValueError(
            f"--rows labelled needs labels; the {folder.nodes:,} nodes of {folder.name} have none. Use --rows all."
        )
    return found


def _checked(found: np.ndarray, nodes: int, source: str) -> np.ndarray:
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(
            f"{source} must be a list of node numbers; got {found.dtype} of shape {list(found.shape)}. Use integers."
        )
    selected = np.unique(found.astype(np.int64))
    if selected[0] < 0 or selected[-1] >= nodes:
        bad = selected[0] if selected[0] < 0 else selected[-1]
        raise ValueError(f"{source} must be node numbers from 0 .. {nodes - 1}; got {bad}. Remove it.")
    return selected


def shuffled(selected: np.ndarray, seed: int) -> np.ndarray:
    """The same nodes in a random order determined by the seed."""
    return selected[np.random.default_rng(seed).permutation(len(selected))]


def labels_of(folder: GraphFolder, rows: np.ndarray) -> np.ndarray:
    """The class of each of these nodes, -1 if unknown."""
    if not folder.has("labels"):
        return np.full(len(rows), -1, dtype=np.int64)
    return folder.array("labels").read()[rows]
