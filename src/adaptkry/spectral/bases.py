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
from dataclasses import dataclass
from functools import partial, wraps

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.spectral.kernels import cpu as kernels

Terms = Iterator[Tensor]


class Basis(Iterator[Tensor]):
    """The K + 1 terms of a basis, made one product at a time as you iterate; `stack` makes them all."""

    def __init__(self, terms: Callable[..., Terms], P, x, degree: int):
        self.terms, self.P, self.x, self.degree = terms, P, x, checks.count(degree, "degree")
        if not sp.issparse(x) and (not isinstance(x, Tensor) or not x.is_floating_point()):
            came = getattr(x, "dtype", type(x).__name__)
            raise TypeError(
                f"a basis wants a float tensor or a SciPy matrix, but {came} came. Use torch.as_tensor(x).float()."
            )
        self._running: Terms | None = None

    def __next__(self) -> Tensor:
        if self._running is None:
            self._running = self.terms(self.P, dense(self.x), self.degree)
        return next(self._running)

    def columns(self, start: int, stop: int) -> Terms:
        """The same basis of columns start..stop-1 alone, as a fresh iterator."""
        return self.terms(self.P, dense(self.x[:, start:stop]), self.degree)

    def __repr__(self) -> str:
        name = getattr(self.terms, "func", self.terms).__name__
        return f"Basis({name}, degree={self.degree}, x={list(self.x.shape)}, P={self.P!r})"


def dense(x) -> Tensor:
    """A contiguous tensor; SciPy sparse signals are filled in here, a panel at a time."""
    return torch.from_numpy(np.ascontiguousarray(x.toarray())) if sp.issparse(x) else x.contiguous()


def basis(terms: Callable[..., Terms]) -> Callable[..., Basis]:
    """Turn a generator `terms(P, x, degree, **options)` into a maker of `Basis`."""

    @wraps(terms)
    def make(P, x, degree: int, **options) -> Basis:
        return Basis(partial(terms, **options) if options else terms, P, x, degree)

    return make


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


@dataclass(frozen=True)
class Step:
    """One Lanczos step: the unit vector, and a, b of P q_k = b_k q_{k+1} + a_k q_k + b_{k-1} q_{k-1}."""

    term: Tensor  # [n, d]
    alpha: Tensor  # [1, d] of the vector before; 0 at the first step
    beta: Tensor  # [1, d] the norm the vector had; ||x|| at the first step


def lanczos(P, x: Tensor, degree: int, *, reorthogonalise: bool = False) -> Iterator[Step]:
    """Orthonormalise x, Px, P^2 x, ... column by column with the three-term recurrence.

    A column whose grade is reached (the new direction is rounding noise) goes on as exact zeros; when every
    column has got there the iterator ends. `reorthogonalise` removes twice what rounding brought back of all
    earlier vectors; the plain recurrence loses orthogonality as soon as an eigenvector converges.
    P must be symmetric: the recurrence rests on it.
    """
    if not getattr(P, "is_symmetric", True):
        raise ValueError(f"the orthonormal basis needs a symmetric operator, but {P!r} is not. Use direction='both'.")
    # What is left is held against the size of P seen so far, at least 1 (that of P_tau): an eigenvector of 0 has none.
    tiny, scale = noise(x.dtype), torch.ones_like(x[..., :1, :])
    size = x.norm(dim=-2, keepdim=True)
    alive, beta = size > 0, size
    older, newer = torch.zeros_like(x), unit(x, size, alive)
    kept = [newer]
    yield Step(newer, torch.zeros_like(size), size)
    for k in range(degree):
        if not alive.any():
            return
        product = P @ newer
        size = product.norm(dim=-2, keepdim=True)
        alpha = (newer * product).sum(-2, keepdim=True)
        product = product - alpha * newer
        if k:
            product = product - beta * older
        for vector in kept * 2 if reorthogonalise else []:
            product = product - (vector * product).sum(-2, keepdim=True) * vector
        beta = product.norm(dim=-2, keepdim=True)
        scale = torch.maximum(scale, size)
        alive = alive & (beta > tiny * scale) & (k + 1 < x.shape[-2])
        beta = beta * alive
        older, newer = newer, unit(product, beta, alive)
        kept = [*kept, newer] if reorthogonalise else kept
        yield Step(newer, alpha, beta)


