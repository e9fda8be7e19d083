r"""The Lanczos recurrence: an orthonormal basis of the Krylov space of each column.

For a symmetric P and a signal x, the vectors :math:`q_0 = x / \|x\|, q_1, q_2, \dots` defined by

.. math:: P q_k = \beta_k q_{k+1} + \alpha_k q_k + \beta_{k-1} q_{k-1}, \qquad \alpha_k = q_k^\top P q_k

are orthonormal and span the same space as :math:`x, Px, P^2x, \dots`. The recurrence ends at the grade of x, the
dimension of that space. The polynomials :math:`q_k = p_k(P) x` depend on x; their coefficients (`recurrence`) suffice
to evaluate them on another operator (`replay`), for instance on eigenvalues to get their frequency response:

>>> from adaptkry.spectral.operators import Diagonal
>>> P = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
>>> list(orthonormal(P, torch.tensor([[2.0], [0.0]]), degree=3))          # two terms: the grade is 2
[tensor([[1.], [0.]]), tensor([[0.], [1.]])]
>>> found = recurrence(P, torch.tensor([[2.0], [0.0]]), degree=1)
>>> found.norm, found.alpha.flatten(), found.beta.flatten()
(tensor([[2.]]), tensor([0.]), tensor([1.]))
>>> response = replay(Diagonal(torch.tensor([-1.0, 1.0])), torch.ones(2, 1), degree=1, recurrence=found)
>>> list(response)                                                        # p_0 = 1/2, p_1 = lambda/2
[tensor([[0.5000], [0.5000]]), tensor([[-0.5000], [ 0.5000]])]
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.spectral.basis_function import Basis, Terms, basis, dense
from adaptkry.spectral.operators import as_operator


@dataclass(frozen=True)
class Step:
    """One step of the recurrence: the new unit vector and two coefficients."""

    term: Tensor  # [n, d]
    alpha: Tensor  # [1, d] of the vector before; 0 at the first step
    beta: Tensor  # [1, d] the norm before it was scaled to 1; ||x|| at the first step


def lanczos(P, x: Tensor, degree: int, *, reorthogonalise: bool = False) -> Iterator[Step]:
    """Orthonormalise x, Px, P^2 x, ... column by column with the three-term recurrence.

    A column that has reached its grade (the new direction is rounding noise) continues as exact zeros; the iterator
    ends when every column has. `reorthogonalise` removes the components along all earlier vectors, twice; the plain
    recurrence loses orthogonality as soon as an eigenvector converges. P must be symmetric.
    """
    P = as_operator(P)
    if not P.is_symmetric:
        raise ValueError(f"the orthonormal basis needs a symmetric operator; got {P!r}. Use direction='both'.")
    # The remainder is compared with the size of P seen so far, at least 1 (that of P_tau): P may map x to 0.
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
    """The largest remainder at the grade: rounding errors grow with every division; up to 1e-10 seen in float64."""
    return torch.finfo(dtype).eps ** 0.75


def unit(x: Tensor, size: Tensor, alive: Tensor) -> Tensor:
    """Columns of x divided by their size; columns that are not alive become zero."""
    return x * torch.where(alive, 1 / torch.where(alive, size, 1), 0)


def fill_on_gpu(basis: Basis, out: Tensor) -> bool:
    """Fill `out` [n, K + 1, d] with the orthonormal basis by the fused kernel; False where it does not apply."""
    hops = out.transpose(0, 1)
    fits = out.is_cuda and out.dtype == torch.float32 and hops.is_contiguous() and basis.degree < len(out)
    if basis.options.get("reorthogonalise"):
        return False
    try:
        from adaptkry.spectral.kernels import triton_lanczos
    except ImportError:
        return False
    if not (fits and basis.P.is_symmetric and not basis.P.is_batched) or basis.x.requires_grad:
        return False
    keep_norm = basis.options.get("keep_norm", False)
    triton_lanczos.orthonormal(basis.P, dense(basis.x), hops, keep_norm, noise(torch.float32))
    return True


@basis(depends_on_signal=True, response_from="recurrence", fill_on_gpu=fill_on_gpu)
def orthonormal(P, x: Tensor, degree: int, *, reorthogonalise: bool = False, keep_norm: bool = False) -> Terms:
    """Orthonormal basis of the Krylov space of each column (OrthKry); ends at the grade.

    With `keep_norm` every term has the norm of x, column by column, so that rare features stay small.

    The grade is detected when the remainder is rounding noise. For a grade near n, far above the degrees in use, noise
    can be taken for a direction, with or without re-orthogonalisation; `spectrum.grade` counts exactly.
    """
    length: Tensor | float = 1.0
    for k, step in enumerate(lanczos(P, x, degree, reorthogonalise=reorthogonalise)):
        length = step.beta if keep_norm and k == 0 else length
        if step.term.any():
            yield step.term * length if keep_norm else step.term


@dataclass(frozen=True)
class Recurrence:
    """The coefficients of an orthonormal basis, with which `replay` evaluates its polynomials on any operator."""

    norm: Tensor  # [1, d] ||x||
    alpha: Tensor  # [K, 1, d]
    beta: Tensor  # [K, 1, d]; 0 from the grade on

    @property
    def grade(self) -> Tensor:
        """Number of terms of each column, at most K + 1: [d]."""
        return ((self.norm > 0).long() + (self.beta > 0).sum(0))[0]


def recurrence(P, x: Tensor, degree: int, *, reorthogonalise: bool = False) -> Recurrence:
    """The coefficients of the orthonormal basis of x."""
    steps = list(lanczos(P, dense(x), checks.count(degree, "degree"), reorthogonalise=reorthogonalise))
    blank = torch.zeros_like(steps[0].beta)
    rest = steps[1:] + [Step(blank, blank, blank)] * (degree + 1 - len(steps))
    alpha, beta = ([getattr(step, name) for step in rest] for name in ("alpha", "beta"))
    empty = blank.new_zeros(0, *blank.shape)
    return Recurrence(steps[0].beta, torch.stack(alpha) if rest else empty, torch.stack(beta) if rest else empty)


@basis(required_options=("recurrence",))
def replay(P, x: Tensor, degree: int, *, recurrence: Recurrence) -> Terms:
    """The polynomials of an orthonormal basis, applied to another operator or signal."""
    older, newer = torch.zeros_like(x), unit(x, recurrence.norm, recurrence.norm > 0)
    yield newer
    for k in range(degree):
        product = P @ newer - recurrence.alpha[k] * newer
        if k:
            product = product - recurrence.beta[k - 1] * older
        older, newer = newer, unit(product, recurrence.beta[k], recurrence.beta[k] > 0)
        yield newer
