r"""The spectrum of an operator, exactly on small graphs and by Lanczos and Chebyshev moments on large ones."""

from collections.abc import Iterable

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from adaptkry.common import checks
from adaptkry.spectral.basis_function import Basis, dense
from adaptkry.spectral.operators import Operator, as_operator
from adaptkry.spectral.propagation import Propagation

DENSE_LIMIT = 8000  # nodes; a dense float64 matrix of that size is 0.5 GB and takes about a minute
SMALL = 256  # nodes; up to here a dense matrix is as fast as Lanczos, and exact


def eigenvalues(P: Operator, limit: int = DENSE_LIMIT) -> Tensor:
    """All eigenvalues of a symmetric operator, rising, float64 [n]; dense, so for up to `limit` nodes."""
    return torch.linalg.eigvalsh(_dense(P, limit))


def _dense(P: Operator, limit: int) -> Tensor:
    P = _symmetric(P)
    n = P.shape[0]
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
    P = _symmetric(P)
    n = P.shape[0]
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


def _symmetric(P: Operator | Tensor) -> Operator:
    P = as_operator(P)
    if not P.is_symmetric:
        raise ValueError(f"a real spectrum needs a symmetric operator; got {P!r}. Use direction='both'.")
    if P.is_batched:
        raise ValueError(f"a spectrum needs an operator with one tau; got {P!r}. Build one operator per tau.")
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


def angles(terms: Iterable[Tensor]) -> Tensor:
    """Mean angle in degrees between consecutive terms, column by column, float64 [K] (the paper's Figure 3).

    A column that is zero at either hop has no direction and counts as 0 degrees, as in the paper.
    """
    found = []
    if isinstance(terms, Basis):
        terms = terms.of(dense(terms.x).double())  # an arc cosine near 1 loses half its digits
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
