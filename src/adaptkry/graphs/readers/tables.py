"""A graph from two tables: one of edges, one of nodes."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers import columns
from adaptkry.graphs.readers.paths import exists, name_of, naming

LABELS_TOO = ("class", "labels", "y", "category")  # columns that look like labels: never silently a feature
Nodes = tuple[list[str], np.ndarray | None, np.ndarray | None, tuple[str, ...] | None, list[str] | None]


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
    what = "the ends of edges (the edges file comes first, then the nodes file)"
    ends = {end: columns.keys(path, table, end, what) for end in (source, target)}
    if given:
        ids, features, labels, classes, names = _nodes(exists(given[0].expanduser()), key, label, ignore)
    else:
        ids, names = columns.sort_names({*ends[source], *ends[target]}), None
        features = labels = classes = None
    pairs = np.stack([columns.index(path, ends[end], ids, end) for end in (source, target)])
    info = Info(name or name_of(path), metric, None, classes, tuple(ids), names)
    weights = _weights(path, table, weight)
    with naming(path):
        return Graph(pairs, features, labels, nodes=len(ids), weights=weights, directed=bool(directed), info=info)


def _weights(path: Path, table: columns.Columns, weight: str | None) -> np.ndarray | None:
    if weight is None and "weight" not in table:
        return None
    name = weight or "weight"
    columns.pick_column(path, table, name, "edge weights")
    advice = "Give every edge a weight, or delete the column."
    return columns.numbers(path, table, [name], lambda row: f"the edge in row {row + 1}", advice)[:, 0]


def _nodes(path: Path, key: str, label: str | None, ignore: Sequence[str]) -> Nodes:
    """Ids, features [n, d], labels [n], class names and column names of a nodes file; None for what it lacks."""
    table = columns.read_columns(path)
    ids = columns.keys(path, table, key, "node ids")
    twice, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{path}: node ids must differ, but {twice!r} comes {times} times.")
    for name in ignore:
        columns.pick_column(path, table, name, "ignore")
    label = _label_column(path, table, label, {key, *ignore})
    names = [name for name in table if name not in {key, label, *ignore}]
    advice = f"Turn it into numbers, or delete the column; labels go in a column called {label or 'label'}."
    features = columns.numbers(path, table, names, lambda row: f"node {ids[row]!r}", advice) if names else None
    labels, classes = columns.encode(columns.texts(table[label])) if label else (None, None)
    return ids, features, labels, classes, names or None


def _label_column(path: Path, table: columns.Columns, label: str | None, taken: set[str]) -> str | None:
    if label is not None:
        columns.pick_column(path, table, label, "labels")
        return label
    likely = [name for name in table if name.lower() in LABELS_TOO and name not in taken]
    if "label" not in table and likely:
        raise ValueError(
            f"{path}: column {likely[0]!r} looks like labels, and as a feature it would give the answer away. "
            f"Labels go in a column called label: rename it, or delete it."
        )
    return "label" if "label" in table else None
