r"""Bases of the Krylov space: :math:`p_0(P)x, p_1(P)x, \dots, p_K(P)x` for six families of polynomials.

Every basis is an iterator over "anything with `@`" and makes exactly K products: a sparse operator, a dense
matrix, a `Diagonal` of eigenvalues (then it yields its own frequency response) or a shift of polynomial
coefficients (then it yields its own monomials). Nothing here knows which.

Columns of x never mix, so `stack` may work panel by panel. The result is the same to the bit, except for the
orthonormal basis, whose sums over nodes torch orders by the width of the panel: there it is the same to rounding.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.spectral.basis_function import Basis, Terms, basis, dense
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.lanczos import noise, orthonormal
from adaptkry.spectral.operators import SideBySide


def three_term(P, x: Tensor, degree: int, step: Callable[[int], tuple[float, float, float]]) -> Terms:
    """Yield p_k(P)x where p_k = (a P + b) p_{k-1} + c p_{k-2} and (a, b, c) = step(k)."""
    older, newer = x, x
    yield x
    for k in range(1, degree + 1):
        a, b, c = step(k)
        product = a * (P @ newer)
        if b:  # not add(alpha=b): torch rounds that once or twice by layout, and panels would differ in the last bit
            product = product + b * newer
        if c and k > 1:
            product = product - older if c == -1 else product + c * older
        older, newer = newer, product
        yield newer


@basis
def krylov(P, x: Tensor, degree: int) -> Terms:
    """x, Px, P^2 x, ...: the monomials, AdaptKry's own basis.

    >>> list(krylov(torch.tensor([[0.5]]), torch.tensor([[8.0]]), degree=3))
    [tensor([[8.]]), tensor([[4.]]), tensor([[2.]]), tensor([[1.]])]
    """
    yield x
    for _ in range(degree):
        x = P @ x
        yield x


@basis
def chebyshev(P, x: Tensor, degree: int, *, sign: float = 1.0) -> Terms:
    """T_k(P)x, Chebyshev polynomials of the first kind: T_k = 2 P T_{k-1} - T_{k-2}; sign -1 gives T_k(-P)x."""
    return three_term(P, x, degree, lambda k: (sign if k == 1 else 2 * sign, 0.0, -1.0))


@basis
def legendre(P, x: Tensor, degree: int) -> Terms:
    """Legendre polynomials: k p_k = (2k - 1) P p_{k-1} - (k - 1) p_{k-2}."""
    return three_term(P, x, degree, lambda k: ((2 * k - 1) / k, 0.0, -(k - 1) / k))


@basis
def jacobi(P, x: Tensor, degree: int, *, a: float = 1.0, b: float = 1.0, published: bool = False) -> Terms:
    """Jacobi polynomials P_k^{(a, b)}, a and b above -1 (Szego 4.5.1); a = b = 0 is Legendre.

    `published` turns the sign of the middle coefficient from hop 2 on, as JacobiConv's program has it: no Jacobi
    polynomials unless |a| = |b|, but what its published settings were tuned for (they include a = -1).
    """
    if not (a > -1 and b > -1) and not published:
        raise ValueError(f"Jacobi polynomials need a > -1 and b > -1, but a = {a}, b = {b} came.")
    turn = -1 if published else 1

    def step(k: int) -> tuple[float, float, float]:
        if k == 1:
            return (a + b + 2) / 2, (a - b) / 2, 0.0
        s, t = 2 * k + a + b, 2 * k * (k + a + b)
        return (
            s * (s - 1) / t,
            turn * (s - 1) * (a * a - b * b) / (t * (s - 2)),
            -2 * (k + a - 1) * (k + b - 1) * s / (t * (s - 2)),
        )

    return three_term(P, x, degree, step)


@basis
def bernstein(P, x: Tensor, degree: int) -> Terms:
    r"""Bernstein polynomials of the Laplacian: :math:`2^{-K}\binom{K}{k}(I+P)^{K-k}(I-P)^k x`.

    Each is a fixed combination of Chebyshev terms, so K products do for all K + 1 (BernNet's own program makes
    K(K+3)/2). Chebyshev and not monomials: the coefficients stay below 2 for every K, so nothing cancels.
    """
    terms = list(chebyshev(P, x, degree))
    for row in bernstein_in_chebyshev(degree).tolist():
        total = torch.zeros_like(terms[-1]).add_(terms[0], alpha=row[0])  # x may be [n, d] where the rest is [r, n, d]
        for coefficient, term in zip(row[1:], terms[1:], strict=True):
            total.add_(term, alpha=coefficient)
        yield total


def bernstein_in_chebyshev(degree: int) -> np.ndarray:
    """Chebyshev coefficients [K+1, K+1] of the Bernstein polynomials, by exact interpolation at K+1 nodes."""
    nodes, T = chebyshev_nodes(degree)
    k = np.arange(degree + 1)[:, None]
    ways = np.array([math.comb(degree, j) for j in range(degree + 1)], dtype=np.float64)[:, None]
    values = ways * ((1 + nodes) / 2) ** (degree - k) * ((1 - nodes) / 2) ** k  # [k, node]
    return values @ T.T * np.where(np.arange(degree + 1) == 0, 1, 2) / (degree + 1)


def chebyshev_nodes(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """The K+1 roots x_j of T_{K+1}, falling from +1 to -1, and T_k(x_j) as [k, j]."""
    angle = (np.arange(degree + 1) + 0.5) * np.pi / (degree + 1)
    return np.cos(angle), np.cos(np.arange(degree + 1)[:, None] * angle)


def average(basis: Callable[..., Basis], operators, x, degree: int, **options) -> Basis:
    """Term by term the mean over several operators: the paper's many-tau extension (equation 8, divided by r).

    `operators` is a list of operators or a `Propagation` with several taus, which shares passes over the edges.
    """
    wide = SideBySide(operators) if isinstance(operators, Sequence) else operators
    return Basis(partial(_average, basis=basis, options=options), wide, x, degree)


def _average(P, x: Tensor, degree: int, *, basis, options: dict) -> Terms:
    for term in basis(P, x, degree, **options):
        yield running_mean(term) if term.ndim == 3 else term


def running_mean(parts: Tensor) -> Tensor:
    """The mean over the first axis, slice after slice: torch's own mean over a short axis makes a basis 1.2x slower."""
    mean = parts[0]
    for i, part in enumerate(parts[1:], 2):
        in_place = i > 2 and not mean.requires_grad
        mean = mean.lerp_(part, 1 / i) if in_place else torch.lerp(mean, part, 1 / i)
    return mean


