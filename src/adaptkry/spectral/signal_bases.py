"""Bases proposed by particular methods: most depend on the signal, and one is learned.

`bases.BASES` has general polynomial bases; the bases of OptBasisGNN, UniFilter, G2CN, ASGC and FavardGNN are defined
here. `ALL_BASES` has both. Models and reports use the properties of a basis, not its name:

>>> {name: basis.response_from for name, basis in ALL_BASES.items() if basis.depends_on_signal}
{'orthonormal': 'recurrence', 'optbasis': None, 'unifilter': None, 'asgc': None}
>>> ALL_BASES["gaussian"].required_options
('high', 'low')
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from adaptkry.spectral.bases import BASES, krylov
from adaptkry.spectral.basis_function import BasisFunction, Terms, basis
from adaptkry.spectral.lanczos import Recurrence, replay


@basis(depends_on_signal=True, response_from=None)
def optbasis(P, x: Tensor, degree: int) -> Terms:
    """OptBasisGNN's orthonormal basis: `orthonormal` with gradients, and without detecting the grade.

    Norms below 1e-8 are replaced by 1e-8: beyond its grade a column consists of amplified rounding errors. Nothing is
    copied from the GPU to the host.
    """
    previous, current = torch.zeros_like(x), _normalised(x)
    yield current
    for _ in range(degree):
        product = P @ current
        product = product - (product * current).sum(-2, keepdim=True) * current
        product = product - (product * previous).sum(-2, keepdim=True) * previous
        previous, current = current, _normalised(product)
        yield current


def _normalised(x: Tensor) -> Tensor:
    """Divide each column by its norm, or by 1e-8 if the norm is smaller."""
    return x / x.norm(dim=-2, keepdim=True).clamp(min=1e-8)


@basis(depends_on_signal=True, response_from=None)
def unifilter(P, x: Tensor, degree: int, *, homophily: float = 0.5, share: float = 0.5) -> Terms:
    r"""UniFilter's basis: `share` times P^k x plus 1 - share times unit vectors u_k at equal angles.

    All pairs u_j, u_k have the angle :math:`\theta = \frac{\pi}{2}(1 - h)`. With v_k the orthonormal basis and s the
    sum of the k vectors so far, :math:`u_k = a s + c v_k` where
    :math:`a = \cos\theta / (1 + (k-1)\cos\theta)` and :math:`c^2 = 1 - k \cos^2\theta / (1 + (k-1)\cos\theta)`.
    """
    if not 0 <= homophily <= 1:
        raise ValueError(f"homophily must lie in [0, 1]; got {homophily}. Try 0.5.")
    cosine = math.cos(math.pi / 2 * (1 - homophily))
    norm = x.norm(dim=-2, keepdim=True)  # the unit vectors are scaled to the norm of x
    total, power = torch.zeros_like(x), x
    for k, direction in enumerate(optbasis(P, x, degree)):
        power = P @ power if k else x
        denominator = 1 + (k - 1) * cosine
        c = math.sqrt(max(0.0, 1 - k * cosine**2 / denominator)) if k else 1.0
        vector = cosine / denominator * total + c * direction if k else direction
        total = total + vector
        yield share * power + (1 - share) * norm * vector


@basis(required_options=("high", "low"), response_from=None)  # the terms have degree 2 * steps, not K
def gaussian(P, x: Tensor, degree: int, *, high: float, low: float, steps: int = 100) -> Terms:
    r"""G2CN's two signals :math:`e^{-T_1 (2 - \lambda)^2} x` and :math:`e^{-T_2 \lambda^2} x`, by Euler steps.

    :math:`\lambda` is the Laplacian's eigenvalue. The step length is rounded to two decimals, as in the published code.
    """
    if degree != 1:
        raise ValueError(f"gaussian has two terms, so its degree must be 1; got {degree}. Use steps= for precision.")
    for sign, time in ((1, high), (-1, low)):  # 2 I - L = I + P and L = I - P
        length, signal = round(math.sqrt(time / steps), 2), x
        for _ in range(steps):
            applied_once = signal + sign * (P @ signal)
            signal = signal - length**2 * (applied_once + sign * (P @ applied_once))
        yield signal


@basis(depends_on_signal=True, response_from=None)
def asgc(
    P,
    x: Tensor,
    degree: int,
    *,
    orders: Sequence[int] = (1, 2, 4, 8),
    penalties: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
) -> Terms:
    r"""ASGC's candidates: each column approximated by a combination of its hops, with a penalty on hop 0.

    For each order K and penalty R, :math:`\sum_k \beta_k P^k x` with
    :math:`\beta = \arg\min \|\sum_k \beta_k P^k x - x\|^2 + n R \beta_0^2`, for each column and without labels.
    All orders share the products of the largest one.
    """
    candidates = len(orders) * len(penalties)
    if degree + 1 != candidates:
        raise ValueError(
            f"asgc has {candidates} candidates, so its degree must be {candidates - 1}; got {degree}. "
            f"Change the degree, orders= or penalties=."
        )
    hops = torch.stack([term.double() for term in krylov(P, x, max(orders))])  # [K + 1, n, d]
    gram = torch.einsum("knd,lnd->dkl", hops, hops)
    for order in orders:
        products = gram[:, : order + 1, : order + 1]
        for penalty in penalties:
            ridge = torch.zeros_like(products[0])
            ridge[0, 0] = len(x) * penalty
            inverse = torch.linalg.pinv(products + ridge, rtol=1e-12, hermitian=True)
            beta = inverse @ products[:, :, :1]  # [d, K + 1, 1]
            yield torch.einsum("knd,dk->nd", hops[: order + 1], beta[:, :, 0]).to(x.dtype)


class FavardWeights:
    """The trainable recurrence of FavardGNN, one per channel: shifts alpha and scales beta, each [channels, K + 1].

    Scales are clamped to at least 0.01, so that the polynomials stay finite.
    """

    def initial_weights(self, channels: int, degree: int) -> dict[str, Tensor]:
        """Return shifts 0 and scales 1."""
        return {"shift": torch.zeros(channels, degree + 1), "scale": torch.ones(channels, degree + 1)}

    def options(self, weights: dict[str, Tensor]) -> dict[str, Any]:
        """Return the recurrence for weights [channels, K + 1] or [members, channels, K + 1], one column per channel."""
        shift, scale = (weights[name].flatten(0, -2).T[:, None] for name in ("shift", "scale"))  # [K + 1, 1, columns]
        scale = scale.clamp(min=0.01)
        return {"recurrence": Recurrence(scale[0], shift, scale[1:])}


@basis(learned=FavardWeights(), response_from=None)
def favard(P, x: Tensor, degree: int, *, recurrence: Recurrence | None = None) -> Terms:
    """FavardGNN's polynomials: those of a learned recurrence, different for every channel."""
    if recurrence is None:
        raise ValueError(
            "the basis favard needs a recurrence; got none. Use favard(..., **favard.learned.options(weights))."
        )
    return replay(P, x, degree, recurrence=recurrence)


ALL_BASES: dict[str, BasisFunction] = BASES | {
    "optbasis": optbasis,
    "unifilter": unifilter,
    "gaussian": gaussian,
    "asgc": asgc,
    "favard": favard,
}
