from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import average, krylov, stack
from adaptkry.spectral.lanczos import lanczos, orthonormal, recurrence, replay
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation_matrix import Propagation
from contracts import assert_close, assert_same_bits, random_signal
from strategies import random_graph

GRAPH = random_graph(1, n=24, connected=True)
X = GRAPH.x
P = Propagation(GRAPH, 0.7)
EIGENVALUES, U = torch.linalg.eigh(P.to_dense())
every_degree = pytest.mark.parametrize("degree", [0, 1, 6])


@pytest.mark.parametrize(("degree", "reorthogonalise", "tolerance"), [(20, True, 1e-10), (6, False, 1e-10)])
def test_orthonormal_terms_are_orthonormal_in_each_column(degree, reorthogonalise, tolerance):
    Q = stack(orthonormal(P, X, degree, reorthogonalise=reorthogonalise))
    gram = torch.einsum("nkd,nld->dkl", Q, Q)
    assert_close(gram, torch.eye(degree + 1, dtype=torch.float64).expand_as(gram), rtol=0, atol=tolerance)


@pytest.mark.parametrize("reorthogonalise", [False, True])
def test_keep_norm_gives_every_term_the_norm_of_the_signal(reorthogonalise):
    plain, kept = (
        stack(orthonormal(P, X, 5, reorthogonalise=reorthogonalise, keep_norm=keep)) for keep in (False, True)
    )
    assert_close(kept, plain * X.norm(dim=0), rtol=0, atol=1e-12)
    assert_close(kept[:, 0], X, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reorthogonalise", [False, True])
@pytest.mark.parametrize("degree", [0, 1, 4, 7])
def test_orthonormal_spans_the_krylov_space(degree, reorthogonalise):
    Q = stack(orthonormal(P, X, degree, reorthogonalise=reorthogonalise)).movedim(2, 0)  # [d, n, K+1]
    hops = stack(krylov(P, X, degree)).movedim(2, 0)
    assert_close(Q @ (Q.mT @ hops), hops, rtol=0, atol=1e-9)
    assert (torch.linalg.matrix_rank(Q) == degree + 1).all()


@pytest.mark.parametrize("reorthogonalise", [False, True])
def test_recurrence_coefficients_are_those_of_the_operator(reorthogonalise):
    """P q_k = b_k q_{k+1} + a_k q_k + b_{k-1} q_{k-1}."""
    Q = stack(orthonormal(P, X, 8, reorthogonalise=reorthogonalise))
    found = recurrence(P, X, 8, reorthogonalise=reorthogonalise)
    assert_close(found.norm, X.norm(dim=0, keepdim=True))
    assert found.grade.tolist() == [9] * X.shape[1]
    for k in range(8):
        right = found.beta[k] * Q[:, k + 1] + found.alpha[k] * Q[:, k]
        right = right + found.beta[k - 1] * Q[:, k - 1] if k else right
        assert_close(P @ Q[:, k].contiguous(), right, rtol=0, atol=1e-12)


def test_replay_on_the_spectrum_reproduces_the_orthonormal_basis():
    found = recurrence(P, X, 8)
    ones = torch.ones(24, X.shape[1], dtype=torch.float64)
    response = stack(replay(Diagonal(EIGENVALUES), ones, 8, recurrence=found))  # [n, K+1, d]
    terms = torch.stack([U @ (g * (U.T @ X)) for g in response.unbind(1)], 1)
    assert_close(terms, stack(orthonormal(P, X, 8)), rtol=0, atol=1e-9)
    assert_close(stack(replay(P, X, 8, recurrence=found)), stack(orthonormal(P, X, 8)), rtol=0, atol=1e-12)


@every_degree
@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_eigenvector_of_any_norm_has_one_term(dtype, scale, degree):
    for i in (0, -1):
        terms = list(orthonormal(P, (scale * U[:, [i]]).to(dtype), degree))
        assert len(terms) == 1
        assert_close(terms[0].double(), U[:, [i]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("reorthogonalise", [False, True])
def test_each_column_stops_at_its_grade(reorthogonalise):
    """One signal on each component (an isolated node, an edge, a clique, paths), a zero signal and the sum of all."""
    ends = [(1, 2), *combinations(range(3, 8), 2), *pairwise((8, 9, 10)), *pairwise((11, 12, 13, 14))]
    P_parts = Propagation(Graph(np.transpose(ends)), 0.6)
    component = P_parts.graph.components()[1]
    x = random_signal(15, 1) * torch.nn.functional.one_hot(component)
    x = torch.cat([x, 0 * x[:, :1], x.sum(1, keepdim=True)], 1)
    grades = [1, 2, 2, 3, 4, 0, 6]  # distinct eigenvalues of each component; the last is cut off by degree 5
    eigenvalues, V = torch.linalg.eigh(P_parts.to_dense())

    found = recurrence(P_parts, x, 5, reorthogonalise=reorthogonalise)
    Q = stack(orthonormal(P_parts, x, 5, reorthogonalise=reorthogonalise))
    assert found.grade.tolist() == grades
    for column, grade in enumerate(grades):
        assert not Q[:, grade:, column].any()
        assert not found.beta[max(grade - 1, 0) :, 0, column].any()
        assert_close(Q[:, :grade, column].norm(dim=0), torch.ones(grade, dtype=torch.float64))
    response = stack(replay(Diagonal(eigenvalues), torch.ones_like(x), 5, recurrence=found))
    assert_close(torch.stack([V @ (g * (V.T @ x)) for g in response.unbind(1)], 1), Q, rtol=0, atol=1e-9)


def test_a_zero_signal_has_no_orthonormal_terms_and_a_stack_of_zeros():
    assert list(orthonormal(P, 0 * X, 3)) == []
    assert_same_bits(stack(orthonormal(P, 0 * X, 3)), torch.zeros(24, 4, 3, dtype=torch.float64))


@every_degree
def test_orthonormal_raises_for_an_operator_that_is_not_symmetric(degree):
    directed = Propagation(random_graph(2, n=24, directed=True), 0.5, "out")
    for P_out in (directed, [P, directed]):
        basis = average(orthonormal, P_out, X, degree)
        with pytest.raises(ValueError, match=r"needs a symmetric operator.*Use direction='both'"):
            next(basis)


def test_lanczos_stops_at_the_grade():
    steps = list(lanczos(P, U[:, [3]] + U[:, [9]], 5))
    assert [bool(step.term.any()) for step in steps] == [True, True, False]
    assert_close(torch.cat([step.alpha for step in steps[1:]]).sum(), EIGENVALUES[3] + EIGENVALUES[9])


@pytest.mark.gpu
@pytest.mark.parametrize("keep_norm", [False, True])
@pytest.mark.parametrize(("nodes", "columns"), [(2500, 300), (333, 7), (50_000, 130)])
def test_orthonormal_basis_on_a_gpu_equals_the_cpu_basis(nodes, columns, keep_norm):
    from adaptkry.graphs.synthetic import csbm

    graph = csbm(nodes=nodes, features=columns, seed=0)
    x = graph.x.clone()
    x[:, 1] = 0  # a zero signal has no terms
    operator = Propagation(graph, 0.8)
    wanted = stack(orthonormal(operator, x.double(), 8, keep_norm=keep_norm)).float()
    found = [stack(orthonormal(operator.to("cuda"), x.cuda(), 8, keep_norm=keep_norm)).cpu() for _ in range(2)]
    assert_same_bits(found[0], found[1])
    assert_close(found[0], wanted, rtol=0, atol=2e-4 * float(wanted.abs().max()))
    plain = stack(orthonormal(operator, x, 8, keep_norm=keep_norm))  # float32 as well
    length = x[:, 2:].norm(dim=0) if keep_norm else 1
    assert orthogonality_error(found[0][:, :, 2:] / length) < 2 * orthogonality_error(plain[:, :, 2:] / length) + 1e-6
    assert not found[0][:, :, 1].any()


def orthogonality_error(Q):
    """The largest deviation of the terms of any column from orthonormality."""
    products = torch.einsum("njd,nkd->djk", Q.double(), Q.double())
    return float((products - torch.eye(Q.shape[1], dtype=torch.float64)).abs().max())


@pytest.mark.gpu
def test_orthonormal_basis_on_a_gpu_stops_at_the_grade():
    star = Graph([[0, 0, 0, *range(4, 40)], [1, 2, 3, *range(5, 41)]], nodes=41)
    x = torch.zeros(41, 1)
    x[0] = 1.0  # the hub of a star: its space has two dimensions
    found = stack(orthonormal(Propagation(star, 1.0).to("cuda"), x.cuda(), 5)).cpu()
    assert found[:, :2].abs().sum() > 0
    assert not found[:, 2:].any()


def test_stacked_terms_beyond_the_grade_of_every_column_are_zero():
    P, x = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[2.0], [0.0]])
    terms = torch.full((2, 5, 1), torch.nan)
    assert stack(orthonormal(P, x, degree=4), out=terms)[:, :, 0].tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
