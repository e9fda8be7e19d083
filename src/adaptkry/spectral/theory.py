r"""The paper's propositions and theorems as functions that test them on a graph.

Each function returns a `Check`: the claim, the measurement, and whether the claim holds. Where the paper has an error,
the corrected statement is tested and a note describes the correction; `docs/theory.md` explains each with an example.

>>> triangle = Graph([[0, 1, 2], [1, 2, 0]])
>>> found = hops_converge(triangle, tau=0.5)
>>> found.name, found.holds
('Theorem 1', True)
>>> print(found.claim)
entries of P^K within 0.1 of their limit for K >= ... (tau 0.5)
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph, require_graph
from adaptkry.spectral import spectrum
from adaptkry.spectral.bases import BASES, krylov, stack
from adaptkry.spectral.filters import Filter
from adaptkry.spectral.lanczos import orthonormal
from adaptkry.spectral.propagation_matrix import Laplacian, Propagation

TAUS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
ROUNDING = 1e-8


@dataclass(frozen=True)
class Check:
    """One claim, tested on one graph."""

    name: str
    claim: str
    measured: str
    holds: bool
    note: str = ""


def every_filter_is_krylov(graph: Graph, *, degree: int = 8, tau: float = 1.0, seed: int = 0) -> Check:
    """Proposition 1: every polynomial filter of degree K is a combination of x, Px, ..., P^K x."""
    P, x = Propagation(_undirected(graph), tau), _signal(graph, seed)
    worst = 0.0
    fixed = [basis for basis in BASES.values() if basis.response_from == "polynomial"]
    for basis in fixed:
        wanted = Filter(degree, basis).double().requires_grad_(False)
        wanted.theta.normal_(generator=torch.Generator().manual_seed(seed))
        direct = wanted(stack(wanted.basis(P, x, degree)))
        through = wanted.to_krylov()(stack(krylov(P, x, degree))).detach()
        worst = max(worst, float((direct - through).norm() / direct.norm()))
    return Check(
        "Proposition 1",
        f"random filters over {len(fixed)} bases of degree {degree} lie in the Krylov space",
        f"largest relative difference after conversion to monomials {worst:.1e}",
        worst < ROUNDING,
    )


def optimal_filter_has_grade_terms(graph: Graph, *, tau: float = 1.0, terms: int = 8, seed: int = 0) -> Check:
    r"""Proposition 2: a filter of degree t - 1, t the grade of x, equals any spectral filter g on x.

    Tested on a signal with components at `terms` well-separated eigenvalues only, and with the worst g, which
    alternates between +1 and -1 on them; fewer than t terms must not suffice. (With components at all eigenvalues the
    test would be weak: n terms span the whole space, and for a smooth g a dozen terms are exact up to rounding.)
    """
    P = Propagation(_undirected(graph), tau)
    values, U = torch.linalg.eigh(P.to_dense())
    chosen = _spread(values, terms)
    count = len(chosen)
    part = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 1
    x, wanted = U[:, chosen] @ part, U[:, chosen] @ (part * (-1.0) ** torch.arange(count))
    t = spectrum.grade(P, x)
    Q = stack(list(orthonormal(P, x[:, None], t - 1, reorthogonalise=True)))[:, :, 0]  # [n, t]
    missing = [float((wanted - q @ (q.T @ wanted)).norm() / wanted.norm()) for q in (Q[:, : t - 1], Q)]
    return Check(
        "Proposition 2",
        f"a signal with components at {count} eigenvalues: {count} terms express any g(P) x, and fewer do not",
        f"grade {t}; outside the span of {t - 1} terms {missing[0]:.1e}, of {t} terms {missing[1]:.1e}",
        t == count and missing[1] < ROUNDING < missing[0],
        "the proof counts eigenvectors; the grade counts distinct eigenvalues at which x has components",
    )


def _spread(values: Tensor, count: int) -> Tensor:
    """Indices, in ascending order, of up to `count` eigenvalues, each as far as possible from those chosen before."""
    picked = [len(values) - 1]
    while len(picked) < count:
        gap = (values[:, None] - values[picked]).abs().min(1).values
        if gap.max() < 1e-3:  # the remaining ones are repeated eigenvalues
            break
        picked.append(int(gap.argmax()))
    return torch.tensor(sorted(picked))


def hops_converge(graph: Graph, *, tau: float = 0.5, epsilon: float = 0.1) -> Check:
    r"""Theorem 1: beyond the mixing bound every entry of P^K has a relative distance below epsilon from its limit.

    The bound is :math:`K \ge \ln(\epsilon\, d_{min} / 2m) / \ln \lambda^\ast` at tau = 1; for other taus
    :math:`d_{min}` and :math:`2m` are the smallest entry and the sum of :math:`D_\tau`.
    """
    P = Propagation(_undirected(graph), tau)
    bound, slowest = mixing_bound(graph, tau=tau, epsilon=epsilon)
    if math.isinf(bound):
        why = "two or more components" if graph.components()[0] > 1 else "a bipartite graph at tau 1, or tau above 1"
        return Check("Theorem 1", "P^K converges", f"lambda* = {slowest:.4f}: no bound", True, f"does not apply: {why}")
    D = P.left[0] ** -2
    limit = (D[:, None] * D).sqrt() / D.sum()
    K = math.ceil(bound)
    power = torch.linalg.matrix_power(P.to_dense(), K)
    worst = float(((power - limit).abs() / limit).max())
    return Check(
        "Theorem 1",
        f"entries of P^K within {epsilon:g} of their limit for K >= {bound:.1f} (tau {tau:g})",
        f"largest relative distance {worst:.2e} at K = {K}, lambda* = {slowest:.4f}",
        worst <= epsilon,
    )


def mixing_bound(graph: Graph, *, tau: float = 1.0, epsilon: float = 0.1) -> tuple[float, float]:
    """Theorem 1's bound on K, which is infinite where P^K does not converge, and lambda*."""
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon must lie between 0 and 1; got {epsilon}. Try 0.1.")
    P = Propagation(_undirected(graph), tau)
    slowest = spectrum.lambda_star(P) if graph.nodes > 1 else 0.0
    if slowest >= 1 - 1e-9:
        return math.inf, slowest
    D = P.left[0] ** -2
    if slowest <= 0:
        return 1.0, slowest
    return float(torch.log(epsilon * D.min() / D.sum()) / math.log(slowest)), slowest


