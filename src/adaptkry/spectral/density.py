r"""The density of states of a symmetric operator, by the kernel polynomial method.

The share of the eigenvalues in an interval is a sum over Chebyshev moments :math:`\mu_k = \mathrm{tr}\,T_k(P)/n`.
They are estimated as the mean of :math:`z^\top T_k(P) z / n` over random sign vectors z, which needs products with P
only. The error bars of the result include the sampling error and the finite resolution.

>>> from adaptkry.graphs.graph import Graph
>>> from adaptkry.spectral.propagation_matrix import Propagation
>>> star = Propagation(Graph([[0] * 50, range(1, 51)]), tau=1.0)     # 49 of 51 eigenvalues are 0
>>> density = density_of_states(star, bins=3)
>>> bool(abs(density.mass[1] - 49 / 51) < density.error[1])
True
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import dct
from torch import Tensor

from adaptkry.common import checks
from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import chebyshev
from adaptkry.spectral.operators import Operator, Rescaled, as_operator
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.spectrum import bounds

MAX_MOMENTS, MAX_BINS = 10**5, 10**5  # far more than a histogram can show
DENSITY_ROUNDING = 2e-6  # rounding error of the mass of a bin, from moments in float32


@dataclass(frozen=True)
class Density:
    """A histogram of the spectrum: the share of the eigenvalues in each bin, with error bars."""

    edges: np.ndarray  # [bins + 1] in ascending order
    mass: np.ndarray  # [bins] share of all eigenvalues; sums to 1
    error: np.ndarray  # [bins] half-width: 3 standard errors, plus the mass that damping may move across edges

    @property
    def centres(self) -> np.ndarray:
        """Middle of each bin."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def density(self) -> np.ndarray:
        """Mass per unit of eigenvalue."""
        return self.mass / np.diff(self.edges)


def density_of_states(
    P: Operator | Tensor,
    *,
    moments: int = 400,
    probes: int = 32,
    bins: int = 51,
    seed: int = 0,
    on_progress: Callable[[int, int], object] | None = None,
) -> Density:
    r"""Estimate the distribution of the eigenvalues, between bounds of the spectrum from a few steps of Lanczos.

    Each product gives two moments; the sum uses Jackson's damping, which keeps the density positive and smooths
    it like a Gaussian of width :math:`\pi/M` in the angle :math:`\arccos\lambda`.

    Args:
        P: a symmetric operator.
        moments: number of moments M; the resolution is pi / M.
        probes: number of random vectors; the sampling error falls like 1 / sqrt(n probes).
        bins: number of bins of equal width between the bounds of the spectrum.
        seed: seed of the random vectors.
        on_progress: called as on_progress(done, total) after every product.
    """
    checks.count(moments, "moments", MAX_MOMENTS, at_least=2)
    checks.count(probes, "probes", at_least=2)
    checks.positive_count(bins, "bins", MAX_BINS)
    checks.count(seed, "seed")
    if on_progress is not None:
        checks.function(on_progress, "on_progress")
    P = as_operator(P)
    checks.check_memory(24 * P.shape[0] * probes, f"{probes} probes of {P.shape[0]} rows", remedy="Use fewer probes.")
    low, high = bounds(P)
    scale = max(abs(low), abs(high))
    centre, half_width = (high + low) / 2, max((high - low) / 2, 1e-8 * (scale or 1)) * (1 + 1e-6)
    # Rescaling amplifies rounding by scale / half_width: eigenvalues of a narrow spectrum could leave [-1, 1], and the
    # moments would diverge.
    dtype = torch.float32 if half_width > scale / 4 else torch.float64
    mu = _moments(P, centre, half_width, moments, probes, seed, dtype, on_progress).mean(1) * _jackson(moments)  # [M]
    edges = np.linspace(-1, 1, bins + 1)
    mass = np.diff(_below(mu, edges))
    blur = _blur(mu, edges)
    blur = blur[1:] + blur[:-1]
    error = blur + _sampling_error(mass + blur, P.shape[0] * probes) + DENSITY_ROUNDING
    return Density(centre + half_width * edges, mass, error)


