"""Read a graph from arrays: an .npz with named arrays, or an adjacency matrix in Matrix Market or SciPy format."""

import tokenize
import zipfile
import zlib
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
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.paths import check_file, error_prefix, graph_name
from adaptkry.graphs.readers.tables import encode

# Raised for damaged files. TypeError: an .npy with suffix .npz; RuntimeError: an unsupported kind of zip file.
DAMAGED = (ValueError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, tokenize.TokenError)
CSR_PARTS = ("indptr", "indices", "data", "shape")  # of the adjacency matrix ("adj_...") and of features ("attr_...")
KEYS: dict[str, tuple[str, ...]] = {  # array -> names that it may have in an .npz
    "edges": ("edges", "edge_index"),
    "weights": ("weights", "edge_weight"),
    "features": ("features", "x", "node_features"),
    "labels": ("labels", "y", "node_labels"),
    "train": ("train", "train_mask", "train_masks"),
    "validation": ("validation", "validation_mask", "val", "val_mask", "val_masks"),
    "test": ("test", "test_mask", "test_masks"),
    **{name: (name,) for name in ("directed", "name", "metric", "class_names", "node_ids")},
    **{f"{matrix}_{part}": (f"{matrix}_{part}",) for matrix in ("adj", "attr") for part in CSR_PARTS},
}


def read_npz(path: Path, *more: Path, **options) -> Graph:
    """Read named arrays, or an adjacency matrix written by scipy.sparse.save_npz."""
    arrays = _arrays(path)
    if "format" in arrays:
        return read_matrix(path, *more, **options)
    with error_prefix(path):
        if more:
            raise ValueError(f"an .npz must hold the whole graph; got {more[0]} as well. Put its arrays in the .npz.")
        return _from_arrays(path, arrays, **options)


def _from_arrays(path: Path, arrays: Mapping[str, np.ndarray], directed: bool | None = None, **options) -> Graph:
    """A graph from named arrays; labels are class numbers or text, which is numbered."""
    _check_names(arrays)
    known = {what: arrays[key] for what, keys in KEYS.items() for key in keys if key in arrays}
    labels, names = known.get("labels"), known.get("class_names")
    if labels is not None and labels.dtype.kind == "U":
        labels, names = encode(labels.tolist())
    info = Info(
        str(options.pop("name", known.get("name", graph_name(path)))),
        str(options.pop("metric", known.get("metric", "accuracy"))),
        _masks(known),
        None if names is None else tuple(map(str, names)),
        None if "node_ids" not in known else tuple(map(str, known["node_ids"])),
    )
    if directed is None and "directed" in known:
        directed = bool(known["directed"])
    return _assemble(known, labels, directed=directed, info=info, **options)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz by name."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except DAMAGED as error:
        raise ValueError(
            f"{path} must be an .npz of plain arrays; it cannot be read ({error}). "
            f"Write it with np.savez, without arrays of Python objects."
        ) from None


