"""Readers for your own graphs: files by suffix, PyG `Data` and NetworkX graphs. Nothing is unpickled.

| data | format |
|---|---|
| `read("graph.npz")` | `edges` [2, m] or [m, 2], or the CSR parts `adj_*`; `features` or `attr_*`, `labels`, masks |
| `read(["edges.csv", "nodes.csv"])` | columns source, target[, weight]; columns id, label and features |
| `read("graph.mtx", features="x.npy", labels="y.npy")` | the adjacency matrix, or SciPy's `save_npz` of it |
| `read(data)` | a PyG `Data` or a NetworkX graph |
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from adaptkry.common.lookup import pick
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.readers.arrays import read_matrix, read_npz
from adaptkry.graphs.readers.objects import from_data, from_networkx, is_networkx
from adaptkry.graphs.readers.paths import TABLES, check_file, error_prefix, tables_in
from adaptkry.graphs.readers.tables import read_tables

READERS: dict[str, Callable[..., Graph]] = {".npz": read_npz, ".mtx": read_matrix, **dict.fromkeys(TABLES, read_tables)}
PICKLES = (".pt", ".pth", ".pkl", ".pickle")
SUFFIXES = (*READERS, *PICKLES, ".npy")  # text that ends in one of these is a path


def read(data, **options) -> Graph:
    """Read a graph from a file, several files, a folder with edges.* and nodes.*, or a Python object.

    Args:
        data: path, list of paths (edges first), PyG `Data`, or NetworkX graph.
        **options: for all: `directed` (by default as in the matrix, `Data` or NetworkX graph; lists of edges are
            undirected), `name`, `metric`. For tables: `nodes`, the path of the nodes file; the column names `source`,
            `target`, `weight`, `key` (of node ids) and `label`; `ignore`, columns to leave out. For matrices:
            `features` and `labels`, paths of .npy files (features also .mtx). For NetworkX graphs: `weight`, the
            name of the edge attribute of weights.
    """
    if hasattr(data, "edge_index"):
        return from_data(data, **options)
    if is_networkx(data):
        return from_networkx(data, **options)
    first, *more = _paths(data)
    if first.is_dir():
        first, more = tables_in(first)
    suffix = check_file(first).suffix.lower()
    if suffix in PICKLES:
        raise ValueError(
            f"a file must hold plain data; {first} is a pickle, and opening a pickle can run arbitrary code. "
            f"If you trust it, load it in Python and pass the Data object, or save its arrays as .npz."
        )
    with error_prefix(first):
        reader = pick(READERS, suffix, "file type")
    return reader(first, *more, **options)


def _paths(data) -> list[Path]:
    """One path or several as a list."""
    given = [data] if isinstance(data, str | Path) or not isinstance(data, Iterable) else list(data)
    if not given:
        raise ValueError("a graph needs at least one file; got an empty list. Pass the path of its edges.")
    paths = [Path(path).expanduser() for path in given if isinstance(path, str | os.PathLike)]
    if len(paths) < len(given):
        raise TypeError(
            f"a graph must be a name, a path, a list of paths, a PyG Data or a NetworkX graph; "
            f"got {type(data).__name__}. Use Graph(edges, features, labels) for arrays."
        )
    return paths
