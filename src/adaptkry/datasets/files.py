"""Your own graphs: .npz, CSV or Parquet tables, Matrix Market, PyG `Data`. Nothing is ever unpickled.

| what | how |
|---|---|
| `read("graph.npz")` | `edges` [2, m] (or `adj_indptr`, `adj_indices`), `features`, `labels`, masks |
| `read(["edges.csv", "nodes.csv"])` | columns source, target[, weight]; and id, label, every other one a feature |
| `read("graph.mtx", features="x.npy", labels="y.npy")` | the adjacency matrix, or SciPy's `save_npz` of it |
| `read(data)` | a PyG `Data` that you have loaded yourself |
"""

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.datasets import columns
from adaptkry.graph import Graph, Info
from adaptkry.lookup import pick

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
LABELS_TOO = ("class", "labels", "y", "category")  # columns that look like labels: never silently a feature


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
        first, more = _folder(first)
    suffix = exists(first).suffix.lower()
    if suffix in PICKLES:
        raise ValueError(
            f"{first} is a pickle, and opening one can run any code in it: adaptkry does not. "
            f"If you trust it, load it in Python and pass the Data object itself, or save arrays as .npz."
        )
    with _naming(first):
        return pick(READERS, suffix, "file type")(first, *more, **options)


def exists(path: Path) -> Path:
    """The path itself, if there is a file."""
    if not path.is_file():
        beside = get_close_matches(path.name, [file.name for file in path.parent.glob("*")], n=1)
        raise FileNotFoundError(f"there is no file {path}." + (f" Did you mean {beside[0]}?" if beside else ""))
    return path


def _folder(folder: Path) -> tuple[Path, list[Path]]:
    found = {stem: sorted(file for file in folder.glob(f"{stem}.*") if file.suffix in TABLES) for stem in ROLES}
    if not found["edges"]:
        raise FileNotFoundError(f"a folder must hold edges.csv, .tsv or .parquet (and nodes.*), but {folder} does not.")
    return found["edges"][0], found["nodes"][:1]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors from further down, with the file in front."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def from_data(data, *, name: str = "data", metric: str = "accuracy", **options) -> Graph:
    """A PyG `Data`; its masks [n] or [n, s] become fixed splits if all three are there."""
    names = {"train": "train_mask", "validation": "val_mask", "test": "test_mask"}
    masks = {part: getattr(data, mask, None) for part, mask in names.items()}
    found = {part: mask.bool().reshape(len(mask), -1).T for part, mask in masks.items() if mask is not None}
    return Graph.from_pyg(data, info=Info(name, metric, found if len(found) == 3 else None), **options)


