r"""The spectrum of a symmetric operator and the geometry of its Krylov spaces.

All eigenvalues come from a dense matrix (`eigenvalues`, small graphs); the ends of the spectrum from Lanczos
(`extremes`, `lambda_star`); its distribution on large graphs from Chebyshev moments (`density.density_of_states`).
`angles` and `grade` describe the terms that a signal generates.

>>> from adaptkry.graphs.graph import Graph
>>> triangle = Propagation(Graph([[0, 1, 2], [1, 2, 0]]), tau=1.0)
>>> eigenvalues(triangle)
tensor([-0.5000, -0.5000,  1.0000], dtype=torch.float64)
>>> smallest, largest = extremes(triangle)
>>> round(float(smallest), 6), round(float(largest), 6)
(-0.5, 1.0)
>>> grade(triangle, torch.tensor([1.0, 1.0, 1.0])), grade(triangle, torch.tensor([1.0, 0.0, 0.0]))
(1, 2)
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from adaptkry.common import checks
from adaptkry.spectral.basis_function import Basis, dense
from adaptkry.spectral.operators import Operator, as_operator
from adaptkry.spectral.propagation_matrix import Propagation

DENSE_LIMIT = 8000  # nodes; a dense float64 matrix of that size is 0.5 GB and takes about a minute
SMALL = 256  # nodes; up to here a dense matrix is as fast as Lanczos, and exact

MatVec = Callable[[np.ndarray], np.ndarray]


def eigenvalues(P: Operator | Tensor, limit: int = DENSE_LIMIT) -> Tensor:
    """All eigenvalues of a symmetric operator with at most `limit` rows, in rising order, float64 [n]."""
    P = _symmetric(P)
    check_dense_size(P, limit)
    return torch.linalg.eigvalsh(P.to_dense())


def eigendecomposition(P: Operator | Tensor, limit: int = DENSE_LIMIT) -> tuple[Tensor, Tensor]:
    """All eigenvalues [n] in rising order and their eigenvectors, the columns of U [n, n], in float64."""
    P = _symmetric(P)
    check_dense_size(P, limit)
    values, U = torch.linalg.eigh(P.to_dense())
    return values, U


def check_dense_size(P: Operator, limit: int) -> None:
    """Refuse operators with more than `limit` rows."""
    n = P.shape[0]
    if n > limit:
        raise ValueError(
            f"all eigenvalues need a dense matrix of at most {limit} nodes; got {n} nodes, a matrix of "
            f"{8e-9 * n**2:.1f} GB. Use density_of_states or extremes, or raise limit=."
        )


def extremes(P: Operator | Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """The `count` smallest and the `count` largest eigenvalues, each in rising order, by Lanczos (ARPACK).

    Repeated eigenvalues are repeated here. A Krylov space contains only one vector of each eigenspace, so they are
    found one after the other, each after the eigenvalues found before have been moved to the other end.
    """
    P = _symmetric(P)
    n = P.shape[0]
    if checks.count(count, "count") < 1:
        raise ValueError(f"count must be 1 or more; got {count}. Try 1.")
    if n <= max(SMALL, 4 * count):
        found = eigenvalues(P)
        return found[:count], found[-count:]
    product = _matvec(P)
    pairs = {end: [_eigsh(product, n, end)] for end in ("SA", "LA")}
    low, high = (pairs[end][0][0] for end in pairs)
    margin = 0.1 * (high - low + max(abs(low), abs(high)))  # outside the spectrum even if that is a single point
    for end, away in (("SA", high + margin), ("LA", low - margin)):
        for seed in range(1, count):
            done = np.linalg.qr(np.stack([vector for _, vector in pairs[end]], 1))[0]
            pairs[end].append(_eigsh(_moved(product, done, away), n, end, seed))
    lowest, highest = (torch.tensor(sorted(value for value, _ in pairs[end]), dtype=torch.float64) for end in pairs)
    return lowest, highest


def lambda_star(P: Propagation) -> float:
    r"""The paper's :math:`\lambda^\ast = \max(-\lambda_1, \lambda_{n-1})`: how slowly hops converge (Theorem 1).

    The largest eigenvalue of :math:`P_\tau` is 1, with the eigenvector :math:`D_\tau^{1/2} 1` for each component. Two
    components mean a second 1; otherwise that eigenvalue is moved to 0, and :math:`\lambda^\ast` is the largest
    remaining one in absolute value.

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
        raise ValueError("lambda* needs a second eigenvalue; got a graph of one node. Use two nodes or more.")
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


