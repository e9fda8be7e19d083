"""Your own graphs: .npz, CSV or Parquet tables, Matrix Market, PyG `Data`. Nothing is ever unpickled.

| what | how |
|---|---|
| `read("graph.npz")` | `edges` [2, m] (or `adj_indptr`, `adj_indices`), `features`, `labels`, masks |
| `read(["edges.csv", "nodes.csv"])` | columns source, target[, weight]; and id, label, every other one a feature |
| `read("graph.mtx", features="x.npy", labels="y.npy")` | the adjacency matrix, or SciPy's `save_npz` of it |
| `read(data)` | a PyG `Data` that you have loaded yourself |
"""

import zipfile
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.files import replacing
from adaptkry.common.lookup import pick
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.columns import encode
from adaptkry.graphs.readers.paths import TABLES, exists, folder, name_of, naming
from adaptkry.graphs.readers.tables import read_tables

KEYS: dict[str, tuple[str, ...]] = {  # what an .npz may call it
    "edges": ("edges", "edge_index"),
    "weights": ("weights", "edge_weight"),
    "features": ("features", "x", "node_features"),
    "labels": ("labels", "y", "node_labels"),
    "train": ("train", "train_mask", "train_masks"),
    "validation": ("validation", "validation_mask", "val", "val_mask", "val_masks"),
    "test": ("test", "test_mask", "test_masks"),
    **{name: (name,) for name in ("directed", "name", "metric", "class_names", "node_ids")},
    **{name: (name,) for name in ("adj_indptr", "adj_indices", "adj_data", "adj_shape")},
}
PICKLES = (".pt", ".pth", ".pkl", ".pickle")


def read(what, **options) -> Graph:
    """Read a graph from a file, several files, a folder with edges.* and nodes.*, or a PyG `Data`.

    Args:
        what: path, list of paths (edges first), or `Data`.
        **options: for all: `directed` (by default as a matrix or a `Data` is; lists of edges are undirected),
            `name`, `metric`. For tables: `nodes`, the path of the nodes file; the column names `source`, `target`,
            `weight`, `key` (of node ids) and `label`; `ignore`, columns to leave out. For matrices: `features`
            and `labels`, paths of .npy files (features also .mtx).
    """
    if hasattr(what, "edge_index"):
        return from_data(what, **options)
    first, *more = [Path(path).expanduser() for path in ([what] if isinstance(what, str | Path) else what)] or [None]
    if first is None:
        raise ValueError("read wants the path of a file, but an empty list came.")
    if first.is_dir():
        first, more = folder(first)
    suffix = exists(first).suffix.lower()
    if suffix in PICKLES:
        raise ValueError(
            f"{first} is a pickle, and opening one can run any code in it: adaptkry does not. "
            f"If you trust it, load it in Python and pass the Data object itself, or save arrays as .npz."
        )
    with naming(first):
        reader = pick(READERS, suffix, "file type")
    return reader(first, *more, **options)


def from_data(data, *, name: str = "data", metric: str = "accuracy", **options) -> Graph:
    """A PyG `Data`; its masks [n] or [n, s] become fixed splits if all three are there."""
    names = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}
    masks = {part: getattr(data, mask, None) for part, mask in names.items()}
    found = {part: mask.bool().reshape(len(mask), -1).T for part, mask in masks.items() if mask is not None}
    return Graph.from_pyg(data, info=Info(name, metric, found if len(found) == 3 else None), **options)


def read_npz(path: Path, *more: Path, **options) -> Graph:
    """Arrays by name; or an adjacency matrix alone, as SciPy's save_npz writes it."""
    arrays = _arrays(path)
    if "format" in arrays:
        return read_matrix(path, *more, **options)
    with naming(path):
        if more:
            raise ValueError(f"an .npz holds the whole graph, but {more[0]} came as well. Put its arrays in there.")
        return _from_arrays(path, arrays, **options)


def _from_arrays(path: Path, arrays: Mapping[str, np.ndarray], directed: bool | None = None, **options) -> Graph:
    """Arrays by name; integers stay class numbers, labels that are text are numbered."""
    _refuse_misspelt(arrays)
    known = {what: arrays[key] for what, keys in KEYS.items() for key in keys if key in arrays}
    labels, names = known.get("labels"), known.get("class_names")
    if labels is not None and labels.dtype.kind == "U":
        labels, names = encode(labels.tolist())
    info = Info(
        str(options.pop("name", known.get("name", name_of(path)))),
        str(options.pop("metric", known.get("metric", "accuracy"))),
        masks(known),
        None if names is None else tuple(map(str, names)),
        None if "node_ids" not in known else tuple(map(str, known["node_ids"])),
    )
    if directed is None and "directed" in known:
        directed = bool(known["directed"])
    return _assemble(known, labels, directed=directed, info=info, **options)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:  # TypeError: an .npy by another name
        raise ValueError(
            f"{path} must be an .npz of plain arrays, but it cannot be read ({error}). "
            f"Write it with np.savez, without arrays of Python objects."
        ) from None


