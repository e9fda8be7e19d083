r"""The density of states of a symmetric operator, by the kernel polynomial method."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import dct
from torch import Tensor

from adaptkry.spectral.bases import chebyshev
from adaptkry.spectral.operators import Operator, Rescaled, as_operator
from adaptkry.spectral.spectrum import extremes

ROUNDING = 2e-6  # of a share of the spectrum, from moments in float32


@dataclass(frozen=True)
class Density:
    """How many eigenvalues lie where: the share of the spectrum in each bin, with its error bar."""

    edges: np.ndarray  # [bins + 1] rising
    mass: np.ndarray  # [bins] share of all eigenvalues, sums to 1
    error: np.ndarray  # [bins] half-width: sampling (3 standard errors) plus what blur may carry over the bin's ends

    @property
    def centres(self) -> np.ndarray:
        """Middle of each bin."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def density(self) -> np.ndarray:
        """Mass per unit of eigenvalue."""
        return self.mass / np.diff(self.edges)


def density_of_states(
    P: Operator, *, moments: int = 400, probes: int = 32, bins: int = 51, seed: int = 0, tick=None
) -> Density:
    r"""Where the eigenvalues lie, by the kernel polynomial method: no eigenvalue is ever computed.

    The moments :math:`\mu_k = \mathrm{tr}\,T_k(P)/n` are estimated with random sign vectors (two moments from
    each product) and summed with Jackson's damping, which keeps the density positive and blurs it like a Gaussian
    of width :math:`\pi/M` in angle.

    Args:
        P: a symmetric operator.
        moments: M; the resolution is pi / M.
        probes: random vectors; the sampling error falls like 1 / sqrt(n probes).
        bins: number of equal bins over the spectrum.
        seed: of the probes.
        tick: called after every product, for a progress bar.
    """
    if moments < 2 or probes < 2 or bins < 1:
        raise ValueError(f"moments and probes must be 2 or more, bins 1 or more; {moments}, {probes}, {bins} came.")
    P = as_operator(P)
    low, high = (float(end[0]) for end in extremes(P))
    scale = max(abs(low), abs(high))
    centre, half = (high + low) / 2, max((high - low) / 2, 1e-8 * (scale or 1)) * (1 + 1e-6)
    # Scaling blows rounding up by scale / half: a narrow spectrum would leave [-1, 1], where moments explode.
    dtype = torch.float32 if half > scale / 4 else torch.float64
    mu = _moments(P, centre, half, moments, probes, seed, dtype, tick).mean(1) * _jackson(moments)  # [M]
    edges = np.linspace(-1, 1, bins + 1)
    mass = np.diff(_below(mu, edges))
    blur = _blur(mu, edges)
    blur = blur[1:] + blur[:-1]
    error = blur + _chance(mass + blur, P.shape[0] * probes) + ROUNDING
    return Density(centre + half * edges, mass, error)


def _chance(mass: np.ndarray, signs: int) -> np.ndarray:
    """Three standard errors of an estimated mass, from the number of random signs, nodes times probes.

    A share of the spectrum is tr g / n with 0 <= g <= 1, and sign vectors estimate it with a variance of at most
    2 tr g^2 / n^2 <= 2 (true mass) / n each. The true mass is not known: solve (true - found)^2 = 9 * 2 true / signs
    for it. (The spread among probes would be simpler, but is often 0 by chance for a rare eigenvalue.)
    """
    v = 18 / signs
    return v / 2 + np.sqrt(v * mass.clip(min=0) + v * v / 4)


def _moments(P, centre: float, half: float, count: int, probes: int, seed: int, dtype: torch.dtype, tick) -> np.ndarray:
    """mu_k of (P - centre) / half for every probe, [count, probes]; T_2k and T_2k+1 come from T_k and T_k+1."""
    n = P.shape[0]
    generator = torch.Generator().manual_seed(seed)
    z = (torch.randint(0, 2, (n, probes), generator=generator) * 2 - 1).to(dtype)
    mu = np.zeros((count + 1, probes))
    older = None
    for k, newer in enumerate(chebyshev(Rescaled(P, centre, half), z, (count + 1) // 2)):
        mu[2 * k : 2 * k + 1] = 2 * _dots(newer, newer) - (mu[0] if k else n)
        if older is not None:
            mu[2 * k - 1] = 2 * _dots(newer, older) - (mu[1] if k > 1 else _dots(newer, older))
        older = newer
        if tick:
            tick()
    return mu[:count] / n


def _dots(a: Tensor, b: Tensor) -> np.ndarray:
    return (a * b).sum(0, dtype=torch.float64).numpy()


def _jackson(count: int) -> np.ndarray:
    """Jackson's damping factors: the positive kernel of least variance (Weisse et al. 2006, equation 71)."""
    k, turn = np.arange(count), math.pi / (count + 1)
    return ((count - k + 1) * np.cos(k * turn) + np.sin(k * turn) / math.tan(turn)) / (count + 1)


def _below(mu: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Mass below each edge of a damped series mu [M], exactly: [edges]. In angle it is a cosine series."""
    angle, k = np.arccos(edges), np.arange(1, len(mu))
    return mu[0] - (angle * mu[0] + np.sin(angle[:, None] * k) @ (mu[1:] * 2 / k)) / math.pi


def _blur(mu: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How much mass damping may have carried over each edge: [edges].

    In angle a point mass spreads as Jackson's kernel, whose part beyond an edge is known; but places are known only
    after the blur itself, which halves that part right at an edge (and by less elsewhere): hence the 2.
    """
    cells = 8 * len(mu)  # eight to a kernel's width, so that no edge falls between them
    places = (np.arange(cells) + 0.5) * math.pi / cells
    mass = np.asarray(dct(mu, type=3, n=cells)).clip(min=0) / cells
    half = np.asarray(dct(_jackson(len(mu)), type=3, n=cells)).cumsum() / (2 * cells)
    reach = np.concatenate([[0], half, 1 - half[-2::-1], [1]])  # the kernel's integral from 0 to 0 .. 2 pi
    turn = np.linspace(0, 2 * math.pi, len(reach))
    carried = []
    for angle in np.arccos(edges):
        gap = angle - places
        above = np.sign(gap) * np.interp(abs(gap), turn, reach) + np.interp(angle + places, turn, reach)
        carried.append(2 * mass @ np.where(gap < 0, above, 1 - above))
    return np.array(carried)
