"""Convert Python objects to graphs: PyG `Data` and NetworkX graphs."""

import sys

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.readers.texts import encode, texts

FEATURE_ATTRIBUTES = ("x", "features")  # names of node attributes of a NetworkX graph
LABEL_ATTRIBUTES = ("y", "label")
MASKS = {"train_mask": "train", "val_mask": "validation", "test_mask": "test"}  # of a PyG `Data`
DATA_ATTRIBUTES = ("x", "y", "edge_index", "edge_weight", "num_nodes", "name", "batch", "ptr")


def from_data(data, *, name: str = "data", metric: str = "accuracy", **options) -> Graph:
    """A graph from a PyG `Data`; its masks [n] or [n, s], all three or none, become fixed splits."""
    masks = {part: getattr(data, mask, None) for mask, part in MASKS.items()}
    found = {part: _mask(mask, part).T for part, mask in masks.items() if mask is not None}
    if found and len(found) < len(MASKS):
        raise ValueError(
            f"train, validation and test masks must all be present; got only {', '.join(found)}. Add the others, or "
            "delete the masks and pass splits."
        )
    return Graph.from_pyg(data, info=Info(name, metric, found or None), **options)


def _mask(values, part: str) -> Tensor:
    """A mask [n, s]; numbers of nodes are refused, since as a mask they would mean other nodes."""
    mask = checks.tensor(values, f"the {part} mask")
    if mask.dtype not in (torch.bool, torch.uint8) or mask.ndim not in (1, 2):
        raise TypeError(
            f"the {part} mask must be bool [n] or [n, s]; got {mask.dtype} {list(mask.shape)}. Convert numbers "
            f"of nodes to a mask first."
        )
    return mask.bool().reshape(len(mask), -1)


def unused_attributes(data) -> list[str]:
    """Names of what a PyG `Data` or a NetworkX graph holds and a graph does not use."""
    if is_networkx(data):
        nodes = {name for _, attributes in data.nodes(data=True) for name in attributes}
        edges = {name for *_, attributes in data.edges(data=True) for name in attributes}
        used = {next((name for name in names if name in nodes), "") for names in (FEATURE_ATTRIBUTES, LABEL_ATTRIBUTES)}
        return sorted(map(str, (nodes - used) | (edges - {"weight"})))
    names = list(data.keys()) if callable(getattr(data, "keys", None)) else []
    incomplete = [name for name in MASKS if name in names] if not {*MASKS} <= {*names} else []
    return [name for name in names if name not in DATA_ATTRIBUTES and name not in MASKS] + incomplete


def is_networkx(data) -> bool:
    """Whether `data` is a NetworkX graph; NetworkX need not be installed."""
    networkx = sys.modules.get("networkx")  # a caller with such a graph has imported NetworkX
    return networkx is not None and isinstance(data, networkx.Graph)


def from_networkx(
    graph,
    *,
    weight: str | None = "weight",
    name: str | None = None,
    metric: str = "accuracy",
    task: str = "classification",
    **options,
) -> Graph:
    """A graph from a NetworkX graph, with features and labels from its node attributes.

    Features are the node attribute `x` or `features` (a number or an array), labels the attribute `y` or `label`
    (integers, or text that is numbered; numbers or lists of numbers for other tasks than classification); nodes without
    this attribute are unlabelled. Edge weights are the attribute
    `weight`, 1 for edges without it; `weight=None` ignores weights.
    """
    classes, class_names = _labels(graph) if task == "classification" else (_targets(graph), None)
    names = tuple(map(str, graph.nodes))
    info = Info(name or graph.name or "graph", metric, None, class_names, names)
    is_weighted = weight != "weight" or any(weight in attributes for *_, attributes in graph.edges(data=True))
    return Graph.from_networkx(
        graph, _features(graph), classes, weight=weight if is_weighted else None, info=info, task=task, **options
    )


def _attribute(graph, names: tuple[str, ...]) -> dict | None:
    """Values by node of the first of these node attributes that the graph has."""
    for name in names:
        found = dict(graph.nodes(data=name))
        found = {node: value for node, value in found.items() if value is not None}
        if found:
            return found
    return None


def _features(graph) -> np.ndarray | None:
    """Features [n, d], or None if nodes have none."""
    values = _attribute(graph, FEATURE_ATTRIBUTES)
    if values is None:
        return None
    missing = next((node for node in graph.nodes if node not in values), None)
    if missing is not None:
        raise ValueError(
            f"every node must have features; node {missing!r} has none of {', '.join(FEATURE_ATTRIBUTES)}. "
            f"Add the attribute, or delete it from the other nodes."
        )
    rows = [np.atleast_1d(np.asarray(values[node])) for node in graph.nodes]
    widths = {row.shape for row in rows}
    if len(widths) > 1 or rows[0].ndim > 1:
        raise ValueError(
            f"features must be vectors of one length; got shapes {sorted(map(list, widths))}. Pad or flatten them."
        )
    return np.stack(rows)


def _targets(graph) -> np.ndarray | None:
    """Labels or targets of each node [n, t], NaN if it has none."""
    values = _attribute(graph, LABEL_ATTRIBUTES)
    if values is None:
        return None
    width = max(np.size(value) for value in values.values())
    rows = [np.ravel(values.get(node, np.full(width, np.nan))) for node in graph.nodes]
    if any(len(row) != width or row.dtype.kind not in "iufb" for row in rows):
        raise ValueError(f"targets must be {width} numbers for every node that has some; got others. Correct them.")
    return np.stack(rows).astype(np.float64)


def _labels(graph) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """Class of each node [n], -1 if it has none, and the names of the classes if labels are text."""
    values = _attribute(graph, LABEL_ATTRIBUTES)
    if values is None:
        return None, None
    column = np.array([values.get(node) for node in graph.nodes], dtype=object)
    if all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values.values()):
        return np.array([-1 if value is None else int(value) for value in column], dtype=np.int64), None
    return encode(texts(column))
