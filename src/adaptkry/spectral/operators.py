r"""Linear operators: what bases, filters and spectra need to know about a matrix.

An operator is a square matrix that need not be stored. It multiplies signals and declares the properties that
algorithms rely on:

* ``P @ x``: the product with a signal of shape [n] or [n, d]; each column is multiplied separately.
* ``P.T``: the transpose, again an operator.
* ``P.to_dense()``: the matrix in float64, [n, n]; the reference that tests compare with.
* ``P.shape``: (n, n).
* ``P.is_symmetric``: whether the matrix equals its transpose. Lanczos and real spectra require it.
* ``P.is_batched``: whether P consists of r matrices that act on signals [r, n, d].
* ``P.panel``: the number of columns to multiply at a time, for speed.

Algorithms use nothing else, so the same recurrence runs on a graph (`propagation_matrix.Propagation`), on eigenvalues
(`Diagonal`, which yields a frequency response) and on polynomial coefficients (`Shift`, which yields a change of
basis):

>>> from adaptkry.spectral.bases import chebyshev
>>> grid = torch.tensor([-1.0, 0.0, 0.5])
>>> list(chebyshev(Diagonal(grid), torch.ones(3, 1), degree=2))[2].T      # T_2 = 2 x^2 - 1 at three points
tensor([[ 1.0000, -1.0000, -0.5000]])
>>> list(chebyshev(Shift(3), torch.eye(3)[:, :1], degree=2))[2].T         # T_2 = -1 + 0 x + 2 x^2
tensor([[-1.,  0.,  2.]])
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.common import checks

ALL_COLUMNS = 2**31  # no signal has more columns than this


class Operator(ABC):
    """A square matrix, defined by its products with signals.

    Args:
        shape: (n, n).
        is_symmetric: whether the matrix equals its transpose.
        is_batched: whether the operator consists of r matrices that act on [r, n, d].
        panel: number of columns to multiply at a time, for speed.
    """

    def __init__(
        self, shape: tuple[int, int], *, is_symmetric: bool, is_batched: bool = False, panel: int = ALL_COLUMNS
    ):
        self.shape, self.is_symmetric, self.is_batched, self.panel = shape, is_symmetric, is_batched, panel

    @abstractmethod
    def __matmul__(self, x: Tensor) -> Tensor:
        """The product with a signal of n rows."""

    @abstractmethod
    def to_dense(self) -> Tensor:
        """The matrix in float64: [n, n], or [r, n, n] if batched."""

    @property
    @abstractmethod
    def T(self) -> "Operator":  # noqa: N802  as in NumPy and torch
        """The transpose."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.shape[0]})"


def as_operator(P: "Operator | Tensor") -> Operator:
    """Convert a torch matrix to an operator; return an operator unchanged."""
    if isinstance(P, Operator):
        return P
    if isinstance(P, Tensor):
        return Matrix(P)
    raise TypeError(
        f"an operator must be an Operator or a torch matrix; got {type(P).__name__}. "
        f"Use torch.as_tensor(P), or subclass adaptkry.spectral.operators.Operator."
    )


class Matrix(Operator):
    """A stored matrix: a dense torch tensor [n, n] or [r, n, n], or a sparse one [n, n].

    >>> Matrix(torch.tensor([[0.0, 1.0], [0.5, 0.0]])) @ torch.tensor([1.0, 2.0])
    tensor([2.0000, 0.5000])
    """

    def __init__(self, matrix: Tensor):
        is_dense = matrix.layout == torch.strided
        if matrix.ndim not in ((2, 3) if is_dense else (2,)) or matrix.shape[-1] != matrix.shape[-2]:
            raise ValueError(
                f"a matrix must have shape [n, n] or [r, n, n]; got {list(matrix.shape)}. Pass a square matrix."
            )
        self.matrix = matrix
        n = matrix.shape[-1]
        super().__init__((n, n), is_symmetric=_is_symmetric(matrix), is_batched=matrix.ndim == 3)

    @property
    def T(self) -> "Matrix":  # noqa: N802
        """The transposed matrix."""
        return self if self.is_symmetric else Matrix(self.matrix.transpose(-2, -1))

    def __matmul__(self, x: Tensor) -> Tensor:
        checks.signal(x, self.shape[0], len(self.matrix) if self.is_batched else None)
        return self.matrix.to(x.dtype) @ x

    def to_dense(self) -> Tensor:
        """The matrix in float64."""
        return self.matrix.to_dense().double()


def _is_symmetric(matrix: Tensor) -> bool:
    """Whether a matrix equals its transpose up to sqrt(eps): computed products are not symmetric to the last bit."""
    if matrix.layout != torch.strided:
        matrix = matrix.to_sparse_coo()
        difference = (matrix - matrix.t()).coalesce().values()
        entries = matrix.coalesce().values()
    else:
        difference, entries = matrix - matrix.mT, matrix
    largest = entries.abs().max() if entries.numel() else 0.0
    return bool((difference.abs() <= torch.finfo(matrix.dtype).eps ** 0.5 * largest).all())


