r"""Structure columns: the truncated SVD of a graph's normalised adjacency matrix, as columns that describe its nodes.

.. math::
    \hat A = D_{out}^{-1/2} A D_{in}^{-1/2} \approx U S V^T, \qquad
    \text{columns}\ \hat A V = U S, \text{ and for a directed graph also } \hat A^T U = V S

A node with few or no links of its own to others that have labels still gets columns from the nodes it links to. New
nodes are projected: with the maps V and U of a training graph, the columns of a larger graph are
:math:`\hat A_{new}[:, :n] V`.

The matrix is divided into blocks (the connected components of the bipartite graph of its rows and columns), because
SciPy's Lanczos methods find only some copies of a repeated singular value, and not the same ones each time. The first
singular value of every block is 1, with vectors that are known in advance: the square roots of degrees. Those of the
largest block are kept. Those of all others come last, after pairs with smaller values, because on a graph with many
components they would fill the columns with nothing but the number of the component.
"""

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import svds
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.propagation_matrix import scalings

DENSE_ENTRIES = 250_000  # blocks of at most this size are decomposed as dense matrices

Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]  # U [p, r], s [r], V [q, r]


def normalised_adjacency(graph: Graph) -> sp.csr_array:
    """D_out^{-1/2} A D_in^{-1/2} in float64 [n, n]; a node without edges has a row and a column of zeros.

    >>> normalised_adjacency(Graph([[0, 1], [1, 2]])).toarray().round(4)
    array([[0.    , 0.7071, 0.    ],
           [0.7071, 0.    , 0.7071],
           [0.    , 0.7071, 0.    ]])
    """
    left, right, _ = scalings(graph.degree("out"), graph.degree("in"), (1.0,))  # [1, n] each
    return sp.csr_array(sp.diags_array(left[0].numpy()) @ graph.adjacency @ sp.diags_array(right[0].numpy()))


def structure_maps(graph: Graph, rank: int) -> tuple[Tensor, Tensor | None]:
    """The maps V and U from nodes to structure columns, float32 [n, r] each; U only for a directed graph.

    Equal input gives equal bits: the start vector is fixed, and so are signs (the largest entry of a column of V is
    positive).
    """
    if not 1 <= rank <= graph.nodes:
        raise ValueError(
            f"the number of structure columns must be at least 1 and at most the number of nodes, {graph.nodes}; "
            f"got {rank}. Use fewer."
        )
    U, _, V = truncated_svd(normalised_adjacency(graph), rank)
    return torch.from_numpy(V).float(), torch.from_numpy(U).float() if graph.is_directed else None


def structure_columns(graph: Graph, right: Tensor, left: Tensor | None = None) -> Tensor:
    """The structure columns of a graph whose first nodes are those of the maps, in the same order.

    Args:
        graph: the graph of the maps, or one with further nodes.
        right: the map V [n, r].
        left: the map U [n, r] of a directed graph. Without it, the direction of edges is ignored.

    Returns:
        float32 [nodes, r], or [nodes, 2 r] with `left`.
    """
    n = len(right)
    matrix = normalised_adjacency(graph.undirected() if left is None else graph)
    parts = [matrix[:, :n] @ right.double().numpy()]
    if left is not None:
        parts.append(matrix[:n].T @ left.double().numpy())
    return torch.from_numpy(np.hstack(parts)).float()


def truncated_svd(matrix: sp.csr_array, rank: int) -> Triplets:
    """The largest singular values [r] of a matrix and their vectors U [p, r] and V [q, r], block by block.

    Values are in descending order, except that the first one of every block but the largest comes after all others.
    Beyond the rank of the matrix, values and vectors are zero.
    """
    p, q = sizes(matrix)
    bipartite = sp.block_array([[None, matrix], [matrix.T, None]])
    _, block = connected_components(bipartite, directed=False)
    row_order, column_order = (np.argsort(part, kind="stable") for part in (block[:p], block[p:]))
    row_ends, column_ends = (np.cumsum(np.bincount(part, minlength=block.max() + 1)) for part in (block[:p], block[p:]))
    permuted = matrix[row_order][:, column_order]
    largest = np.bincount(block).argmax()
    found = []  # rank of the pair, value, rows, columns, u, v
    for i, (row_end, column_end) in enumerate(zip(row_ends, column_ends, strict=True)):
        row_start, column_start = (0, 0) if i == 0 else (row_ends[i - 1], column_ends[i - 1])
        part = permuted[row_start:row_end, column_start:column_end]
        if not part.nnz:
            continue
        rows, columns = row_order[row_start:row_end], column_order[column_start:column_end]
        for j, (u, s, v) in enumerate(zip(*(each.T for each in block_svd(part, rank)), strict=True)):
            found.append((j == 0 and i != largest, -s, i, rows, columns, u, v))
    found.sort(key=lambda pair: pair[:3])
    U, s, V = np.zeros((p, rank)), np.zeros(rank), np.zeros((q, rank))
    for j, (_, value, _, rows, columns, u, v) in enumerate(found[:rank]):
        U[rows, j], s[j], V[columns, j] = u, -value, v
    return U, s, V


def block_svd(matrix: sp.csr_array, rank: int) -> Triplets:
    """At most `rank` largest singular values in descending order, with vectors whose signs are fixed."""
    p, q = sizes(matrix)
    if rank >= min(p, q) - 1 or p * q <= DENSE_ENTRIES:
        U, s, Vt = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        start = np.random.default_rng(0).standard_normal(min(p, q))
        U, s, Vt = svds(matrix, rank, v0=start, solver="arpack")
        assert U is not None
        assert Vt is not None
    order = np.argsort(-s, kind="stable")[:rank]
    U, s, V = U[:, order], s[order], Vt[order].T
    signs = np.sign(np.take_along_axis(V, np.abs(V).argmax(0)[None], 0))  # [1, r]
    return U * signs, s, V * signs


def sizes(matrix: sp.csr_array) -> tuple[int, int]:
    """The number of rows and of columns."""
    p, q = matrix.shape  # type: ignore[misc]  # SciPy's type is that of any number of axes
    return p, q
