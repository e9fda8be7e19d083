from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation_matrix import Laplacian, Propagation
from adaptkry.spectral.spectrum import angles, bounds, eigenvalues, extremes, grade, lambda_star
from contracts import assert_close, random_signal
from strategies import complete, cycle, graphs, random_graph, star

TAUS = [0.3, 0.5, 1.0, 1.5, 1.7]


one_tau = st.floats(0.3, 1.7) | st.sampled_from(TAUS)


def by_formula(graph: Graph, tau: float, eigvalsh=lambda P: torch.linalg.eigvalsh(torch.from_numpy(P)).numpy()):
    """Eigenvalues of P_tau of an undirected graph, without any operator of the library."""
    A = graph.adjacency.toarray()
    isolated = A.sum(1) == 0
    A = tau * A + np.diag(np.where(isolated, 1, 1 - tau))
    root = np.sqrt(A.sum(1))
    return eigvalsh(A / root / root[:, None])


def bipartite(seed: int = 0, n: int = 300, m: int = 900) -> Graph:
    """Every edge joins an even and an odd node; a path through all nodes connects the graph."""
    random = np.random.default_rng(seed)
    even, odd = 2 * random.integers(0, n // 2, m), 2 * random.integers(0, n // 2, m) + 1
    return Graph(np.hstack([[even, odd], [np.arange(n - 1), np.arange(1, n)]]))


# More nodes than `spectrum.SMALL`: eigenvalues are computed by Lanczos, not from the dense matrix.
LARGE = {
    "two halves and isolated nodes": lambda: random_graph(0, 300, 1200),
    "connected": lambda: random_graph(1, 300, 1200, connected=True),
    "weighted": lambda: random_graph(2, 300, 900, weighted=True),
    "bipartite": bipartite,
    "forty paths": lambda: Graph([np.arange(320), np.arange(320) // 8 * 8 + (np.arange(320) + 1) % 8]),
    "complete": lambda: complete(280),
    "no edge": lambda: Graph(np.zeros((2, 0), dtype=int), nodes=300),
}
every_large_graph = pytest.mark.parametrize("name", LARGE)


@cache
def large(name: str, tau: float) -> tuple[Propagation, np.ndarray]:
    """The operator of a large graph and its eigenvalues."""
    graph = LARGE[name]()
    return Propagation(graph, tau), by_formula(graph, tau)


@given(graph=graphs(directed=False), tau=one_tau)
def test_eigenvalues_equal_numpys(graph, tau):
    wanted = by_formula(graph, tau, np.linalg.eigvalsh)
    assert_close(eigenvalues(Propagation(graph, tau)).numpy(), wanted, rtol=0, atol=1e-12)


@every_large_graph
@pytest.mark.parametrize(("tau", "count"), [*((tau, 1) for tau in TAUS), (0.5, 5), (1.5, 5)])
def test_lanczos_finds_both_ends_of_the_spectrum_with_repetitions(name, tau, count):
    P, values = large(name, tau)
    low, high = extremes(P, count)
    wanted = torch.from_numpy(values)
    assert_close(low, wanted[:count], rtol=0, atol=1e-9)
    assert_close(high, wanted[-count:], rtol=0, atol=1e-9)


@every_large_graph
@pytest.mark.parametrize("tau", TAUS)
def test_bounds_contain_the_spectrum_closely(name, tau):
    P, values = large(name, tau)
    low, high = bounds(P)
    width = values[-1] - values[0] + 1e-8  # identical eigenvalues differ by rounding
    assert values[0] - 0.05 * width <= low <= values[0] + 1e-9
    assert values[-1] - 1e-9 <= high <= values[-1] + 0.05 * width


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["path", "star beside", "edge beside"])
def test_bounds_contain_eigenvalues_that_lanczos_finds_slowly(name, seed):
    """Eigenvalues that crowd at the ends of the spectrum, or one far outside with a small share of the start."""
    random = np.random.default_rng(1).integers(0, 1200, (2, 20000))
    graph = {
        "path": Graph([np.arange(1199), np.arange(1, 1200)]),
        "star beside": Graph(np.hstack([random, 1200 + np.array([[0] * 9, range(1, 10)])])),
        "edge beside": Graph(np.hstack([random, [[1200], [1201]]])),
    }[name]
    P = Propagation(graph, 1.0)
    values = eigenvalues(P)
    low, high = bounds(P, seed=seed)
    assert low <= float(values[0]) + 1e-9
    assert float(values[-1]) - 1e-9 <= high
    assert high - low < 1.05 * float(values[-1] - values[0])


def test_bounds_of_a_spectrum_of_one_or_two_points_are_close():
    for values in (torch.ones(300), torch.zeros(300), torch.tensor([-2.0, 3.0]).repeat(200)):
        low, high = bounds(Diagonal(values.double()))
        assert float(values.min()) - 0.01 < low <= float(values.min()) + 1e-9
        assert float(values.max()) - 1e-9 <= high < float(values.max()) + 0.01


@given(graph=graphs(directed=False), tau=one_tau, count=st.integers(1, 30))
def test_extremes_of_a_small_graph_are_exact_and_at_most_all(graph, tau, count):
    low, high = extremes(Propagation(graph, tau), count)
    wanted = by_formula(graph, tau)
    assert_close(low.numpy(), wanted[:count], rtol=0, atol=1e-12)
    assert_close(high.numpy(), wanted[-count:], rtol=0, atol=1e-12)


@every_large_graph
@pytest.mark.parametrize("tau", TAUS)
def test_lambda_star_of_a_large_graph_is_the_second_largest_eigenvalue_in_size(name, tau):
    P, wanted = large(name, tau)
    assert lambda_star(P) == pytest.approx(max(-wanted[0], wanted[-2]), abs=1e-9)


@given(graph=graphs(directed=False, min_nodes=2) | graphs(directed=False, min_nodes=2, connected=True), tau=one_tau)
def test_lambda_star_of_a_small_graph_is_the_second_largest_eigenvalue_in_size(graph, tau):
    sizes = np.sort(np.abs(by_formula(graph, tau)))  # without one eigenvalue 1, the largest
    without = np.delete(sizes, np.abs(sizes - 1).argmin())
    assert lambda_star(Propagation(graph, tau)) == pytest.approx(without.max(), abs=1e-10)


# Angles


def angles_by_formula(terms) -> list[float]:
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
def test_angles_equal_the_mean_over_columns_by_formula(graph, tau, dtype):
    P, x = Propagation(graph, tau), random_signal(graph.nodes, 4, dtype=dtype)
    wanted = angles_by_formula(list(krylov(P, x.double(), 5)))
    assert angles(krylov(P, x, 5)).tolist() == pytest.approx(wanted, abs=1e-5)  # arc cosine keeps half the digits


def test_a_zero_column_counts_as_zero_degrees():
    x, y = torch.eye(3)[:, :2], torch.eye(3)[:, 1:]  # two columns, at right angles
    assert angles([x, y]).tolist() == [90]
    assert angles([torch.cat([x, torch.zeros(3, 2)], 1), torch.cat([y, x], 1)]).tolist() == [45]
    assert angles([x[:, 0], y[:, 0], -y[:, 0]]).tolist() == [90, 180]  # also for signals [n]


# Grade


def exact_grade(graph: Graph, tau: Fraction, v: list[int]) -> int:
    """Rank of v, Wv, W^2 v, ... in exact fractions, W = D_tau^-1 A_tau, which is similar to P_tau."""
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
    x = star(leaves).degree().sqrt().to(dtype)  # rounding errors do not count as a component
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
def test_operators_without_a_single_real_spectrum_raise(function, P, message):
    with pytest.raises(ValueError, match=message):
        function(P)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda P: eigenvalues(P, limit=100), "at most 100 nodes; got 300 nodes.*density_of_states"),
        (lambda P: grade(P, torch.ones(300), limit=100), "at most 100 nodes; got 300 nodes"),
        (lambda P: grade(P, torch.ones(300, 2)), r"one signal \[n\]; got \[300, 2\]"),
        (lambda P: bounds(P, 0), "steps must be 1 or more; got 0"),
        (lambda P: extremes(P, 0), "count must be 1 or more; got 0"),
        (lambda P: density_of_states(P, moments=1), "moments must be 2 or more; got 1"),
        (lambda P: density_of_states(P, probes=1), "probes must be 2 or more; got 1"),
        (lambda P: density_of_states(P, bins=0), "bins must be 1 or more; got 0"),
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


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("graph", [complete(6), star(5), cycle(7), random_graph(3, 12, 30, connected=True)], ids=str)
def test_lambda_star_of_a_small_connected_graph_is_not_its_eigenvalue_one(graph, tau):
    assert graph.components()[0] == 1
    values = by_formula(graph, tau)
    assert values[-1] == pytest.approx(1)
    assert lambda_star(Propagation(graph, tau)) == pytest.approx(max(-values[0], values[-2]), abs=1e-10)
