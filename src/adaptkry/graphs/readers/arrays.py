"""Read a graph from arrays: an .npz with named arrays, or an adjacency matrix in Matrix Market or SciPy format."""

import io
import zipfile
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.files import replacing
from adaptkry.common.lookup import pick, some
from adaptkry.common.memory import check_memory
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.paths import TABLES, check_file, error_prefix, graph_name, parsing
from adaptkry.graphs.readers.table_files import open_table
from adaptkry.graphs.readers.tables import log_unused
from adaptkry.graphs.readers.texts import encode, texts

CSR_PARTS = ("indptr", "indices", "data", "shape")  # of the adjacency matrix ("adj_...") and of features ("attr_...")
NAME_ARRAYS = ("class_names", "node_ids", "feature_names")  # optional: not used if they are Python objects
KEYS: dict[str, tuple[str, ...]] = {  # array -> names that it may have in an .npz
    "edges": ("edges", "edge_index"),
    "weights": ("weights", "edge_weight"),
    "features": ("features", "x", "node_features", "attr_matrix"),
    "labels": ("labels", "y", "node_labels"),
    "train": ("train", "train_mask", "train_masks"),
    "validation": ("validation", "validation_mask", "val", "val_mask", "val_masks"),
    "test": ("test", "test_mask", "test_masks"),
    "node_ids": ("node_ids", "node_names"),
    "feature_names": ("feature_names", "attr_names"),
    **{name: (name,) for name in ("directed", "name", "metric", "class_names", "task")},
    **{f"{m}_{part}": (f"{m}_{part}", f"{m}_matrix.{part}") for m in ("adj", "attr") for part in CSR_PARTS},
}
KNOWN = {key: what for what, keys in KEYS.items() for key in keys}  # name in an .npz -> array
MATRIX_FIELDS = {"real": np.float64, "double": np.float64, "integer": np.int64, "pattern": None}  # of Matrix Market
PAIRS = ("node_features", "node_labels")  # beside one of them, edges have the shape [m, 2], as in heterophilous-graphs
ONE_OF = (("edges", "adj_"), ("weights", "adj_"), ("features", "attr_"))  # two forms of the same thing


def read_npz(path: Path, *more: Path, **options) -> Graph:
    """Read named arrays, or an adjacency matrix written by scipy.sparse.save_npz."""
    arrays = _arrays(path)
    if "format" in arrays:
        return read_matrix(path, *more, **options)
    with error_prefix(path):
        if more:
            raise ValueError(f"an .npz must hold the whole graph; got {more[0]} as well. Put its arrays in the .npz.")
        return _from_arrays(path, arrays, **options)


def _from_arrays(path: Path, known: Mapping[str, np.ndarray], directed: bool | None = None, **options) -> Graph:
    """A graph from named arrays; labels are class numbers or text, which is numbered."""
    labels, names = known.get("labels"), known.get("class_names")
    options["task"] = str(options.get("task") or _value(known, "task", "classification"))
    if labels is not None and labels.dtype.kind in "US":
        if labels.ndim != 1:
            raise ValueError(f"labels that are text must have shape [n]; got {list(labels.shape)}. Reshape them.")
        labels, names = encode([label.strip() for label in _names(labels)])
    info = Info(
        str(options.pop("name", _value(known, "name", graph_name(path)))),
        str(options.pop("metric", _value(known, "metric", "accuracy"))),
        _masks(known),
        None if names is None else tuple(_names(names)),
        None if "node_ids" not in known else tuple(_names(known["node_ids"])),
        None if "feature_names" not in known else _names(known["feature_names"]),
    )
    if directed is None and "directed" in known:
        directed = bool(_value(known, "directed", None))
    return _assemble(known, labels, directed=directed, info=info, **options)


def _names(values: Any) -> list[str]:
    """Names as text, whether they are stored as text, bytes or numbers."""
    values = np.asarray(values)
    values = np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
    return [str(value) for value in values.ravel().tolist()]