def stack(terms: Basis | Iterator[Tensor] | Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """All terms as one tensor [n, K+1, d]; terms past the grade of an orthonormal basis are zero.

    A `Basis` is worked off in column panels, all K products of one panel before the next: the panel stays in
    cache and memory beyond the result is a few panels. Pass `out` to fill a buffer you have.
    """
    if not isinstance(terms, Basis):
        return torch.stack(list(terms), 1)
    if len(terms.x.shape) != 2:
        raise ValueError(f"stack wants a signal [n, d], but {list(terms.x.shape)} came. Use x[:, None] for one column.")
    n, d, K = terms.x.shape[0], terms.x.shape[1], terms.degree
    first = terms.x[:1, :1]
    dtype = torch.from_numpy(first.toarray()).dtype if sp.issparse(first) else first.dtype
    if out is None:
        # Hop after hop in memory: a panel's terms then go to one region each, not to K + 1 far-apart strips a row.
        out = kernels.empty(K + 1, n, d, dtype=dtype, device=getattr(first, "device", "cpu")).transpose(0, 1)
    elif out.shape != (n, K + 1, d) or out.dtype != dtype:
        raise ValueError(f"out must be {dtype} of shape {[n, K + 1, d]}, but {out.dtype} {list(out.shape)} came.")
    if on_gpu(terms, out):
        return out
    x, terms.x = terms.x, terms.x.tocsc() if sp.issparse(terms.x) else terms.x  # columns are about to be cut
    width = min(getattr(terms.P, "panel", d), d)
    for start in range(0, d, width):
        done = 0
        for done, term in enumerate(terms.columns(start, start + width), 1):
            out[:, done - 1, start : start + width] = term
        out[:, done:, start : start + width] = 0
    terms.x = x
    return out


def on_gpu(terms: Basis, out: Tensor) -> bool:
    """Fill `out` by a kernel that makes a whole basis at once; False where there is none for this one."""
    options = getattr(terms.terms, "keywords", {})
    hops = out.transpose(0, 1)
    fits = out.is_cuda and out.dtype == torch.float32 and hops.is_contiguous() and terms.degree < len(out)
    one = getattr(terms.P, "is_symmetric", False) and not getattr(terms.P, "is_batched", False)
    is_orthonormal = getattr(terms.terms, "func", terms.terms) is inspect.unwrap(orthonormal)
    if not is_orthonormal or options.get("reorthogonalise"):
        return False
    try:
        from adaptkry.spectral.kernels import triton_lanczos as fused
    except ImportError:
        return False
    if not (fits and one) or terms.x.requires_grad:
        return False
    fused.orthonormal(terms.P, dense(terms.x), hops, options.get("keep_norm", False), noise(torch.float32))
    return True


BASES: dict[str, Callable[..., Basis]] = {
    "krylov": krylov,
    "chebyshev": chebyshev,
    "legendre": legendre,
    "jacobi": jacobi,
    "bernstein": bernstein,
    "orthonormal": orthonormal,
}
