"""The nodes of a training graph in another graph: found by id in any order, or expected first if there are no ids.

Structure columns, structure layers and training labels are values of training nodes. Saved inputs hold the number of
these nodes and, if they have ids, the ids as JSON in bytes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from adaptkry.common.lookup import some
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.readers.tables import OLD_AND_NEW


def ids_to_tensor(ids: Sequence[str]) -> Tensor:
    """Return ids as JSON in bytes: uint8.

    >>> ids_from_tensor(ids_to_tensor(["ann", "bob"]))
    ['ann', 'bob']
    """
    return torch.from_numpy(np.frombuffer(json.dumps([str(one) for one in ids]).encode(), dtype=np.uint8).copy())


def ids_from_tensor(content: Tensor) -> list[str]:
    """Return what `ids_to_tensor` was given."""
    ids = json.loads(content.numpy().tobytes())
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise ValueError("ids of nodes must be a list of texts; got something else.")
    return ids


def training_places(graph: Graph, saved: Mapping[str, Tensor]) -> Tensor | None:
    """Return the number of each training node in a graph [n]; None if they are the first ones, or are not needed.

    Nodes are found by id if both graphs have ids. A graph without all training nodes is refused.
    """
    if "nodes" not in saved:
        return None
    n, ids = int(saved["nodes"]), graph.info.node_ids
    if graph.nodes < n:
        raise ValueError(
            f"this run uses the structure or the labels of its training graph, so it needs the {n} training nodes, and "
            f"possibly more; got {graph.nodes} nodes. {OLD_AND_NEW}"
        )
    if ids is None or not {"training_ids", "node_ids"} & saved.keys():
        return None
    if "training_ids" not in saved:
        _check_digest(ids[:n], saved["node_ids"])
        return None
    wanted = ids_from_tensor(saved["training_ids"])
    if [str(one) for one in ids[:n]] == wanted:
        return None
    places = {str(one): number for number, one in enumerate(ids)}
    if missing := [one for one in wanted if one not in places]:
        raise ValueError(
            f"this run uses the structure or the labels of its {n} training nodes, so all their ids must be in the "
            f"graph; missing are {some(missing, 3)}. {OLD_AND_NEW}"
        )
    if len(places) < graph.nodes or len(set(wanted)) < n:
        raise ValueError(
            "ids of nodes must differ, so that training nodes can be found; some are repeated. Correct them."
        )
    return torch.tensor([places[one] for one in wanted])


def _check_digest(first: Sequence[str], digest: Tensor) -> None:
    """Refuse other first nodes than those of training, of which folders of earlier versions have only a digest."""
    found = hashlib.sha256("\n".join(map(str, first)).encode()).digest()
    if list(found) != digest.tolist():
        raise ValueError(
            f"the first {len(first)} nodes must be the training nodes in the same order, since this run uses their "
            "structure or labels and was saved without their ids; got other nodes, or another order. List new nodes "
            "after them in a nodes file, or train again: new runs find their nodes by id."
        )


def at_places(values: Tensor, places: Tensor | None, nodes: int, *, dim: int = 0, fill: float = 0.0) -> Tensor:
    """Return values of training nodes as values of the nodes of another graph; nodes that are new have `fill`.

    Args:
        values: [..., n, ...].
        places: of the training nodes [n]; None returns `values`, which are those of the first nodes.
        nodes: number of nodes of the other graph.
        dim: the axis of nodes.
        fill: the value of new nodes.

    >>> at_places(torch.tensor([5, 7]), torch.tensor([2, 0]), 3, fill=-1)
    tensor([ 7, -1,  5])
    """
    if places is None:
        return values
    shape = [*values.shape[:dim], nodes, *values.shape[dim + 1 :]]
    return values.new_full(shape, fill).index_copy_(dim, places, values)
