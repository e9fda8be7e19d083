r"""The spectrum of an operator, exactly on small graphs and by Lanczos and Chebyshev moments on large ones."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import dct
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from adaptkry.common import checks
from adaptkry.spectral.bases import Basis, chebyshev, dense
from adaptkry.spectral.operators import Operator, Propagation

ROUNDING = 2e-6  # of a share of the spectrum, from moments in float32
DENSE_LIMIT = 8000  # nodes; a dense float64 matrix of that size is 0.5 GB and takes about a minute
SMALL = 256  # nodes; up to here a dense matrix is as fast as Lanczos, and exact


def eigenvalues(P: Operator, limit: int = DENSE_LIMIT) -> Tensor:
    """All eigenvalues of a symmetric operator, rising, float64 [n]; dense, so for up to `limit` nodes."""
    return torch.linalg.eigvalsh(_dense(P, limit))


def _dense(P: Operator, limit: int) -> Tensor:
    n = _symmetric(P).shape[0]
    if n > limit:
        raise ValueError(
            f"all eigenvalues of {n} nodes need a dense matrix of {8e-9 * n**2:.1f} GB; "
            f"the limit is {limit} nodes. Use density_of_states or extremes, or raise limit=."
        )
    return P.to_dense()


def extremes(P: Operator, count: int = 1) -> tuple[Tensor, Tensor]:
    """The `count` smallest and the `count` largest eigenvalues, each rising, by Lanczos (ARPACK).

    Repeated eigenvalues are repeated here. A Krylov space holds but one vector of each eigenspace, so they are
    found one after the other, each with those before it moved out of the way.
    """
    n = _symmetric(P).shape[0]
    if checks.count(count, "count") < 1:
        raise ValueError(f"count must be 1 or more, but {count} came.")
    if n <= max(SMALL, 4 * count):
        found = eigenvalues(P)
        return found[:count], found[-count:]
    product = _matvec(P)
    pairs = {end: [_eigsh(product, n, end)] for end in ("SA", "LA")}
    low, high = (pairs[end][0][0] for end in pairs)
    margin = 0.1 * (high - low + max(abs(low), abs(high)))  # clear of the spectrum even where that is one point
    for end, away in (("SA", high + margin), ("LA", low - margin)):
        for turn in range(1, count):
            done = np.linalg.qr(np.stack([vector for _, vector in pairs[end]], 1))[0]
            pairs[end].append(_eigsh(_moved(product, done, away), n, end, turn))
    lowest, highest = (torch.tensor(sorted(value for value, _ in pairs[end]), dtype=torch.float64) for end in pairs)
    return lowest, highest


def lambda_star(P: Propagation) -> float:
    r"""The paper's :math:`\lambda^\ast = \max(-\lambda_1, \lambda_{n-1})`: how slowly hops forget (Theorem 1).

    The largest eigenvalue of :math:`P_\tau` is 1 with the known eigenvector :math:`D_\tau^{1/2} 1` for each
    component. Two components mean a second 1; otherwise that vector is taken out and the eigenvalue largest in
    size is what remains.

    >>> from adaptkry.graphs.graph import Graph
    >>> triangle = Graph([[0, 1, 2], [1, 2, 0]])        # eigenvalues 1, -1/2, -1/2
    >>> round(lambda_star(Propagation(triangle, 1.0)), 6)
    0.5
    """
    n = _symmetric(P).shape[0]
    components, _ = P.graph.components()
    if components > 1:
        return max(1.0, -float(extremes(P)[0]))
    if n == 1:
        raise ValueError("lambda* is the second largest eigenvalue in size, but a graph of one node has only one.")
    if n <= SMALL:
        values = eigenvalues(P)
        return max(-float(values[0]), float(values[-2]))
    top = 1 / P.left[0].numpy()  # D_tau^{1/2}
    top = top / np.linalg.norm(top)
    return abs(_eigsh(_moved(_matvec(P), top[:, None], 0.0), n, "LM")[0])


def _symmetric(P):
    if not getattr(P, "is_symmetric", True):
        raise ValueError(f"a real spectrum needs a symmetric operator, but {P!r} is not. Use direction='both'.")
    if getattr(P, "is_many", False):
        raise ValueError(f"the spectrum belongs to one tau, but {P!r} has several. Make one operator for each.")
    return P


def _matvec(P):
    return lambda v: (P @ torch.from_numpy(np.ascontiguousarray(v, dtype=np.float64)).reshape(-1)).numpy()


def _moved(product, vectors: np.ndarray, value: float):
    """The same operator with the eigenvalues of these orthonormal eigenvectors [n, k] changed to `value`."""

    def matvec(v):
        part = vectors @ (vectors.T @ v)
        rest = product(v - part)
        return rest - vectors @ (vectors.T @ rest) + value * part

    return matvec


def _eigsh(matvec, n: int, which: str, seed: int = 0) -> tuple[float, np.ndarray]:
    """One eigenvalue at an end of the spectrum, and its eigenvector."""
    operator = LinearOperator((n, n), matvec=matvec, dtype=np.float64)  # type: ignore[call-arg]
    start = np.random.default_rng(seed).standard_normal(n)  # fixed: the same graph gives the same figures
    if not matvec(start).any():  # the zero matrix, which ARPACK refuses
        return 0.0, start / np.linalg.norm(start)
    # A long Lanczos run between restarts: 7 times fewer products than SciPy's 20 on a path of 2000 nodes.
    width = 64 if n < 2**20 else 20
    values, vectors = eigsh(operator, k=1, which=which, v0=start, ncv=width, tol=1e-10)  # type: ignore[misc]
    return float(values[0]), vectors[:, 0]


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
    for k, newer in enumerate(chebyshev(_Scaled(P, centre, half), z, (count + 1) // 2)):
        mu[2 * k : 2 * k + 1] = 2 * _dots(newer, newer) - (mu[0] if k else n)
        if older is not None:
            mu[2 * k - 1] = 2 * _dots(newer, older) - (mu[1] if k > 1 else _dots(newer, older))
        older = newer
        if tick:
            tick()
    return mu[:count] / n


def _dots(a: Tensor, b: Tensor) -> np.ndarray:
    return (a * b).sum(0, dtype=torch.float64).numpy()


class _Scaled:
    """(P - centre) / half: the spectrum moved into [-1, 1], where Chebyshev polynomials live."""

    def __init__(self, P, centre: float, half: float):
        self.P, self.centre, self.half = P, centre, half

    def __matmul__(self, x: Tensor) -> Tensor:
        return (self.P @ x).sub_(x, alpha=self.centre).div_(self.half)


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


def angles(terms: Iterable[Tensor]) -> Tensor:
    """Mean angle in degrees between consecutive terms, column by column, float64 [K] (the paper's Figure 3).

    A column that is zero at either hop has no direction and counts as 0 degrees, as in the paper.
    """
    found = []
    if isinstance(terms, Basis):
        terms = _in_double(terms)
    older = None
    for newer in terms:
        if newer.ndim > 2:
            raise ValueError(
                f"angles belong to one operator, but terms {list(newer.shape)} came. Use one tau at a time."
            )
        if older is not None:
            size = older.norm(dim=0) * newer.norm(dim=0)
            cosine = (older * newer).sum(0) / torch.where(size > 0, size, 1)
            angle = torch.rad2deg(torch.arccos(cosine.clamp(-1, 1)))
            found.append(torch.where(size > 0, angle, 0).double().mean())
        older = newer
    if not found:
        raise ValueError("angles need at least two terms; use a basis of degree 1 or more.")
    return torch.stack(found)


def _in_double(basis: Basis) -> Basis:
    """The same basis in float64: an arc cosine near 1 loses half its digits."""
    return Basis(basis.terms, basis.P, dense(basis.x).double(), basis.degree)


def grade(P: Operator, x: Tensor, limit: int = DENSE_LIMIT) -> int:
    """Dimension of the Krylov space of one signal: beyond it further hops add nothing (Definition 2).

    For a symmetric operator it is the number of distinct eigenvalues that the signal meets, and is counted as such:
    eigenvalues closer than 1e-9 are one, and parts of the signal below half its digits are none. (Lanczos ends at
    the grade as well, but only in exact arithmetic; on a computer it goes on with amplified rounding noise.)

    >>> from adaptkry.graphs.graph import Graph
    >>> star = Graph([[0, 0, 0], [1, 2, 3]])
    >>> x = star.degree().sqrt()
    >>> [grade(Propagation(star, tau), x) for tau in (1.0, 0.5)]    # the paper's footnote says: the same
    [1, 2]
    """
    x = checks.floats(x, "the signal")
    if x.squeeze().ndim != 1 and x.numel() != 1:
        raise ValueError(f"the grade belongs to one signal [n], but {list(x.shape)} came.")
    values, U = torch.linalg.eigh(_dense(P, limit))
    apart = values.diff() > 1e-9 * values.abs().max()
    which = torch.cat([torch.zeros(1, dtype=torch.long), apart.cumsum(0)])  # [n] number of each eigenspace
    energy = torch.zeros_like(values).index_add(0, which, (U.T @ x.double().reshape(-1)).square())
    return int((energy.sqrt() > torch.finfo(x.dtype).eps ** 0.5 * x.double().norm()).sum())
