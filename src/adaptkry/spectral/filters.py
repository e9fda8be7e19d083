r"""Filters: learnable coefficients over a polynomial basis.

.. math:: g(P)\,x = \sum_{k=0}^{K} w_k\, p_k(P)\,x, \qquad g(\lambda) = \sum_{k=0}^{K} w_k\, p_k(\lambda).

:math:`\lambda` is an eigenvalue of the operator P. For :math:`P_\tau` the paper's frequency, the eigenvalue of the
Laplacian, is :math:`1 - \lambda`. The coefficients w are a function of the trained weights (a parametrisation), and the
weights are initialised by name (`initial_weights.py`); a filter combines both with a basis.

>>> from adaptkry.graphs.graph import Graph
>>> from adaptkry.spectral.propagation_matrix import Propagation
>>> P = Propagation(Graph([[0, 1, 2], [1, 2, 3]]), tau=1.0)             # a path of four nodes
>>> x = torch.tensor([1.0, 0.0, 0.0, 0.0])
>>> low_pass = Filter(2, "chebyshev", initial_weights="ones").requires_grad_(False)      # 1 + T_1 + T_2
>>> low_pass.apply(P, x)                                                # two products with P
tensor([1.0000, 0.7071, 0.7071, 0.0000])
>>> low_pass.exact(P, x).round(decimals=4)                              # an eigendecomposition, for comparison
tensor([1.0000, 0.7071, 0.7071, 0.0000], dtype=torch.float64)
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from adaptkry.common import checks
from adaptkry.common.lookup import pick, shortened
from adaptkry.spectral.bases import BASES, average, chebyshev_nodes, stack
from adaptkry.spectral.basis_function import BasisFunction, as_basis
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS
from adaptkry.spectral.operators import Diagonal, Operator, Shift, as_operator
from adaptkry.spectral.spectrum import DENSE_LIMIT, check_dense_size, eigendecomposition

# Parametrisations: trained weights theta [..., K + 1] -> coefficients [..., K + 1].


def free(theta: Tensor) -> Tensor:
    """The weights themselves (GPR-GNN, JacobiConv, AdaptKry)."""
    return theta


def positive(theta: Tensor) -> Tensor:
    """ReLU of the weights (BernNet): a non-negative response over the Bernstein basis."""
    return torch.relu(theta)


def even(theta: Tensor) -> Tensor:
    """The weights with odd index set to zero (EvenNet): g(-lambda) = g(lambda) over Krylov, Chebyshev and Legendre."""
    mask = 1 - torch.arange(theta.shape[-1], device=theta.device) % 2
    return theta * mask


def interpolated(theta: Tensor) -> Tensor:
    r"""Chebyshev coefficients of the polynomial with values relu(theta_j) at the Chebyshev nodes (ChebNetII).

    .. math::
        w_k = \frac{2 - [k = 0]}{K + 1} \sum_{j=0}^{K} \max(\theta_j, 0)\, T_k(x_j),
        \qquad x_j = \cos\frac{(j + 1/2)\,\pi}{K + 1}

    The nodes are in descending order, from :math:`\lambda` near 1 (smooth) to near -1 (rough). Use it with the
    Chebyshev basis only: over other bases the coefficients do not interpolate.
    """
    return torch.relu(theta) @ interpolation(theta.shape[-1] - 1, theta.dtype, theta.device)


@cache
def interpolation(degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix [j, k] that maps values at the nodes to Chebyshev coefficients; cached."""
    T = torch.from_numpy(chebyshev_nodes(degree)[1])  # [k, j]
    scale = torch.full((degree + 1,), 2.0, dtype=torch.float64)
    scale[0] = 1.0
    return (T.T * scale / (degree + 1)).to(device, dtype)


PARAMETRISATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "free": free,
    "positive": positive,
    "even": even,
    "interpolated": interpolated,
}


