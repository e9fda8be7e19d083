import math
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import eval_chebyt, eval_jacobi, eval_legendre

from adaptkry.graphs.graph import Graph
from adaptkry.spectral.bases import BASES, average, bernstein, chebyshev, jacobi, krylov, legendre, stack
from adaptkry.spectral.lanczos import lanczos, orthonormal, recurrence, replay
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation import Laplacian, Propagation
from contracts import BASIS_CONTRACT, LANCZOS_CONTRACT, assert_close, assert_same_bits, random_signal
from strategies import graphs, random_graph

GRAPH = random_graph(1, n=24, connected=True)
X = GRAPH.x
P = Propagation(GRAPH, 0.7)
EIGENVALUES, U = torch.linalg.eigh(P.to_dense())
TAUS = [0.3, 0.9, 1.6]
SEPARATE = [Propagation(GRAPH, tau) for tau in TAUS]
JACOBI = [(0.0, 0.0), (-0.5, -0.5), (1.0, 0.25), (-0.9, 2.0)]
HEARING = {"orthonormal": orthonormal, "reorthogonalised": partial(orthonormal, reorthogonalise=True)}
FIXED = {name: basis for name, basis in BASES.items() if name not in HEARING}  # polynomials known beforehand
FIXED |= {f"jacobi{ab}": partial(jacobi, a=ab[0], b=ab[1]) for ab in JACOBI}

over = partial(pytest.mark.parametrize, "basis")
every_basis = over([*FIXED.values(), *HEARING.values()], ids=[*FIXED, *HEARING])
every_degree = pytest.mark.parametrize("degree", [0, 1, 6])


@BASIS_CONTRACT
@every_degree
@over(FIXED.values(), ids=FIXED)
def test_polynomials_keep_the_basis_contract(clause, basis, degree):
    clause(basis, P, X, degree)
    clause(partial(average, basis), Propagation(GRAPH, TAUS), X, degree)


@LANCZOS_CONTRACT
@every_degree
@over(HEARING.values(), ids=HEARING)
def test_orthonormal_keeps_the_basis_contract(clause, basis, degree):
    clause(basis, P, X, degree)
    clause(partial(average, basis), Propagation(GRAPH, TAUS), X, degree)


def eval_bernstein(k, x, degree):
    return math.comb(degree, k) * ((1 + x) / 2) ** (degree - k) * ((1 - x) / 2) ** k


ORACLES = {
    "krylov": (krylov, lambda k, x, _: x**k),
    "chebyshev": (chebyshev, lambda k, x, _: eval_chebyt(k, x)),
    "legendre": (legendre, lambda k, x, _: eval_legendre(k, x)),
    "bernstein": (bernstein, eval_bernstein),
    "jacobi by default": (jacobi, lambda k, x, _: eval_jacobi(k, 1, 1, x)),
} | {
    f"jacobi{ab}": (FIXED[f"jacobi{ab}"], lambda k, x, _, ab=ab: eval_jacobi(k, *ab, x)) for ab in JACOBI
}  # fmt: skip
GRID = np.linspace(-1, 1, 101)


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 12, 30])
@pytest.mark.parametrize(("basis", "oracle"), ORACLES.values(), ids=ORACLES)
def test_terms_are_the_polynomials_of_their_name(basis, oracle, degree):
    """On eigenvalues they are scipy's polynomials, on a graph these polynomials of its matrix."""
    ones = torch.ones(len(GRID), 1, dtype=torch.float64)
    read = stack(basis(Diagonal(torch.from_numpy(GRID)), ones, degree))[:, :, 0]
    wanted = np.stack([oracle(k, GRID, degree) for k in range(degree + 1)], 1)
    assert_close(read, torch.from_numpy(wanted), rtol=1e-10, atol=1e-10)
    responses = [oracle(k, EIGENVALUES.numpy(), degree)[:, None] for k in range(degree + 1)]
    through = torch.stack([U @ (torch.from_numpy(g) * (U.T @ X)) for g in responses], 1)
    assert_close(stack(basis(P, X, degree)), through, rtol=1e-10, atol=1e-10)


@given(graph=graphs(), degree=st.integers(0, 30))
def test_bernstein_terms_add_up_to_the_signal(graph, degree):
    assert_close(stack(bernstein(Propagation(graph, 1.0), graph.x, degree)).sum(1), graph.x, rtol=1e-10, atol=1e-10)


