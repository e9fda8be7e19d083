"""What `AdaptKryClassifier` accepts: labels, features with edges, and node numbers."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from adaptkry.common import checks
from adaptkry.common.lookup import shortened
from adaptkry.graphs.graph import Graph, Info, row_count


def class_labels(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the known labels, and which labels are known [k]; -1 is unknown.

    Missing values and numbers that are not whole are refused.
    """
    if y is None:
        raise ValueError("AdaptKryClassifier requires y to be passed, but the target y is None.")
    # As objects, since a list of text would swallow NaN.
    labels = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        text = "A column-vector y was passed when a 1d array was expected. Use y.ravel()."  # the text of scikit-learn
        warnings.warn(text, DataConversionWarning, stacklevel=3)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"y must be labels [k], one per row of X; got {shortened(y)}. Pass a list or an array.")
    if labels.dtype == object:
        missing = [row for row, label in enumerate(labels) if label is None or label != label]
    else:
        missing = np.flatnonzero(~np.isfinite(labels)).tolist() if labels.dtype.kind == "f" else []
    is_text = np.array([isinstance(label, str) for label in labels], dtype=bool)
    missing = missing or [row for row in np.flatnonzero(is_text) if not labels[row].strip()]
    if missing:
        raise ValueError(
            f"y must not have missing values (NaN); row {missing[0]} has {labels.tolist()[missing[0]]!r}. Leave the "
            "row out, or use -1 for unknown labels."
        )
    known = is_text | (labels != -1)
    labels = np.array(labels[known].tolist())  # text or numbers, without the mark of unknown labels
    if len(np.unique(is_text[known])) > 1:
        raise TypeError("y must be all text or all numbers, besides -1; got both. Convert it.")
    if labels.dtype.kind == "f" and (labels != np.rint(labels)).any():
        raise ValueError(
            f"y must be classes; got the number {labels[labels != np.rint(labels)][0]}, which is not whole (a "
            "continuous target). Divide numbers into classes first."
        )
    return labels, known


def feature_graph(X: Any, edges: Any, names: Any = None) -> Graph:
    """Return a graph of features X [n, d] with the names of its columns.

    Args:
        X: features [n, d].
        edges: [2, m], a SciPy adjacency matrix [n, n], or a graph with the same edges.
        names: names of the columns [d], if they are known.
    """
    info = Info(feature_names=None if names is None else tuple(map(str, names)))
    return edge_graph(edges, row_count(X), X, info=info)


def edge_graph(edges: Any, nodes: int, features: Any = None, **options) -> Graph:
    """Return a graph of edges: [2, m], a SciPy adjacency matrix [n, n] with weights, or a graph with the same edges."""
    if isinstance(edges, Graph):
        options |= {"directed": edges.is_directed}
        edges = edges.adjacency
    if sp.issparse(edges):
        needed, is_enough = edges.shape[0], edges.shape[0] == nodes
    else:
        edges = checks.integers(edges, "edges")
        needed = int(edges.max()) + 1 if edges.numel() else 0
        is_enough = needed <= nodes
    if not is_enough:
        raise ValueError(
            f"X must have a row for every node, {needed} for these edges; got {nodes}. To split nodes, as in "
            "cross-validation, use AdaptKryClassifier(graph) and node numbers."
        )
    if sp.issparse(edges):
        return Graph.from_scipy(edges, features, weighted=bool((edges.data != 1).any()), **options)
    return Graph(edges, features, nodes=nodes, **options)


def as_column(X: Any) -> Any:
    """Return node numbers [k] as a column [k, 1], and tables unchanged."""
    if sp.issparse(X) or hasattr(X, "columns"):
        return X
    numbers = np.asarray(X)
    numbers = numbers if numbers.size else numbers.astype(np.int64)
    return numbers[:, None] if numbers.ndim == 1 else numbers


def node_numbers(X: Any, nodes: int) -> np.ndarray:
    """Return X [k, 1] as node numbers [k], all below `nodes`."""
    if X.shape[1] != 1 or not np.issubdtype(X.dtype, np.integer):
        raise ValueError(
            f"X must hold node numbers [k], as integers; got {X.dtype} of shape {X.shape}. For features, also of a "
            "pipeline that scales them, use AdaptKryClassifier(edges=edges)."
        )
    numbers = X[:, 0]
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= nodes):
        raise ValueError(f"node numbers must be 0 .. {nodes - 1}; got {numbers.min()} .. {numbers.max()}.")
    return numbers