class Filter(nn.Module):
    r"""Learnable coefficients over a basis.

    Args:
        degree: polynomial degree K.
        basis: a name in `BASES`, a `BasisFunction`, or a generator of terms `basis(P, x, degree)`.
        parametrisation: "free", "positive" (ReLU), "even" or "interpolated" (values at Chebyshev nodes).
        initial_weights: a name in `INITIAL_WEIGHTS`, such as "uniform", "ppr", "spike" or "ones".
        alpha: parameter of the initial weights: the teleport probability of "ppr", the hop of "spike".
        channels: d for one filter per feature column; None for one filter shared by all.
        options: passed to the basis, such as a and b of jacobi.

    Shapes:
        - **input:** basis signals [n, K + 1, d]
        - **output:** filtered signals [n, d]

    >>> low_pass = Filter(2, initial_weights="ppr", alpha=0.5)
    >>> low_pass.response(torch.tensor([1.0, 0.0, -1.0]))
    tensor([1.0000, 0.5000, 0.5000], grad_fn=...)
    """

    def __init__(
        self,
        degree: int,
        basis: str | Callable = "krylov",
        *,
        parametrisation: str = "free",
        initial_weights: str = "uniform",
        alpha: float = 0.1,
        channels: int | None = None,
        **options,
    ):
        super().__init__()
        self.degree = checks.count(degree, "degree", checks.MAX_DEGREE)
        self.basis = pick(BASES, basis, "basis") if isinstance(basis, str) else as_basis(basis)
        self.basis.check_options(options)
        self.parametrisation, self.options = parametrisation, options
        checks.number(alpha, "alpha")
        if channels is not None:
            checks.positive_count(channels, "channels")
            checks.check_memory(4 * channels * (degree + 1), f"a filter of degree {degree} for {channels} channels")
        self._coefficients = pick(PARAMETRISATIONS, parametrisation, "parametrisation")
        weights = pick(INITIAL_WEIGHTS, initial_weights, "initial weights")(degree, alpha)
        self.theta = nn.Parameter(weights if channels is None else weights.repeat(channels, 1))  # [K+1] or [d, K+1]

    @property
    def coefficients(self) -> Tensor:
        """The coefficients w over the basis: [K + 1], or [d, K + 1] with one filter per channel."""
        return self._coefficients(self.theta)

    def forward(self, terms: Tensor) -> Tensor:
        """Combine basis signals [n, K + 1, d] into [n, d]."""
        if not isinstance(terms, Tensor) or not terms.is_floating_point():
            given = terms.dtype if isinstance(terms, Tensor) else type(terms).__name__
            raise TypeError(f"a filter combines terms [n, K + 1, d] of floats; got {given}. Use stack(basis(P, x, K)).")
        w = self.coefficients.to(terms.dtype)
        if terms.ndim != 3 or terms.shape[1] != self.degree + 1 or (w.ndim == 2 and terms.shape[2] != len(w)):
            channels = len(w) if w.ndim == 2 else "d"
            raise ValueError(
                f"terms must have shape [n, {self.degree + 1}, {channels}]; got {list(terms.shape)}. "
                f"Use stack(basis(P, x, {self.degree})), or filter.apply(P, x)."
            )
        return torch.einsum("nkd,k->nd" if w.ndim == 1 else "nkd,dk->nd", terms, w)

    def apply(self, P: Any, x: Tensor | None = None) -> Any:  # type: ignore[override]
        """Return g(P) x for a signal [n] or [n, d], with K products; for several taus, their mean.

        With one argument this is `nn.Module.apply(fn)`.
        """
        if x is None:
            return super().apply(checks.function(P, "without a signal, the argument of apply"))
        checks.require_tensor(x, "the signal")
        P, columns = as_operator(P), x[:, None] if x.ndim == 1 else x
        basis = partial(average, self.basis) if P.is_batched else self.basis
        terms = stack(basis(P, columns, self.degree, **self.options))
        # Contiguous: in this memory order the sums have the same bits for every d.
        return self(terms.contiguous()).reshape(x.shape)

    def exact(self, P, x: Tensor, limit: int = DENSE_LIMIT) -> Tensor:
        r"""g(P) x as :math:`U g(\Lambda) U^\top x`, from an eigendecomposition in float64: the reference for `apply`.

        P must be symmetric, with at most `limit` nodes.
        """
        P = as_operator(P)
        checks.require_tensor(x, "the signal")
        if P.is_batched:
            check_dense_size(P, limit)
            return torch.stack([self.exact(matrix, x, limit) for matrix in P.to_dense()]).mean(0)
        eigenvalues, U = eigendecomposition(P, limit)
        spectral = U.mT @ (x[:, None] if x.ndim == 1 else x).double()  # U^T x
        if self.basis.response_from == "polynomial":
            g = self.response(eigenvalues)
            filtered = (g[:, None] if g.ndim == 1 else g) * spectral
        else:  # the polynomials depend on the signal: compute them from U^T x
            filtered = self(stack(self.basis(Diagonal(eigenvalues), spectral, self.degree, **self.options)))
        return (U @ filtered).reshape(x.shape)

    def on(self, P: Operator | Tensor) -> "FilterOperator":
        """Return the operator g(P): `filter.on(P) @ x` equals `filter.apply(P, x)`."""
        return FilterOperator(self, as_operator(P))

    def response(self, eigenvalues: Tensor) -> Tensor:
        """The response g at the operator's eigenvalues [m]: [m], or [m, d] with one filter per channel."""
        eigenvalues = checks.floats(eigenvalues, "eigenvalues")
        values = polynomials(self.basis, eigenvalues, self.degree, **self.options)
        return torch.einsum("mk,...k->m...", values, self.coefficients.to(eigenvalues.dtype))

    def to_krylov(self) -> "Filter":
        """Return the same filter with coefficients over the monomials (Proposition 1)."""
        return self._copy(self.coefficients.double() @ monomials(self.basis, self.degree, **self.options), "krylov")

    def from_krylov(self, weights: Tensor) -> "Filter":
        """Return the free filter over this basis with the given monomial coefficients [K + 1] or [d, K + 1]."""
        weights = checks.floats(weights, "weights")
        if weights.ndim not in (1, 2) or weights.shape[-1] != self.degree + 1:
            raise ValueError(
                f"weights must have shape [{self.degree + 1}] or [d, {self.degree + 1}]; got {list(weights.shape)}. "
                f"Use one weight per power 0 .. {self.degree}."
            )
        phi = monomials(self.basis, self.degree, **self.options)
        coefficients = torch.linalg.solve(phi.T, weights.double().reshape(-1, self.degree + 1).T).T
        return self._copy(coefficients.reshape(weights.shape), self.basis, **self.options)

    def _copy(self, weights: Tensor, basis: str | Callable, **options) -> "Filter":
        result = Filter(self.degree, basis, **options)
        result.theta = nn.Parameter(weights.detach())
        return result

    def extra_repr(self) -> str:
        """The arguments that `print(filter)` shows."""
        arguments = f"degree={self.degree}, basis={self.basis.name}, parametrisation={self.parametrisation}"
        return f"{arguments}, theta={list(self.theta.shape)}"


