r"""The Lanczos recurrence: an orthonormal basis of the Krylov space of each column.

For a symmetric P and a signal x, the vectors :math:`q_0 = x / \|x\|, q_1, q_2, \dots` defined by

.. math:: P q_k = \beta_k q_{k+1} + \alpha_k q_k + \beta_{k-1} q_{k-1}, \qquad \alpha_k = q_k^\top P q_k

are orthonormal and span the same space as :math:`x, Px, P^2x, \dots`. The recurrence stops at the grade of x, the
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
    """One step of the recurrence: the new unit vector and its two coefficients."""

    term: Tensor  # [n, d]
    alpha: Tensor  # [1, d] coefficient of the previous vector; 0 at the first step
    beta: Tensor  # [1, d] norm of the new vector before normalisation; ||x|| at the first step


def lanczos(P, x: Tensor, degree: int, *, reorthogonalise: bool = False) -> Iterator[Step]:
    """Orthonormalise x, Px, P^2 x, ... column by column with the three-term recurrence.

    A column that has reached its grade (the remainder is rounding error) is exactly zero from then on; the iterator
    stops when all columns have reached it. `reorthogonalise` removes the components along all earlier vectors, twice;
    without it orthogonality is lost as soon as an eigenvector converges. P must be symmetric.
    """
    P = as_operator(P)
    if not P.is_symmetric:
        raise ValueError(f"the orthonormal basis needs a symmetric operator; got {P!r}. Use direction='both'.")
    # The remainder is compared with the largest ||P q|| so far, at least 1 (the norm of P_tau): P may map x to 0.
    tolerance, scale = rounding_tolerance(x.dtype), torch.ones_like(x[..., :1, :])
    norm = x.norm(dim=-2, keepdim=True)
    active, beta = norm > 0, norm
    previous, current = torch.zeros_like(x), unit(x, norm, active)
    earlier = [current]
    yield Step(current, torch.zeros_like(norm), norm)
    for k in range(degree):
        if not active.any():
            return
        product = P @ current
        norm = product.norm(dim=-2, keepdim=True)
        alpha = (current * product).sum(-2, keepdim=True)
        product = product - alpha * current
        if k:
            product = product - beta * previous
        for vector in earlier * 2 if reorthogonalise else []:
            product = product - (vector * product).sum(-2, keepdim=True) * vector
        beta = product.norm(dim=-2, keepdim=True)
        scale = torch.maximum(scale, norm)
        active = active & (beta > tolerance * scale) & (k + 1 < x.shape[-2])
        beta = beta * active
        previous, current = current, unit(product, beta, active)
        earlier = [*earlier, current] if reorthogonalise else earlier
        yield Step(current, alpha, beta)


def rounding_tolerance(dtype: torch.dtype) -> float:
    """Relative remainders up to this size count as zero: rounding errors grow with every step, in float64 to 1e-10."""
    return torch.finfo(dtype).eps ** 0.75


def unit(x: Tensor, norm: Tensor, active: Tensor) -> Tensor:
    """Divide the columns of x by `norm`; set columns that are not active to zero."""
    return x * torch.where(active, 1 / torch.where(active, norm, 1), 0)


def fill_on_gpu(basis: Basis, out: Tensor) -> bool:
    """Fill `out` [n, K + 1, d] with the orthonormal basis by the fused kernel; return False if it does not apply."""
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
    triton_lanczos.orthonormal(basis.P, dense(basis.x), hops, keep_norm, rounding_tolerance(torch.float32))
    return True


@basis(depends_on_signal=True, response_from="recurrence", fill_on_gpu=fill_on_gpu)
def orthonormal(P, x: Tensor, degree: int, *, reorthogonalise: bool = False, keep_norm: bool = False) -> Terms:
    """Orthonormal basis of the Krylov space of each column (OrthKry); it stops at the grade.

    With `keep_norm` every term has the norm of x, column by column, so that columns with few entries keep a small norm.

    The grade is reached when the remainder is rounding error. For a grade near n, far above usual degrees, rounding
    errors can be mistaken for a direction, with or without reorthogonalisation; `spectrum.grade` is exact.
    """
    scale: Tensor | float = 1.0
    for k, step in enumerate(lanczos(P, x, degree, reorthogonalise=reorthogonalise)):
        scale = step.beta if keep_norm and k == 0 else scale
        if step.term.any():
            yield step.term * scale if keep_norm else step.term


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
    """Return the coefficients of the orthonormal basis of x."""
    steps = list(
        lanczos(P, dense(x), checks.count(degree, "degree", checks.MAX_DEGREE), reorthogonalise=reorthogonalise)
    )
    zeros = torch.zeros_like(steps[0].beta)
    padded = steps[1:] + [Step(zeros, zeros, zeros)] * (degree + 1 - len(steps))
    alpha, beta = ([getattr(step, name) for step in padded] for name in ("alpha", "beta"))
    empty = zeros.new_zeros(0, *zeros.shape)
    return Recurrence(steps[0].beta, torch.stack(alpha) if padded else empty, torch.stack(beta) if padded else empty)


@basis(required_options=("recurrence",))
def replay(P, x: Tensor, degree: int, *, recurrence: Recurrence) -> Terms:
    """The polynomials of an orthonormal basis, applied to another operator or signal."""
    previous, current = torch.zeros_like(x), unit(x, recurrence.norm, recurrence.norm > 0)
    yield current
    for k in range(degree):
        product = P @ current - recurrence.alpha[k] * current
        if k:
            product = product - recurrence.beta[k - 1] * previous
        previous, current = current, unit(product, recurrence.beta[k], recurrence.beta[k] > 0)
        yield current
