"""PyTorch Geometric: a transform that adds the basis to `Data`, and a layer for any model."""

from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import average, krylov, stack
from adaptkry.spectral.filters import Filter
from adaptkry.spectral.propagation_matrix import Propagation


class KrylovBasis(BaseTransform):
    r"""Add the adaptive Krylov basis to the data, as `data.basis` [n, K + 1, d].

    Args:
        taus: one or several positive numbers; the bases of several taus are averaged.
        degree: number of hops K.
        direction: "both", "out" or "in".
    """

    def __init__(self, taus=(0.5,), degree: int = 10, direction: str = "both"):
        self.taus, self.degree, self.direction = taus, degree, direction

    def forward(self, data: Data) -> Data:
        """Compute the basis of `data.x`."""
        graph = Graph.from_pyg(data)
        P = Propagation(graph, list(self.taus), self.direction)  # type: ignore[arg-type]
        data.basis = stack(average(krylov, P, graph.x, self.degree)).contiguous()
        return data


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
        self.filter, self.tau, self.direction = Filter(degree, **options), tau, direction

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Filter x; gradients flow to x and to the hop weights."""
        graph = Graph(edge_index, nodes=len(x), weights=edge_weight, directed=self.direction != "both")
        P = Propagation(graph, self.tau, self.direction).to(x)  # type: ignore[arg-type]
        return self.filter.apply(P, x)