@every_basis
def test_float32_terms_are_the_float64_terms_rounded(basis):
    found = stack(basis(P, X.float(), 6))
    assert found.dtype == torch.float32
    assert_close(found.double(), stack(basis(P, X, 6)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("degree", "again", "tolerance"), [(20, True, 1e-10), (6, False, 1e-10)])
def test_orthonormal_terms_are_orthonormal_column_by_column(degree, again, tolerance):
    Q = stack(orthonormal(P, X, degree, reorthogonalise=again))
    gram = torch.einsum("nkd,nld->dkl", Q, Q)
    assert_close(gram, torch.eye(degree + 1, dtype=torch.float64).expand_as(gram), rtol=0, atol=tolerance)


@pytest.mark.parametrize("again", [False, True])
def test_kept_norms_make_every_term_as_long_as_the_signal(again):
    plain, kept = (stack(orthonormal(P, X, 5, reorthogonalise=again, keep_norm=keep)) for keep in (False, True))
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
def test_an_eigenvector_has_one_term_of_any_size(dtype, scale, degree):
    for i in (0, -1):
        terms = list(orthonormal(P, (scale * U[:, [i]]).to(dtype), degree))
        assert len(terms) == 1
        assert_close(terms[0].double(), U[:, [i]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("reorthogonalise", [False, True])
def test_each_column_stops_at_its_own_grade(reorthogonalise):
    """Signals of one component each: an isolated node, an edge, a clique, paths; then nothing, and all together."""
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
def test_orthonormal_refuses_an_operator_that_is_not_symmetric(degree):
    directed = Propagation(random_graph(2, directed=True), 0.5, "out")
    for P_out in (directed, [P, directed]):
        basis = average(orthonormal, P_out, X[:20], degree)
        with pytest.raises(ValueError, match=r"needs a symmetric operator.*Use direction='both'"):
            next(basis)


@every_degree
@every_basis
def test_average_is_the_mean_of_the_separate_bases(basis, degree):
    wanted = torch.stack([stack(basis(P_tau, X, degree)) for P_tau in SEPARATE]).mean(0)
    for operators in (SEPARATE, tuple(SEPARATE), Propagation(GRAPH, TAUS)):
        assert_close(stack(average(basis, operators, X, degree)), wanted, rtol=1e-12, atol=1e-12)


def test_average_takes_any_mixture_of_operators_and_a_single_one():
    mixture = [P, Laplacian(GRAPH, 1.3), P.to_dense()]
    wanted = torch.stack([stack(list(chebyshev(operator, X, 4))) for operator in mixture]).mean(0)
    assert_close(stack(average(chebyshev, mixture, X, 4)), wanted)
    assert_same_bits(stack(average(chebyshev, P, X, 4)), stack(chebyshev(P, X, 4)))
    with pytest.raises(ValueError, match="at least one operator; got an empty list"):
        average(krylov, [], X, 4)


@every_basis
@pytest.mark.parametrize("layout", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix])
def test_a_sparse_signal_equals_the_dense_one(layout, basis):
    x = torch.where(random_signal(24, 70) > 1, random_signal(24, 70), 0)  # two panels
    sparse = layout(x.numpy())
    made = basis(P, sparse, 3)
    assert_same_bits(stack(made), stack(basis(P, x, 3)))
    assert made.x is sparse
    assert_same_bits(stack(basis(P, sparse.astype(np.float32), 3)), stack(basis(P, x.float(), 3)))


@every_basis
def test_a_buffer_is_filled_and_given_back(basis):
    for dtype in (torch.float32, torch.float64):
        out = torch.full((24, 6, 3), torch.nan, dtype=dtype)
        assert stack(basis(P, X.to(dtype), 5), out=out) is out
        assert_same_bits(out, stack(basis(P, X.to(dtype), 5)))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((24, 5, 3), torch.float64), ((6, 24, 3), torch.float64), ((24, 6, 3), torch.float32)], ids=str
)
def test_a_wrong_buffer_is_refused(shape, dtype):
    with pytest.raises(ValueError, match=r"out must be torch\.float64 of shape \[24, 6, 3\]; got torch\.float"):
        stack(krylov(P, X, 5), out=torch.empty(shape, dtype=dtype))


