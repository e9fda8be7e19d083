from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph
from adaptkry.spectral import density
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation import Laplacian, Propagation
from adaptkry.spectral.spectrum import angles, eigenvalues, extremes, grade, lambda_star
from benchmark_graphs import benchmark_graph
from contracts import assert_close, random_signal
from strategies import graphs, random_graph

TAUS = [0.3, 0.5, 1.0, 1.5, 1.7]


one_tau = st.floats(0.3, 1.7) | st.sampled_from(TAUS)


def by_formula(graph: Graph, tau: float, eigvalsh=lambda P: torch.linalg.eigvalsh(torch.from_numpy(P)).numpy()):
    """Eigenvalues of P_tau of an undirected graph, without any of our operators."""
    A = graph.adjacency.toarray()
    lone = A.sum(1) == 0
    A = tau * A + np.diag(np.where(lone, 1, 1 - tau))
    root = np.sqrt(A.sum(1))
    return eigvalsh(A / root / root[:, None])


def bipartite(seed: int = 0, n: int = 300, m: int = 900) -> Graph:
    """Every edge joins an even and an odd node; node n - 1 hangs on a path through all, so it is connected."""
    random = np.random.default_rng(seed)
    even, odd = 2 * random.integers(0, n // 2, m), 2 * random.integers(0, n // 2, m) + 1
    return Graph(np.hstack([[even, odd], [np.arange(n - 1), np.arange(1, n)]]))


def complete(n: int) -> Graph:
    return Graph(np.stack(np.triu_indices(n, 1)))


def star(leaves: int) -> Graph:
    return Graph(np.stack([np.zeros(leaves, dtype=int), np.arange(1, leaves + 1)]))


# More nodes than `spectrum.SMALL`: Lanczos, not the dense matrix, has to find them.
LARGE = {
    "two halves and isolated nodes": lambda: random_graph(0, 300, 1200),
    "connected": lambda: random_graph(1, 300, 1200, connected=True),
    "weighted": lambda: random_graph(2, 300, 900, weighted=True),
    "bipartite": bipartite,
    "forty paths": lambda: Graph([np.arange(320), np.arange(320) // 8 * 8 + (np.arange(320) + 1) % 8]),
    "complete": lambda: complete(280),
    "no edge": lambda: Graph(np.zeros((2, 0), dtype=int), nodes=300),
}
every_large_graph = pytest.mark.parametrize("graph", [make() for make in LARGE.values()], ids=list(LARGE))


@given(graph=graphs(directed=False), tau=one_tau)
def test_eigenvalues_equal_numpys(graph, tau):
    wanted = by_formula(graph, tau, np.linalg.eigvalsh)
    assert_close(eigenvalues(Propagation(graph, tau)).numpy(), wanted, rtol=0, atol=1e-12)


@every_large_graph
@pytest.mark.parametrize(("tau", "count"), [*((tau, 1) for tau in TAUS), (0.5, 5), (1.5, 5)])
def test_lanczos_finds_both_ends_of_the_spectrum_with_repetitions(graph, tau, count):
    low, high = extremes(Propagation(graph, tau), count)
    wanted = torch.from_numpy(by_formula(graph, tau))
    assert_close(low, wanted[:count], rtol=0, atol=1e-9)
    assert_close(high, wanted[-count:], rtol=0, atol=1e-9)


@given(graph=graphs(directed=False), tau=one_tau, count=st.integers(1, 30))
def test_extremes_of_a_small_graph_are_exact_and_at_most_all(graph, tau, count):
    low, high = extremes(Propagation(graph, tau), count)
    wanted = by_formula(graph, tau)
    assert_close(low.numpy(), wanted[:count], rtol=0, atol=1e-12)
    assert_close(high.numpy(), wanted[-count:], rtol=0, atol=1e-12)


@every_large_graph
@pytest.mark.parametrize("tau", TAUS)
def test_lambda_star_of_a_large_graph_is_the_second_largest_eigenvalue_in_size(graph, tau):
    wanted = by_formula(graph, tau)
    assert lambda_star(Propagation(graph, tau)) == pytest.approx(max(-wanted[0], wanted[-2]), abs=1e-9)


@given(graph=graphs(directed=False, min_nodes=2), tau=one_tau)
def test_lambda_star_of_a_small_graph_is_the_second_largest_eigenvalue_in_size(graph, tau):
    sizes = np.sort(np.abs(by_formula(graph, tau)))  # one 1 is left out: the largest eigenvalue itself
    without = np.delete(sizes, np.abs(sizes - 1).argmin())
    assert lambda_star(Propagation(graph, tau)) == pytest.approx(without.max(), abs=1e-10)


# Density of states


def exact_shares(P, density) -> np.ndarray:
    values = eigenvalues(P).numpy()
    return np.histogram(values, density.edges)[0] / len(values)


@pytest.mark.parametrize("tau", [0.01, *TAUS])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("moments", "probes"), [(2, 2), (50, 4), (151, 16), (400, 32)])
def test_density_is_right_within_its_error_bars(tau, seed, moments, probes):
    n = [20, 60, 150, 300][seed]
    P = Propagation(random_graph(seed, n, 3 * n, weighted=seed == 1, connected=seed == 2), tau)
    found = density_of_states(P, moments=moments, probes=probes, seed=seed)
    assert found.mass.sum() == pytest.approx(1, abs=1e-6)
    assert (found.mass > -1e-6).all()
    assert exact_shares(P, found).sum() == 1  # no eigenvalue outside the bins
    assert (np.abs(found.mass - exact_shares(P, found)) <= found.error).all()


@pytest.mark.parametrize("moments", [40, 400, 4000])
def test_error_bars_cover_an_eigenvalue_that_sits_on_the_edge_between_two_bins(moments):
    P = Propagation(star(200), 1.0)  # 199 of 201 eigenvalues are 0, and so is the edge between bins 24 and 25
    found = density_of_states(P, moments=moments, bins=50)
    assert (np.abs(found.mass - exact_shares(P, found)) <= found.error).all()
    assert found.error[:20].max() < 0.1  # and only there are they large


@pytest.mark.parametrize("P", [Propagation(LARGE["no edge"](), 0.5), Diagonal(torch.zeros(300))], ids=["I", "0"])
def test_a_spectrum_of_a_single_point_lies_in_one_bin(P):
    found = density_of_states(P, moments=400)
    assert found.mass[25] > 0.95
    assert np.isfinite(found.error).all()


@pytest.mark.parametrize("tau", [0.3, 0.01])
def test_rounding_does_not_explode_where_the_spectrum_is_narrow(tau):
    """Self-loops only: every eigenvalue is 1, give or take the last bit of each node's scaling."""
    weights = np.random.default_rng(0).uniform(0.5, 9, 300)
    found = density_of_states(Propagation(Graph([np.arange(300)] * 2, weights=weights), tau))
    assert found.mass.sum() == pytest.approx(1, abs=1e-6)
    assert (found.error < 1.1).all()


def test_error_bars_shrink_with_moments_and_probes():
    P = Propagation(random_graph(3, 300, 1500), 1.0)
    total = lambda moments, probes: density_of_states(P, moments=moments, probes=probes).error.sum()  # noqa: E731
    assert total(100, 8) > 1.5 * total(800, 8) > 2 * total(800, 512)


def test_sampling_error_has_the_promised_size():
    """Over 200 seeds the spread of a bin's mass stays below the bound sqrt(2 mass / (n probes)), not far below."""
    P = Propagation(random_graph(4, 100, 600), 1.0)
    masses = np.stack([density_of_states(P, moments=20, probes=4, bins=4, seed=seed).mass for seed in range(200)])
    bound = np.sqrt(2 * masses.mean(0) / 400)
    spread = masses.std(0, ddof=1)
    assert (spread < 1.1 * bound).all()  # 5 % is the standard error of such a spread
    assert spread.max() > 0.3 * bound.max()


def test_moments_are_traces_of_chebyshev_polynomials():
    P = Propagation(random_graph(5, 30, 60), 1.5)
    values = eigenvalues(P).numpy()
    centre, half = (values[-1] + values[0]) / 2, (values[-1] - values[0]) / 2 * 1.000001
    exact = np.cos(np.arange(21)[:, None] * np.arccos((values - centre) / half)).mean(1)
    found = density._moments(P, centre, half, 21, 20_000, 0, torch.float64)  # [21, probes]
    error = found.std(1, ddof=1) / np.sqrt(20_000)
    assert found[0] == pytest.approx(1)  # n / n for every probe
    assert (np.abs(found.mean(1) - exact) <= 4 * error + 1e-12).all()
    assert error.max() < 0.01


def test_jacksons_kernel_is_positive_and_narrow():
    """What the error bars rest on: no negative mass, and a width of pi / M."""
    for count in (5, 64):
        damping = density._jackson(count)
        angle = np.linspace(-np.pi, np.pi, 4001)[:-1]
        kernel = 1 + 2 * np.cos(np.outer(angle, np.arange(1, count))) @ damping[1:]
        assert damping[0] == pytest.approx(1)
        assert kernel.min() > -1e-10
        spread = np.sqrt((kernel * (2 - 2 * np.cos(angle))).mean())  # of a point on the circle
        assert spread == pytest.approx(np.pi / (count + 1), rel=0.05)


def test_progress_is_reported_once_per_product():
    seen = []
    density_of_states(Propagation(complete(5)), moments=20, on_progress=lambda *step: seen.append(step))
    assert seen == [(done, 11) for done in range(1, 12)]  # T_0 .. T_10 give 20 moments


def test_centres_and_density_belong_to_the_bins():
    found = density_of_states(Propagation(complete(9)), bins=7)
    assert_close(found.centres, (found.edges[:-1] + found.edges[1:]) / 2)
    assert (found.density * np.diff(found.edges)).sum() == pytest.approx(1)


@pytest.mark.data
@pytest.mark.parametrize("tau", [0.5, 1.0, 1.5])
def test_density_of_chameleon_is_right_and_sharp(tau):
    P = Propagation(benchmark_graph("chameleon").undirected(), tau)
    found = density_of_states(P, moments=2000)
    assert (np.abs(found.mass - exact_shares(P, found)) <= found.error).all()
    assert found.error.sum() < 0.3  # all 51 bars together, of a mass of 1
    assert found.error.max() < 0.06


# Angles


def angles_by_hand(terms) -> list[float]:
    means = []
    for a, b in pairwise(terms):
        found = []
        for u, v in zip(a.T.tolist(), b.T.tolist(), strict=True):
            size = np.linalg.norm(u) * np.linalg.norm(v)
            found.append(np.degrees(np.arccos(np.clip(np.dot(u, v) / size, -1, 1))) if size else 0.0)
        means.append(float(np.mean(found)))
    return means


@given(graph=graphs(), tau=one_tau, dtype=st.sampled_from([torch.float32, torch.float64]))
@settings(max_examples=25)
def test_angles_equal_those_of_each_column_by_hand(graph, tau, dtype):
    P, x = Propagation(graph, tau), random_signal(graph.nodes, 4, dtype=dtype)
    wanted = angles_by_hand(list(krylov(P, x.double(), 5)))
    assert angles(krylov(P, x, 5)).tolist() == pytest.approx(wanted, abs=1e-5)  # arc cosine keeps half the digits


def test_a_zero_column_counts_as_zero_degrees():
    x, y = torch.eye(3)[:, :2], torch.eye(3)[:, 1:]  # two columns, at right angles
    assert angles([x, y]).tolist() == [90]
    assert angles([torch.cat([x, torch.zeros(3, 2)], 1), torch.cat([y, x], 1)]).tolist() == [45]
    assert angles([x[:, 0], y[:, 0], -y[:, 0]]).tolist() == [90, 180]  # one signal [n] will do


# Grade


def exact_grade(graph: Graph, tau: Fraction, v: list[int]) -> int:
    """Rank of v, Wv, W^2 v, ... in fractions, W = D_tau^-1 A_tau: what P_tau makes of D_tau^1/2 v, without rounding."""
    A = [[Fraction(a) for a in row] for row in graph.adjacency.toarray().tolist()]
    for i, row in enumerate(A):
        A[i] = [tau * a + (i == j) * (1 - tau if any(row) else 1) for j, a in enumerate(row)]
    W = [[a / sum(row) for a in row] for row in A]
    hop, reduced = [Fraction(a) for a in v], []
    while True:
        rest = hop
        for pivot, row in reduced:
            rest = [a - rest[pivot] * b for a, b in zip(rest, row, strict=True)]
        pivot = next((i for i, a in enumerate(rest) if a), None)
        if pivot is None:
            return len(reduced)
        reduced.append((pivot, [a / rest[pivot] for a in rest]))
        hop = [sum(w * a for w, a in zip(row, hop, strict=True)) for row in W]


@given(
    graph=graphs(directed=False, weighted=False, max_nodes=10),
    tau=st.sampled_from([Fraction(3, 10), Fraction(1, 2), Fraction(1), Fraction(3, 2)]),
    data=st.data(),
)
@settings(max_examples=80)
def test_grade_equals_the_rank_in_exact_fractions(graph, tau, data):
    v = data.draw(st.lists(st.integers(-3, 3), min_size=graph.nodes, max_size=graph.nodes))
    P = Propagation(graph, float(tau))
    x = torch.tensor(v, dtype=torch.float64) / P.left[0]  # D_tau^1/2 v
    assert grade(P, x) == exact_grade(graph, tau, v)


@given(graph=graphs(directed=False), tau=one_tau)
def test_grade_of_a_random_signal_counts_distinct_eigenvalues(graph, tau):
    distinct = 1 + int((np.diff(by_formula(graph, tau)) > 1e-9).sum())
    assert grade(Propagation(graph, tau), random_signal(graph.nodes)) == distinct


@pytest.mark.parametrize("leaves", [2, 3, 50])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_grade_on_the_star_changes_with_tau(leaves, dtype):
    x = star(leaves).degree().sqrt().to(dtype)  # its rounding is not taken for a further direction
    assert [grade(Propagation(star(leaves), tau), x) for tau in (1.0, 0.5)] == [1, 2]


def test_grade_counts_a_null_vector_once_and_a_zero_signal_not_at_all():
    P = Propagation(star(3), 1.0)
    assert grade(P, torch.tensor([0, 0.1, 0.2, -0.3], dtype=torch.float64)) == 1  # P x is 3e-17, not 0
    assert grade(P, torch.zeros(4)) == 0
    assert grade(Laplacian(star(3)), torch.arange(4.0)[:, None]) == 3


# Errors

DIRECTED = Graph([[0, 1, 2], [1, 2, 0]], directed=True)
FUNCTIONS = [eigenvalues, extremes, lambda_star, density_of_states, lambda P: grade(P, torch.ones(3))]
NAMES = ["eigenvalues", "extremes", "lambda_star", "density_of_states", "grade"]


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
@pytest.mark.parametrize(
    ("P", "message"),
    [
        (Propagation(DIRECTED, 0.5, "out"), "symmetric operator.*direction='both'"),
        (Propagation(DIRECTED, [0.5, 1.0]), "one tau.*one operator per tau"),
    ],
    ids=["directed", "several taus"],
)
def test_what_has_no_single_real_spectrum_is_refused(function, P, message):
    with pytest.raises(ValueError, match=message):
        function(P)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda P: eigenvalues(P, limit=100), "at most 100 nodes; got 300 nodes.*density_of_states"),
        (lambda P: grade(P, torch.ones(300), limit=100), "at most 100 nodes; got 300 nodes"),
        (lambda P: grade(P, torch.ones(300, 2)), r"one signal \[n\]; got \[300, 2\]"),
        (lambda P: extremes(P, 0), "count must be 1 or more; got 0"),
        (lambda P: density_of_states(P, moments=1), "moments and probes must be 2 or more.*got 1, 32 and 51"),
        (lambda P: density_of_states(P, probes=1), "moments and probes must be 2 or more.*got 400, 1 and 51"),
        (lambda P: density_of_states(P, bins=0), "bins 1 or more; got 400, 32 and 0"),
        (lambda P: angles(krylov(P, torch.ones(300, 1), 0)), "at least two terms"),
        (lambda P: angles(krylov(Propagation(P.graph, [0.5, 1.0]), torch.ones(300, 1), 2)), "one tau at a time"),
    ],
)
def test_errors_say_what_was_expected_what_was_given_and_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call(Propagation(bipartite()))


def test_a_single_node_has_no_second_eigenvalue():
    with pytest.raises(ValueError, match="second eigenvalue; got a graph of one node"):
        lambda_star(Propagation(Graph([[0], [0]])))
