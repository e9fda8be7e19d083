r"""The paper's propositions and theorems as functions: what is claimed, what is measured, whether it holds.

Where the paper errs, the function checks the corrected statement and its note says what changed;
`docs/theory.md` explains each with an example that runs.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptkry import spectrum
from adaptkry.bases import BASES, krylov, orthonormal, stack
from adaptkry.filters import Filter
from adaptkry.graph import Graph
from adaptkry.operators import Laplacian, Propagation

TAUS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
ROUNDING = 1e-8


@dataclass(frozen=True)
class Check:
    """One claim held against one graph."""

    name: str
    claim: str
    measured: str
    holds: bool
    note: str = ""


def every_filter_is_krylov(graph: Graph, *, degree: int = 8, tau: float = 1.0, seed: int = 0) -> Check:
    """Proposition 1: every polynomial filter of degree K is a combination of x, Px, ..., P^K x."""
    P, x = Propagation(_needs_undirected(graph), tau), _signal(graph, seed)
    worst = 0.0
    for name in BASES:
        if name == "orthonormal":
            continue
        wanted = Filter(degree, name).double().requires_grad_(False)
        direct = wanted(stack(wanted.basis(P, x, degree)))
        through = wanted.to_krylov()(stack(krylov(P, x, degree))).detach()
        worst = max(worst, float((direct - through).norm() / direct.norm()))
    return Check(
        "Proposition 1",
        f"filters over {len(BASES) - 1} bases of degree {degree} lie in the Krylov space",
        f"largest relative difference after conversion to monomials {worst:.1e}",
        worst < ROUNDING,
    )


def optimal_filter_has_grade_terms(graph: Graph, *, tau: float = 1.0, seed: int = 0) -> Check:
    """Proposition 2: a filter of degree t - 1, t the grade of x, equals any spectral filter g on x."""
    P, x = Propagation(_needs_undirected(graph), tau), _signal(graph, seed)
    values, U = torch.linalg.eigh(P.to_dense())
    wanted = U @ (torch.exp(values)[:, None] * (U.T @ x))  # g = exp, no polynomial
    t = spectrum.grade(P, x)
    Q = stack(list(orthonormal(P, x, t - 1, reorthogonalise=True)))[:, :, 0]  # [n, t]
    missing = float((wanted - Q @ (Q.T @ wanted)).norm() / wanted.norm())
    return Check(
        "Proposition 2",
        f"t = {t} terms express exp(P) x exactly",
        f"relative part outside their span {missing:.1e}",
        missing < ROUNDING,
        "the proof counts eigenvectors; the grade counts distinct eigenvalues that x meets",
    )


def hops_converge(graph: Graph, *, tau: float = 0.5, epsilon: float = 0.1) -> Check:
    r"""Theorem 1: beyond the mixing bound every entry of P^K is within epsilon of its limit, relatively.

    The bound reads :math:`K \ge \ln(\epsilon\, d_{min} / 2m) / \ln \lambda^\ast` at tau = 1; for other taus
    :math:`d_{min}` and :math:`2m` are the least entry and the sum of :math:`D_\tau`.
    """
    P = Propagation(_needs_undirected(graph), tau)
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
    """Theorem 1's bound on K, infinite where hops never settle, and lambda*."""
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon must lie between 0 and 1, but {epsilon} came.")
    P = Propagation(_needs_undirected(graph), tau)
    slowest = spectrum.lambda_star(P)
    if slowest >= 1 - 1e-9:
        return math.inf, slowest
    D = P.left[0] ** -2
    if slowest <= 0:
        return 1.0, slowest
    return float(torch.log(epsilon * D.min() / D.sum()) / math.log(slowest)), slowest