def _value(known: Mapping[str, np.ndarray], name: str, default: Any) -> Any:
    """The only value of an array, or the default if there is no such array."""
    if name not in known:
        return default
    if known[name].size != 1:
        raise ValueError(f"{name} must be one value; got shape {list(known[name].shape)}. Correct it, or leave it out.")
    value = known[name].item()
    return value.decode() if isinstance(value, bytes) else value


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz that are known, by the first of their names; the others are listed in a message."""
    expected, remedy = "an .npz of plain arrays", "Write it with np.savez, without arrays of Python objects."
    with path.open("rb") as stream:
        with parsing(path, expected, remedy), zipfile.ZipFile(stream) as archive:
            check_memory(sum(part.file_size for part in archive.infolist()), "its arrays")
        stream.seek(0)
        with parsing(path, expected, remedy), np.load(stream, allow_pickle=False) as file:
            stored = list(file.files)
            if "format" in stored:
                return {"format": np.empty(0)}
            read = {key: _array_or_none(file, key) for key in stored if key in KNOWN}
    with error_prefix(path):
        _check_names(stored)
    unused = sorted({*stored} - {*KNOWN}) + [key for key, array in read.items() if array is None]
    log_unused(path, "arrays", unused)
    known = {KNOWN[key]: array for key, array in read.items() if array is not None}
    if "edges" in stored and known["edges"].shape == (2, 2) and {*PAIRS} & {*stored}:
        known["edges"] = known["edges"].T
    return known


def _array_or_none(file: Any, key: str) -> np.ndarray | None:
    """An array; None for names that are Python objects, which are never unpickled."""
    try:
        found = file[key]
    except ValueError as error:
        if KNOWN[key] in NAME_ARRAYS and "allow_pickle" in str(error):
            return None
        raise
    if not isinstance(found, np.ndarray):
        raise TypeError(f"{key!r} is no array")
    return found


def _check_names(stored: list[str]) -> None:
    """Refuse names that look misspelled, two arrays for the same thing, and an .npz without edges."""
    if len(set(stored)) < len(stored):
        raise ValueError(f"array names must differ; got {some(stored)}. Rename some.")
    for key in sorted({*stored} - {*KNOWN}):
        lower = key.strip().lower()
        near = [lower] if lower in KNOWN else get_close_matches(key, KNOWN, n=1, cutoff=0.8)
        if near:
            raise ValueError(f"unknown array {key!r}. Did you mean {near[0]!r}? Rename it, or leave it out.")
    found: dict[str, list[str]] = {}
    for key in stored:
        found.setdefault(KNOWN.get(key, key), []).append(key)
    parts = {prefix: [key for key in stored if KNOWN.get(key, "").startswith(prefix)] for prefix in ("adj_", "attr_")}
    pairs = [*found.values(), *([*found[what][:1], *parts[prefix][:1]] for what, prefix in ONE_OF if what in found)]
    for keys in pairs:
        if len(keys) > 1:
            raise ValueError(f"{keys[0]!r} and {keys[1]!r} are two arrays for the same thing. Leave one of them out.")
    if "edges" not in found and not parts["adj_"]:
        raise ValueError(f"an .npz needs an array 'edges' [2, m] or [m, 2]; got {', '.join(sorted(stored))}. Add it.")


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
        if mask.ndim not in (1, 2) or not mask.size:
            raise ValueError(f"the {part} mask must have shape [n] or [s, n]; got {list(mask.shape)}. Reshape it.")
    has_labels = "labels" in known and known["labels"].ndim > 0
    n = len(known["labels"]) if has_labels else max(max(mask.shape) for mask in found.values())
    is_column = {part: mask.ndim == 2 and mask.shape[0] == n != mask.shape[1] for part, mask in found.items()}
    return {part: torch.from_numpy(np.atleast_2d(mask.T if is_column[part] else mask)) for part, mask in found.items()}


def _assemble(known: Mapping[str, np.ndarray], labels, *, directed: bool | None, info: Info, **options) -> Graph:
    """A graph from a list of edges or from the arrays of a CSR matrix; features are dense or the arrays of one."""
    is_sparse = any(key.startswith("attr_") for key in known)
    features = _csr(known, "attr") if is_sparse else known.get("features")
    if "edges" in known:
        edges, weights = known["edges"], known.get("weights")
        if edges.ndim == 2 and edges.shape[1] == 2 != edges.shape[0]:  # [m, 2]; [2, 2] is read as [2, m]
            edges = edges.T
        return Graph(edges, features, labels, weights=weights, directed=bool(directed), info=info, **options)
    matrix, weighted = _csr(known, "adj"), "adj_data" in known
    return graph_of_matrix(matrix, features, labels, weighted=weighted, directed=directed, info=info, **options)


def _csr(known: Mapping[str, np.ndarray], name: str) -> sp.csr_array:
    """The sparse matrix of the arrays NAME_indptr, NAME_indices, NAME_shape and NAME_data; without data all ones."""
    missing = [f"{name}_{part}" for part in CSR_PARTS if part != "data" and f"{name}_{part}" not in known]
    if missing:
        raise ValueError(f"a sparse matrix needs indptr, indices and shape; {missing[0]!r} is missing. Add it.")
    indptr, indices, shape = (known[f"{name}_{part}"] for part in ("indptr", "indices", "shape"))
    for part, array in (("indptr", indptr), ("indices", indices), ("shape", shape)):
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise TypeError(
                f"{name}_{part} must be integers in one dimension; got {array.dtype} {list(array.shape)}. Use those of "
                "a SciPy csr_array."
            )
    values = known.get(f"{name}_data", np.ones(len(indices), dtype=np.int8))
    matrix = sp.csr_array((values, indices, indptr), shape=tuple(shape.tolist()))
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"{name}_indptr and {name}_indices must fit {name}_shape; {error}. Write the file again."
        ) from None
    return matrix


def graph_of_matrix(matrix, features, labels, *, weighted: bool, directed: bool | None, **options) -> Graph:
    """A graph from an adjacency matrix; by default directed unless the matrix is symmetric."""
    checks.check_node_count(matrix.shape[0], matrix.nnz)
    if matrix.shape[0] == matrix.shape[1] and directed is None:
        directed = (matrix != matrix.T).nnz > 0
    return Graph.from_scipy(matrix, features, labels, weighted=weighted, directed=bool(directed), **options)


def read_matrix(
    path: Path,
    *more: Path,
    features=None,
    labels=None,
    directed: bool | None = None,
    name=None,
    metric="accuracy",
    task: str = "classification",
) -> Graph:
    """Read an adjacency matrix, weighted unless every entry is 1, and files of features and of labels.

    Features are a sparse matrix (.mtx, or .npz of SciPy) or an .npy file; labels are class numbers in an .npy file, or
    the column `label` of a table with a row for each node.
    """
    for extra in more:  # features and labels differ in their number of dimensions
        file = _table(extra) if check_file(extra).suffix.lower() in TABLES else _File(extra, _array(extra))
        if len(file.values.shape) == 2 and features is None:
            features = file
        elif len(file.values.shape) == 1 and labels is None:
            labels = file
        else:
            shape = list(file.values.shape)
            raise ValueError(
                f"{extra} must hold features [n, d] or labels [n]; got shape {shape}. Reshape it, or pass one file of "
                "each only."
            )
    features, labels = _opened(features), _opened(labels)
    if task != "classification" and isinstance(labels, _File) and labels.classes is not None:
        raise ValueError(
            f"beside a matrix, labels of the task {task} must be numbers in an .npy file; got {labels.path}. "
            "Write them with np.save, or the graph as an .npz."
        )
    matrix = _array(path)
    nodes = matrix.shape[0]
    check = checks.labels if task == "classification" else partial(checks.targets, task=task)
    x, y = _checked(features, checks.features, nodes), _checked(labels, check, nodes)
    weighted = not bool(np.all(matrix.data == 1))
    names = (labels.classes, labels.ids) if isinstance(labels, _File) else (None, None)
    with error_prefix(path):
        info = Info(name or graph_name(path), metric, None, *names)
        return graph_of_matrix(matrix, x, y, weighted=weighted, directed=directed, info=info, task=task)


class _File(NamedTuple):
    """The content of a file of features or labels; a table of labels may name classes and nodes."""

    path: Path
    values: Any
    classes: tuple[str, ...] | None = None
    ids: tuple[str, ...] | None = None


def _opened(given: Any) -> Any:
    """The content of a file; an array, and None, as they are."""
    if not isinstance(given, str | Path):
        return given
    path = Path(given).expanduser()
    return _table(path) if path.suffix.lower() in TABLES else _File(path, _array(path))


def _checked(given: Any, check: Callable[[Any, int], Any], nodes: int) -> Any:
    """The values of a file, checked with its path in errors; an array as it is."""
    if not isinstance(given, _File):
        return given
    with error_prefix(given.path):
        return check(given.values, nodes)


def _table(path: Path) -> _File:
    """The column `label` of a table whose rows are the nodes in the order of the matrix; `id` may name the nodes."""
    table = open_table(path, "nodes").columns
    if "label" not in table:
        raise ValueError(
            f"{path} must have a column 'label', since the edges are a matrix; got {some(table)}. Rename one."
        )
    labels, classes = encode(texts(table["label"]))
    ids = tuple(texts(table["id"])) if "id" in table else None
    if ids is not None:
        in_order = tuple(map(str, range(len(ids)))), tuple(map(str, range(1, len(ids) + 1)))
        if ids not in in_order and any(set(ids) == set(numbers) for numbers in in_order):
            raise ValueError(
                f"{path} must have its rows in the order of the matrix; the numbers in the column 'id' are in another "
                "order. Sort the rows by id."
            )
    log_unused(path, "columns", [column for column in table if column not in ("id", "label")])
    return _File(path, labels, classes, ids)


def _array(path: Path) -> Any:
    """A dense array from .npy, a SciPy matrix from .mtx or SciPy's .npz."""
    suffix = check_file(path).suffix.lower()
    if suffix not in (".npy", ".mtx", ".npz"):
        raise ValueError(f"{path} must be an .npy or .mtx file; got {suffix or 'no suffix'}. Write it with np.save.")
    with path.open("rb") as stream, parsing(path, f"a valid {suffix} file", "Write it again."):
        if suffix == ".npy":
            return np.load(stream, allow_pickle=False)
        if suffix == ".mtx":
            return read_matrix_market(path)
        matrix = sp.load_npz(stream)
        if matrix.ndim != 2:
            raise ValueError(f"a matrix has two dimensions; got {matrix.ndim}")
        checks.check_node_count(max(matrix.shape), matrix.nnz)
        if hasattr(matrix, "check_format"):  # conversions of damaged indices would write outside of arrays
            matrix.check_format(full_check=True)
        return sp.csr_array(matrix)


