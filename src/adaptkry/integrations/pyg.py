"""PyTorch Geometric: a transform that adds the basis to `Data`, and a layer for any model."""

from typing import Any

from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from adaptkry.common import checks
from adaptkry.common.choices import STORED_DIRECTIONS
from adaptkry.common.lookup import pick
from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import average, krylov, stack
from adaptkry.spectral.filters import Filter
from adaptkry.spectral.propagation_matrix import Propagation


class KrylovBasis(BaseTransform):
    r"""Add the adaptive Krylov basis to the data, as `data.basis` [n, K + 1, d].

    The data needs x and edge_index, and may have edge_weight; other attributes, such as y, are not read.

    Args:
        taus: one or several positive numbers; the bases of several taus are averaged.
        degree: number of hops K.
        direction: "both", "out" or "in".
    """

    def __init__(self, taus=(0.5,), degree: int = 10, direction: str = "both"):
        self.taus, self.degree = checks.taus(taus), checks.count(degree, "degree", checks.MAX_DEGREE)
        self.direction = _checked_direction(direction)

    def forward(self, data: Data) -> Data:
        """Compute the basis of `data.x`."""
        if not isinstance(data, Data):
            raise TypeError(
                f"KrylovBasis needs a PyG Data; got {type(data).__name__}. Use to_homogeneous() if it has it."
            )
        for name in ("x", "edge_index"):
            if getattr(data, name, None) is None:
                raise ValueError(f"KrylovBasis needs a Data with x and edge_index; got {data}. Set data.{name}.")
        weights = getattr(data, "edge_weight", None)
        directed = bool(data.is_directed())
        graph = Graph(data.edge_index, nodes=data.num_nodes, weights=weights, directed=directed)
        P = Propagation(graph, self.taus, self.direction)  # type: ignore[arg-type]
        x = checks.features(data.x, graph.nodes)
        data.basis = stack(average(krylov, P.to(x), x, self.degree)).contiguous()
        return data

    def __repr__(self) -> str:
        return f"KrylovBasis(taus={self.taus}, degree={self.degree}, direction={self.direction!r})"


class KrylovConv(nn.Module):
    r"""A polynomial filter with learned hop weights as a layer: :math:`\sum_k w_k P_\tau^k x`.

    Args:
        degree: number of hops K.
        tau: positive number that scales the spectrum of the propagation matrix.
        direction: "both", "out" or "in".
        options: arguments of `Filter`: basis, parametrisation, initial_weights, alpha, channels.

    Shapes: x [n, d], edge_index [2, m], edge_weight [m] -> [n, d].
    """

    def __init__(self, degree: int = 10, tau: float = 0.5, direction: str = "both", **options):
        super().__init__()
        checks.taus(tau)
        self.filter, self.tau, self.direction = Filter(degree, **options), tau, _checked_direction(direction)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Filter x; gradients flow to x and to the hop weights, but not to edge weights."""
        checks.signal(x, len(x) if isinstance(x, Tensor) and x.ndim else 0)
        graph = Graph(edge_index, nodes=len(x), weights=edge_weight, directed=self.direction != "both")
        P = Propagation(graph, self.tau, self.direction).to(x)  # type: ignore[arg-type]
        return self.filter.apply(P, x)


def _checked_direction(direction: Any) -> str:
    """Return a direction that a propagation matrix has."""
    pick(dict.fromkeys(STORED_DIRECTIONS), direction, "direction")
    return direction