def information_loss_is_bounded(graph: Graph, *, terms: int = 4, tau: float = 1.0, seed: int = 0) -> Check:
    r"""Theorem 2: of t basis vectors the first K keep all but :math:`\sqrt{(t-K)/t}` of the Frobenius norm."""
    P, x = Propagation(_needs_undirected(graph), tau), _signal(graph, seed)
    t = min(spectrum.grade(P, x, limit=64), 64)
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
    """Theorem 3: every eigenvalue of the Laplacian L_tau grows with tau; 0, once a component, stays 0."""
    _needs_undirected(graph)
    values = torch.stack([1 - spectrum.eigenvalues(Propagation(graph, tau)).flip(0) for tau in sorted(taus)])  # [r, n]
    components, _ = graph.components()
    still, moving = values[:, :components], values[:, components:].diff(dim=0)
    holds = bool(still.abs().max() < ROUNDING) and bool((moving > -ROUNDING).all())
    least = float(moving.min()) if moving.numel() else 0.0
    return Check(
        "Theorem 3",
        f"the {values.shape[1] - components} nonzero eigenvalues of L_tau grow over tau {min(taus):g} .. {max(taus):g}",
        f"smallest step {least:.2e}; {components} eigenvalue(s) 0 stay within {float(still.abs().max()):.1e}",
        holds,
        "printed for every eigenvalue; the zero ones, one per component, do not move",
    )


def some_tau_is_nearer(graph: Graph, *, taus: tuple[float, ...] = TAUS, degree: int = 4, seed: int = 0) -> Check:
    r"""Theorem 4: for some tau the best weights are no farther from the start than at tau = 1.

    With a start drawn from a distribution of mean m and any spread, :math:`E\|w^\ast - w\|^2` is
    :math:`\|w^\ast - m\|^2` plus a constant, so distances to AdaptKry's own start 1/(K+1) rank the taus.
    """
    x, wanted = _signal(_needs_undirected(graph), seed), _target(graph, seed)
    start = torch.full((degree + 1, 1), 1 / (degree + 1), dtype=torch.float64)
    distance = {}
    for tau in sorted({*taus, 1.0}):
        B = stack(krylov(Propagation(graph, tau), x, degree))[:, :, 0]
        best = torch.linalg.lstsq(B, wanted, driver="gelsd").solution
        distance[tau] = float((best - start).norm())
    nearest = min(distance, key=distance.__getitem__)
    worse = [f"{tau:g}" for tau, far in distance.items() if far > distance[1.0] * (1 + ROUNDING)]
    return Check(
        "Theorem 4",
        "the best tau needs no longer a way from the start than tau = 1",
        f"distance {distance[nearest]:.3g} at tau {nearest:g}, {distance[1.0]:.3g} at tau 1; "
        f"farther than tau 1: {', '.join(worse) or 'none'}",
        distance[nearest] <= distance[1.0],
        "read as 'there is a tau': tau = 1 is among them, so this cannot fail. Read as 'every tau' it is false "
        "(see the taus listed as farther)",
    )


def labels_rayleigh_quotient(graph: Graph) -> Check:
    r"""Section 4.1: for two classes coded +1 and -1, the Rayleigh quotient of :math:`D^{1/2}y` is 2(1 - h)."""
    plain = _needs_undirected(graph).without_self_loops()
    if graph.classes != 2 or bool((graph.y < 0).any()):
        return Check("Section 4.1", "quotient = 2 (1 - h)", "-", True, "does not apply: needs two classes, all known")
    y = plain.degree().sqrt() * (1 - 2 * plain.y.double())
    L = Laplacian(plain)
    quotient = float(y @ (L @ y) / (y @ y))
    edges = torch.repeat_interleave(torch.arange(plain.nodes), plain.indptr.diff())
    h = float((plain.y[edges] == plain.y[plain.indices.long()]).double().mean()) if plain.weights is None else math.nan
    return Check(
        "Section 4.1",
        "quotient of D^(1/2) y = 2 (1 - h)",
        f"quotient {quotient:.6f}, 2 (1 - h) = {2 * (1 - h):.6f}",
        math.isnan(h) or abs(quotient - 2 * (1 - h)) < ROUNDING,
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
    """Every claim against one undirected graph of up to a few thousand nodes.

    >>> from adaptkry.datasets.synthetic import csbm
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


def _needs_undirected(graph: Graph) -> Graph:
    if graph.is_directed:
        raise ValueError(
            "the paper's theory is for undirected graphs, but a directed one came. Use graph.undirected()."
        )
    return graph


def _signal(graph: Graph, seed: int) -> Tensor:
    """One random signal [n, 1] that meets every eigenvector."""
    return torch.randn(graph.nodes, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _target(graph: Graph, seed: int) -> Tensor:
    """What a filter should produce: the labels as +1 / -1 where there are two classes, else a random signal."""
    if graph.classes == 2 and not bool((graph.y < 0).any()):
        return (1 - 2 * graph.y.double())[:, None]
    return _signal(graph, seed + 1)
