import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import edge as edge_homophily
from adaptkry.graphs.synthetic import csbm
from adaptkry.spectral import theory
from adaptkry.spectral.bases import BASES, krylov, stack
from adaptkry.spectral.filters import Filter, monomials
from adaptkry.spectral.propagation_matrix import Laplacian, Propagation
from contracts import assert_close, random_signal
from strategies import complete, cycle, graphs, random_graph, star

CHECKS = {
    "Proposition 1": theory.every_filter_is_krylov,
    "Proposition 2": theory.optimal_filter_has_grade_terms,
    "Theorem 1": theory.hops_converge,
    "Theorem 2": theory.information_loss_is_bounded,
    "Theorem 3": theory.spectrum_grows_with_tau,
    "Theorem 4": theory.some_tau_is_nearer,
    "Section 4.1": theory.labels_rayleigh_quotient,
}
every_check = pytest.mark.parametrize("name", CHECKS)


EDGE = Graph([[0], [1]])
SHAPES = {
    "one node": Graph(np.zeros((2, 0), dtype=int), nodes=1),
    "one edge": EDGE,
    "no edge": Graph(np.zeros((2, 0), dtype=int), nodes=4),
    "self-loops only": Graph([[0, 1, 2], [0, 1, 2]]),
    "triangle": cycle(3),
    "bipartite": cycle(8),
    "star": star(5),
    "complete": complete(9),
    "two components": Graph([[0, 1, 2, 3, 4], [1, 2, 0, 4, 5]]),
    "two classes": csbm(nodes=60, phi=-0.5, seed=2),
}


# Every claim, as corrected, on many kinds of graphs


@every_check
@given(graph=graphs(directed=False, classes=2), connected=graphs(directed=False, connected=True))
@settings(max_examples=25)
def test_claim_holds_on_random_graphs(name, graph, connected):
    for each in (graph, connected, Graph.from_scipy(graph.adjacency, labels=graph.y.clamp(min=0), weighted=True)):
        found = CHECKS[name](each)
        assert found.name == name
        assert found.holds, found


@every_check
@pytest.mark.parametrize("shape", SHAPES)
def test_claim_holds_on_graphs_of_special_shape(name, shape):
    found = CHECKS[name](SHAPES[shape])
    assert found.holds, found


def test_check_all_runs_every_check_once():
    found = theory.check_all(SHAPES["two classes"])
    assert [check.name for check in found] == [*CHECKS, "Theorem 4, footnote"]
    assert all(check.holds for check in found)


@every_check
def test_directed_graph_raises(name):
    with pytest.raises(ValueError, match=r"needs an undirected graph; got a directed one\. Use graph\.undirected\(\)"):
        CHECKS[name](Graph([[0, 1, 2], [1, 2, 0]], directed=True))


# Every check can fail: wrong operators must be detected


class Wrong(Propagation):
    """Base class of operators that are wrong on purpose."""

    def to_dense(self):
        return self @ torch.eye(self.shape[0], dtype=torch.float64)


class Nonlinear(Wrong):
    """A nonlinear map, for which filters over two bases are not the same polynomial."""

    def __matmul__(self, x):
        return super().__matmul__(x).tanh()


class Larger(Wrong):
    """Not normalised: every eigenvalue twice as large."""

    def __matmul__(self, x):
        return 2 * super().__matmul__(x)


class IgnoresTau(Wrong):
    """P_1 for every tau."""

    def __init__(self, graph, tau=1.0):  # noqa: ARG002
        super().__init__(graph, 1.0)


class DriftingZeros(Wrong):
    """Zero eigenvalues of the Laplacian drift with tau."""

    def __matmul__(self, x):
        return (1.1 - 0.1 * self.tau) * super().__matmul__(x)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("Proposition 1", Nonlinear), ("Theorem 2", Larger), ("Theorem 3", IgnoresTau), ("Theorem 3", DriftingZeros)],
)
def test_check_fails_when_the_operator_is_wrong(name, wrong, monkeypatch):
    graph = csbm(nodes=40, seed=1)
    assert CHECKS[name](graph).holds
    monkeypatch.setattr(theory, "Propagation", wrong)
    assert not CHECKS[name](graph).holds


@pytest.mark.parametrize("wrong", [-1, 1])
def test_proposition_2_fails_for_any_other_number_of_terms(wrong, monkeypatch):
    grade = theory.spectrum.grade
    monkeypatch.setattr(theory.spectrum, "grade", lambda P, x: grade(P, x) + wrong)
    assert not theory.optimal_filter_has_grade_terms(csbm(nodes=40, seed=1)).holds


def test_theorem_1_fails_below_its_bound(monkeypatch):
    graph = random_graph(1, 30, 20, connected=True)
    assert theory.hops_converge(graph).holds
    monkeypatch.setattr(theory.spectrum, "lambda_star", lambda _: 0.5)  # a smaller value than the true one
    assert not theory.hops_converge(graph).holds


