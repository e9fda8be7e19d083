from functools import cache

import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.spectral import density
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.spectrum import eigenvalues
from benchmark_graphs import benchmark_graph
from contracts import assert_close
from strategies import complete, random_graph, star

TAUS = [0.3, 0.5, 1.0, 1.5, 1.7]
NO_EDGE = Graph(np.zeros((2, 0), dtype=int), nodes=300)


def exact_shares(values: np.ndarray, density) -> np.ndarray:
    return np.histogram(values, density.edges)[0] / len(values)


@cache
def example(seed: int, tau: float) -> tuple[Propagation, np.ndarray]:
    """An operator and its eigenvalues."""
    n = [20, 60, 150, 300][seed]
    P = Propagation(random_graph(seed, n, 3 * n, weighted=seed == 1, connected=seed == 2), tau)
    return P, eigenvalues(P).numpy()


@pytest.mark.parametrize("tau", [0.01, *TAUS])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("moments", "probes"), [(2, 2), (50, 4), (151, 16), (400, 32)])
def test_density_is_correct_within_its_error_bars(tau, seed, moments, probes):
    P, values = example(seed, tau)
    found = density_of_states(P, moments=moments, probes=probes, seed=seed)
    assert found.mass.sum() == pytest.approx(1, abs=1e-6)
    assert (found.mass > -1e-6).all()
    shares = exact_shares(values, found)
    assert shares.sum() == 1  # no eigenvalue outside the bins
    assert (np.abs(found.mass - shares) <= found.error).all()


@pytest.mark.parametrize("moments", [40, 400, 4000])
def test_error_bars_cover_an_eigenvalue_on_the_edge_between_two_bins(moments):
    P = Propagation(star(200), 1.0)  # 199 of 201 eigenvalues are 0, and so is the edge between bins 24 and 25
    found = density_of_states(P, moments=moments, bins=50)
    assert (np.abs(found.mass - exact_shares(eigenvalues(P).numpy(), found)) <= found.error).all()
    assert found.error[:20].max() < 0.1  # they are large near the edge only


@pytest.mark.parametrize("P", [Propagation(NO_EDGE, 0.5), Diagonal(torch.zeros(300))], ids=["I", "0"])
def test_a_spectrum_of_a_single_point_lies_in_one_bin(P):
    found = density_of_states(P, moments=400)
    assert found.mass[25] > 0.95
    assert np.isfinite(found.error).all()


@pytest.mark.parametrize("tau", [0.3, 0.01])
def test_moments_of_a_narrow_spectrum_do_not_diverge(tau):
    """Self-loops only: every eigenvalue is 1, except for rounding in the scaling of each node."""
    weights = np.random.default_rng(0).uniform(0.5, 9, 300)
    found = density_of_states(Propagation(Graph([np.arange(300)] * 2, weights=weights), tau))
    assert found.mass.sum() == pytest.approx(1, abs=1e-6)
    assert (found.error < 1.1).all()


def test_error_bars_shrink_with_moments_and_probes():
    P = Propagation(random_graph(3, 300, 1500), 1.0)
    total = lambda moments, probes: density_of_states(P, moments=moments, probes=probes).error.sum()  # noqa: E731
    assert total(100, 8) > 1.5 * total(800, 8) > 2 * total(800, 512)


def test_sampling_error_has_the_stated_size():
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
    """The assumptions of the error bars: no negative mass, and a width of pi / M."""
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
def test_density_of_chameleon_is_correct_and_precise(tau):
    P = Propagation(benchmark_graph("chameleon").undirected(), tau)
    found = density_of_states(P, moments=2000)
    assert (np.abs(found.mass - exact_shares(eigenvalues(P).numpy(), found)) <= found.error).all()
    assert found.error.sum() < 0.3  # all 51 bars together, of a mass of 1
    assert found.error.max() < 0.08  # largest where an edge between bins is near an eigenvalue of many nodes