class FilterOperator(Operator):
    """The operator g(P) of a filter with fixed polynomials and one set of coefficients.

    >>> G = Filter(2, initial_weights="ones").on(torch.tensor([[0.5]]))       # 1 + 0.5 + 0.25
    >>> (G @ torch.ones(1)).item()
    1.75
    """

    def __init__(self, filter: Filter, P: Operator):  # noqa: A002  the natural name, as in scipy
        _check_polynomial(filter.basis)
        if filter.theta.ndim != 1:
            raise ValueError(
                f"an operator needs one filter for all columns; got one for each of {len(filter.theta)} channels. "
                f"Use filter.apply(P, x)."
            )
        self.filter, self.P = filter, P
        super().__init__(P.shape, is_symmetric=P.is_symmetric, panel=P.panel)

    @property
    def T(self) -> "FilterOperator":  # noqa: N802
        """The filter of the transpose."""
        return self if self.is_symmetric else FilterOperator(self.filter, self.P.T)

    def __matmul__(self, x: Tensor) -> Tensor:
        checks.signal(x, self.shape[0])
        return self.filter.apply(self.P, x)

    def to_dense(self) -> Tensor:
        """g(P) in float64, [n, n]."""
        return self.filter.apply(self.P, torch.eye(self.shape[0], dtype=torch.float64)).detach()


def _check_polynomial(basis: BasisFunction) -> None:
    if basis.response_from != "polynomial":
        raise ValueError(
            f"a response needs a basis of fixed polynomials; got {basis.name}. "
            f"For the orthonormal basis use Filter(degree, replay, recurrence=recurrence(P, x, degree))."
        )