def test_theorem_2_fails_where_hops_grow():
    """For tau > 1 a step of the proof fails, and on an isolated edge the bound is indeed violated."""
    x_grows = [theory.information_loss_is_bounded(EDGE, terms=1, tau=tau) for tau in (1.0, 3.0)]
    assert [check.holds for check in x_grows] == [True, False]
    assert ["never grow" in check.measured for check in x_grows] == [True, False]


def test_section_4_fails_for_a_wrong_laplacian(monkeypatch):
    monkeypatch.setattr(theory, "Laplacian", lambda graph: Laplacian(graph, tau=0.5))
    assert not theory.labels_rayleigh_quotient(SHAPES["two classes"]).holds


def test_footnote_check_fails_if_the_grade_did_not_depend_on_tau(monkeypatch):
    assert theory.grade_depends_on_tau().holds
    monkeypatch.setattr(theory.spectrum, "grade", lambda *_: 2)
    assert not theory.grade_depends_on_tau().holds


# A check of a theorem that does not apply to the graph says so


@pytest.mark.parametrize(
    ("graph", "tau", "why"),
    [
        (cycle(8), 1.0, "bipartite graph at tau 1"),
        (EDGE, 1.5, "tau above 1"),
        (SHAPES["two components"], 0.5, "two or more components"),
        (SHAPES["no edge"], 0.5, "two or more components"),
    ],
)
def test_theorem_1_does_not_apply_where_hops_do_not_converge(graph, tau, why):
    found = theory.hops_converge(graph, tau=tau)
    assert found.note.startswith("does not apply")
    assert why in found.note
    assert math.isinf(theory.mixing_bound(graph, tau=tau)[0])


@pytest.mark.parametrize(
    "labels", [[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0, -1], [0] * 6], ids=["three classes", "unknown label", "one class"]
)
def test_section_4_does_not_apply_without_two_known_classes(labels):
    found = theory.labels_rayleigh_quotient(Graph([[0, 1, 2, 3, 4], [1, 2, 0, 4, 5]], labels=labels))
    assert found.note.startswith("does not apply")


@pytest.mark.parametrize("epsilon", [0, 1, -0.5])
def test_epsilon_outside_0_and_1_raises(epsilon):
    with pytest.raises(ValueError, match=rf"epsilon must lie between 0 and 1; got {epsilon}\. Try 0\.1"):
        theory.mixing_bound(EDGE, epsilon=epsilon)


# The statements, tested independently of the checks


@pytest.mark.parametrize("name", [name for name, basis in BASES.items() if basis.response_from == "polynomial"])
def test_every_basis_spans_all_polynomials(name):
    """Proposition 1 in both directions: the change to monomials is invertible."""
    phi = monomials(BASES[name], 8)
    assert torch.linalg.matrix_rank(phi) == 9
    weights = random_signal(9)
    assert_close(Filter(8, name).from_krylov(weights).to_krylov().coefficients.detach(), weights)


@given(graph=graphs(directed=False, connected=True, min_nodes=2, max_nodes=12), tau=st.sampled_from([0.3, 0.5, 0.9]))
@settings(max_examples=25)
def test_mixing_bound_holds_for_every_larger_number_of_hops_too(graph, tau):
    bound, _ = theory.mixing_bound(graph, tau=tau, epsilon=0.2)
    P = Propagation(graph, tau)
    D = P.left[0] ** -2
    limit = (D[:, None] * D).sqrt() / D.sum()
    for K in range(math.ceil(bound), math.ceil(bound) + 4):
        assert ((torch.linalg.matrix_power(P.to_dense(), K) - limit).abs() <= 0.2 * limit + 1e-12).all()


@given(graph=graphs(directed=False, min_nodes=2), tau=st.floats(0.2, 1.0), kept=st.integers(1, 12))
def test_information_loss_is_below_a_sharper_bound_than_printed(graph, tau, kept):
    """With hop norms falling the loss is at most 1 - sqrt(K/t), which is below sqrt((t-K)/t)."""
    terms = list(krylov(Propagation(graph, tau), random_signal(graph.nodes, 1), 11))
    sizes = torch.stack([term.norm() for term in terms])
    assert (sizes.diff() <= 1e-12).all()  # the paper's proof says that they rise
    loss = float(1 - sizes[:kept].norm() / sizes.norm())
    assert loss <= 1 - math.sqrt(kept / 12) + 1e-12
    assert 1 - math.sqrt(kept / 12) <= math.sqrt((12 - kept) / 12)


def test_the_sharper_bound_is_reached():
    found = theory.information_loss_is_bounded(EDGE, terms=1, tau=1.0)  # norms all equal: eigenvalues 1 and -1
    assert f"loss {1 - math.sqrt(1 / 2):.3f}" in found.measured