def read_matrix_market(path: Path) -> sp.csr_array:
    """Read a Matrix Market file. SciPy's parser is faster, but ends the process on some damaged files."""
    with path.open("rb") as file:
        banner = file.readline(1000).decode().lower().split()
        if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
            raise ValueError("its first line must be '%%MatrixMarket matrix', a layout, a field and a symmetry")
        layout, field, symmetry = banner[2:]
        dtype = pick(MATRIX_FIELDS, field, "field")
        line = b"%"
        while line.startswith(b"%") or line.isspace():
            line = file.readline(2**16)
        sizes = [int(number) for number in line.split()]
        (rows, columns), stored = sizes[:2], path.stat().st_size
        count = sizes[2] if layout == "coordinate" else rows * columns
        is_absurd = layout == "coordinate" and max(rows, columns) > max(checks.MAX_NODES, checks.MAX_RATIO * count)
        if is_absurd or min(sizes) < 0 or count > stored:  # an entry has at least two characters, a symmetric one half
            shown = " ".join(map(str, sizes))
            raise ValueError(f"its sizes are {shown}, which cannot be those of a graph in {stored} bytes")
        text = io.TextIOWrapper(file, "ascii")
        if layout == "array":
            return _dense_matrix(_values(text, dtype), rows, columns, symmetry)
        fields = [("row", np.int64), ("column", np.int64), *([("value", dtype)] if dtype else [])]
        entries = _values(text, np.dtype(fields)) if count else np.zeros(0, fields)
    if len(entries) != count:
        raise ValueError(f"it must have {count} entries; got {len(entries)}")
    i, j = entries["row"] - 1, entries["column"] - 1
    if count and (min(i.min(), j.min()) < 0 or i.max() >= rows or j.max() >= columns):
        raise ValueError(f"its entries must be in rows 1 .. {rows} and columns 1 .. {columns}")
    values = entries["value"] if dtype else np.ones(count, dtype=np.int8)
    return _with_symmetry(sp.coo_array((values, (i, j)), shape=(rows, columns)), symmetry)


