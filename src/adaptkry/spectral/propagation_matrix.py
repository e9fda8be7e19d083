r"""The propagation matrix of a graph, for one tau or several, and its Laplacian.

.. math::
    P_\tau = S\,A_\tau\,T, \qquad A_\tau = \tau A + (1-\tau) I, \qquad S = D_{out}^{-1/2},\; T = D_{in}^{-1/2}

where :math:`D_{out}` and :math:`D_{in}` are the diagonal matrices of the row and column sums of :math:`A_\tau`. For an
undirected graph both are :math:`D_\tau`, and :math:`P_\tau = D_\tau^{-1/2} A_\tau D_\tau^{-1/2}` is symmetric. With the
normalisation "row", :math:`S = D_{out}^{-1}` and :math:`T = I`: the product is a mean over neighbours.

A product takes three steps: scale by T, sum over neighbours (`kernels`), then scale by S and add the diagonal.
`scalings`, `factors` and `finish` implement the first and the last step; `outofcore/` uses them too.

>>> path = Graph([[0, 1], [1, 2]])                   # 0 - 1 - 2
>>> P = Propagation(path, tau=0.5)                   # GCN's renormalised adjacency matrix
>>> P.to_dense()
tensor([[0.5000, 0.4082, 0.0000],
        [0.4082, 0.3333, 0.4082],
        [0.0000, 0.4082, 0.5000]], dtype=torch.float64)
>>> P @ torch.tensor([1.0, 0.0, 0.0])
tensor([0.5000, 0.4082, 0.0000])
"""

from collections.abc import Callable, Sequence
from copy import copy

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.choices import Direction, MixedDirection, Normalisation
from adaptkry.common.lookup import pick
from adaptkry.graphs.graph import Graph, require_graph
from adaptkry.spectral.attention import EdgeLists
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.operators import ALL_COLUMNS, Operator