def noise(dtype: torch.dtype) -> float:
    """What is left at the grade: rounding enlarged by every division on the way, measured up to 1e-10 in float64."""
    return torch.finfo(dtype).eps ** 0.75


def unit(x: Tensor, size: Tensor, alive: Tensor) -> Tensor:
    """Columns of x over their size; columns that are not alive become zero."""
    return x * torch.where(alive, 1 / torch.where(alive, size, 1), 0)


@basis
def orthonormal(P, x: Tensor, degree: int, *, reorthogonalise: bool = False, keep_norm: bool = False) -> Terms:
    """Orthonormal basis of the Krylov space of each column (OrthKry); stops cleanly at the grade.

    With `keep_norm` every term is as long as x, column by column, so that rare features stay small.

    The grade is seen where what is left is rounding noise. For a grade near n, far above the hops anyone uses, noise
    can pass for a direction, with or without re-orthogonalisation; `spectrum.grade` counts exactly.
    """
    length: Tensor | float = 1.0
    for k, step in enumerate(lanczos(P, x, degree, reorthogonalise=reorthogonalise)):
        length = step.beta if keep_norm and k == 0 else length
        if step.term.any():
            yield step.term * length if keep_norm else step.term


@dataclass(frozen=True)
class Recurrence:
    """The coefficients of an orthonormal basis: with them it can be replayed on any other operator."""

    norm: Tensor  # [1, d] ||x||
    alpha: Tensor  # [K, 1, d]
    beta: Tensor  # [K, 1, d]; 0 from the grade on

    @property
    def grade(self) -> Tensor:
        """Number of terms each column has, at most K + 1: [d]."""
        return ((self.norm > 0).long() + (self.beta > 0).sum(0))[0]


def recurrence(P, x: Tensor, degree: int, *, reorthogonalise: bool = False) -> Recurrence:
    """Run `orthonormal` for its coefficients alone."""
    steps = list(lanczos(P, dense(x), checks.count(degree, "degree"), reorthogonalise=reorthogonalise))
    blank = torch.zeros_like(steps[0].beta)
    rest = steps[1:] + [Step(blank, blank, blank)] * (degree + 1 - len(steps))
    alpha, beta = ([getattr(step, name) for step in rest] for name in ("alpha", "beta"))
    empty = blank.new_zeros(0, *blank.shape)
    return Recurrence(steps[0].beta, torch.stack(alpha) if rest else empty, torch.stack(beta) if rest else empty)


@basis
def replay(P, x: Tensor, degree: int, *, recurrence: Recurrence) -> Terms:
    """The polynomials of an orthonormal basis applied to another operator or signal."""
    older, newer = torch.zeros_like(x), unit(x, recurrence.norm, recurrence.norm > 0)
    yield newer
    for k in range(degree):
        product = P @ newer - recurrence.alpha[k] * newer
        if k:
            product = product - recurrence.beta[k - 1] * older
        older, newer = newer, unit(product, recurrence.beta[k], recurrence.beta[k] > 0)
        yield newer


class SideBySide:
    """r operators as one on signals [r, n, d] (or [n, d], taken r times): slice i goes through operator i."""

    def __init__(self, operators: Sequence):
        if not operators:
            raise ValueError("an average needs at least one operator, but an empty list came.")
        self.operators = list(operators)
        self.shape = operators[0].shape
        self.is_symmetric = all(getattr(P, "is_symmetric", True) for P in operators)
        self.panel = min(getattr(P, "panel", 2**31) for P in operators)

    def __matmul__(self, x: Tensor) -> Tensor:
        slices = x.expand(len(self.operators), *x.shape[-2:])
        return torch.stack([P @ part for P, part in zip(self.operators, slices, strict=True)])

    def to_dense(self) -> Tensor:
        """The matrices one behind the other: [r, n, n]."""
        return torch.stack([P.to_dense() for P in self.operators])


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
    one = getattr(terms.P, "is_symmetric", False) and not getattr(terms.P, "is_many", False)
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