def graph_density(graph: Graph, tau: float, **options) -> Density:
    """Return the density of states of P_tau, computed once per graph (its copies with the same edges share it).

    >>> from adaptkry.graphs.synthetic import csbm
    >>> graph = csbm(nodes=50, seed=0)
    >>> graph_density(graph, 0.5) is graph_density(graph, 0.5)
    True
    """
    key = "density", tau, *sorted(options.items())
    if key not in graph.edge_results:
        graph.edge_results[key] = density_of_states(Propagation(graph, tau), **options)
    return graph.edge_results[key]


def _sampling_error(mass: np.ndarray, signs: int) -> np.ndarray:
    """Three standard errors of an estimated mass; `signs` is the number of random signs, nodes times probes.

    A share of the spectrum is tr g / n with 0 <= g <= 1, and sign vectors estimate it with a variance of at most
    2 tr g^2 / n^2 <= 2 (true mass) / n each. The true mass is not known: solve (true - estimated)^2 =
    9 * 2 true / signs for it. (The standard deviation over probes would be simpler, but for a rare eigenvalue it is
    often 0 by chance.)
    """
    v = 18 / signs
    return v / 2 + np.sqrt(v * mass.clip(min=0) + v * v / 4)


def _moments(
    P: Operator,
    centre: float,
    half_width: float,
    count: int,
    probes: int,
    seed: int,
    dtype: torch.dtype,
    on_progress: Callable[[int, int], object] | None = None,
) -> np.ndarray:
    """mu_k of (P - centre) / half_width for every probe, [count, probes]; T_2k and T_2k+1 follow from T_k and T_k+1."""
    n, degree = P.shape[0], (count + 1) // 2
    generator = torch.Generator().manual_seed(seed)
    z = (torch.randint(0, 2, (n, probes), generator=generator) * 2 - 1).to(dtype)
    mu = np.zeros((count + 1, probes))
    previous = None
    for k, current in enumerate(chebyshev(Rescaled(P, centre, half_width), z, degree)):
        mu[2 * k : 2 * k + 1] = 2 * _dots(current, current) - (mu[0] if k else n)
        if previous is not None:
            mu[2 * k - 1] = 2 * _dots(current, previous) - (mu[1] if k > 1 else _dots(current, previous))
        previous = current
        if on_progress:
            on_progress(k + 1, degree + 1)
    return mu[:count] / n


def _dots(a: Tensor, b: Tensor) -> np.ndarray:
    """Scalar products of the columns."""
    return (a * b).sum(0, dtype=torch.float64).numpy()


def _jackson(count: int) -> np.ndarray:
    """Jackson's damping factors: the positive kernel of least variance (Weisse et al. 2006, equation 71)."""
    k, angle = np.arange(count), math.pi / (count + 1)
    return ((count - k + 1) * np.cos(k * angle) + np.sin(k * angle) / math.tan(angle)) / (count + 1)


def _below(mu: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Mass below each edge, [edges], by exact integration of the damped cosine series mu [M]."""
    angle, k = np.arccos(edges), np.arange(1, len(mu))
    return mu[0] - (angle * mu[0] + np.sin(angle[:, None] * k) @ (mu[1:] * 2 / k)) / math.pi


def _blur(mu: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """An upper bound of the mass that damping moves across each edge: [edges].

    As a function of the angle, a point mass is smoothed by Jackson's kernel, whose integral beyond an edge is known.
    But only the smoothed positions are known, for which that integral is half as large at an edge (and reduced by less
    elsewhere): hence the factor 2.
    """
    cells = 8 * len(mu)  # eight per width of the kernel, which resolves it
    positions = (np.arange(cells) + 0.5) * math.pi / cells
    mass = np.asarray(dct(mu, type=3, n=cells)).clip(min=0) / cells
    first_half = np.asarray(dct(_jackson(len(mu)), type=3, n=cells)).cumsum() / (2 * cells)
    # The integral of the kernel from 0 to each of `angles`.
    integral = np.concatenate([[0], first_half, 1 - first_half[-2::-1], [1]])
    angles = np.linspace(0, 2 * math.pi, len(integral))
    moved = []
    for angle in np.arccos(edges):
        gap = angle - positions
        above = np.sign(gap) * np.interp(abs(gap), angles, integral) + np.interp(angle + positions, angles, integral)
        moved.append(2 * mass @ np.where(gap < 0, above, 1 - above))
    return np.array(moved)
