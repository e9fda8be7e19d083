"""Initial weights of a filter, by name: functions (degree, alpha) -> weights [K + 1] in float32.

>>> ppr(2, alpha=0.5)
tensor([0.5000, 0.2500, 0.2500])
"""

from collections.abc import Callable

import torch
from torch import Tensor


def uniform(degree: int, alpha: float) -> Tensor:  # noqa: ARG001  all functions have the same signature
    """The same weight 1 / (K + 1) for every term (AdaptKry)."""
    return torch.full((degree + 1,), 1 / (degree + 1))


def ppr(degree: int, alpha: float) -> Tensor:
    """Personalised PageRank: alpha (1 - alpha)^k, and (1 - alpha)^K for k = K, so that the weights sum to 1."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"the teleport probability alpha must lie in [0, 1]; got {alpha}. Try 0.1.")
    weights = decay(degree, alpha)
    weights[-1] = (1 - alpha) ** degree
    return weights


def decay(degree: int, alpha: float) -> Tensor:
    """The powers alpha (1 - alpha)^k, for every k (EvenNet)."""
    return (alpha * (1 - alpha) ** torch.arange(degree + 1, dtype=torch.float64)).float()


def spike(degree: int, alpha: float) -> Tensor:
    """1 at hop `alpha` (an integer) and 0 elsewhere: hop 0 is the identity, hop K is SGC."""
    if not 0 <= alpha <= degree or alpha != int(alpha):
        raise ValueError(
            f"alpha must be an integer hop 0 .. {degree} for a spike; got {alpha}. Use 0 for the identity."
        )
    return torch.eye(degree + 1)[int(alpha)]


def ones(degree: int, alpha: float) -> Tensor:  # noqa: ARG001  all functions have the same signature
    """Weight 1 for every term: the identity filter for Bernstein and for interpolated Chebyshev."""
    return torch.ones(degree + 1)


def iterated(degree: int, alpha: float, start: tuple[float, float], factor: float) -> Tensor:
    """Coefficients of the powers of P after K - 1 steps Z <- factor P Z + alpha Z_0.

    The first Z is Z_0 = start[0] x + start[1] P x.
    """
    if degree == 0:
        return torch.tensor(start[:1])
    powers = alpha * factor ** torch.arange(degree, dtype=torch.float64)
    powers[-1] = factor ** (degree - 1)
    weights = torch.zeros(degree + 1, dtype=torch.float64)
    weights[:-1] += start[0] * powers
    weights[1:] += start[1] * powers
    return weights.float()


def gnn_lf(degree: int, alpha: float) -> Tensor:
    """GNN-LF's low-pass filter (mu = 0.9)."""
    scale = 1 + 0.9 * alpha - alpha
    return iterated(degree, alpha, (0.9 / scale, 0.1 / scale), (1 - 2 * alpha + 0.9 * alpha) / scale)


def gnn_hf(degree: int, alpha: float) -> Tensor:
    """GNN-HF's filter (beta = 0.9): a low-pass filter that keeps some of the high frequencies."""
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