def _matvec(P: Operator) -> MatVec:
    return lambda v: (P @ torch.from_numpy(np.ascontiguousarray(v, dtype=np.float64)).reshape(-1)).numpy()


def _moved(product: MatVec, vectors: np.ndarray, value: float) -> MatVec:
    """The same operator with the eigenvalues of these orthonormal eigenvectors [n, k] changed to `value`."""

    def matvec(v):
        part = vectors @ (vectors.T @ v)
        rest = product(v - part)
        return rest - vectors @ (vectors.T @ rest) + value * part

    return matvec


def _eigsh(matvec: MatVec, n: int, which: str, seed: int = 0) -> tuple[float, np.ndarray]:
    """One eigenvalue at an end of the spectrum, and its eigenvector."""
    operator = LinearOperator((n, n), matvec=matvec, dtype=np.float64)  # type: ignore[call-arg]
    start = np.random.default_rng(seed).standard_normal(n)  # fixed: the same graph gives the same digits
    if not matvec(start).any():  # the zero matrix, which ARPACK refuses
        return 0.0, start / np.linalg.norm(start)
    # A long Lanczos run between restarts: 7 times fewer products than SciPy's 20 on a path of 2000 nodes.
    width = 64 if n < 2**20 else 20
    values, vectors = eigsh(operator, k=1, which=which, v0=start, ncv=width, tol=1e-10)  # type: ignore[misc]
    return float(values[0]), vectors[:, 0]


def angles(terms: Iterable[Tensor]) -> Tensor:
    """Mean angle in degrees between consecutive terms, column by column, float64 [K] (the paper's Figure 3).

    A column that is zero in either term has no direction and counts as 0 degrees, as in the paper.

    >>> angles([torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), torch.tensor([-1.0, 0.0])])
    tensor([ 45., 135.], dtype=torch.float64)
    """
    found = []
    if isinstance(terms, Basis):
        terms = terms.of(dense(terms.x).double())  # an arc cosine near 1 loses half its digits
    older = None
    for newer in terms:
        if newer.ndim > 2:
            raise ValueError(
                f"angles need terms [n, d] of one operator; got {list(newer.shape)}. Use one tau at a time."
            )
        if older is not None:
            size = older.norm(dim=0) * newer.norm(dim=0)
            cosine = (older * newer).sum(0) / torch.where(size > 0, size, 1)
            angle = torch.rad2deg(torch.arccos(cosine.clamp(-1, 1)))
            found.append(torch.where(size > 0, angle, 0).double().mean())
        older = newer
    if not found:
        raise ValueError("angles need at least two terms; got fewer. Use a basis of degree 1 or more.")
    return torch.stack(found)


def grade(P: Operator | Tensor, x: Tensor, limit: int = DENSE_LIMIT) -> int:
    """Dimension of the Krylov space of one signal: beyond it further hops add nothing (Definition 2).

    For a symmetric operator this is the number of distinct eigenvalues among whose eigenvectors the signal has a
    component, and it is counted in this way: eigenvalues closer than 1e-9 are one, and components below half of the
    digits are none. (Lanczos ends at the grade too, but only in exact arithmetic; in floating point it continues with
    amplified rounding noise.)

    >>> from adaptkry.graphs.graph import Graph
    >>> star = Graph([[0, 0, 0], [1, 2, 3]])
    >>> x = star.degree().sqrt()
    >>> [grade(Propagation(star, tau), x) for tau in (1.0, 0.5)]    # the paper's footnote says: the same
    [1, 2]
    """
    x = checks.floats(x, "the signal")
    if x.squeeze().ndim != 1 and x.numel() != 1:
        raise ValueError(f"the grade needs one signal [n]; got {list(x.shape)}. Call it once per column.")
    values, U = eigendecomposition(P, limit)
    apart = values.diff() > 1e-9 * values.abs().max()
    which = torch.cat([torch.zeros(1, dtype=torch.long), apart.cumsum(0)])  # [n] number of each eigenspace
    energy = torch.zeros_like(values).index_add(0, which, (U.T @ x.double().reshape(-1)).square())
    return int((energy.sqrt() > torch.finfo(x.dtype).eps ** 0.5 * x.double().norm()).sum())