def _check_names(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse names that look misspelled, and an .npz without edges."""
    known = {key for keys in KEYS.values() for key in keys}
    for key in arrays.keys() - known:
        near = get_close_matches(key, known, n=1, cutoff=0.8)
        if near:
            raise ValueError(f"unknown array {key!r}. Did you mean {near[0]!r}? Rename it, or leave it out.")
    if not arrays.keys() & {"edges", "edge_index", "adj_indices"}:
        raise ValueError(f"an .npz needs an array 'edges' [2, m] or [m, 2]; got {', '.join(sorted(arrays))}. Add it.")


def _masks(known: Mapping[str, np.ndarray]) -> dict[str, Tensor] | None:
    """Masks as [s, n] from [n], [s, n] or, as in PyG, [n, s]; all three or none."""
    found = {part: known[part] for part in ("train", "validation", "test") if part in known}
    if not found:
        return None
    if len(found) < 3:
        raise ValueError(
            f"train, validation and test masks must all be present; got only {', '.join(found)}. Add the others."
        )
    for part, mask in found.items():
        if mask.dtype != bool:
            raise TypeError(f"the {part} mask must be bool; got {mask.dtype}. Convert node ids to a mask first.")
    n = len(known["labels"]) if "labels" in known else max(max(mask.shape) for mask in found.values())
    is_column = {part: mask.ndim == 2 and mask.shape[0] == n != mask.shape[1] for part, mask in found.items()}
    return {part: torch.from_numpy(np.atleast_2d(mask.T if is_column[part] else mask)) for part, mask in found.items()}


def _assemble(known: Mapping[str, np.ndarray], labels, *, directed: bool | None, info: Info, **options) -> Graph:
    """A graph from a list of edges or from the arrays of a CSR matrix; features are dense or the arrays of one."""
    features = _csr(known, "attr") if "attr_indices" in known else known.get("features")
    if "edges" in known:
        edges, weights = known["edges"], known.get("weights")
        if edges.ndim == 2 and edges.shape[1] == 2 != edges.shape[0]:  # [m, 2]; [2, 2] is read as [2, m]
            edges = edges.T
        return Graph(edges, features, labels, weights=weights, directed=bool(directed), info=info, **options)
    matrix, weighted = _csr(known, "adj"), "adj_data" in known
    return _from_matrix(matrix, features, labels, weighted=weighted, directed=directed, info=info, **options)


def _csr(known: Mapping[str, np.ndarray], name: str) -> sp.csr_array:
    """The sparse matrix of the arrays NAME_indptr, NAME_indices, NAME_shape and NAME_data; without data all ones."""
    missing = [f"{name}_{part}" for part in CSR_PARTS if part != "data" and f"{name}_{part}" not in known]
    if missing:
        raise ValueError(f"a sparse matrix needs indptr, indices and shape; {missing[0]!r} is missing. Add it.")
    indptr, indices, shape = (known[f"{name}_{part}"] for part in ("indptr", "indices", "shape"))
    values = known.get(f"{name}_data", np.ones(len(indices), dtype=np.int8))
    matrix = sp.csr_array((values, indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix


def _from_matrix(matrix, features, labels, *, weighted: bool, directed: bool | None, **options) -> Graph:
    """A graph from an adjacency matrix; by default directed unless the matrix is symmetric."""
    if matrix.shape[0] == matrix.shape[1] and directed is None:
        directed = (matrix != matrix.T).nnz > 0
    return Graph.from_scipy(matrix, features, labels, weighted=weighted, directed=bool(directed), **options)


def read_matrix(
    path: Path, *more: Path, features=None, labels=None, directed: bool | None = None, name=None, metric="accuracy"
) -> Graph:
    """Read an adjacency matrix, weighted unless every entry is 1, and features and labels from .npy files."""
    for extra in more:  # features and labels differ in their number of dimensions
        shape = _array(extra).shape
        if len(shape) == 2 and features is None:
            features = extra
        elif len(shape) == 1 and labels is None:
            labels = extra
        else:
            raise ValueError(f"{extra} must hold features [n, d] or labels [n]; got shape {list(shape)}. Reshape it.")
    matrix = _array(path)
    nodes = matrix.shape[0]
    x, y = _checked(features, checks.features, nodes), _checked(labels, checks.labels, nodes)
    weighted = not bool(np.all(matrix.data == 1))
    with error_prefix(path):
        info = Info(name or graph_name(path), metric)
        return _from_matrix(matrix, x, y, weighted=weighted, directed=directed, info=info)


def _checked(given, check: Callable[[Any, int], Any], nodes: int) -> Any:
    """An array as it is, or read from a file and checked, with the path of the file in errors."""
    if not isinstance(given, str | Path):
        return given
    values = _array(Path(given))
    with error_prefix(Path(given)):
        return check(values, nodes)


def _array(path: Path) -> Any:
    """A dense array from .npy, a SciPy matrix from .mtx or SciPy's .npz."""
    suffix = check_file(path).suffix.lower()
    if suffix not in (".npy", ".mtx", ".npz"):
        raise ValueError(f"{path} must be an .npy or .mtx file; got {suffix or 'no suffix'}. Write it with np.save.")
    try:
        if suffix == ".npy":
            return np.load(path, allow_pickle=False)
        return sp.csr_array(scipy.io.mmread(path) if suffix == ".mtx" else sp.load_npz(path))
    except (*DAMAGED, OSError) as error:
        raise ValueError(
            f"{path} must be a valid {suffix} file; it cannot be read ({error}). Write it again."
        ) from None


def write_npz(graph: Graph, path: str | Path) -> Path:
    """Save a whole graph as .npz, atomically; `read_npz` returns it."""
    path, info = Path(path), graph.info
    arrays: dict[str, Any] = {
        "adj_indptr": graph.indptr,
        "adj_indices": graph.indices,
        "adj_data": graph.weights,
        "adj_shape": (graph.nodes, graph.nodes),
        "directed": graph.is_directed,
        **_feature_arrays(graph.features),
        "labels": graph.y,
        **(info.masks or {}),
        **{key: getattr(info, key) for key in ("name", "metric", "class_names", "node_ids")},
    }
    plain: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items() if value is not None}
    with replacing(path) as file:
        np.savez_compressed(file, **plain)
    return path


def _feature_arrays(features: Any) -> dict[str, Any]:
    """Features as arrays of an .npz: one dense array, or those of a CSR matrix."""
    if not sp.issparse(features):
        return {"features": features}
    return {f"attr_{part}": getattr(features, part) for part in CSR_PARTS}
