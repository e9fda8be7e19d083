r"""Filters: coefficients over a basis, :math:`g(\lambda) = \sum_k w_k\, p_k(\lambda)`.

:math:`\lambda` is an eigenvalue of the operator the basis is built on. For :math:`P_\tau` the paper's frequency,
the eigenvalue of the Laplacian, is :math:`1 - \lambda`.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from adaptkry.common import checks
from adaptkry.common.lookup import pick
from adaptkry.spectral.bases import BASES, chebyshev_nodes, stack
from adaptkry.spectral.basis_function import Basis, as_basis
from adaptkry.spectral.operators import Diagonal, Shift


def free(theta: Tensor) -> Tensor:
    """The weights themselves (GPR-GNN, JacobiConv, AdaptKry)."""
    return theta


def positive(theta: Tensor) -> Tensor:
    """ReLU of the weights (BernNet): a non-negative response over the Bernstein basis."""
    return torch.relu(theta)


def even(theta: Tensor) -> Tensor:
    """Odd weights held at zero (EvenNet): g(-lambda) = g(lambda) over Krylov, Chebyshev and Legendre."""
    mask = 1 - torch.arange(theta.shape[-1], device=theta.device) % 2
    return theta * mask


def interpolated(theta: Tensor) -> Tensor:
    r"""Chebyshev coefficients of the polynomial with values relu(theta_j) at the Chebyshev nodes (ChebNetII).

    .. math::
        w_k = \frac{2 - [k = 0]}{K + 1} \sum_{j=0}^{K} \max(\theta_j, 0)\, T_k(x_j),
        \qquad x_j = \cos\frac{(j + 1/2)\,\pi}{K + 1}

    Nodes fall from :math:`\lambda` near 1 (smooth) to near -1 (rough). Over another basis than Chebyshev's these are
    coefficients like any others, without that meaning.
    """
    return torch.relu(theta) @ interpolation(theta.shape[-1] - 1, theta.dtype, theta.device)


@cache
def interpolation(degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix [j, k] from values at the nodes to Chebyshev coefficients; made once, so that nothing waits for it."""
    T = torch.from_numpy(chebyshev_nodes(degree)[1])  # [k, j]
    halves = torch.full((degree + 1,), 2.0, dtype=torch.float64)
    halves[0] = 1.0
    return (T.T * halves / (degree + 1)).to(device, dtype)


PARAMETRISATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "free": free,
    "positive": positive,
    "even": even,
    "interpolated": interpolated,
}


def uniform(degree: int, alpha: float) -> Tensor:  # noqa: ARG001  one signature for all
    """1 / (K + 1) everywhere: AdaptKry's start."""
    return torch.full((degree + 1,), 1 / (degree + 1))


def ppr(degree: int, alpha: float) -> Tensor:
    """Personalised PageRank: alpha (1 - alpha)^k, the last entry (1 - alpha)^K, so that they sum to 1."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"the teleport probability must lie in [0, 1], but alpha = {alpha} came.")
    weights = alpha * (1 - alpha) ** torch.arange(degree + 1, dtype=torch.float64)
    weights[-1] = (1 - alpha) ** degree
    return weights.float()


def decay(degree: int, alpha: float) -> Tensor:
    """Alpha (1 - alpha)^k throughout: EvenNet's start."""
    return (alpha * (1 - alpha) ** torch.arange(degree + 1, dtype=torch.float64)).float()


def spike(degree: int, alpha: float) -> Tensor:
    """All weight on hop `alpha` (a whole number): 0 is the identity, K is SGC."""
    if not 0 <= alpha <= degree or alpha != int(alpha):
        raise ValueError(f"a spike stands at a hop 0 .. {degree}, but alpha = {alpha} came.")
    return torch.eye(degree + 1)[int(alpha)]


def ones(degree: int, alpha: float) -> Tensor:  # noqa: ARG001  one signature for all
    """1 everywhere: the identity filter for Bernstein and for interpolated Chebyshev."""
    return torch.ones(degree + 1)


def iterated(degree: int, alpha: float, first: tuple[float, float], again: float) -> Tensor:
    """K - 1 steps Z <- again P Z + alpha Z_0 from Z_0 = first[0] x + first[1] P x, written out in powers of P."""
    if degree == 0:
        return torch.tensor(first[:1])
    powers = alpha * again ** torch.arange(degree, dtype=torch.float64)
    powers[-1] = again ** (degree - 1)
    weights = torch.zeros(degree + 1, dtype=torch.float64)
    weights[:-1] += first[0] * powers
    weights[1:] += first[1] * powers
    return weights.float()