def _values(text: io.TextIOBase, dtype: Any) -> np.ndarray:
    """The rest of a file as numbers, a row per line."""
    return np.loadtxt(text, dtype, comments="%", ndmin=1)


def _dense_matrix(values: np.ndarray, rows: int, columns: int, symmetry: str) -> sp.csr_array:
    """A matrix from its columns one after the other, or from those of its lower triangle."""
    first = {"general": None, "symmetric": 0, "skew-symmetric": -1}
    diagonal = pick(first, symmetry, "symmetry")
    i, j = np.indices((rows, columns)) if diagonal is None else np.tri(rows, columns, diagonal).nonzero()
    order = np.lexsort((i.ravel(), j.ravel()))  # by column
    if len(values) != len(order):
        raise ValueError(f"it must have {len(order)} numbers; got {len(values)}")
    coordinates = (i.ravel()[order], j.ravel()[order])
    matrix = sp.coo_array((values, coordinates), shape=(rows, columns))
    matrix.eliminate_zeros()
    return _with_symmetry(matrix, symmetry)


def _with_symmetry(matrix: Any, symmetry: str) -> sp.csr_array:
    """The whole matrix, if only its lower triangle was given."""
    sign = pick({"general": 0, "symmetric": 1, "skew-symmetric": -1}, symmetry, "symmetry")
    if not sign:
        return sp.csr_array(matrix)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a symmetric matrix must be square; got shape {list(matrix.shape)}")
    i, j = matrix.coords
    other = i != j
    coordinates = np.concatenate([i, j[other]]), np.concatenate([j, i[other]])
    values = np.concatenate([matrix.data, sign * matrix.data[other]])
    return sp.csr_array(sp.coo_array((values, coordinates), shape=matrix.shape))


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
        "labels": graph.y if graph.targets is None else graph.targets,
        "task": None if graph.targets is None else graph.task,
        **(info.masks or {}),
        **{key: getattr(info, key) for key in ("name", "metric", *NAME_ARRAYS)},
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