@given(graph=graphs(directed=False), low=st.floats(0.2, 1.8), high=st.floats(0.2, 1.8))
def test_nonzero_eigenvalues_grow_strictly_and_zeros_stay(graph, low, high):
    low, high = sorted((low, high))
    if high - low < 1e-3:
        return
    before, after = (torch.linalg.eigvalsh(Laplacian(graph, tau).to_dense()) for tau in (low, high))
    components = graph.components()[0]
    assert_close(before[:components], torch.zeros(components, dtype=torch.float64), rtol=0, atol=1e-12)
    assert_close(after[:components], before[:components], rtol=0, atol=1e-12)
    assert (after[components:] > before[components:]).all()


def test_small_weights_with_tau_above_1_have_no_real_spectrum():
    """Theorem 3 needs d_min >= 1 beyond tau = 1: with d = 0.2 the matrix is not even real for tau = 1.5."""
    with pytest.raises(ValueError, match=r"got tau = 1\.5 and node 0 with weighted degree d = 0\.2"):
        theory.spectrum_grows_with_tau(Graph([[0], [1]], weights=[0.2]), taus=(1.0, 1.5))
    assert theory.spectrum_grows_with_tau(Graph([[0], [1]], weights=[0.2]), taus=(0.25, 1.0, 1.2)).holds


# Errata: printed statements that are false


@given(graph=graphs(directed=False, weighted=False, min_nodes=2, classes=2, self_loops=False))
def test_label_quotient_is_2_and_not_4_times_the_share_of_mixed_edges(graph):
    y = graph.y.clamp(min=0)
    if not graph.entries or int(y.max()) == 0:
        return
    graph = Graph.from_scipy(graph.adjacency, labels=y)
    h, found = edge_homophily(graph), theory.labels_rayleigh_quotient(graph)
    signs = 1 - 2 * y.double()
    # The sum over edges that the paper starts from, one by one.
    quotient = sum((signs[i] - signs[j]) ** 2 for i, j in zip(*graph.adjacency.nonzero(), strict=True)) / 2
    quotient = float(quotient / (graph.degree() * signs**2).sum())
    assert quotient == pytest.approx(2 * (1 - h))
    assert f"quotient {quotient:.6f}" in found.measured
    assert h == 1 or quotient != pytest.approx(4 * (1 - h))  # as printed


def test_label_quotient_of_y_itself_is_another_number():
    """The substitution is for D^(1/2) y: on a star the quotient of y has nothing to do with h."""
    graph = Graph([[0, 0, 0], [1, 2, 3]], labels=[0, 1, 1, 1])
    y = 1 - 2 * graph.y.double()
    assert edge_homophily(graph) == 0
    assert "quotient 2.000000" in theory.labels_rayleigh_quotient(graph).measured
    assert float(y @ (Laplacian(graph) @ y) / (y @ y)) == pytest.approx(1 + math.sqrt(3) / 2)


def test_printed_theorem_4_is_false_for_some_taus():
    """Read as 'for every tau', it has counterexamples on most graphs; read as 'for some', tau = 1 suffices."""
    found = [theory.some_tau_is_nearer(random_graph(seed, 30, 60, connected=True)) for seed in range(10)]
    assert all(check.holds for check in found)
    assert sum("farther than tau 1: none" not in check.measured for check in found) >= 8


def unexplained(B: torch.Tensor, wanted: torch.Tensor) -> float:
    """The relative residual of the best combination of the columns of B."""
    best = torch.linalg.lstsq(B, wanted[:, None], driver="gelsd").solution[:, 0]
    return float((wanted - B @ best).norm() / wanted.norm())


def test_tied_filter_of_several_taus_is_a_restriction_of_untied_ones():
    """Equation 8: one weight per hop for all taus expresses less than one weight per hop and tau."""
    graph, x, weights = csbm(nodes=40, seed=3), random_signal(40, 1), random_signal(5)
    each = [stack(krylov(Propagation(graph, tau), x, 4))[:, :, 0] for tau in (0.5, 0.8, 1.1)]  # r of [n, K+1]
    tied, untied = torch.stack(each).mean(0), torch.cat(each, 1)
    assert_close(untied @ (weights / 3).repeat(3), tied @ weights)  # tied is untied with equal weights
    wanted = random_signal(40)
    assert unexplained(untied, wanted) < 0.95 * unexplained(tied, wanted)
    one = each[1] @ weights  # a filter of tau = 0.8 only: untied contains it, tied does not
    assert unexplained(untied, one) < 1e-10
    assert unexplained(tied, one) > 1e-4


@pytest.mark.parametrize("tau", [0.5, 1.0, 1.2, 1.7])
def test_an_isolated_edge_has_eigenvalue_1_minus_2_tau_and_hops_grow_above_1(tau):
    P = Propagation(Graph([[0, 2, 3], [1, 3, 4]]), tau)  # the edge 0-1 and a path 2-3-4
    x = torch.tensor([1.0, -1, 0, 0, 0], dtype=torch.float64)
    hops = [float(term.norm() / x.norm()) for term in krylov(P, x[:, None], 8)]
    assert_close(P @ x, (1 - 2 * tau) * x)
    assert hops == pytest.approx([abs(1 - 2 * tau) ** k for k in range(9)])
    assert (hops[-1] > hops[0]) == (tau > 1)
