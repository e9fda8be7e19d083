"""Readers for your own graphs: files by suffix, PyG `Data` and NetworkX graphs. Nothing is unpickled.

Messages (logger "adaptkry") list columns and arrays that are not used, and count nodes without a label. An empty label
means unknown, in arrays of class numbers -1; every other value is a class.

| data | format |
|---|---|
| `read("graph.npz")` | `edges` [2, m] or [m, 2], or the CSR parts `adj_*`; `features` or `attr_*`, `labels`, masks |
| `read(["edges.csv", "nodes.csv"])` | columns source, target[, weight]; columns id, label and features |
| `read([edges, nodes])` | the same columns in data frames of pandas, polars, pyarrow, ... |
| `read(["adjacency.mtx", "features.mtx", "labels.csv"])` | sparse matrices, also of SciPy's `save_npz`; or .npy files |
| `read("Reed98.mat")` | the matrices `A` and `local_info` of a graph of Facebook-100 |
| `read(data)` | a PyG `Data` or a NetworkX graph |
"""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common import checks
from adaptkry.common.files import checked_path
from adaptkry.common.lookup import check_options, pick, some
from adaptkry.common.tables import number_text
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.readers.arrays import read_matrix, read_npz
from adaptkry.graphs.readers.facebook import read_facebook
from adaptkry.graphs.readers.frames import is_frame
from adaptkry.graphs.readers.objects import from_data, from_networkx, is_networkx, unused_attributes
from adaptkry.graphs.readers.paths import TABLES, check_file, error_prefix, tables_in
from adaptkry.graphs.readers.tables import log_unused, read_tables

logger = logging.getLogger(__name__)

READERS: dict[str, Callable[..., Graph]] = {
    ".npz": read_npz, ".mtx": read_matrix, ".mat": read_facebook, **dict.fromkeys(TABLES, read_tables)
}  # fmt: skip
PICKLES = (".pt", ".pth", ".pkl", ".pickle")
UNKNOWN_LIKE = ("-1", "nan", "none", "null", "na", "n/a", "?", "unknown", "missing")  # names of classes to warn of
MANY_CLASSES = 10  # classes; more than that, with fewer than two nodes each, may be numbers
SKEWED_SHARE, SKEWED_FACTOR = 0.99, 20  # weights are skewed if this quantile is that many times the median
TABLE_OPTIONS = {"source", "target", "weight_column", "id_column", "label_column", "ignore", "categories", "missing"}
LOAD_OPTIONS = TABLE_OPTIONS | {"edges", "nodes", "features", "labels", "weight", "directed", "name", "root"}
SUFFIXES = (*READERS, *PICKLES, ".npy")  # text that ends in one of these is a path


def read(data, **options) -> Graph:
    """Read a graph from a file, several files, a folder with edges.* and nodes.*, or Python objects.

    Args:
        data: path, list of paths (edges first), data frames of edges and nodes, PyG `Data`, or NetworkX graph.
        **options: for all: `directed` (by default as in the matrix, `Data` or NetworkX graph; lists of edges are
            undirected), `name`, `metric`, `task` ("multilabel" or "regression" for other labels than classes).

            For tables: `nodes`, the file or data frame of nodes; the names of columns `source`, `target`,
            `weight_column`, `id_column` and `label_column`; `features`, the columns that are features (by default all
            others), or `ignore`, those to leave out; `categories`, columns of codes that are categories although they
            are numbers; `missing`, "mean" or "flag", to replace missing values; `layout`, that of a run, whose columns
            are encoded as in its training.

            For matrices: `features` and `labels`, paths of .npy files (features also .mtx, labels also tables). For
            NetworkX graphs: `weight`, the name of the edge attribute of weights.
    """
    graph, where = _read(data, options)
    _log_labels(graph, where)
    _log_weights(graph)
    return graph


def _read(data, options: dict) -> tuple[Graph, str]:
    """The graph, and where it comes from, for messages."""
    if hasattr(data, "node_types"):
        raise TypeError("a graph has one type of nodes and edges; got HeteroData. Use data.to_homogeneous().")
    if hasattr(data, "edge_index") or is_networkx(data):
        options = _for_others(options, type(data).__name__)
        graph = from_networkx(data, **options) if is_networkx(data) else from_data(data, **options)
        log_unused(type(data).__name__, "attributes", unused_attributes(data))
        return graph, type(data).__name__
    first, *more = _items(data)
    if options.get("nodes") is not None:
        options = options | {"nodes": _item(options["nodes"])}
    if not isinstance(first, Path):
        check_options(read_tables, options)
        return read_tables(first, *more, **options), "the data frame of nodes"
    if first.is_dir():
        if more:
            raise ValueError(f"a folder holds the whole graph; got {first} and {more[0]}. Pass one of them.")
        first, more = tables_in(first)
    suffix = check_file(first).suffix.lower()
    if suffix in PICKLES:
        raise ValueError(
            f"a file must hold plain data; {first} is a pickle, and opening a pickle can run arbitrary code. "
            f"If you trust it, load it in Python and pass the Data object, or save its arrays as .npz."
        )
    with error_prefix(first):
        reader = pick(READERS, suffix, "file type")
        options = options if reader is read_tables else _for_others(options, f"a {suffix} file")
        check_options(read_matrix if reader is read_npz else reader, options)
    return reader(first, *more, **options), str(more[0] if more else first)


