"""Bases that single methods brought: they hear their signal, or are no polynomials of growing degree.

They stand apart from `bases.BASES` because what holds there (fixed polynomials, or a clean stop at the grade) does not
hold here. `ALL_BASES` has both.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from adaptkry.spectral.bases import BASES, krylov
from adaptkry.spectral.basis_function import Basis, Terms, basis
from adaptkry.spectral.lanczos import replay


@basis
def optbasis(P, x: Tensor, degree: int) -> Terms:
    """OptBasisGNN's orthonormal basis: as `orthonormal`, but gradients pass and nothing asks for the grade.

    A column that has run out of directions divides rounding noise by 1e-8 at most; on a GPU nothing waits.
    """
    older, newer = torch.zeros_like(x), unit(x)
    yield newer
    for _ in range(degree):
        product = P @ newer
        product = product - (product * newer).sum(-2, keepdim=True) * newer
        product = product - (product * older).sum(-2, keepdim=True) * older
        older, newer = newer, unit(product)
        yield newer


def unit(x: Tensor) -> Tensor:
    """Columns over their norm, or over 1e-8 if that is larger."""
    return x / x.norm(dim=-2, keepdim=True).clamp(min=1e-8)


@basis
def unifilter(P, x: Tensor, degree: int, *, homophily: float = 0.5, share: float = 0.5) -> Terms:
    r"""UniFilter's basis: `share` of P^k x and the rest of unit vectors u_k that stand at equal angles.

    All pairs u_j, u_k enclose the angle :math:`\theta = \frac{\pi}{2}(1 - h)`. With v_k the orthonormal basis and s the
    sum of the k vectors so far, :math:`u_k = a s + c v_k` where
    :math:`a = \cos\theta / (1 + (k-1)\cos\theta)` and :math:`c^2 = 1 - k \cos^2\theta / (1 + (k-1)\cos\theta)`.
    """
    if not 0 <= homophily <= 1:
        raise ValueError(f"homophily must lie in [0, 1], but {homophily} came.")
    cosine = math.cos(math.pi / 2 * (1 - homophily))
    size = x.norm(dim=-2, keepdim=True)  # the unit vectors are brought to the size of x
    total, power = torch.zeros_like(x), x
    for k, direction in enumerate(optbasis(P, x, degree)):
        power = P @ power if k else x
        spread = 1 + (k - 1) * cosine
        across = math.sqrt(max(0.0, 1 - k * cosine**2 / spread)) if k else 1.0
        vector = cosine / spread * total + across * direction if k else direction
        total = total + vector
        yield share * power + (1 - share) * size * vector


@basis
def gaussian(P, x: Tensor, degree: int, *, high: float, low: float, steps: int = 100) -> Terms:
    r"""G2CN's two signals: :math:`e^{-T_1 (2 - \lambda)^2} x` and :math:`e^{-T_2 \lambda^2} x` by Euler steps.

    :math:`\lambda` is the Laplacian's eigenvalue. The step length is rounded to two decimals, as published.
    """
    if degree != 1:
        raise ValueError(f"gaussian has two terms, so its degree is 1, but {degree} came.")
    for sign, time in ((1, high), (-1, low)):  # 2 I - L = I + P and L = I - P
        length, signal = round(math.sqrt(time / steps), 2), x
        for _ in range(steps):
            once = signal + sign * (P @ signal)
            signal = signal - length**2 * (once + sign * (P @ once))
        yield signal


@basis
def asgc(
    P,
    x: Tensor,
    degree: int,
    *,
    orders: Sequence[int] = (1, 2, 4, 8),
    penalties: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
) -> Terms:
    r"""ASGC's candidates: every column filtered so that it comes back to itself without leaning on hop 0.

    For each order K and penalty R, :math:`\sum_k \beta_k P^k x` with
    :math:`\beta = \arg\min \|\sum_k \beta_k P^k x - x\|^2 + n R \beta_0^2`, column by column and without labels.
    All orders share the products of the largest one.
    """
    if degree + 1 != len(orders) * len(penalties):
        raise ValueError(f"asgc has {len(orders) * len(penalties)} candidates, but degree + 1 = {degree + 1}.")
    hops = torch.stack([term.double() for term in krylov(P, x, max(orders))])  # [K + 1, n, d]
    gram = torch.einsum("knd,lnd->dkl", hops, hops)
    for order in orders:
        own = gram[:, : order + 1, : order + 1]
        for penalty in penalties:
            ridge = torch.zeros_like(own[0])
            ridge[0, 0] = len(x) * penalty
            beta = torch.linalg.pinv(own + ridge, rtol=1e-12, hermitian=True) @ own[:, :, :1]  # [d, K + 1, 1]
            yield torch.einsum("knd,dk->nd", hops[: order + 1], beta[:, :, 0]).to(x.dtype)


ALL_BASES: dict[str, Callable[..., Basis]] = BASES | {
    "optbasis": optbasis,
    "unifilter": unifilter,
    "gaussian": gaussian,
    "asgc": asgc,
    "favard": replay,  # its recurrence is learned
}