def polynomials(basis: BasisFunction, points: Tensor, degree: int, **options) -> Tensor:
    """The values p_k at points [m]: [m, K + 1]. A basis of a diagonal operator is evaluated at its diagonal."""
    _check_polynomial(basis)
    return stack(list(basis(Diagonal(points), points.new_ones(len(points), 1), degree, **options)))[:, :, 0]


def monomials(basis: Callable, degree: int, **options) -> Tensor:
    """Row k holds the monomial coefficients of p_k, float64 [K + 1, K + 1].

    The basis is evaluated on polynomial coefficients (`Shift`), so no formulas of the coefficients are needed.

    >>> monomials(BASES["chebyshev"], 2)
    tensor([[ 1.,  0.,  0.], [ 0.,  1.,  0.], [-1.,  0.,  2.]], dtype=torch.float64)
    """
    basis = as_basis(basis)
    _check_polynomial(basis)
    one = torch.zeros(degree + 1, 1, dtype=torch.float64)
    one[0] = 1
    return stack(list(basis(Shift(degree + 1), one, degree, **options)))[:, :, 0].T


# The four responses of the paper's Figure 1. They accept tensors, arrays and NumPy polynomials;
# `paper/items/figure_1.py` passes polynomials to get the coefficients.


def low_pass(frequency):
    """Low-pass response, Figure 1a of the paper."""
    return 1 - frequency + frequency**2 / 2 - frequency**3 / 10


def band_pass(frequency):
    """Band-pass response, Figure 1b."""
    return frequency**4 - 4 * frequency**3 + 4 * frequency**2


def comb_pass(frequency):
    """Comb response, Figure 1c."""
    return (-81 * frequency**4 + 324 * frequency**3 - 414 * frequency**2 + 180 * frequency) / 25


def high_pass(frequency):
    """High-pass response, Figure 1d."""
    return (frequency**3 - frequency**2 + 2 * frequency + 2) / 10


FIGURE_1: dict[str, Callable] = {"low": low_pass, "band": band_pass, "comb": comb_pass, "high": high_pass}


def fit_response(
    wanted: str | Callable[[Tensor], Tensor],
    degree: int,
    basis: str | Callable = "krylov",
    *,
    eigenvalues: Tensor | None = None,
    **options,
) -> Filter:
    """Fit a filter to a wanted response by least squares.

    Args:
        wanted: "low", "band", "comb" or "high" of the paper's Figure 1, or any function of the *frequency*
            1 - eigenvalue, which runs from 0 (smooth) to 2 (rough).
        degree: polynomial degree K.
        basis: the basis of the filter.
        eigenvalues: the points at which the response is fitted, such as the spectrum of an operator; by default 200
            Chebyshev nodes in [-1, 1].
        options: passed to the basis.

    >>> fitted = fit_response("band", degree=4)
    >>> fitted.coefficients.round(decimals=6) + 0.0       # (1 - lambda^2)^2 in monomials
    tensor([ 1.,  0., -2.,  0.,  1.], dtype=torch.float64, grad_fn=...)
    """
    target = pick(FIGURE_1, wanted, "response") if isinstance(wanted, str) else wanted
    if not callable(target):
        raise TypeError(f"the wanted response must be a name or a function; got {shortened(target)}. Try 'low'.")
    given = chebyshev_nodes(199)[0].copy() if eigenvalues is None else eigenvalues
    points = checks.floats(given, "eigenvalues").double()
    values = torch.as_tensor(target(1 - points), dtype=torch.float64)
    if values.shape != points.shape:
        raise ValueError(
            f"the wanted response must return one value per frequency; got shape {list(values.shape)} for "
            f"{len(points)} frequencies. Write it with element-wise operations."
        )
    checks.finite(values, "the wanted response", "frequency")
    fitted = Filter(degree, basis, **options)
    terms = polynomials(fitted.basis, points, degree, **options)  # [m, K + 1]
    # gelsd handles fewer points than coefficients and repeated eigenvalues
    fitted.theta = nn.Parameter(torch.linalg.lstsq(terms, values, driver="gelsd").solution)
    return fitted