@pytest.mark.parametrize(
    ("degree", "error", "message"),
    [
        (-1, ValueError, r"degree must be 0 or more; got -1\.( |$)"),
        (2.5, TypeError, r"degree must be an integer; got 2.5\.( |$)"),
        (True, TypeError, "degree must be an integer; got True"),
        ("3", TypeError, "degree must be an integer; got '3'"),
    ],
)
@every_basis
def test_a_bad_degree_is_refused_at_once(basis, degree, error, message):
    for make in (basis, partial(average, basis), recurrence):
        with pytest.raises(error, match=message):
            make(P, X, degree)


@pytest.mark.parametrize("ab", [(-1.0, 0.0), (0.0, -2.0), (math.nan, 0.0)])
def test_jacobi_refuses_exponents_without_a_weight_function(ab):
    with pytest.raises(ValueError, match=f"need a > -1 and b > -1; got a = {ab[0]}, b = {ab[1]}"):
        next(jacobi(P, X, 2, a=ab[0], b=ab[1]))


@every_basis
def test_stack_does_not_mind_terms_already_taken(basis):
    begun = basis(P, X, 4)
    first = next(begun)
    whole = stack(begun)
    assert_same_bits(whole[:, 0], first)
    assert_same_bits(torch.stack([first, *begun], 1), whole)


@every_basis
def test_a_basis_is_differentiable(basis):
    x = random_signal(24, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: torch.stack(list(basis(P, x, 3))), x, fast_mode=True)


def test_a_basis_prints_what_it_is():
    assert (
        repr(jacobi(P, X, 4, a=2))
        == "Basis(jacobi, degree=4, x=[24, 3], P=Propagation(n=24, tau=0.7, direction='both'))"
    )


def test_lanczos_gives_its_steps_one_product_at_a_time():
    steps = list(lanczos(P, U[:, [3]] + U[:, [9]], 5))
    assert [bool(step.term.any()) for step in steps] == [True, True, False]  # it ends where it finds nothing new
    assert_close(torch.cat([step.alpha for step in steps[1:]]).sum(), EIGENVALUES[3] + EIGENVALUES[9])


@pytest.mark.gpu
@pytest.mark.parametrize("keep_norm", [False, True])
@pytest.mark.parametrize(("nodes", "columns"), [(2500, 300), (333, 7), (50_000, 130)])
def test_the_gpus_orthonormal_basis_is_the_one_of_the_cpu(nodes, columns, keep_norm):
    from adaptkry.graphs.synthetic import csbm

    graph = csbm(nodes=nodes, features=columns, seed=0)
    x = graph.x.clone()
    x[:, 1] = 0  # no signal, no terms
    operator = Propagation(graph, 0.8)
    wanted = stack(orthonormal(operator, x.double(), 8, keep_norm=keep_norm)).float()
    found = [stack(orthonormal(operator.to("cuda"), x.cuda(), 8, keep_norm=keep_norm)).cpu() for _ in range(2)]
    assert_same_bits(found[0], found[1])
    assert_close(found[0], wanted, rtol=0, atol=2e-4 * float(wanted.abs().max()))
    plain = stack(orthonormal(operator, x, 8, keep_norm=keep_norm))  # float32 as well
    length = x[:, 2:].norm(dim=0) if keep_norm else 1
    assert lost(found[0][:, :, 2:] / length) < 2 * lost(plain[:, :, 2:] / length) + 1e-6
    assert not found[0][:, :, 1].any()


def lost(Q):
    """How far the terms of any column are from being orthonormal."""
    products = torch.einsum("njd,nkd->djk", Q.double(), Q.double())
    return float((products - torch.eye(Q.shape[1], dtype=torch.float64)).abs().max())


@pytest.mark.gpu
def test_the_gpus_orthonormal_basis_stops_at_the_grade():
    star = Graph([[0, 0, 0, *range(4, 40)], [1, 2, 3, *range(5, 41)]], nodes=41)
    x = torch.zeros(41, 1)
    x[0] = 1.0  # the hub of a star: its space has two dimensions
    found = stack(orthonormal(Propagation(star, 1.0).to("cuda"), x.cuda(), 5)).cpu()
    assert found[:, :2].abs().sum() > 0
    assert not found[:, 2:].any()
