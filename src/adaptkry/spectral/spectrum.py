r"""The spectrum of a symmetric operator and the geometry of its Krylov spaces.

`eigenvalues` computes all eigenvalues from a dense matrix (small graphs); `extremes` and `lambda_star` compute the ends
of the spectrum by Lanczos, and `bounds` encloses it within a few steps; `density.density_of_states` estimates the
distribution of the eigenvalues, for large graphs, from Chebyshev moments. `angles` and `grade` describe the Krylov
space of a signal.

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
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from adaptkry.common import checks
from adaptkry.spectral.basis_function import Basis, dense
from adaptkry.spectral.lanczos import lanczos
from adaptkry.spectral.operators import Operator, as_operator
from adaptkry.spectral.propagation_matrix import Propagation

DENSE_LIMIT = (
    8000  # nodes; a dense float64 matrix of that size has 0.5 GB, and its eigendecomposition takes about a minute
)
SMALL = 256  # nodes; up to this size a dense eigendecomposition is as fast as Lanczos, and exact

BOUND_STEPS = 40  # products with P for `bounds`

MatVec = Callable[[np.ndarray], np.ndarray]


def eigenvalues(P: Operator | Tensor, limit: int = DENSE_LIMIT) -> Tensor:
    """All eigenvalues of a symmetric operator with at most `limit` rows, in ascending order, float64 [n]."""
    P = _symmetric(P)
    check_dense_size(P, limit)
    return torch.linalg.eigvalsh(P.to_dense())


def eigendecomposition(P: Operator | Tensor, limit: int = DENSE_LIMIT) -> tuple[Tensor, Tensor]:
    """All eigenvalues [n] in ascending order and their eigenvectors, the columns of U [n, n], in float64."""
    P = _symmetric(P)
    check_dense_size(P, limit)
    values, U = torch.linalg.eigh(P.to_dense())
    return values, U


def check_dense_size(P: Operator, limit: int) -> None:
    """Raise ValueError if an operator has more than `limit` rows."""
    n = P.shape[0]
    if n > checks.count(limit, "limit"):
        raise ValueError(
            f"all eigenvalues need a dense matrix, so a graph of at most {limit} nodes; got {n} nodes, a matrix of "
            f"{8e-9 * n**2:.1f} GB. Use density_of_states or extremes, or raise limit=."
        )


def extremes(P: Operator | Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """The `count` smallest and the `count` largest eigenvalues, each in ascending order, by Lanczos (ARPACK).

    Eigenvalues are returned with their multiplicity. A Krylov space contains only one vector of each eigenspace, so
    they are computed one after another; each time, those found so far are moved to the other end of the spectrum.
    """
    P = _symmetric(P)
    n = P.shape[0]
    checks.positive_count(count, "count")
    if n <= max(SMALL, 4 * count):
        values = eigenvalues(P)
        return values[:count], values[-count:]
    product = _matvec(P)
    pairs = {end: [_eigsh(product, n, end)] for end in ("SA", "LA")}
    low, high = (pairs[end][0][0] for end in pairs)
    margin = 0.1 * (high - low + max(abs(low), abs(high)))  # outside the spectrum even if that is a single point
    for end, target in (("SA", high + margin), ("LA", low - margin)):
        for seed in range(1, count):
            found = np.linalg.qr(np.stack([vector for _, vector in pairs[end]], 1))[0]
            pairs[end].append(_eigsh(_with_eigenvalue(product, found, target), n, end, seed))
    lowest, highest = (torch.tensor(sorted(value for value, _ in pairs[end]), dtype=torch.float64) for end in pairs)
    return lowest, highest


def bounds(P: Operator | Tensor, steps: int = BOUND_STEPS, seed: int = 0) -> tuple[float, float]:
    """Bounds of the spectrum from a few steps of Lanczos: below the smallest eigenvalue and above the largest.

    A Ritz value differs from an eigenvalue by at most the norm of its residual. Each end is moved outwards by twice
    that norm, and by a thousandth of the width, in case the random start nearly misses an eigenvalue beyond it.
    """
    P = _symmetric(P)
    n = P.shape[0]
    checks.positive_count(steps, "steps")
    if n <= SMALL:
        values = eigenvalues(P)
        return float(values[0]), float(values[-1])
    start = torch.randn(n, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = [(float(step.alpha), float(step.beta)) for step in lanczos(P, start, steps)][1:]
    if not found:  # P maps the start to 0
        return 0.0, 0.0
    alpha, beta = zip(*found, strict=True)
    ritz, vectors = eigh_tridiagonal(alpha, beta[:-1])
    low, high = 2 * beta[-1] * np.abs(vectors[-1, [0, -1]]) + 1e-3 * (ritz[-1] - ritz[0])
    return float(ritz[0] - low), float(ritz[-1] + high)


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
    if not isinstance(P, Propagation):
        raise TypeError(f"lambda* needs a Propagation; got {type(P).__name__}. Use Propagation(graph, tau).")
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
    return abs(_eigsh(_with_eigenvalue(_matvec(P), top[:, None], 0.0), n, "LM")[0])


def _symmetric(P: Operator | Tensor) -> Operator:
    P = as_operator(P)
    if not P.is_symmetric:
        raise ValueError(f"a real spectrum needs a symmetric operator; got {P!r}. Use direction='both'.")
    if P.is_batched:
        raise ValueError(f"a spectrum needs an operator with one tau; got {P!r}. Build one operator per tau.")
    return P


def _matvec(P: Operator) -> MatVec:
    return lambda v: (P @ torch.from_numpy(np.ascontiguousarray(v, dtype=np.float64)).reshape(-1)).numpy()


def _with_eigenvalue(product: MatVec, vectors: np.ndarray, value: float) -> MatVec:
    """The same operator with the eigenvalues of these orthonormal eigenvectors [n, k] changed to `value`."""

    def matvec(v):
        part = vectors @ (vectors.T @ v)
        rest = product(v - part)
        return rest - vectors @ (vectors.T @ rest) + value * part

    return matvec


def _eigsh(matvec: MatVec, n: int, which: str, seed: int = 0) -> tuple[float, np.ndarray]:
    """One eigenvalue at an end of the spectrum, and its eigenvector."""
    operator = LinearOperator((n, n), matvec=matvec, dtype=np.float64)  # type: ignore[call-arg]
    start = np.random.default_rng(seed).standard_normal(n)  # fixed seed: reproducible results
    if not matvec(start).any():  # ARPACK raises an error for the zero matrix
        return 0.0, start / np.linalg.norm(start)
    # More Lanczos vectors than SciPy's default of 20: 7 times fewer products on a path of 2000 nodes.
    lanczos_vectors = 64 if n < 2**20 else 20
    values, vectors = eigsh(operator, k=1, which=which, v0=start, ncv=lanczos_vectors, tol=1e-10)  # type: ignore[misc]
    return float(values[0]), vectors[:, 0]


def angles(terms: Iterable[Tensor]) -> Tensor:
    """Mean angle in degrees between consecutive terms, column by column, float64 [K] (the paper's Figure 3).

    A column that is zero in either term has no direction and counts as 0 degrees, as in the paper.

    >>> angles([torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), torch.tensor([-1.0, 0.0])])
    tensor([ 45., 135.], dtype=torch.float64)
    """
    if not isinstance(terms, Iterable):
        raise TypeError(f"angles need terms, such as krylov(P, x, 10); got {type(terms).__name__}.")
    found = []
    if isinstance(terms, Basis):
        terms = terms.of(dense(terms.x).double())  # in float64, because the arc cosine near 1 loses half of the digits
    previous = None
    for current in terms:
        if current.ndim > 2:
            raise ValueError(
                f"angles need terms [n, d] of one operator; got {list(current.shape)}. Use one tau at a time."
            )
        if previous is not None:
            norms = previous.norm(dim=0) * current.norm(dim=0)
            cosine = (previous * current).sum(0) / torch.where(norms > 0, norms, 1)
            angle = torch.rad2deg(torch.arccos(cosine.clamp(-1, 1)))
            found.append(torch.where(norms > 0, angle, 0).double().mean())
        previous = current
    if not found:
        raise ValueError(
            f"angles need at least two terms; got {int(previous is not None)}. Use a basis of degree 1 or more."
        )
    return torch.stack(found)


def grade(P: Operator | Tensor, x: Tensor, limit: int = DENSE_LIMIT) -> int:
    """Dimension of the Krylov space of one signal: further hops are combinations of earlier ones (Definition 2).

    For a symmetric operator this is the number of distinct eigenvalues in whose eigenspaces the signal has a component.
    Eigenvalues with a relative difference below 1e-9 count as equal, and components below sqrt(eps) of the norm of the
    signal count as zero. (Lanczos stops at the grade too, but only in exact arithmetic; in floating point it continues
    with amplified rounding errors.)

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
    is_distinct = values.diff() > 1e-9 * values.abs().max()
    eigenspace = torch.cat([torch.zeros(1, dtype=torch.long), is_distinct.cumsum(0)])  # [n]
    energy = torch.zeros_like(values).index_add(0, eigenspace, (U.T @ x.double().reshape(-1)).square())
    return int((energy.sqrt() > torch.finfo(x.dtype).eps ** 0.5 * x.double().norm()).sum())