class Propagation(Operator):
    r"""The propagation matrix :math:`P_\tau` of a graph.

    Tau 0.5 is GCN's renormalised matrix, tau 1 the normalised adjacency matrix.

    Args:
        graph: the graph.
        tau: a positive number, or a list of r numbers for a batched operator.
        direction: "both" is the paper's symmetric matrix (of the undirected graph); with "out" a node sums over the
            nodes it points to; "in" is the transpose of "out".
        isolated: diagonal entry of nodes without edges at tau = 1: 1 (see below) or 0 (as in the code of most other
            methods). At every other tau it is 1.
        normalisation: "symmetric"; "row": every row is divided by its sum, so that the product at tau = 1 is the mean
            over neighbours (GraphSAGE); "column": every column is, which is the transpose of "row" with edges reversed.

    Shapes:
        - one tau: [n] -> [n], [n, d] -> [n, d]
        - r taus: [r, n, d] -> [r, n, d], slice i multiplied by the matrix of tau i; [n, d] by each of them

    Edge cases. A node without edges keeps its signal for every tau (the continuous extension of
    :math:`(1-\tau)/(1-\tau)`). A node with edges in one direction only has the degree :math:`1-\tau` in the other,
    which scales the diagonal entry only; its absolute value is used, and an entry 0 / 0 is 0, so that the matrix is
    finite and continuous in tau.

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
        normalisation: Normalisation = "symmetric",
    ):
        self.taus: tuple[float, ...] = checks.taus(tau)
        require_graph(graph, "a propagation matrix")
        checks.number_of_float32(isolated, "isolated")
        views = {"both": Graph.undirected, "out": lambda g: g, "in": Graph.transposed}
        self.graph = pick(views, direction, "direction")(graph)
        self.direction, self.isolated, self.normalisation = direction, isolated, normalisation
        rows = self.graph.degree("out")  # [n]
        is_same = self.graph.weights is None and not self.graph.is_directed  # weighted sums may round differently
        columns = rows if is_same else self.graph.degree("in")  # [n]
        self.left, self.right, self.diagonal = scalings(  # [r, n] each
            rows, columns, self.taus, isolated, normalisation=normalisation
        )
        self.device = torch.device("cpu")
        self._transpose: Propagation | None = None
        self._products: dict[torch.dtype, Callable[[Tensor], Tensor]] = {}
        self._edge_lists: EdgeLists | None = None
        super().__init__(
            (self.graph.nodes, self.graph.nodes),
            is_symmetric=not self.graph.is_directed and normalisation == "symmetric",
            is_batched=not hasattr(tau, "__float__") or getattr(tau, "ndim", 0) == 1,  # a list, or an array of taus
            panel=kernels.panel_width(self.graph.nodes),
        )

    @property
    def tau(self) -> float:
        """The value of tau; an operator with several has `taus` only."""
        first, *others = self.taus
        if others:
            raise ValueError(
                f".tau needs an operator with one tau; got {len(self.taus)} taus {list(self.taus)}. Use .taus."
            )
        return first

    @property
    def T(self) -> "Propagation":  # noqa: N802  as in NumPy and torch
        """The transpose: edges point the other way."""
        if self.is_symmetric:
            return self
        if self._transpose is None:  # cached: every backward pass needs it
            transpose = self.to(self.device)  # a copy
            transpose.graph, transpose.left, transpose.right = self.graph.transposed(), self.right, self.left
            transpose.direction = REVERSED[self.direction]
            transpose.normalisation = TRANSPOSED[self.normalisation]
            self._transpose = transpose
        return self._transpose

    def to(self, device: torch.device | str | Tensor) -> "Propagation":
        """Return the same operator on another device, or on the device of a tensor."""
        moved = copy(self)
        moved.device = checks.device(device)
        moved.panel = kernels.panel_width(self.shape[0]) if moved.device.type == "cpu" else ALL_COLUMNS
        moved._transpose, moved._products, moved._edge_lists = None, {}, None
        return moved

    def singles(self) -> list["Propagation"]:
        """Return one operator for each tau; they share the graph and its degrees."""
        return [self._single(i) for i in range(len(self.taus))]

    def _single(self, which: int) -> "Propagation":
        found, part = self.to(self.device), slice(which, which + 1)
        found.taus, found.is_batched = self.taus[part], False
        found.left, found.right, found.diagonal = self.left[part], self.right[part], self.diagonal[part]
        return found

    @property
    def edge_lists(self) -> EdgeLists:
        """The edges on the operator's device, for models that learn the weights of edges."""
        if self._edge_lists is None:
            self._edge_lists = EdgeLists(self.graph, self.device)
        return self._edge_lists

    def __matmul__(self, x: Tensor) -> Tensor:
        checks.signal(x, self.shape[0], len(self.taus) if self.is_batched else None)
        if x.device.type != self.device.type:
            raise ValueError(
                f"operator and signal must be on the same device; got {self.device} and {x.device}. "
                f"Use operator.to(x) first."
            )
        if self.is_batched and x.ndim == 2:
            x = x.expand(len(self.taus), *x.shape)
        return _Product.apply(x, self)  # type: ignore[no-any-return]

    def product(self, x: Tensor) -> Tensor:
        """Return the product, without gradients, from the backend of this device in the dtype of x."""
        if x.dtype not in self._products:
            self._products[x.dtype] = backend(self, x.dtype)
        return self._products[x.dtype](x.reshape(len(self.taus), self.shape[0], -1)).reshape(x.shape)

    def to_csr(self, which: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """The matrix of tau number `which` as a torch CSR matrix on the operator's device."""
        which = checks.count(which, "the number of the tau", len(self.taus) - 1)
        n, tau = self.shape[0], self.taus[which]
        rows = torch.repeat_interleave(torch.arange(n), self.graph.indptr.diff())
        rows = torch.cat([rows, torch.arange(n)])
        columns = torch.cat([self.graph.indices.long(), torch.arange(n)])
        weights = self.graph.weights
        entries = torch.ones(self.graph.entries, dtype=torch.float64) if weights is None else weights
        values = torch.cat([tau * entries, self.diagonal[which]]) * self.left[which, rows] * self.right[which, columns]
        positions = torch.stack([rows, columns])
        matrix = torch.sparse_coo_tensor(positions, values.to(dtype), (n, n), check_invariants=False)
        return kernels.as_csr(matrix.coalesce()).to(self.device)

    def to_dense(self) -> Tensor:
        """The matrix in float64, [n, n], or [r, n, n] for a list of r taus."""
        checks.dense_matrix(self.shape[0], len(self.taus))
        A = torch.from_numpy(self.graph.adjacency.toarray())
        dense = [
            self.left[i, :, None] * (tau * A + torch.diag(self.diagonal[i])) * self.right[i]
            for i, tau in enumerate(self.taus)
        ]
        return torch.stack(dense) if self.is_batched else dense[0]

    def __repr__(self) -> str:
        tau = list(self.taus) if self.is_batched else self.taus[0]
        return f"Propagation(n={self.shape[0]}, tau={tau}, direction={self.direction!r})"


class _Product(torch.autograd.Function):
    """P @ x with the gradient P^T @ g, so that models can be trained through an operator."""

    @staticmethod
    def forward(ctx, x: Tensor, operator: Propagation) -> Tensor:  # type: ignore[override]
        ctx.operator = operator
        return operator.product(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return _Product.apply(gradient, ctx.operator.T), None  # type: ignore[return-value]


REVERSED: dict[str, Direction] = {"both": "both", "out": "in", "in": "out"}
TRANSPOSED: dict[str, Normalisation] = {"symmetric": "symmetric", "row": "column", "column": "row"}


class MixedPropagation(Operator):
    r"""The product of the propagation matrices of two directions of a graph.

    At tau 1, "out-in" is :math:`P_{out} P_{in} = S A T^2 A^T S`, with which a node sums over the nodes that point to
    the same nodes as it does; "in-out" is :math:`P_{in} P_{out} = T A^T S^2 A T`, with which it sums over the nodes
    that the same nodes point to. Both are symmetric if the normalisation is. A product takes two passes over the edges.

    Args:
        graph: the graph.
        tau: a positive number, or a list of r numbers for a batched operator.
        direction: "out-in" or "in-out".
        options: options of `Propagation`.

    >>> pair = Graph([[0, 1], [2, 2]], directed=True)                 # 0 and 1 point to 2
    >>> MixedPropagation(pair, 1.0, "out-in", isolated=0.0).to_dense()
    tensor([[0.5000, 0.5000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]], dtype=torch.float64)
    """

    def __init__(self, graph: Graph, tau: float | Sequence[float], direction: MixedDirection, **options):
        order: dict[str, tuple[Direction, Direction]] = {"out-in": ("out", "in"), "in-out": ("in", "out")}
        outer, inner = (Propagation(graph, tau, each, **options) for each in pick(order, direction, "direction"))
        self._set(outer, inner)

    def _set(self, outer: Propagation, inner: Propagation) -> None:
        """Set the factors; the inner one is the transpose of the outer one if the normalisation is symmetric."""
        self.outer, self.inner, self.taus = outer, inner, outer.taus
        is_symmetric = outer.normalisation == "symmetric"
        super().__init__(outer.shape, is_symmetric=is_symmetric, is_batched=outer.is_batched, panel=outer.panel)

    def _with(self, outer: Propagation, inner: Propagation) -> "MixedPropagation":
        other = copy(self)
        other._set(outer, inner)
        return other

    @property
    def T(self) -> "MixedPropagation":  # noqa: N802
        """The transpose: the transposed factors in the other order."""
        return self if self.is_symmetric else self._with(self.inner.T, self.outer.T)

    def to(self, device: torch.device | str | Tensor) -> "MixedPropagation":
        """Return the same operator on another device, or on the device of a tensor."""
        return self._with(self.outer.to(device), self.inner.to(device))

    def singles(self) -> list["MixedPropagation"]:
        """Return one operator for each tau."""
        return [self._with(*pair) for pair in zip(self.outer.singles(), self.inner.singles(), strict=True)]

    def __matmul__(self, x: Tensor) -> Tensor:
        return self.outer @ (self.inner @ x)

    def to_dense(self) -> Tensor:
        """The matrix in float64, [n, n], or [r, n, n] for a list of r taus."""
        dense = self.outer.to_dense() @ self.inner.to_dense()
        return (dense + dense.mT) / 2 if self.is_symmetric else dense  # computed products are not symmetric to the bit

    def __repr__(self) -> str:
        tau = list(self.taus) if self.is_batched else self.taus[0]
        return f"MixedPropagation(n={self.shape[0]}, tau={tau}, {self.outer.direction}-{self.inner.direction})"


# Backends: each is built from a Propagation and a dtype, and maps [r, n, d] to [r, n, d] on one kind of device.


def backend(P: Propagation, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return the product for the operator's device: panels on the CPU; Triton, or else torch's CSR, on a GPU."""
    if P.device.type == "cpu":
        return CpuProduct(P, dtype)
    try:
        from adaptkry.spectral.kernels import triton_product
    except ImportError:
        return CsrProduct(P, dtype)
    return TritonProduct(P, dtype, triton_product.Tasks)


class CpuProduct:
    """The product in column panels that stay in cache, in one pass over the edges for all taus or one for each.

    `private_cache` is the size in bytes up to which taus share a pass, see `kernels.shares_pass`.
    """

    def __init__(self, P: Propagation, dtype: torch.dtype, private_cache: int = kernels.PRIVATE_CACHE):
        self.graph, self.panel, self.private_cache = P.graph, P.panel, private_cache
        self.right, self.left_tau, self.left_diagonal = factors(P.left, P.right, P.diagonal, P.taus, dtype)
        self.weights = None if P.graph.weights is None else P.graph.weights.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """P x for x [r, n, d]."""
        width, columns = self.panel, x.shape[2]
        if columns <= width:
            return self._panel(x)
        out = kernels.empty(*x.shape, dtype=x.dtype)
        for start in range(0, columns, width):
            out[:, :, start : start + width] = self._panel(x[:, :, start : start + width])
        return out

    def _panel(self, x: Tensor) -> Tensor:
        if kernels.shares_pass(self.graph.nodes, x.shape[2], len(x), self.private_cache):
            return self._pass(x, slice(None))
        result = kernels.empty(*x.shape, dtype=x.dtype)
        for i in range(len(x)):
            self._pass(x[i : i + 1], slice(i, i + 1), result[i : i + 1])
        return result

    def _pass(self, x: Tensor, taus: slice, out: Tensor | None = None) -> Tensor:
        """One pass over the edges for some of the taus."""
        r, n, w = x.shape
        scaled = kernels.empty(n, r, w, dtype=x.dtype).transpose(0, 1)  # all taus of a node adjacent in memory
        torch.mul(x, self.right[taus], out=scaled)
        table = scaled.transpose(0, 1).view(n, r * w)
        sums = self._sums(table).view(n, r, w).transpose(0, 1)
        return finish(sums, scaled, self.left_tau[taus], self.left_diagonal[taus], out)

    def _sums(self, table: Tensor) -> Tensor:
        """A times a table; one column in float64 without weights by SciPy: the same bits in a quarter of the time."""
        if self.weights is None and table.shape[1] == 1 and table.dtype == torch.float64:
            return torch.from_numpy(self.graph.adjacency @ table[:, 0].numpy())
        return kernels.gather_sum(self.graph.indptr, self.graph.indices, table, self.weights)


class TritonProduct:
    """The kernel of `kernels/triton_product.py`. `tasks` is its class `Tasks`, which needs Triton to be imported."""

    def __init__(self, P: Propagation, dtype: torch.dtype, tasks: Callable):
        parts = factors(P.left, P.right, P.diagonal, P.taus, dtype)
        self.factors = [part[:, :, 0].contiguous().to(P.device) for part in parts]  # [r, n] each
        weights = None if P.graph.weights is None else P.graph.weights.to(dtype)
        self.tasks = tasks(P.graph.indptr, P.graph.indices, weights, P.device)

    def __call__(self, x: Tensor) -> Tensor:
        """P x for x [r, n, d]."""
        return self.tasks.product(x.contiguous(), *self.factors)


class CsrProduct:
    """Torch's sparse product with one stored matrix per tau."""

    def __init__(self, P: Propagation, dtype: torch.dtype):
        self.matrices = [P.to_csr(i, dtype) for i in range(len(P.taus))]

    def __call__(self, x: Tensor) -> Tensor:
        """P x for x [r, n, d]."""
        return torch.stack([matrix @ part for matrix, part in zip(self.matrices, x, strict=True)])


# The parts of a product other than the sum over neighbours; `outofcore/edge_runs.py` uses them too.


def scalings(
    rows: Tensor,
    columns: Tensor,
    taus: Sequence[float] | Tensor,
    isolated: float = 1.0,
    first: int = 0,
    normalisation: Normalisation = "symmetric",
) -> tuple[Tensor, Tensor, Tensor]:
    """S, T and the diagonal of A_tau, each [r, n] in float64, from the row and column sums [n] of A.

    The values of a node depend on its two sums only, so they can be computed for a range of nodes that starts at node
    `first`. They are differentiable in the sums, and in the taus if these are a tensor.
    """
    has_no_edge = (rows == 0) & (columns == 0)
    each = torch.as_tensor(taus, dtype=torch.float64, device=rows.device)[:, None]
    left = inverse_root(rows, each, first).masked_fill(has_no_edge, 1.0)
    right = left if columns is rows else inverse_root(columns, each, first).masked_fill(has_no_edge, 1.0)
    one = torch.ones_like(left)
    scaled = {"symmetric": (left, right), "row": (left.square(), one), "column": (one, right.square())}
    left, right = pick(scaled, normalisation, "normalisation")
    kept = torch.where(each == 1, isolated, 1.0)
    return left, right, torch.where(has_no_edge, kept, 1 - each)


def factors(left: Tensor, right: Tensor, diagonal: Tensor, taus: Sequence[float], dtype: torch.dtype) -> list[Tensor]:
    """T, tau S and S times the diagonal of A_tau, each [r, n, 1] in the precision of the signal."""
    each = torch.tensor(taus, dtype=torch.float64)[:, None]
    return [factor[:, :, None].to(dtype) for factor in (right, left * each, left * diagonal)]


def finish(sums: Tensor, scaled: Tensor, left_tau: Tensor, left_diagonal: Tensor, out: Tensor | None = None) -> Tensor:
    """Return S A_tau T x for some rows, given A T x (`sums`, overwritten) and T x (`scaled`) of these rows."""
    sums.mul_(left_tau)
    return torch.addcmul(sums, scaled, left_diagonal, out=sums if out is None else out)


def inverse_root(degrees: Tensor, taus: Tensor, first: int = 0) -> Tensor:
    """|D_tau|^{-1/2} of degrees [n] for taus [r, 1]: [r, n]; 0 where D_tau is 0.

    With edges, D_tau = 1 + tau (d - 1) is positive whenever d >= 1. A weighted degree below 1 makes it negative for
    tau above 1 / (1 - d); the matrix would then have imaginary entries, so ValueError is raised.
    """
    sums = 1 + taus * (degrees - 1)
    is_invalid = (sums <= 0) & (degrees > 0)
    if torch.compiler.is_compiling():  # a compiled model cannot raise: NaN instead of a wrong number
        sums = torch.where(is_invalid, torch.nan, sums)
    elif is_invalid.any():
        which, node = is_invalid.nonzero()[0].tolist()
        lightest = float(degrees[degrees > 0].min())
        raise ValueError(
            f"tau must be small enough for every degree d; got tau = {float(taus[which])} and node {first + node} "
            f"with weighted degree d = {float(degrees[node]):.6g}, where tau d + 1 - tau is not positive. "
            f"Use tau below {1 / (1 - lightest):.6g}, or scale the weights so that degrees are at least 1."
        )
    is_zero = sums == 0  # masked before the root, whose gradient at 0 is not finite
    return sums.abs().masked_fill(is_zero, 1.0).rsqrt().masked_fill(is_zero, 0.0)


class Laplacian(Operator):
    r"""The Laplacian :math:`L_\tau = I - P_\tau` of a graph, with eigenvalues from 0 (smooth) to 2 (rough) at tau 1.

    >>> pair = Graph([[0], [1]])
    >>> Laplacian(pair) @ torch.tensor([[1.0], [-1.0]])
    tensor([[ 2.], [-2.]])
    """

    def __init__(self, graph: Graph, tau: float = 1.0):
        self.propagation = Propagation(graph, tau)
        self.tau = self.propagation.tau  # raises ValueError for several taus
        P = self.propagation
        super().__init__(P.shape, is_symmetric=True, is_batched=P.is_batched, panel=P.panel)

    @property
    def T(self) -> "Laplacian":  # noqa: N802
        """The operator itself."""
        return self

    def __matmul__(self, x: Tensor) -> Tensor:
        return x - self.propagation @ x

    def to_dense(self) -> Tensor:
        """I - P_tau in float64, [n, n]."""
        return torch.eye(self.shape[0], dtype=torch.float64) - self.propagation.to_dense()

    def __repr__(self) -> str:
        return f"Laplacian(n={self.shape[0]}, tau={self.tau})"
