"""Updates of terms by rows: equal to computing all of them, and no wider than they must be."""

import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import BASES, bernstein, stack
from adaptkry.spectral.local_update import product_rows, reach, rows_by_distance, update_terms
from adaptkry.spectral.propagation_matrix import MixedPropagation, Propagation
from adaptkry.spectral.signal_bases import ALL_BASES

NODES, NEW = 60, 3
LOCAL = {name: basis for name, basis in ALL_BASES.items() if basis.multiplies_terms}


def operator(graph, tau, direction, normalisation):
    kind = MixedPropagation if "-" in direction else Propagation
    return kind(graph, tau, direction, normalisation=normalisation)


def before_and_after(*, directed, weighted, seed=0):
    """A graph, the same with three more nodes, six new and two removed edges, and the mask of the ends of all these."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, NODES, (2, 70))
    edges = edges[:, edges[0] != edges[1]]
    new = np.stack([rng.integers(0, NODES + NEW, 6), rng.integers(NODES, NODES + NEW, 6)])
    new = new[:, new[0] != new[1]]
    weights = rng.uniform(1, 3, edges.shape[1] + new.shape[1]) if weighted else None
    n = edges.shape[1]

    def graph(pairs, nodes, values):
        return Graph(pairs, nodes=nodes, weights=values, directed=directed)

    gone = {tuple(edges[:, 0]), tuple(edges[:, 1])}
    gone |= set() if directed else {pair[::-1] for pair in gone}
    kept = np.array([tuple(pair) not in gone for pair in edges.T])
    used = None if weights is None else np.concatenate([weights[:n][kept], weights[n:]])
    old = graph(edges, NODES, None if weights is None else weights[:n])
    after = graph(np.concatenate([edges[:, kept], new], 1), NODES + NEW, used)
    changed = torch.zeros(NODES + NEW, dtype=torch.bool)
    changed[NODES:] = changed[new.ravel()] = changed[edges[:, :2].ravel()] = True
    return old, after, changed


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalisation", ["symmetric", "row", "column"])
@pytest.mark.parametrize("direction", ["both", "out", "in", "out-in", "in-out"])
@pytest.mark.parametrize("name", LOCAL)
def test_updated_terms_are_those_of_the_changed_graph(name, direction, normalisation, weighted):
    old, new, changed = before_and_after(directed=direction != "both", weighted=weighted)
    x = torch.randn(NODES + NEW, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for tau in (0.4, 1.0, 1.4):
        P = operator(new, tau, direction, normalisation)
        expected = stack(LOCAL[name](P, x, 3)).transpose(0, 1)
        before = stack(LOCAL[name](operator(old, tau, direction, normalisation), x[:NODES], 3)).transpose(0, 1)
        terms = torch.full_like(expected, torch.nan)
        terms[:, :NODES], terms[0, NODES:] = before, x[NODES:]
        rows = update_terms(LOCAL[name], P, terms, changed)
        torch.testing.assert_close(terms, expected, rtol=0, atol=1e-10)
        other = torch.ones(NODES + NEW, dtype=torch.bool)
        other[rows] = False
        torch.testing.assert_close(before[:, other[:NODES]], expected[:, other], rtol=0, atol=1e-10)


def test_only_rows_within_the_hops_change():
    path = Graph([list(range(99)), list(range(1, 100))])
    changed = torch.zeros(100, dtype=torch.bool)
    changed[[40, 41]] = True
    rows, counts = rows_by_distance(Propagation(path), changed, 3)
    assert sorted(rows.tolist()) == list(range(37, 45))
    assert counts == [2, 4, 6, 8]
    arrow = Graph([list(range(99)), list(range(1, 100))], directed=True)
    rows, _ = rows_by_distance(Propagation(arrow, 1.0, "out"), changed, 3)  # i sums over i + 1
    assert sorted(rows.tolist()) == [37, 38, 39, 40, 41]


def test_rows_of_a_product_are_those_of_the_product():
    graph = before_and_after(directed=True, weighted=True)[1]
    x = torch.randn(graph.nodes, 4, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([5, 62, 0, 17])
    for direction in ("both", "out", "in", "in-out"):
        P = operator(graph, 0.7, direction, "symmetric")
        torch.testing.assert_close(product_rows(P, x, rows), (P @ x)[rows])
        torch.testing.assert_close(P.to_dense()[rows] @ x.double(), product_rows(P, x.double(), rows))


def test_the_bases_that_multiply_their_terms_are_the_three_term_recurrences():
    assert list(LOCAL) == ["krylov", "chebyshev", "legendre", "jacobi"]
    assert set(LOCAL) < set(BASES)


def test_other_bases_are_refused():
    P = Propagation(Graph([[0], [1]]))
    with pytest.raises(ValueError, match="the basis bernstein cannot be updated by rows"):
        update_terms(bernstein, P, torch.zeros(3, 2, 1), torch.ones(2, dtype=torch.bool))


@pytest.mark.parametrize("direction", ["both", "out", "in-out"])
def test_taus_of_one_direction_share_the_rows_that_change(direction):
    old, new, changed = before_and_after(directed=direction != "both", weighted=True)
    x = torch.randn(NODES + NEW, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    near = reach(operator(new, 0.4, direction, "symmetric"), changed, 2)
    for tau in (0.4, 1.0):
        P = operator(new, tau, direction, "symmetric")
        expected = stack(BASES["chebyshev"](P, x, 2)).transpose(0, 1)
        terms = torch.full_like(expected, torch.nan)
        before = BASES["chebyshev"](operator(old, tau, direction, "symmetric"), x[:NODES], 2)
        terms[:, :NODES] = stack(before).transpose(0, 1)
        terms[0, NODES:] = x[NODES:]
        update_terms(BASES["chebyshev"], P, terms, near)
        torch.testing.assert_close(terms, expected, rtol=0, atol=1e-10)


def test_an_update_has_the_bits_of_computing_everything():
    side = 40
    number = np.arange(side * side).reshape(side, side)
    pairs = [(number[1:], number[:-1]), (number[:, 1:], number[:, :-1])]
    edges = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in pairs], 1)
    old, new = Graph(edges), Graph(np.concatenate([edges, [[0], [side + 1]]], 1))
    x = torch.randn(side * side, 20, generator=torch.Generator().manual_seed(0))
    changed = torch.zeros(side * side, dtype=torch.bool)
    changed[[0, side + 1]] = True
    terms = stack(BASES["krylov"](Propagation(old, 0.5), x, 4)).transpose(0, 1).contiguous()
    rows = update_terms(BASES["krylov"], Propagation(new, 0.5), terms, changed)
    assert len(rows) < 60
    assert torch.equal(terms, stack(BASES["krylov"](Propagation(new, 0.5), x, 4)).transpose(0, 1))