def gnn_lf(degree: int, alpha: float) -> Tensor:
    """GNN-LF's low-pass filter (mu = 0.9)."""
    scale = 1 + 0.9 * alpha - alpha
    return iterated(degree, alpha, (0.9 / scale, 0.1 / scale), (1 - 2 * alpha + 0.9 * alpha) / scale)


def gnn_hf(degree: int, alpha: float) -> Tensor:
    """GNN-HF's filter (beta = 0.9): a low pass that keeps some of the high frequencies."""
    scale = 1 + 0.9 * alpha
    return iterated(degree, alpha, (1.9 / scale, -0.9 / scale), (1 + 0.9 * alpha - alpha) / scale)


INITIAL_WEIGHTS: dict[str, Callable[[int, float], Tensor]] = {
    "uniform": uniform,
    "ppr": ppr,
    "decay": decay,
    "spike": spike,
    "ones": ones,
    "lf": gnn_lf,
    "hf": gnn_hf,
}


class Filter(nn.Module):
    r"""Learnable coefficients over a basis.

    Args:
        degree: polynomial degree K.
        basis: a name in `BASES`, or a function `basis(P, x, degree)`.
        kind: "free", "positive" (ReLU), "even" or "interpolated" (values at Chebyshev nodes).
        start: "uniform", "ppr", "spike" or "ones".
        alpha: what the start needs: the teleport probability of "ppr", the hop of "spike".
        channels: d for one filter per feature column; None for one filter shared by all.
        options: passed to the basis, such as a and b of jacobi.

    Shapes:
        - **input:** basis signals [n, K + 1, d]
        - **output:** filtered signals [n, d]

    >>> low_pass = Filter(2, start="ppr", alpha=0.5)
    >>> low_pass.response(torch.tensor([1.0, 0.0, -1.0]))
    tensor([1.0000, 0.5000, 0.5000], grad_fn=...)
    """

    def __init__(
        self,
        degree: int,
        basis: str | Callable[..., Basis] = "krylov",
        *,
        kind: str = "free",
        start: str = "uniform",
        alpha: float = 0.1,
        channels: int | None = None,
        **options,
    ):
        super().__init__()
        self.degree = checks.count(degree, "degree")
        self.basis = pick(BASES, basis, "basis") if isinstance(basis, str) else as_basis(basis)
        self.basis.check_options(options)
        self.kind, self.options = kind, options
        if channels is not None and checks.count(channels, "channels") == 0:
            raise ValueError("channels must be 1 or more, or None for one filter for all columns, but 0 came.")
        self.shape_weights = pick(PARAMETRISATIONS, kind, "kind of filter")
        weights = pick(INITIAL_WEIGHTS, start, "start")(degree, alpha)
        self.theta = nn.Parameter(weights if channels is None else weights.repeat(channels, 1))  # [K+1] or [d, K+1]

    @property
    def coefficients(self) -> Tensor:
        """The weights w over the basis: [K + 1], or [d, K + 1] with one filter a channel."""
        return self.shape_weights(self.theta)

    def forward(self, terms: Tensor) -> Tensor:
        """Combine basis signals [n, K + 1, d] into [n, d]."""
        w = self.coefficients.to(terms.dtype)
        if terms.ndim != 3 or terms.shape[1] != self.degree + 1 or (w.ndim == 2 and terms.shape[2] != len(w)):
            channels = len(w) if w.ndim == 2 else "d"
            raise ValueError(f"this filter takes [n, {self.degree + 1}, {channels}], but {list(terms.shape)} came.")
        return torch.einsum("nkd,k->nd" if w.ndim == 1 else "nkd,dk->nd", terms, w)

    def response(self, eigenvalues: Tensor) -> Tensor:
        """The response g at the operator's eigenvalues [m]: [m], or [m, d] with one filter a channel."""
        eigenvalues = checks.floats(eigenvalues, "eigenvalues")
        _needs_fixed_polynomials(self.basis)
        terms = self.basis(
            Diagonal(eigenvalues), eigenvalues.new_ones(len(eigenvalues), 1), self.degree, **self.options
        )
        return torch.einsum("mk,...k->m...", stack(list(terms))[:, :, 0], self.coefficients.to(eigenvalues.dtype))

    def to_krylov(self) -> "Filter":
        """The same filter as coefficients of the monomials (Proposition 1)."""
        return self._moved(self.coefficients.double() @ monomials(self.basis, self.degree, **self.options), "krylov")

    def from_krylov(self, weights: Tensor) -> "Filter":
        """A free filter over this basis with the given monomial coefficients [K + 1] or [d, K + 1]."""
        if weights.ndim not in (1, 2) or weights.shape[-1] != self.degree + 1:
            raise ValueError(f"this filter takes weights [{self.degree + 1}], but {list(weights.shape)} came.")
        phi = monomials(self.basis, self.degree, **self.options)
        solved = torch.linalg.solve(phi.T, weights.double().reshape(-1, self.degree + 1).T).T
        return self._moved(solved.reshape(weights.shape), self.basis, **self.options)

    def _moved(self, weights: Tensor, basis, **options) -> "Filter":
        made = Filter(self.degree, basis, **options)
        made.theta = nn.Parameter(weights.detach())
        return made

    def extra_repr(self) -> str:
        """What print(filter) shows between the brackets."""
        name = self.basis.name
        return f"degree={self.degree}, basis={name}, kind={self.kind}, theta={list(self.theta.shape)}"