def information_loss_is_bounded(graph: Graph, *, terms: int = 4, tau: float = 1.0, seed: int = 0) -> Check:
    r"""Theorem 2: of t basis vectors the first K keep all but :math:`\sqrt{(t-K)/t}` of the Frobenius norm."""
    P, x = Propagation(_undirected(graph), tau), _signal(graph, seed)
    t = min(spectrum.grade(P, x), 64)  # the first 64 terms if there are more: the bound holds for them as well
    K = min(terms, t)
    norms = torch.stack([term.norm() for term in krylov(P, x, t - 1)])
    whole, kept = norms.norm(), norms[:K].norm()
    loss, bound = float((whole - kept) / whole), math.sqrt((t - K) / t)
    falling = bool((norms.diff() <= ROUNDING * norms[0]).all())
    return Check(
        "Theorem 2",
        f"{K} of {t} terms lose at most {bound:.3f} of the norm (tau {tau:g})",
        f"loss {loss:.3f}; hop norms {'never grow' if falling else 'grow'}",
        loss <= bound + ROUNDING,
        "the proof says hop norms rise; for tau <= 1 they fall, which is what the bound needs. For tau > 1 they can "
        "rise and the bound can fail",
    )


def spectrum_grows_with_tau(graph: Graph, *, taus: tuple[float, ...] = TAUS) -> Check:
    r"""Theorem 3: every eigenvalue of the Laplacian L_tau grows with tau, except the zeros, one per component.

    With :math:`s = (1 - \tau)/\tau` the denominator of the Rayleigh quotient is :math:`D + sI`, so from one tau to the
    next each eigenvalue grows at least by the factor :math:`(d_{max} + s)/(d_{max} + s')`, which is what is checked.
    """
    taus = tuple(sorted(taus))
    propagations = [Propagation(_undirected(graph), tau) for tau in taus]
    values = torch.stack([1 - spectrum.eigenvalues(P).flip(0) for P in propagations])  # [r, n] ascending
    components, _ = graph.components()
    largest_zero, nonzero = float(values[:, :components].abs().max()), values[:, components:]
    below = max(1.0, float(graph.degree().max())) + 1 / torch.tensor(taus, dtype=torch.float64) - 1  # [r] d_max + s
    growth = nonzero[1:] / nonzero[:-1] / (below[:-1] / below[1:])[:, None]
    least = float(growth.min()) if growth.numel() else 1.0
    return Check(
        "Theorem 3",
        f"the {nonzero.shape[1]} nonzero eigenvalues of L_tau grow at least like 1 / (d_max + 1/tau - 1) "
        f"over tau {taus[0]:g} .. {taus[-1]:g}",
        f"least growth {least:.6f} times that; {components} eigenvalue(s) 0 stay within {largest_zero:.1e}",
        largest_zero < ROUNDING and least > 1 - 1e-6,
        "printed for every eigenvalue; the zero ones, one per component, do not move",
    )


