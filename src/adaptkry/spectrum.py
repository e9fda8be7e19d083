r"""The spectrum of an operator, exactly on small graphs and by Lanczos and Chebyshev moments on large ones."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from adaptkry import checks
from adaptkry.bases import Basis, chebyshev, dense, lanczos
from adaptkry.operators import Operator, Propagation

ROUNDING = 2e-6  # of a share of the spectrum, from moments in float32
DENSE_LIMIT = 8000  # nodes; a dense float64 matrix of that size is 0.5 GB and takes about a minute


def eigenvalues(P: Operator, limit: int = DENSE_LIMIT) -> Tensor:
    """All eigenvalues of a symmetric operator, rising, float64 [n]; dense, so for up to `limit` nodes."""
    if P.shape[0] > limit:
        raise ValueError(
            f"all eigenvalues of {P.shape[0]} nodes need a dense matrix of {8e-9 * P.shape[0] ** 2:.1f} GB; the limit is "
            f"{limit} nodes. Use density_of_states or extremes, or raise limit=."
        )
    return torch.linalg.eigvalsh(_symmetric(P).to_dense())


def extremes(P: Operator, count: int = 1) -> tuple[Tensor, Tensor]:
    """The `count` smallest and the `count` largest eigenvalues, each rising, by Lanczos (ARPACK)."""
    n = _symmetric(P).shape[0]
    count = checks.count(count, "count")
    if n <= max(64, 4 * count):  # too small for Lanczos to be worth its while
        found = eigenvalues(P)
        return found[:count], found[-count:]
    low, high = (_eigsh(_matvec(P), n, count, which) for which in ("SA", "LA"))
    return low, high


def lambda_star(P: Propagation) -> float:
    r"""The paper's :math:`\lambda^\ast = \max(-\lambda_1, \lambda_{n-1})`: how slowly hops forget (Theorem 1).

    The largest eigenvalue of :math:`P_\tau` is 1 with the known eigenvector :math:`D_\tau^{1/2} 1` for each
    component. Two components mean a second 1; otherwise that vector is taken out and the eigenvalue largest in
    size is what remains.

    >>> from adaptkry.graph import Graph
    >>> triangle = Graph([[0, 1, 2], [1, 2, 0]])        # eigenvalues 1, -1/2, -1/2
    >>> round(lambda_star(Propagation(triangle, 1.0)), 6)
    0.5
    """
    n = _symmetric(P).shape[0]
    components, _ = P.graph.components()
    lowest = float(extremes(P)[0][0])
    if components > 1:
        return max(1.0, -lowest)
    if n == 1:
        raise ValueError("lambda* is the second largest eigenvalue in size, but a graph of one node has only one.")
    top = 1 / P.left[0].numpy()  # D_tau^{1/2}
    top = top / np.linalg.norm(top)
    product = _matvec(P)
    if n <= 64:
        return max(-lowest, float(eigenvalues(P)[-2]))
    return float(_eigsh(lambda v: product(v) - top * (top @ v), n, 1, "LM").abs())


def _symmetric(P):
    if not getattr(P, "is_symmetric", True):
        raise ValueError(f"a real spectrum needs a symmetric operator, but {P!r} is not. Use direction='both'.")
    if getattr(P, "is_many", False):
        raise ValueError(f"the spectrum belongs to one tau, but {P!r} has several. Make one operator for each.")
    return P


def _matvec(P):
    return lambda v: (P @ torch.from_numpy(np.ascontiguousarray(v, dtype=np.float64)).reshape(-1)).numpy()


def _eigsh(matvec, n: int, count: int, which: str) -> Tensor:
    operator = LinearOperator((n, n), matvec=matvec, dtype=np.float64)  # type: ignore[call-arg]
    start = np.random.default_rng(0).standard_normal(n)  # fixed: the same graph gives the same figures
    found = eigsh(operator, k=count, which=which, v0=start, return_eigenvectors=False, tol=1e-10)
    return torch.from_numpy(np.sort(found))


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
    centre, half = (high + low) / 2, max((high - low) / 2, 1e-8) * (1 + 1e-6)
    mu = _moments(P, centre, half, moments, probes, seed, tick) * _jackson(moments)[:, None]  # [M, probes]
    edges = np.linspace(-1, 1, bins + 1)
    below = _below(mu, edges)  # [bins + 1, probes]
    share = np.diff(below, axis=0)
    blur = _blur(mu.mean(1, keepdims=True), edges)
    error = 3 * share.std(1, ddof=1) / math.sqrt(probes) + blur[1:] + blur[:-1] + ROUNDING
    return Density(centre + half * edges, share.mean(1), error)


def _moments(P, centre: float, half: float, count: int, probes: int, seed: int, tick) -> np.ndarray:
    """mu_k of (P - centre) / half for every probe, [count, probes]; T_2k and T_2k+1 come from T_k and T_k+1."""
    n = P.shape[0]
    generator = torch.Generator().manual_seed(seed)
    z = (torch.randint(0, 2, (n, probes), generator=generator) * 2 - 1).float()
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
    """Mass below each edge of damped series mu [M, p], exactly: [edges, p]. In angle it is a cosine series."""
    angle, k = np.arccos(edges), np.arange(1, len(mu))
    tail = np.sin(angle[:, None] * k) @ (mu[1:] * 2 / k[:, None])
    return mu[0] - (angle[:, None] * mu[0] + tail) / math.pi


def _blur(mu: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How much mass damping may have carried over each edge: [edges].

    A point mass in place spreads as Jackson's kernel, whose part beyond an edge is known exactly; the places are
    known only after the blur itself, which can halve that part right at an edge: hence the 2.
    """
    fine = np.linspace(-1, 1, 20 * len(edges))
    mass = np.diff(_below(mu, fine)[:, 0]).clip(min=0)
    places = np.arccos((fine[1:] + fine[:-1]) / 2)
    kernel = _jackson(len(mu))[:, None] * np.cos(np.arange(len(mu))[:, None] * places)  # [M, places]
    below = _below(kernel, edges)  # [edges, places]
    beyond = np.where(np.cos(places) < edges[:, None], 1 - below, below)
    return 2 * np.abs(beyond) @ mass


def angles(terms: Iterable[Tensor]) -> Tensor:
    """Mean angle in degrees between consecutive terms, column by column, float64 [K] (the paper's Figure 3).

    A column that is zero at either hop has no direction and counts as 0 degrees, as in the paper.
    """
    found = []
    if isinstance(terms, Basis):
        terms = _in_double(terms)
    older = None
    for newer in terms:
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


def grade(P: Operator, x: Tensor, limit: int | None = None) -> int:
    """Dimension of the Krylov space of one signal: beyond it further hops add nothing (Definition 2).

    >>> from adaptkry.graph import Graph
    >>> star = Graph([[0, 0, 0], [1, 2, 3]])
    >>> x = star.degree().sqrt()
    >>> [grade(Propagation(star, tau), x) for tau in (1.0, 0.5)]    # the paper's footnote says: the same
    [1, 2]
    """
    x = checks.floats(x, "the signal").double()
    if x.squeeze().ndim != 1 and x.numel() != 1:
        raise ValueError(f"the grade belongs to one signal [n], but {list(x.shape)} came.")
    steps = lanczos(_symmetric(P), x.reshape(-1, 1), (limit or P.shape[0]), reorthogonalise=True)
    return sum(bool(step.beta > 0) for step in steps)
