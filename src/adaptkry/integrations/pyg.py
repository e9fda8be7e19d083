"""PyTorch Geometric: a transform that adds the basis to `Data`, and a layer for any model."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import is_sparse, to_edge_index

from adaptkry.common import checks
from adaptkry.common.choices import STORED_DIRECTIONS
from adaptkry.common.lookup import pick, shortened
from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import average, krylov, stack
from adaptkry.spectral.filters import Filter
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS
from adaptkry.spectral.propagation_matrix import Propagation, scalings


class KrylovBasis(BaseTransform):
    r"""Add the adaptive Krylov basis to the data, as `data.basis` [n, K + 1, d].

    The data needs x and edge_index (or the sparse matrix adj_t), and may have edge_weight; other attributes, such as y,
    are not read.

    Args:
        taus: one or several positive numbers; the bases of several taus are averaged.
        degree: number of hops K.
        direction: "both" is the paper's symmetric matrix (of the undirected graph); with "out" a node sums over the
            nodes it points to, with "in" over those that point to it.

    >>> KrylovBasis(taus=(0.5, 0.8), degree=4)
    KrylovBasis(taus=(0.5, 0.8), degree=4, direction='both')
    """

    def __init__(self, taus=(0.5,), degree: int = 10, direction: str = "both"):
        self.taus, self.degree = checks.taus(taus), checks.count(degree, "degree", checks.MAX_DEGREE)
        pick(dict.fromkeys(STORED_DIRECTIONS), direction, "direction")
        self.direction: Any = direction

    def forward(self, data: Data) -> Data:
        """Compute the basis of `data.x`."""
        if not isinstance(data, Data):
            raise TypeError(
                f"KrylovBasis needs a PyG Data; got {type(data).__name__}. Use to_homogeneous() if it has it."
            )
        edges, weights = getattr(data, "edge_index", None), getattr(data, "edge_weight", None)
        if edges is None and is_sparse(getattr(data, "adj_t", None)):
            edges, weights = edges_of(data.adj_t, data.num_nodes or 0)
        for name, value in (("x", getattr(data, "x", None)), ("edge_index", edges)):
            if value is None:
                raise ValueError(f"KrylovBasis needs a Data with x and edge_index; got {data}. Set data.{name}.")
        graph = Graph(edges, nodes=data.num_nodes, weights=weights, directed=self.direction != "both")
        x = checks.features(data.x, graph.nodes)
        P = Propagation(graph, self.taus, self.direction)
        P = P.to(x) if isinstance(x, Tensor) else P  # sparse features are those of SciPy, on the CPU
        data.basis = stack(average(krylov, P, x, self.degree)).contiguous()
        return data

    def __repr__(self) -> str:
        return f"KrylovBasis(taus={self.taus}, degree={self.degree}, direction={self.direction!r})"


class KrylovConv(MessagePassing):
    r"""A polynomial filter with learned hop weights as a layer.

    .. math::
        X' = \sum_{k=0}^{K} w_k\, P_\tau^k\, X W + b, \qquad
        P_\tau = D_{row}^{-1/2}\,(\tau A + (1 - \tau) I)\,D_{column}^{-1/2}

    where :math:`A_{ij}` is the weight of the edge from j to i, and the diagonal matrices D hold the row and the column
    sums of the matrix between them. Tau 0.5 is GCN's propagation, tau 1 the normalised adjacency matrix. Self-loops are
    kept as entries of A; a node without edges keeps its signal. Edges are used as they are given, as in PyG's layers:
    an undirected graph lists both directions (see PyG's `ToUndirected`), and weights of repeated edges are added.

    Args:
        in_channels: number of input columns, or -1 to take it from the first input.
        out_channels: number of output columns.
        degree: number of hops K.
        tau: positive number that scales the spectrum of the propagation matrix.
        learn_tau: whether tau is trained; it stays positive, since its logarithm is the parameter.
        per_channel: whether every output column has hop weights of its own.
        bias: whether a bias is added.
        options: further arguments of `Filter`: parametrisation, initial_weights and alpha.

    Shapes:
        - **input:** x [n, in_channels]; edge_index [2, m] or a sparse matrix adj_t [n, n] (of torch or torch_sparse);
          edge_weight [m] (optional)
        - **output:** [n, out_channels]

    >>> layer = KrylovConv(16, 2, degree=4, tau=0.8)
    >>> layer
    KrylovConv(16, 2, degree=4, tau=0.8)
    >>> layer(torch.randn(3, 16), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        degree: int = 10,
        tau: float = 0.5,
        *,
        learn_tau: bool = False,
        per_channel: bool = False,
        bias: bool = True,
        **options,
    ):
        super().__init__(aggr="add")
        if in_channels != -1:
            checks.positive_count(in_channels, "in_channels")
        self.in_channels, self.out_channels = in_channels, checks.positive_count(out_channels, "out_channels")
        if in_channels != -1:
            what = f"a layer from {in_channels} to {out_channels} channels"
            checks.check_memory(4 * in_channels * out_channels, what)
        self.initial_tau, self.learn_tau = single_tau(tau), checks.flag(learn_tau, "learn_tau")
        for name in options:
            pick(dict.fromkeys(("parametrisation", "initial_weights", "alpha")), name, "option of KrylovConv")
        channels = out_channels if checks.flag(per_channel, "per_channel") else None
        self.initial = (options.get("initial_weights", "uniform"), options.get("alpha", 0.1))
        self.filter = Filter(degree, channels=channels, **options)
        self.lin = Linear(in_channels, out_channels, bias=False, weight_initializer="glorot")
        self.log_tau = nn.Parameter(torch.zeros(())) if self.learn_tau else None
        self.bias = nn.Parameter(torch.zeros(out_channels)) if checks.flag(bias, "bias") else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights of the dense layer again, and reset tau, the hop weights and the bias."""
        super().reset_parameters()
        self.lin.reset_parameters()
        with torch.no_grad():
            name, alpha = self.initial
            self.filter.theta.copy_(INITIAL_WEIGHTS[name](self.filter.degree, alpha))
            if self.log_tau is not None:
                self.log_tau.fill_(math.log(self.initial_tau))
            if self.bias is not None:
                self.bias.zero_()

    @property
    def tau(self) -> Tensor | float:
        """The value of tau: a number, or a tensor with a gradient if it is learned."""
        return self.initial_tau if self.log_tau is None else self.log_tau.exp()

    def forward(self, x: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Filter x; gradients flow to x, to the weights of edges and to all parameters."""
        nodes = check_signal(x, self.lin).shape[0]
        if is_sparse(edge_index):
            if edge_weight is not None:
                raise ValueError(
                    "edge_weight is for edge_index; got it with a sparse matrix. Put the weights into the matrix."
                )
            edge_index, edge_weight = edges_of(edge_index, nodes)
        if not torch.compiler.is_compiling():  # values cannot be checked in a compiled model
            edge_index = checks.edges(edge_index, nodes)[0].to(x.device)
            if edge_weight is not None:
                checks.weights(edge_weight.detach(), edge_index.shape[1])
        values, diagonal = matrix_entries(edge_index, edge_weight, self.tau, nodes)
        x = self.lin(x)
        values, diagonal = values.to(x.dtype), diagonal[:, None].to(x.dtype)
        w = self.filter.coefficients.to(x.dtype)  # [K + 1] or [d, K + 1]
        out = w[..., 0] * x
        for k in range(1, w.shape[-1]):
            x = self.sum_over_edges(x, edge_index, values) + diagonal * x
            out = out + w[..., k] * x
        return out if self.bias is None else out + self.bias

    def sum_over_edges(self, x: Tensor, edges: Tensor, values: Tensor) -> Tensor:
        """Return the sum over the edges [2, m] to each node of their value [m] times the signal of their source."""
        # PyG reads the next comment.
        # propagate_type: (x: Tensor, edge_weight: Tensor)
        return self.propagate(edges, x=x, edge_weight=values, size=(x.shape[0], x.shape[0]))

    def message(self, x_j: Tensor, edge_weight: Tensor) -> Tensor:  # type: ignore[override]
        """Return the signal of each edge [m, d]."""
        return edge_weight[:, None] * x_j

    def __repr__(self) -> str:
        learned = ", learn_tau=True" if self.learn_tau else ""
        tau = round(float(torch.as_tensor(self.tau).detach()), 6)
        return f"KrylovConv({self.in_channels}, {self.out_channels}, degree={self.filter.degree}, tau={tau}{learned})"


def matrix_entries(edges: Tensor, weights: Tensor | None, tau: Tensor | float, nodes: int) -> tuple[Tensor, Tensor]:
    """Return the entries of the propagation matrix: of each edge [m], and what is added to the diagonal [n].

    They are computed in float64, and differentiable in tau and in the weights of edges [m].
    """
    source, target = edges[0], edges[1]
    given = torch.ones(edges.shape[1], device=edges.device) if weights is None else weights
    values = given.double()
    zeros = torch.zeros(nodes, dtype=torch.float64, device=edges.device)
    rows, columns = zeros.index_add(0, target, values), zeros.index_add(0, source, values)  # sums of A
    tau = torch.as_tensor(tau, dtype=torch.float64, device=edges.device)
    left, right, diagonal = (part[0] for part in scalings(rows, columns, tau.reshape(1)))
    return tau * values * left[target] * right[source], left * diagonal * right


def edges_of(matrix: Any, nodes: int) -> tuple[Tensor, Tensor]:
    """Return edges [2, m] and their weights [m] of the transposed adjacency matrix of `Data.adj_t`."""
    if tuple(matrix.size(axis) for axis in (0, 1)) != (nodes, nodes):
        raise ValueError(
            f"adj_t must be a square matrix of {nodes} rows, one per node; got {matrix.size(0)} x {matrix.size(1)}. "
            "Bipartite graphs have no powers of their matrix."
        )
    if isinstance(matrix, Tensor) and matrix.layout == torch.sparse_coo:
        matrix = matrix.coalesce()  # PyG's function has no gradient here
        return matrix.indices().flip(0), matrix.values()
    positions, weights = to_edge_index(matrix)
    return positions.flip(0), weights


def check_signal(x: Any, dense: Linear) -> Tensor:
    """Return the input of the layer, a tensor [n, d] of the width and dtype of its dense layer."""
    if isinstance(x, tuple | list):
        raise TypeError(
            "KrylovConv needs one signal x [n, d]; got a pair. Bipartite graphs have no powers of their matrix; use "
            "to_homogeneous()."
        )
    checks.signal(x, x.shape[0] if isinstance(x, Tensor) and x.ndim else 0)
    if x.ndim != 2 or dense.in_channels not in (-1, x.shape[1]):
        width = "d" if dense.in_channels == -1 else dense.in_channels
        raise ValueError(f"x must have shape [n, {width}]; got {list(x.shape)}. Reshape it, or change in_channels.")
    if x.dtype != dense.weight.dtype:
        raise TypeError(
            f"x must have the dtype of the layer, {dense.weight.dtype}; got {x.dtype}. Convert x, or the layer with "
            "double() or float()."
        )
    return x


def single_tau(value: Any) -> float:
    """Return one positive number."""
    first, *others = checks.taus(value)
    if others:
        raise ValueError(f"KrylovConv needs one tau; got {shortened(value)}. Use a layer for each of them.")
    return first
