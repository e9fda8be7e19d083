r"""The propagation matrix of a graph and its Laplacian.

.. math:: P_\tau = D_\tau^{-1/2} A_\tau D_\tau^{-1/2}, \qquad A_\tau = \tau A + (1 - \tau) I

with :math:`D_\tau` the row sums of :math:`A_\tau`, and the same for directed graphs. `scalings`, `factors` and `finish`
are all that a product needs besides the sum over neighbours; `outofcore/` builds its product from the same three.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import pick
from adaptkry.graphs.graph import Direction, Graph
from adaptkry.spectral.kernels import cpu as kernels


class Propagation:
    r"""The propagation matrix :math:`P_\tau` of a graph, for one tau or several in one call.

    .. math::
        P_\tau = S\,(\tau A + (1-\tau) I)\,T, \qquad S = D_{out}^{-1/2},\; T = D_{in}^{-1/2}

    with :math:`D_{out}, D_{in}` the row and column sums of :math:`\tau A + (1-\tau) I`. Tau 0.5 is GCN's
    renormalised matrix, tau 1 the normalised adjacency matrix.

    Args:
        graph: the graph.
        tau: a number above 0, or a list of r of them.
        direction: "both" is the paper's symmetric matrix (of the undirected view); "out": a node hears the
            nodes it points to; "in": its transpose.
        isolated: what a node without any edge keeps of its signal at tau = 1: all of it (1, see below), or nothing
            (0, as in most programs of other methods). At any other tau it keeps all of it.

    Shapes:
        - one tau: [n], [n, d] -> the same
        - r taus: [r, n, d] -> [r, n, d], slice i belonging to tau i; [n, d] is taken r times, as torch.matmul does

    Corner cases. A node without any edge keeps its signal for every tau (the continuous extension of
    :math:`(1-\tau)/(1-\tau)`). A node with edges on one side only has a degree of :math:`1-\tau` on the other,
    where only its own diagonal entry meets it; its absolute value is taken and 0 stays 0, which is finite and
    continuous in tau.

    >>> triangle = Graph([[0, 1, 2], [1, 2, 0]])
    >>> Propagation(triangle, tau=1.0) @ torch.tensor([[1.0], [0.0], [0.0]])
    tensor([[0.0000], [0.5000], [0.5000]])
    """

    def __init__(
        self,
        graph: Graph,
        tau: float | Sequence[float] = 1.0,
        direction: Direction = "both",
        *,
        isolated: float = 1.0,
    ):
        self.taus: tuple[float, ...] = checks.taus(tau)
        self.is_batched = not hasattr(tau, "__float__") or getattr(tau, "ndim", 0) == 1
        self.direction = direction
        turn = {"both": Graph.undirected, "out": lambda g: g, "in": Graph.transposed}
        self.graph = pick(turn, direction, "direction")(graph)
        rows, columns = self.graph.degree("out"), self.graph.degree("in")  # [n]
        self.left, self.right, self.own = scalings(rows, columns, self.taus, isolated)  # [r, n] each
        self.isolated = isolated
        self.device = torch.device("cpu")
        self._turned: Propagation | None = None
        self._prepared: dict[torch.dtype, Any] = {}

    @property
    def tau(self) -> float:
        """The one tau; several have no single value."""
        first, *others = self.taus
        if others:
            raise ValueError(f"this operator has {len(self.taus)} taus {list(self.taus)}; use .taus.")
        return first

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return (self.graph.nodes, self.graph.nodes)

    @property
    def is_symmetric(self) -> bool:
        """Whether the matrix equals its transpose by construction."""
        return not self.graph.is_directed

    @property
    def panel(self) -> int:
        """Columns that are best propagated together; `stack` asks for this."""
        return kernels.panel_width(self.shape[0]) if self.device.type == "cpu" else 2**31

    @property
    def T(self) -> "Propagation":  # noqa: N802  as in NumPy and torch
        """The transpose: the same operator hearing from the other side."""
        if self.is_symmetric:
            return self
        if self._turned is not None:
            return self._turned
        turned = {"out": "in", "in": "out"}[self.direction]
        other = Propagation(self.graph, self.taus if self.is_batched else self.taus[0], "in", isolated=self.isolated)
        other = other.to(self.device)
        other.direction = turned
        self._turned = other  # a model trained through this operator asks for it at every step
        return other

    def to(self, device) -> "Propagation":
        """The same operator on another device; a tensor stands for its device."""
        device = device.device if isinstance(device, Tensor) else torch.device(device)
        moved = object.__new__(Propagation)
        moved.__dict__.update(self.__dict__, device=device, _prepared={}, _turned=None)
        return moved

    def __matmul__(self, x: Tensor) -> Tensor:
        checks.signal(x, self.shape[0], len(self.taus) if self.is_batched else None)
        if x.device.type != self.device.type:
            raise ValueError(
                f"the operator is on {self.device} and the signal on {x.device}. Use operator.to(x) first."
            )
        if self.is_batched and x.ndim == 2:
            x = x.expand(len(self.taus), *x.shape)
        return _Product.apply(x, self)  # type: ignore[no-any-return]

    def product(self, x: Tensor) -> Tensor:
        """The bare product, without gradient: column panels on the CPU, a kernel of our own on a GPU."""
        wide = x.reshape(len(self.taus), self.shape[0], -1)  # [r, n, d]
        if self.device.type != "cpu":
            return self._prepare(x.dtype)(wide).reshape(x.shape)
        width, columns = self.panel, wide.shape[2]
        if columns <= width:
            return self._panel(wide).reshape(x.shape)
        out = kernels.empty(*wide.shape, dtype=x.dtype)
        for start in range(0, columns, width):
            out[:, :, start : start + width] = self._panel(wide[:, :, start : start + width])
        return out.reshape(x.shape)

    def _panel(self, wide: Tensor) -> Tensor:
        """One column panel [r, n, w]: the taus together or one after the other, whichever is faster."""
        if kernels.together(self.shape[0], wide.shape[2], len(wide)):
            return self._pass(wide, slice(None))
        result = kernels.empty(*wide.shape, dtype=wide.dtype)
        for i in range(len(wide)):
            self._pass(wide[i : i + 1], slice(i, i + 1), result[i : i + 1])
        return result

    def _pass(self, wide: Tensor, taus: slice, out: Tensor | None = None) -> Tensor:
        """One pass over the edges: scale, gather-sum, scale, that is S (tau A + own) T x."""
        right, left_tau, left_own, weights = self._prepare(wide.dtype)
        r, n, w = wide.shape
        scaled = kernels.empty(n, r, w, dtype=wide.dtype).transpose(0, 1)  # a node's taus lie side by side
        torch.mul(wide, right[taus], out=scaled)
        table = scaled.transpose(0, 1).view(n, r * w)
        sums = kernels.gather_sum(self.graph.indptr, self.graph.indices, table, weights)
        return finish(sums.view(n, r, w).transpose(0, 1), scaled, left_tau[taus], left_own[taus], out)

    def _prepare(self, dtype: torch.dtype):
        """The scalings in the signal's own precision; on a GPU the ready-made product."""
        if dtype not in self._prepared:
            make = self._scalings if self.device.type == "cpu" else self._on_gpu
            self._prepared[dtype] = make(dtype)
        return self._prepared[dtype]

    def _scalings(self, dtype: torch.dtype) -> tuple:
        weights = None if self.graph.weights is None else self.graph.weights.to(dtype)
        return *factors(self.left, self.right, self.own, self.taus, dtype), weights

    def _on_gpu(self, dtype: torch.dtype):
        """The product as a function of [r, n, d]: our own kernel where Triton is installed, else torch's CSR."""
        try:
            from adaptkry.spectral.kernels import triton_product as cuda
        except ImportError:
            matrices = [self.to_csr(i, dtype) for i in range(len(self.taus))]
            return lambda wide: torch.stack([P @ x for P, x in zip(matrices, wide, strict=True)])
        *scalings, weights = self._scalings(dtype)
        flat = [part[:, :, 0].contiguous().to(self.device) for part in scalings]  # [r, n]
        tasks = cuda.Tasks(self.graph.indptr, self.graph.indices, weights, self.device)
        return lambda wide: tasks.product(wide.contiguous(), *flat)

    def to_csr(self, which: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """P_tau of tau number `which` as a torch CSR matrix with values, on this operator's device."""
        n, tau = self.shape[0], self.taus[which]
        rows = torch.repeat_interleave(torch.arange(n), self.graph.indptr.diff())
        rows = torch.cat([rows, torch.arange(n)])
        columns = torch.cat([self.graph.indices.long(), torch.arange(n)])
        weights = self.graph.weights
        entries = torch.ones(self.graph.entries, dtype=torch.float64) if weights is None else weights
        values = torch.cat([tau * entries, self.own[which]]) * self.left[which, rows] * self.right[which, columns]
        place = torch.stack([rows, columns])
        matrix = torch.sparse_coo_tensor(place, values.to(dtype), (n, n), check_invariants=False)
        return kernels.as_csr(matrix.coalesce()).to(self.device)

    def to_dense(self) -> Tensor:
        """P_tau as a dense float64 matrix [n, n], or [r, n, n] for r taus."""
        A = torch.from_numpy(self.graph.adjacency.toarray())
        dense = [
            self.left[i, :, None] * (tau * A + torch.diag(self.own[i])) * self.right[i]
            for i, tau in enumerate(self.taus)
        ]
        return torch.stack(dense) if self.is_batched else dense[0]

    def __repr__(self) -> str:
        tau = list(self.taus) if self.is_batched else self.taus[0]
        return f"Propagation(n={self.shape[0]}, tau={tau}, direction={self.direction!r})"


class _Product(torch.autograd.Function):
    """P @ x with the gradient P^T @ g, so that an operator can stand inside a trained model."""

    @staticmethod
    def forward(ctx, x: Tensor, operator: Propagation) -> Tensor:  # type: ignore[override]
        ctx.operator = operator
        return operator.product(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return _Product.apply(gradient, ctx.operator.T), None  # type: ignore[return-value]


def scalings(
    rows: Tensor, columns: Tensor, taus: Sequence[float], isolated: float = 1.0, first: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """S, T and the diagonal of A_tau, each [r, n] in float64, from the row and column sums [n] of A.

    Each node's numbers depend on its own two sums only, so some nodes, from number `first` on, may be asked for alone.
    """
    alone = (rows == 0) & (columns == 0)
    each = torch.tensor(taus, dtype=torch.float64)[:, None]
    left = inverse_root(rows, each, first).masked_fill(alone, 1.0)
    right = inverse_root(columns, each, first).masked_fill(alone, 1.0)
    alone_keeps = torch.where(each == 1, isolated, 1.0)
    return left, right, torch.where(alone, alone_keeps, 1 - each)


def factors(left: Tensor, right: Tensor, own: Tensor, taus: Sequence[float], dtype: torch.dtype) -> list[Tensor]:
    """T, tau S and S times the diagonal, each [r, n, 1] in the signal's precision: all that a product multiplies by."""
    each = torch.tensor(taus, dtype=torch.float64)[:, None]
    return [factor[:, :, None].to(dtype) for factor in (right, left * each, left * own)]


def finish(sums: Tensor, scaled: Tensor, left_tau: Tensor, left_own: Tensor, out: Tensor | None = None) -> Tensor:
    """S (tau A + own) T x of some rows, from (A T x) and T x of these rows; the sums are used up."""
    sums.mul_(left_tau)
    return torch.addcmul(sums, scaled, left_own, out=sums if out is None else out)


def inverse_root(degrees: Tensor, taus: Tensor, first: int = 0) -> Tensor:
    """|D_tau|^{-1/2} of degrees [n] for taus [r, 1] as [r, n]; 0 where D_tau is 0.

    With edges, D_tau = 1 + tau (d - 1) is positive as long as d >= 1. A weighted degree below 1 can turn it
    around for tau above 1 / (1 - d); such a matrix has imaginary entries and is refused.
    """
    sums = 1 + taus * (degrees - 1)
    bad = (sums <= 0) & (degrees > 0)
    if bad.any():
        which, node = bad.nonzero()[0].tolist()
        lightest = float(degrees[degrees > 0].min())
        raise ValueError(
            f"tau = {float(taus[which])} is too large for node {first + node} with weighted degree "
            f"{float(degrees[node]):.6g}: tau d + 1 - tau must be positive. Use tau below {1 / (1 - lightest):.6g}, "
            f"or scale the weights so that degrees are at least 1."
        )
    return torch.where(sums == 0, 0.0, sums.abs().rsqrt())


class Laplacian:
    r"""The Laplacian :math:`L_\tau = I - P_\tau` of a graph: 0 is smooth, 2 is as rough as it gets (tau = 1).

    >>> pair = Graph([[0], [1]])
    >>> Laplacian(pair) @ torch.tensor([[1.0], [-1.0]])
    tensor([[ 2.], [-2.]])
    """

    def __init__(self, graph: Graph, tau: float = 1.0):
        self.propagation = Propagation(graph, tau)
        self.propagation.tau  # noqa: B018  refuses several

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.propagation.shape

    @property
    def panel(self) -> int:
        """Columns that are best propagated together."""
        return self.propagation.panel

    def __matmul__(self, x: Tensor) -> Tensor:
        return x - self.propagation @ x

    def to_dense(self) -> Tensor:
        """I - P_tau as a dense float64 matrix [n, n]."""
        return torch.eye(self.shape[0], dtype=torch.float64) - self.propagation.to_dense()

    def __repr__(self) -> str:
        return f"Laplacian(n={self.shape[0]}, tau={self.propagation.tau})"
