r"""The Lanczos recurrence: an orthonormal basis of each column's Krylov space, and its coefficients."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.spectral.basis_function import Terms, basis, dense


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
