r"""Polynomial bases: :math:`p_0(P)x, p_1(P)x, \dots, p_K(P)x` for six families of polynomials, each with K products.

=============  ====================================================================================================
krylov         :math:`p_k = \lambda^k`
chebyshev      :math:`T_k = 2 \lambda T_{k-1} - T_{k-2}`
legendre       :math:`k\,p_k = (2k - 1) \lambda\,p_{k-1} - (k - 1)\,p_{k-2}`
jacobi         :math:`P_k^{(a, b)}`; for a = b = 0, the Legendre polynomials
bernstein      :math:`2^{-K} \binom{K}{k} (1 + \lambda)^{K-k} (1 - \lambda)^k`
orthonormal    the Lanczos polynomials of each column (`lanczos.py`)
=============  ====================================================================================================

A basis takes any operator: a graph's propagation matrix, a dense matrix, a `Diagonal` of eigenvalues (the terms are
then the frequency responses of the basis) or a `Shift` (the terms are then its monomial coefficients).

>>> P = torch.tensor([[0.0, 1.0], [1.0, 0.0]])                    # swaps the two nodes
>>> x = torch.tensor([[3.0], [5.0]])
>>> stack(krylov(P, x, degree=2))[:, :, 0]                        # [n, K + 1]: x, Px, P^2 x
tensor([[3., 5., 3.],
        [5., 3., 5.]])
>>> from adaptkry.spectral.operators import Diagonal
>>> stack(legendre(Diagonal(torch.tensor([1.0, 0.0])), torch.ones(2, 1), degree=2))[:, :, 0]
tensor([[ 1.0000,  1.0000,  1.0000],
        [ 1.0000,  0.0000, -0.5000]])

Columns of x are independent, so `stack` computes them in panels of columns. The bits of the result do not depend on the
width of the panels, except for the orthonormal basis: the order of torch's sums over nodes depends on that width.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common.lookup import shortened
from adaptkry.spectral.basis_function import Basis, BasisFunction, Terms, as_basis, basis
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.lanczos import orthonormal
from adaptkry.spectral.operators import StackedOperators


def three_term(P, x: Tensor, degree: int, step: Callable[[int], tuple[float, float, float]]) -> Terms:
    """Yield p_k(P)x where p_k = (a P + b) p_{k-1} + c p_{k-2} and (a, b, c) = step(k)."""
    previous, current = x, x
    yield x
    for k in range(1, degree + 1):
        a, b, c = step(k)
        product = a * (P @ current)
        if b:  # not add(alpha=b): its rounding depends on the memory layout, so panels would differ in the last bit
            product = product + b * current
        if c and k > 1:
            product = product - previous if c == -1 else product + c * previous
        previous, current = current, product
        yield current


@basis(multiplies_terms=True)
def krylov(P, x: Tensor, degree: int) -> Terms:
    """Monomials x, Px, P^2 x, ...: the basis of AdaptKry.

    >>> list(krylov(torch.tensor([[0.5]]), torch.tensor([[8.0]]), degree=3))
    [tensor([[8.]]), tensor([[4.]]), tensor([[2.]]), tensor([[1.]])]
    """
    yield x
    for _ in range(degree):
        x = P @ x
        yield x


@basis(multiplies_terms=True)
def chebyshev(P, x: Tensor, degree: int, *, sign: float = 1.0) -> Terms:
    """Chebyshev polynomials of the first kind, T_k(P)x; sign -1 gives T_k(-P)x."""
    return three_term(P, x, degree, lambda k: (sign if k == 1 else 2 * sign, 0.0, -1.0))


@basis(multiplies_terms=True)
def legendre(P, x: Tensor, degree: int) -> Terms:
    """Legendre polynomials."""
    return three_term(P, x, degree, lambda k: ((2 * k - 1) / k, 0.0, -(k - 1) / k))


@basis(multiplies_terms=True)
def jacobi(P, x: Tensor, degree: int, *, a: float = 1.0, b: float = 1.0, published: bool = False) -> Terms:
    """Jacobi polynomials P_k^{(a, b)} with a and b above -1 (Szego, equation 4.5.1).

    `published` changes the sign of the middle coefficient from degree 2 on, as in JacobiConv's code. The result is
    not a Jacobi polynomial unless |a| = |b|, but the published settings (which include a = -1) were tuned for it.
    """
    if not (a > -1 and b > -1) and not published:
        raise ValueError(f"Jacobi polynomials need a > -1 and b > -1; got a = {a}, b = {b}. Try a = b = 1.")
    sign = -1 if published else 1

    def step(k: int) -> tuple[float, float, float]:
        if k == 1:
            return (a + b + 2) / 2, (a - b) / 2, 0.0
        s, t = 2 * k + a + b, 2 * k * (k + a + b)
        return (
            s * (s - 1) / t,
            sign * (s - 1) * (a * a - b * b) / (t * (s - 2)),
            -2 * (k + a - 1) * (k + b - 1) * s / (t * (s - 2)),
        )

    return three_term(P, x, degree, step)


MAX_BERNSTEIN_DEGREE = 1000  # above 1029, binomial coefficients exceed the range of float64


def bernstein_in_chebyshev(degree: int) -> np.ndarray:
    """Chebyshev coefficients [K + 1, K + 1] of the Bernstein polynomials, by exact interpolation at K + 1 nodes."""
    if degree > MAX_BERNSTEIN_DEGREE:
        raise ValueError(
            f"Bernstein polynomials need a degree of at most {MAX_BERNSTEIN_DEGREE}; got {degree}. Try 10."
        )
    nodes, T = chebyshev_nodes(degree)
    k = np.arange(degree + 1)[:, None]
    binomials = np.array([math.comb(degree, j) for j in range(degree + 1)], dtype=np.float64)[:, None]
    values = binomials * ((1 + nodes) / 2) ** (degree - k) * ((1 - nodes) / 2) ** k  # [k, node]
    return values @ T.T * np.where(np.arange(degree + 1) == 0, 1, 2) / (degree + 1)


def chebyshev_nodes(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """The K + 1 roots x_j of T_{K+1} in descending order, and T_k(x_j) as [k, j]."""
    angle = (np.arange(degree + 1) + 0.5) * np.pi / (degree + 1)
    return np.cos(angle), np.cos(np.arange(degree + 1)[:, None] * angle)


@basis(expands_in=("chebyshev", bernstein_in_chebyshev))
def bernstein(P, x: Tensor, degree: int) -> Terms:
    """Bernstein polynomials of the Laplacian I - P (BernNet).

    Each is a fixed combination of Chebyshev terms, so K products suffice for all K + 1 (BernNet's code
    computes K (K + 3) / 2). The coefficients stay below 2 for every K, so there is no cancellation, unlike with
    monomials.
    """
    terms = list(chebyshev(P, x, degree))
    for row in bernstein_in_chebyshev(degree).tolist():
        total = torch.zeros_like(terms[-1]).add_(terms[0], alpha=row[0])  # terms[0] may be [n, d], the rest [r, n, d]
        for coefficient, term in zip(row[1:], terms[1:], strict=True):
            total.add_(term, alpha=coefficient)
        yield total


def average(basis: Callable[..., Basis], operators, x, degree: int, **options) -> Basis:
    """The mean of each term over several operators: the paper's extension to several taus (equation 8, divided by r).

    `operators` is a list of operators, or a `Propagation` with several taus, for which
    the taus share passes over the edges.

    >>> list(average(krylov, [torch.tensor([[1.0]]), torch.tensor([[3.0]])], torch.ones(1, 1), degree=2))
    [tensor([[1.]]), tensor([[2.]]), tensor([[5.]])]
    """
    function = as_basis(basis)
    function.check_options(options)

    def means(P, x: Tensor, degree: int, **options) -> Terms:
        for term in function(P, x, degree, **options):
            yield running_mean(term) if term.ndim == 3 else term

    batched = StackedOperators(operators) if isinstance(operators, Sequence) else operators
    return Basis(BasisFunction(means, f"average of {function.name}"), batched, x, degree, options)


def running_mean(parts: Tensor) -> Tensor:
    """The mean over the first axis, slice by slice: with `Tensor.mean` a basis takes 1.2x as long."""
    mean = parts[0]
    for i, part in enumerate(parts[1:], 2):
        in_place = i > 2 and not mean.requires_grad
        mean = mean.lerp_(part, 1 / i) if in_place else torch.lerp(mean, part, 1 / i)
    return mean


def stack(terms: Basis | Iterator[Tensor] | Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """All terms as one tensor [n, K + 1, d]; terms beyond the grade of an orthonormal basis are zero.

    A `Basis` is computed in panels of columns, all K products of one panel before the next, so that the panel stays in
    cache and only a few panels of additional memory are needed. Pass `out` to fill an existing tensor.
    """
    if not isinstance(terms, Basis):
        found = list(terms) if isinstance(terms, Iterable) else []
        if not found or not all(isinstance(term, Tensor) for term in found):
            raise TypeError(
                f"stack needs a basis or a list of tensors; got {shortened(terms)}. Use stack(krylov(P, x, 10))."
            )
        if len({term.shape for term in found}) > 1:
            shapes = ", ".join(str(list(term.shape)) for term in found[:5])
            raise ValueError(f"stack needs terms of one shape; got {shapes}. Stack those of one signal.")
        return torch.stack(found, 1)
    x, K, is_sparse = terms.x, terms.degree, sp.issparse(terms.x)
    if len(x.shape) != 2:
        raise ValueError(f"stack needs a signal [n, d]; got {list(x.shape)}. Use x[:, None] for one column.")
    n, d = x.shape
    dtype, device = (torch.from_numpy(np.empty(0, x.dtype)).dtype, "cpu") if is_sparse else (x.dtype, x.device)
    if out is None:
        # Each term is contiguous in memory, so a panel writes to K + 1 regions, not to K + 1 parts of every row.
        out = kernels.empty(K + 1, n, d, dtype=dtype, device=device).transpose(0, 1)
    elif not isinstance(out, Tensor) or out.shape != (n, K + 1, d) or out.dtype != dtype:
        given = f"{out.dtype} {list(out.shape)}" if isinstance(out, Tensor) else shortened(out)
        raise ValueError(
            f"out must be {dtype} of shape {[n, K + 1, d]}; got {given}. Omit out= to allocate a new tensor."
        )
    fill_on_gpu = terms.function.fill_on_gpu
    if fill_on_gpu is not None and fill_on_gpu(terms, out):
        return out
    terms = terms.of(x.tocsc()) if is_sparse else terms  # CSC: columns are sliced below
    width = min(terms.P.panel, d)
    for start in range(0, d, width):
        count = 0
        for count, term in enumerate(terms.columns(start, start + width), 1):
            out[:, count - 1, start : start + width] = term
        out[:, count:, start : start + width] = 0
    return out


BASES: dict[str, BasisFunction] = {
    "krylov": krylov,
    "chebyshev": chebyshev,
    "legendre": legendre,
    "jacobi": jacobi,
    "bernstein": bernstein,
    "orthonormal": orthonormal,
}