def read_npz(path: Path, *more: Path, directed: bool | None = None, **options) -> Graph:
    """Arrays by name; integers stay class numbers, labels that are text are numbered."""
    arrays = _arrays(path)
    if "format" in arrays:  # SciPy's save_npz: an adjacency matrix and nothing else
        return read_matrix(path, *more, directed=directed, **options)
    if more:
        raise ValueError(f"an .npz holds the whole graph, but {more[0]} came as well. Put its arrays into the .npz.")
    _refuse_misspelt(arrays)
    known = {what: arrays[key] for what, keys in KEYS.items() for key in keys if key in arrays}
    labels, names = known.get("labels"), known.get("class_names")
    if labels is not None and labels.dtype.kind == "U":
        labels, names = columns.encode(labels.tolist())
    info = Info(
        str(options.pop("name", known.get("name", path.stem))),
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
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
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
    indices, shape = known["adj_indices"], tuple(known["adj_shape"])
    values = known.get("adj_data", np.ones(len(indices), dtype=np.int8))
    matrix = sp.csr_array((values, indices, known["adj_indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return from_matrix(matrix, features, labels, directed=directed, info=info, **options)


def from_matrix(matrix, features, labels, *, directed: bool | None = None, **options) -> Graph:
    """An adjacency matrix: directed unless symmetric, weighted unless every entry is 1."""
    if matrix.shape[0] == matrix.shape[1] and directed is None:
        directed = (matrix != matrix.T).nnz > 0
    weighted = not bool(np.all(matrix.data == 1))
    return Graph.from_scipy(matrix, features, labels, weighted=weighted, directed=bool(directed), **options)


def read_matrix(path: Path, *more: Path, features=None, labels=None, name=None, metric="accuracy", **options) -> Graph:
    """Matrix Market or SciPy .npz adjacency; features and labels from .npy, told apart by their dimension."""
    for extra in more:
        values = _array(extra)
        if values.ndim == 2 and features is None:
            features = values
        elif values.ndim == 1 and labels is None:
            labels = values
        else:
            raise ValueError(f"{extra}: features [n, d] and labels [n] were wanted, but {list(values.shape)} came.")
    x, y = (_array(Path(one)) if isinstance(one, str | Path) else one for one in (features, labels))
    return from_matrix(_array(path), x, y, info=Info(name or path.stem, metric), **options)


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


def read_tables(
    path: Path,
    *more: Path,
    nodes: str | Path | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    key: str = "id",
    label: str | None = None,
    ignore: Sequence[str] = (),
    directed: bool | None = None,
    name: str | None = None,
    metric: str = "accuracy",
) -> Graph:
    """A table of edges, and one of nodes; without the second, nodes are those that edges name."""
    given = [*more, *([] if nodes is None else [Path(nodes)])]
    if len(given) > 1:
        raise ValueError(f"edges and nodes are two files, but {', '.join(map(str, (path, *given)))} came.")
    table = columns.read_columns(path)
    hint = " of edges (the edges file comes first, then the nodes file)"
    ends = {end: columns.texts(columns.pick_column(path, table, end, f"the ends{hint}")) for end in (source, target)}
    if given:
        ids, features, labels, classes = _nodes(exists(given[0].expanduser()), key, label, ignore)
    else:
        ids, features, labels, classes = columns.sort_names({*ends[source], *ends[target]}), None, None, None
    pairs = np.stack([columns.index(path, ends[end], ids, end) for end in (source, target)])
    info = Info(name or path.stem, metric, None, classes, tuple(ids))
    weights = _weights(path, table, weight)
    return Graph(pairs, features, labels, nodes=len(ids), weights=weights, directed=bool(directed), info=info)


def _weights(path: Path, table: columns.Columns, weight: str | None) -> np.ndarray | None:
    if weight is None and "weight" not in table:
        return None
    name = weight or "weight"
    rows = [f"edge {row}" for row in range(len(columns.pick_column(path, table, name, "edge weights")))]
    return columns.numbers(path, table, [name], rows)[:, 0]


def _nodes(path: Path, key: str, label: str | None, ignore: Sequence[str]):
    """Ids, features [n, d], labels [n] and class names of a nodes file; None for what it does not have."""
    table = columns.read_columns(path)
    ids = columns.texts(columns.pick_column(path, table, key, "node ids"))
    if len(set(ids)) < len(ids):
        twice = next(one for place, one in enumerate(ids) if one in ids[:place])
        raise ValueError(f"{path}: node ids must differ, but {twice!r} comes twice.")
    for name in ignore:
        columns.pick_column(path, table, name, "ignore")
    label = _label_column(path, table, label, {key, *ignore})
    names = [name for name in table if name not in {key, label, *ignore}]
    features = columns.numbers(path, table, names, ids) if names else None
    return ids, features, *(columns.encode(columns.texts(table[label])) if label else (None, None))


def _label_column(path: Path, table: columns.Columns, label: str | None, taken: set[str]) -> str | None:
    if label is not None:
        columns.pick_column(path, table, label, "labels")
        return label
    likely = [name for name in table if name.lower() in LABELS_TOO and name not in taken]
    if "label" not in table and likely:
        raise ValueError(
            f"{path}: column {likely[0]!r} looks like labels, and as a feature it would give the answer away. "
            f"Pass label={likely[0]!r}, or ignore=[{likely[0]!r}]."
        )
    return "label" if "label" in table else None


def write(graph: Graph, path: str | Path) -> Path:
    """Save a graph as .npz, all of it, so that `read` gives it back; whole or not at all."""
    path = Path(path)
    info = graph.info
    arrays = {
        **{"adj_indptr": graph.indptr, "adj_indices": graph.indices, "adj_data": graph.weights},
        **{"adj_shape": np.array([graph.nodes] * 2), "directed": np.array(graph.is_directed), "labels": graph.y},
        **{"features": None if graph.features is None else graph.x, **(info.masks or {})},
        **{"name": np.array(info.name), "metric": np.array(info.metric)},
        **{"class_names": info.class_names, "node_ids": info.node_ids},
    }
    partial = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    try:
        np.savez_compressed(partial, **{key: np.asarray(value) for key, value in arrays.items() if value is not None})
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


TABLES = (".csv", ".tsv", ".parquet")
ROLES = ("edges", "nodes")
READERS = {".npz": read_npz, ".mtx": read_matrix, **dict.fromkeys(TABLES, read_tables)}