def _for_others(options: dict, what: str) -> dict:
    """Options for a graph that is not in tables; those about columns of tables are refused."""
    wrong = [name for name in options if name in TABLE_OPTIONS]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: these options are for tables ({', '.join(TABLES)}, data frames); got {what}. Leave "
            "them out."
        )
    return {name: value for name, value in options.items() if name != "layout"}


def _log_labels(graph: Graph, where: str) -> None:
    """Count nodes without a label, and warn of classes that may be a mistake.

    These are classes without nodes, classes whose names often mean that a label is unknown, and names that differ only
    in case or as the same number is written.
    """
    sizes, unknown = checks.class_sizes(graph.y).tolist(), int((graph.known < 0).sum())
    if (sizes or graph.targets is not None) and unknown:
        logger.info("%s: %d of %d nodes have no label", where, unknown, graph.nodes)
    if graph.targets is not None:
        return
    classes = sum(size > 0 for size in sizes)
    if classes > max(MANY_CLASSES, sum(sizes) / 2):
        logger.warning(
            "%s: %d labelled nodes have %d different labels, which are taken as classes; for numbers use --task "
            "regression (task='regression' in Python)",
            where, sum(sizes), classes,
        )  # fmt: skip
    for name, size in zip(graph.info.class_names or (), sizes, strict=False):
        if name.lower() in UNKNOWN_LIKE:
            logger.warning(
                "%s: %d nodes have the label %r, which is a class like others; leave labels empty if they are unknown",
                where, size, name,
            )  # fmt: skip
    if 0 in sizes and graph.info.class_names is None:
        logger.warning(
            "%s: %d of the classes 0 .. %d have no node; number classes from 0 without gaps",
            where, sizes.count(0), len(sizes) - 1,
        )  # fmt: skip
    similar: dict[str | float, list[str]] = {}
    for name in graph.info.class_names or ():
        similar.setdefault(_plain(name), []).append(name)
    for names in similar.values():
        if len(names) > 1:
            logger.warning("%s: the labels %s are different classes; write them alike if not", where, some(names))


def _log_weights(graph: Graph) -> None:
    """Warn of weights of which a few are far larger than most, such as amounts of payments."""
    if graph.weights is None or not len(graph.weights):
        return
    median, high = np.quantile(graph.weights.numpy(), (0.5, SKEWED_SHARE))
    if high > SKEWED_FACTOR * median:
        logger.warning(
            "%s: edge weights are skewed (median %s, largest %s): a few edges dominate every sum over neighbours; "
            "compare with a fit without weights, or use their logarithm, log(1 + weight)",
            graph.info.name, number_text(median), number_text(float(graph.weights.max())),
        )  # fmt: skip


def _plain(name: str) -> str | float:
    """The number that a name is, or the name in lower case without spaces at its ends."""
    try:
        return float(name)
    except ValueError:
        return name.strip().lower()


def _items(data: Any) -> list[Any]:
    """One path or data frame, or several, as a list."""
    is_several = isinstance(data, Iterable) and not isinstance(data, str | Path | dict) and not is_frame(data)
    given: list[Any] = list(data) if is_several else [data]
    if not given or "" in [path for path in given if isinstance(path, str)]:
        what = "an empty path" if given else "an empty list"
        raise ValueError(f"a graph needs at least one file; got {what}. Pass the path of its edges.")
    return [_item(item, type(data).__name__) for item in given]


def _item(item: Any, given: str | None = None) -> Any:
    """A path, or a data frame as it is; everything else is refused."""
    if isinstance(item, str | os.PathLike):
        return _expanded(item)
    if is_frame(item):
        return item
    raise TypeError(
        f"a graph must be a name, a path, a list of paths, data frames, a PyG Data or a NetworkX graph; got "
        f"{given or type(item).__name__}. Use Graph(edges, features, labels) for arrays."
    )


def _expanded(path: str | os.PathLike) -> Path:
    try:
        return checked_path(path, "a path of the graph").expanduser()
    except RuntimeError:
        raise ValueError(f"~ in a path must be followed by the name of a user; got {path}. Write it in full.") from None