def _needs_fixed_polynomials(basis) -> None:
    if basis.response_from != "polynomial":
        raise ValueError(
            f"a response needs a basis of fixed polynomials; got {basis.name}, whose polynomials are not. "
            f"For the orthonormal basis use Filter(degree, replay, recurrence=recurrence(P, x, degree))."
        )


def monomials(basis: Callable[..., Basis], degree: int, **options) -> Tensor:
    """Row k holds the monomial coefficients of p_k, float64 [K + 1, K + 1].

    Not a table of formulas: the basis itself is run on polynomials, so the two cannot drift apart.

    >>> monomials(BASES["chebyshev"], 2)
    tensor([[ 1.,  0.,  0.], [ 0.,  1.,  0.], [-1.,  0.,  2.]], dtype=torch.float64)
    """
    one = torch.zeros(degree + 1, 1, dtype=torch.float64)
    one[0] = 1
    return stack(list(basis(Shift(degree + 1), one, degree, **options)))[:, :, 0].T


def low_pass(frequency: Tensor) -> Tensor:
    """Figure 1a of the paper."""
    return 1 - frequency + frequency**2 / 2 - frequency**3 / 10


def band_pass(frequency: Tensor) -> Tensor:
    """Figure 1b."""
    return frequency**4 - 4 * frequency**3 + 4 * frequency**2


def comb_pass(frequency: Tensor) -> Tensor:
    """Figure 1c."""
    return (-81 * frequency**4 + 324 * frequency**3 - 414 * frequency**2 + 180 * frequency) / 25


def high_pass(frequency: Tensor) -> Tensor:
    """Figure 1d."""
    return (frequency**3 - frequency**2 + 2 * frequency + 2) / 10


FIGURE_1 = {"low": low_pass, "band": band_pass, "comb": comb_pass, "high": high_pass}


def fit_response(
    wanted: str | Callable[[Tensor], Tensor],
    degree: int,
    basis: str | Callable[..., Basis] = "krylov",
    *,
    eigenvalues: Tensor | None = None,
    **options,
) -> Filter:
    """The filter whose response is nearest to a wanted one, by least squares.

    Args:
        wanted: "low", "band", "comb" or "high" of the paper's Figure 1, or any function of the *frequency*
            1 - eigenvalue, which runs from 0 (smooth) to 2 (rough).
        degree: polynomial degree K.
        basis: the basis to write it in.
        eigenvalues: where it should fit: the spectrum of an operator; by default 200 Chebyshev points of [-1, 1].
        options: passed to the basis.

    >>> fitted = fit_response("band", degree=4)
    >>> fitted.coefficients.round(decimals=6) + 0.0       # (1 - lambda^2)^2 again, in monomials
    tensor([ 1.,  0., -2.,  0.,  1.], dtype=torch.float64, grad_fn=...)
    """
    target = pick(FIGURE_1, wanted, "response") if isinstance(wanted, str) else wanted
    points = torch.from_numpy(chebyshev_nodes(199)[0].copy()) if eigenvalues is None else eigenvalues.double()
    values = torch.as_tensor(target(1 - points), dtype=torch.float64)
    if values.shape != points.shape:
        raise ValueError(f"the wanted response must give one value a frequency, but {list(values.shape)} came.")
    checks.finite(values, "the wanted response", "frequency")
    fitted = Filter(degree, basis, **options)
    _needs_fixed_polynomials(fitted.basis)
    ones = torch.ones(len(points), 1, dtype=torch.float64)
    terms = stack(list(fitted.basis(Diagonal(points), ones, degree, **options)))[:, :, 0]  # [m, K + 1]
    # gelsd copes with fewer points than coefficients and with repeated eigenvalues
    fitted.theta = nn.Parameter(torch.linalg.lstsq(terms, values, driver="gelsd").solution)
    return fitted
