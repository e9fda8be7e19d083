r"""Structure columns: a truncated SVD of a graph's adjacency matrix, as columns that describe the links of its nodes.

.. math::
    \hat A = D_{out}^{-1/4} A D_{in}^{-1/4} \approx U S V^T, \qquad
    \text{columns}\ \hat A V = U S \text{ (side "out")}, \quad \hat A^T U = V S \text{ (side "in")}

with every row scaled to length 1. With the exponent 1/4, large singular values belong to well connected parts of the
graph; with the exponent 1/2 of the propagation matrix every small component has the singular value 1, and the columns
would mostly number the components. New nodes are projected: with the map V of a training graph, the columns of a
larger graph are :math:`\hat A_{new}[:, :n] V`.
"""

from collections.abc import Mapping, Sequence

import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph

OVERSAMPLING, ITERATIONS = 16, 6  # of the randomised SVD


def sides_of(graph: Graph, directions: Sequence[str]) -> tuple[str, ...]:
    """The sides of the adjacency matrix that directions use: "both" is the matrix of the undirected graph.

    >>> sides_of(Graph([[0], [1]], directed=True), ["out", "in-out"])
    ('out', 'in')
    """
    found = tuple(side for side in ("out", "in") if any(name.startswith(side) for name in directions))
    return found if graph.is_directed and found else ("both",)


def scaled_adjacency(graph: Graph) -> sp.csr_array:
    """D_out^{-1/4} A D_in^{-1/4} in float64 [n, n]; a node without edges has a row and a column of zeros.

    >>> scaled_adjacency(Graph([[0, 1], [1, 2]])).toarray().round(4)
    array([[0.    , 0.8409, 0.    ],
           [0.8409, 0.    , 0.8409],
           [0.    , 0.8409, 0.    ]])
    """
    left, right = ((graph.degree(side).clamp(min=1e-30) ** -0.25).numpy() for side in ("out", "in"))
    return sp.csr_array(sp.diags_array(left) @ graph.adjacency @ sp.diags_array(right))


def structure_maps(
    graph: Graph, rank: int, sides: Sequence[str], device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """The map from nodes to structure columns for each side, float32 [n, r]: V for "out" and "both", U for "in".

    Equal input gives equal bits on the CPU, since the random start of the SVD is fixed.
    """
    if not 1 <= rank <= graph.nodes:
        raise ValueError(
            f"the number of structure columns must be at least 1 and at most the number of nodes, {graph.nodes}; "
            f"got {rank}. Use fewer."
        )
    matrix = scaled_adjacency(graph if sides != ("both",) else graph.undirected())
    U, _, V = truncated_svd(sparse_tensor(matrix, device), rank)
    return {side: (U if side == "in" else V).cpu() for side in sides}


def structure_columns(graph: Graph, maps: Mapping[str, Tensor]) -> Tensor:
    """The structure columns of a graph whose first nodes are those of the maps, in the same order.

    Args:
        graph: the graph of the maps, or one with further nodes.
        maps: side -> [n, r].

    Returns:
        float32 [nodes, r x sides].
    """
    n = len(next(iter(maps.values())))
    matrix = scaled_adjacency(graph.undirected() if "both" in maps else graph)
    parts = []
    for side, values in maps.items():
        links = matrix[:n].T if side == "in" else matrix[:, :n]
        columns = torch.from_numpy(links @ values.double().numpy())
        parts.append(columns / columns.norm(dim=1, keepdim=True).clamp(min=1e-30))
    return torch.cat(parts, 1).float()


def sparse_tensor(matrix: sp.csr_array, device: torch.device | str = "cpu") -> Tensor:
    """A SciPy matrix as a sparse tensor of float32."""
    entries = matrix.tocoo()
    indices = torch.stack([torch.from_numpy(part).long() for part in (entries.row, entries.col)])
    values = torch.from_numpy(entries.data).float()
    options = {"is_coalesced": True, "device": device}
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # said by argument, some versions warn
        return torch.sparse_coo_tensor(indices, values, matrix.shape, **options)  # type: ignore[arg-type]


def truncated_svd(matrix: Tensor, rank: int, iterations: int = ITERATIONS) -> tuple[Tensor, Tensor, Tensor]:
    """The largest singular values [r] of a matrix [p, q] and their vectors U [p, r], V [q, r] (randomised SVD)."""
    with torch.random.fork_rng(devices=[matrix.device] if matrix.is_cuda else []):
        torch.manual_seed(0)
        U, s, V = torch.svd_lowrank(matrix, min(rank + OVERSAMPLING, *matrix.shape), niter=iterations)
    return U[:, :rank], s[:rank], V[:, :rank]