def _refuse_misspelt(arrays: Mapping[str, np.ndarray]) -> None:
    known = {key for keys in KEYS.values() for key in keys}
    for key in arrays.keys() - known:
        near = get_close_matches(key, known, n=1, cutoff=0.8)
        if near:
            raise ValueError(f"unknown array {key!r}. Did you mean {near[0]!r}? Rename it, or leave it out.")
    if not arrays.keys() & {"edges", "edge_index", "adj_indices"}:
        raise ValueError(f"an .npz needs an array 'edges' [2, m], but it has {', '.join(sorted(arrays))}.")


def masks(known: Mapping[str, np.ndarray]) -> dict[str, Tensor] | None:
    """Masks [n], [s, n] or, as PyG has them, [n, s]; all three or none."""
    found = {part: known[part] for part in ("train", "validation", "test") if part in known}
    if not found:
        return None
    if len(found) < 3:
        raise ValueError(f"train, validation and test masks belong together, but only {', '.join(found)} came.")
    for part, mask in found.items():
        if mask.dtype != bool:
            raise TypeError(f"the {part} mask must be bool, but {mask.dtype} came. A list of node ids is not a mask.")
    n = len(known["labels"]) if "labels" in known else max(max(mask.shape) for mask in found.values())
    tall = {part: mask.ndim == 2 and mask.shape[0] == n != mask.shape[1] for part, mask in found.items()}
    return {part: torch.from_numpy(np.atleast_2d(mask.T if tall[part] else mask)) for part, mask in found.items()}


def _assemble(known: Mapping[str, np.ndarray], labels, *, directed: bool | None, info: Info, **options) -> Graph:
    features = known.get("features")
    if "edges" in known:
        weights = known.get("weights")
        return Graph(known["edges"], features, labels, weights=weights, directed=bool(directed), info=info, **options)
    indices, values = known["adj_indices"], known.get("adj_data")
    ones = np.ones(len(indices), dtype=np.int8)
    parts = (ones if values is None else values, indices, known["adj_indptr"])
    matrix = sp.csr_array(parts, shape=tuple(known["adj_shape"]))
    matrix.check_format(full_check=True)
    return from_matrix(matrix, features, labels, weighted=values is not None, directed=directed, info=info, **options)


def from_matrix(matrix, features, labels, *, weighted: bool, directed: bool | None, **options) -> Graph:
    """An adjacency matrix: directed unless it is symmetric, or as told."""
    if matrix.shape[0] == matrix.shape[1] and directed is None:
        directed = (matrix != matrix.T).nnz > 0
    return Graph.from_scipy(matrix, features, labels, weighted=weighted, directed=bool(directed), **options)


def read_matrix(
    path: Path, *more: Path, features=None, labels=None, directed: bool | None = None, name=None, metric="accuracy"
) -> Graph:
    """Matrix Market or SciPy .npz adjacency, weighted unless every entry is 1; features and labels from .npy."""
    for extra in more:  # told apart by their dimension
        shape = _array(extra).shape
        if len(shape) == 2 and features is None:
            features = extra
        elif len(shape) == 1 and labels is None:
            labels = extra
        else:
            raise ValueError(f"{extra}: features [n, d] and labels [n] were wanted, but {list(shape)} came.")
    matrix = _array(path)
    nodes = matrix.shape[0]
    x, y = _checked(features, checks.features, nodes), _checked(labels, checks.labels, nodes)
    weighted = not bool(np.all(matrix.data == 1))
    with naming(path):
        info = Info(name or name_of(path), metric)
        return from_matrix(matrix, x, y, weighted=weighted, directed=directed, info=info)


def _checked(given, check: Callable[[Any, int], Any], nodes: int) -> Any:
    """An array as it is, or from a file, with the file's name in errors about it."""
    if not isinstance(given, str | Path):
        return given
    values = _array(Path(given))
    with naming(Path(given)):
        return check(values, nodes)


def _array(path: Path) -> Any:
    """A dense array from .npy, a SciPy matrix from .mtx or SciPy's .npz."""
    suffix = exists(path).suffix.lower()
    if suffix not in (".npy", ".mtx", ".npz"):
        raise ValueError(f"{path} must be .npy or .mtx, but {suffix or 'no ending'} came. Write it with np.save.")
    try:
        if suffix == ".npy":
            return np.load(path, allow_pickle=False)
        return sp.csr_array(scipy.io.mmread(path) if suffix == ".mtx" else sp.load_npz(path))
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as {suffix} ({error}).") from None


def write(graph: Graph, path: str | Path) -> Path:
    """Save a graph as .npz, all of it, so that `read` gives it back; whole or not at all."""
    path, info = Path(path), graph.info
    arrays: dict[str, Any] = {
        "adj_indptr": graph.indptr,
        "adj_indices": graph.indices,
        "adj_data": graph.weights,
        "adj_shape": (graph.nodes, graph.nodes),
        "directed": graph.is_directed,
        "features": None if graph.features is None else graph.x,
        "labels": graph.y,
        **(info.masks or {}),
        **{key: getattr(info, key) for key in ("name", "metric", "class_names", "node_ids")},
    }
    plain: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items() if value is not None}
    with replacing(path) as file:
        np.savez_compressed(file, **plain)
    return path


READERS: dict[str, Callable[..., Graph]] = {".npz": read_npz, ".mtx": read_matrix, **dict.fromkeys(TABLES, read_tables)}
