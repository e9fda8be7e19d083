"""Nodes with the same neighbours as another node, and with the same features too."""

import numpy as np
import scipy.sparse as sp

from adaptkry.graphs.graph import Graph


def duplicate_nodes(graph: Graph) -> int:
    """Count nodes with the same neighbours and features as an earlier node (Chameleon and Squirrel have many)."""
    group = neighbour_groups(graph)
    nodes = np.flatnonzero(is_in_large_group(group))  # compare features of these only
    keys = group[nodes, None]
    if graph.features is not None and len(nodes):
        rows = graph.features[nodes].toarray() if sp.issparse(graph.features) else graph.features[nodes].numpy()
        keys = np.column_stack([keys, row_groups(rows + 0.0)])  # -0.0 becomes 0.0, since bytes are compared
    return len(nodes) - len(np.unique(keys, axis=0))


def neighbour_groups(graph: Graph) -> np.ndarray:
    """Return a group number for each node [n], equal for nodes with the same neighbours; -1 for isolated nodes."""
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    degree = np.diff(indptr)
    order = np.argsort(degree, kind="stable")
    sizes, starts = np.unique(degree[order], return_index=True)
    groups, first = np.full(graph.nodes, -1), 0
    for size, nodes in zip(sizes, np.split(order, starts[1:]), strict=True):  # lists of equal length form a matrix
        if size:
            groups[nodes] = first + row_groups(indices[indptr[nodes, None] + np.arange(size)])
            first += len(nodes)
    return groups


def is_in_large_group(group: np.ndarray) -> np.ndarray:
    """Return for each node [n] whether its group has another node; group -1 does not count."""
    return (group >= 0) & (np.bincount(group + 1)[group + 1] > 1)


def row_groups(rows: np.ndarray) -> np.ndarray:
    """Return a group number for each row of a matrix [n, d], equal for rows with the same bytes."""
    as_bytes = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    return np.unique(as_bytes[:, 0], return_inverse=True)[1]


def shared_neighbours(graph: Graph) -> float:
    """Return the share of nodes that have the same neighbours as another node; isolated nodes do not count.

    >>> shared_neighbours(Graph([[0, 1, 2], [3, 3, 4]]))  # 0 and 1
    0.4
    """
    return float(is_in_large_group(neighbour_groups(graph)).sum()) / graph.nodes