def some_tau_is_nearer(graph: Graph, *, taus: tuple[float, ...] = TAUS, degree: int = 4, seed: int = 0) -> Check:
    r"""Theorem 4: for some tau the best weights are no farther from the initial weights than at tau = 1.

    For initial weights drawn from a distribution of mean m, :math:`E\|w^\ast - w\|^2` is
    :math:`\|w^\ast - m\|^2` plus a constant, so distances to AdaptKry's initial weights 1/(K+1) rank the taus.
    """
    x, wanted = _signal(_undirected(graph), seed), _target(graph, seed)
    initial = torch.full((degree + 1, 1), 1 / (degree + 1), dtype=torch.float64)
    distance = {}
    for tau in sorted({*taus, 1.0}):
        B = stack(krylov(Propagation(graph, tau), x, degree))[:, :, 0]
        # Distance from the initial weights to the nearest optimal weights (which are unique below the grade).
        distance[tau] = float(torch.linalg.lstsq(B, wanted - B @ initial, driver="gelsd").solution.norm())
    nearest = min(distance, key=distance.__getitem__)
    worse = [f"{tau:g}" for tau, far in distance.items() if far > distance[1.0] * (1 + ROUNDING)]
    return Check(
        "Theorem 4",
        "the distance from the initial to the best weights is at the best tau no larger than at tau = 1",
        f"distance {distance[nearest]:.3g} at tau {nearest:g}, {distance[1.0]:.3g} at tau 1; "
        f"farther than tau 1: {', '.join(worse) or 'none'}",
        distance[nearest] <= distance[1.0],
        "read as 'there is a tau': tau = 1 is among them, so this cannot fail. Read as 'every tau' it is false "
        "(see the taus listed as farther)",
    )


def labels_rayleigh_quotient(graph: Graph) -> Check:
    r"""Section 4.1: for two classes coded +1 and -1, the Rayleigh quotient of :math:`D^{1/2}y` is 2(1 - h).

    On a weighted graph h is the share of the total weight, not of the number, of edges within a class.
    """
    plain = _undirected(graph).without_self_loops()
    if graph.classes != 2 or bool((graph.y < 0).any()) or not plain.entries:
        why = "does not apply: needs edges and two classes, all known"
        return Check("Section 4.1", "quotient = 2 (1 - h)", "-", True, why)
    y = plain.degree().sqrt() * (1 - 2 * plain.y.double())
    L = Laplacian(plain)
    quotient = float(y @ (L @ y) / (y @ y))
    source = torch.repeat_interleave(torch.arange(plain.nodes), plain.indptr.diff())
    weights = torch.ones(plain.entries, dtype=torch.float64) if plain.weights is None else plain.weights
    h = float(weights[plain.y[source] == plain.y[plain.indices.long()]].sum() / weights.sum())
    return Check(
        "Section 4.1",
        "quotient of D^(1/2) y = 2 (1 - h)",
        f"quotient {quotient:.6f}, 2 (1 - h) = {2 * (1 - h):.6f}",
        abs(quotient - 2 * (1 - h)) < ROUNDING,
        "printed 4 (1 - h) for y itself: the degrees sum to 2m, and the substitution is for D^(1/2) y",
    )


def grade_depends_on_tau() -> Check:
    """Footnote of Theorem 4: 'the grade is the same for every tau'. A counterexample: the star with three leaves."""
    star = Graph([[0, 0, 0], [1, 2, 3]])
    x = star.degree().sqrt()
    found = {tau: spectrum.grade(Propagation(star, tau), x) for tau in (0.5, 1.0)}
    return Check(
        "Theorem 4, footnote",
        "corrected: the grade may change with tau",
        f"star K_1,3 with x = D^(1/2) 1: grade {found[1.0]} at tau 1, {found[0.5]} at tau 0.5",
        found == {1.0: 1, 0.5: 2},
        "printed: the same for every tau",
    )


def check_all(graph: Graph) -> list[Check]:
    """Every claim, tested on one undirected graph of up to a few thousand nodes.

    >>> from adaptkry.graphs.synthetic import csbm
    >>> all(check.holds for check in check_all(csbm(nodes=60, seed=1)))
    True
    """
    return [
        every_filter_is_krylov(graph),
        optimal_filter_has_grade_terms(graph),
        hops_converge(graph),
        information_loss_is_bounded(graph),
        spectrum_grows_with_tau(graph),
        some_tau_is_nearer(graph),
        labels_rayleigh_quotient(graph),
        grade_depends_on_tau(),
    ]


def _undirected(graph: Graph) -> Graph:
    if require_graph(graph, "the paper's theory").is_directed:
        raise ValueError("the paper's theory needs an undirected graph; got a directed one. Use graph.undirected().")
    return graph


def _signal(graph: Graph, seed: int) -> Tensor:
    """One random signal [n, 1], which has components along all eigenvectors."""
    return torch.randn(graph.nodes, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _target(graph: Graph, seed: int) -> Tensor:
    """The output that a filter is fitted to: labels as +1 and -1 if there are two classes, else a random signal."""
    if graph.classes == 2 and not bool((graph.y < 0).any()):
        return (1 - 2 * graph.y.double())[:, None]
    return _signal(graph, seed + 1)