class Diagonal(Operator):
    """A diagonal matrix of eigenvalues: a basis of this operator is the frequency response of that basis.

    >>> Diagonal(torch.tensor([1.0, -0.5])) @ torch.ones(2, 1)
    tensor([[ 1.0000], [-0.5000]])
    """

    def __init__(self, eigenvalues: Tensor):
        self.eigenvalues = checks.floats(eigenvalues, "eigenvalues")
        if self.eigenvalues.ndim != 1:
            raise ValueError(
                f"eigenvalues must have shape [n]; got {list(self.eigenvalues.shape)}. Use as_operator for a matrix."
            )
        super().__init__((len(self.eigenvalues), len(self.eigenvalues)), is_symmetric=True)

    @property
    def T(self) -> "Diagonal":  # noqa: N802
        """The operator itself."""
        return self

    def __matmul__(self, x: Tensor) -> Tensor:
        checks.signal(x, self.shape[0])
        return self.eigenvalues.to(x).reshape(-1, *[1] * (x.ndim - 1)) * x

    def to_dense(self) -> Tensor:
        """The diagonal matrix in float64."""
        return torch.diag(self.eigenvalues.double())


class Shift(Operator):
    """Multiplication by lambda of polynomials given by their coefficients of 1, lambda, lambda^2, ..., lambda^(n-1).

    The coefficient of lambda^n is dropped, so n must exceed the degree of the result.

    >>> Shift(3) @ torch.tensor([1.0, 5.0, 0.0])          # lambda (1 + 5 lambda)
    tensor([0., 1., 5.])
    """

    def __init__(self, size: int):
        super().__init__((size, size), is_symmetric=False)

    @property
    def T(self) -> Matrix:  # noqa: N802
        """The transpose, as a stored matrix."""
        return Matrix(self.to_dense().mT)

    def __matmul__(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x[:1]), x[:-1]])

    def to_dense(self) -> Tensor:
        """Ones below the diagonal."""
        return torch.diag(torch.ones(self.shape[0] - 1, dtype=torch.float64), -1)


class Rescaled(Operator):
    """(P - centre I) / half_width: maps the spectrum from centre +- half_width to [-1, 1].

    >>> Rescaled(Diagonal(torch.tensor([0.0, 1.0, 2.0])), centre=1.0, half_width=1.0) @ torch.ones(3)
    tensor([-1.,  0.,  1.])
    """

    def __init__(self, P: Operator, centre: float, half_width: float):
        self.P, self.centre, self.half_width = P, centre, half_width
        super().__init__(P.shape, is_symmetric=P.is_symmetric, is_batched=P.is_batched, panel=P.panel)

    @property
    def T(self) -> "Rescaled":  # noqa: N802
        """The transpose, rescaled in the same way."""
        return self if self.is_symmetric else Rescaled(self.P.T, self.centre, self.half_width)

    def __matmul__(self, x: Tensor) -> Tensor:
        return (self.P @ x).sub_(x, alpha=self.centre).div_(self.half_width)

    def to_dense(self) -> Tensor:
        """The rescaled matrix in float64."""
        return (self.P.to_dense() - self.centre * torch.eye(self.shape[0], dtype=torch.float64)) / self.half_width


class StackedOperators(Operator):
    """Operators P_1, ..., P_r as one batched operator: slice i of a signal [r, n, d] is multiplied by P_i.

    A signal [n, d] is multiplied by every P_i.

    >>> (StackedOperators([Diagonal(torch.tensor([2.0])), Diagonal(torch.tensor([3.0]))]) @ torch.ones(1, 1)).flatten()
    tensor([2., 3.])
    """

    def __init__(self, operators: Sequence[Operator | Tensor]):
        if not operators:
            raise ValueError(
                "StackedOperators needs at least one operator; got an empty list. Pass one operator per tau."
            )
        self.operators = [as_operator(P) for P in operators]
        if len({P.shape for P in self.operators}) > 1:
            rows = ", ".join(str(P.shape[0]) for P in self.operators)
            raise ValueError(f"stacked operators must have the same number of rows; got {rows}. Use one graph.")
        super().__init__(
            self.operators[0].shape,
            is_symmetric=all(P.is_symmetric for P in self.operators),
            is_batched=True,
            panel=min(P.panel for P in self.operators),
        )

    @property
    def T(self) -> "StackedOperators":  # noqa: N802
        """The transposes, stacked."""
        return self if self.is_symmetric else StackedOperators([P.T for P in self.operators])

    def __matmul__(self, x: Tensor) -> Tensor:
        slices = x.expand(len(self.operators), *x.shape[-2:])
        return torch.stack([P @ part for P, part in zip(self.operators, slices, strict=True)])

    def to_dense(self) -> Tensor:
        """The matrices stacked: [r, n, n] in float64."""
        return torch.stack([P.to_dense() for P in self.operators])
