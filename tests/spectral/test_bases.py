import math
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import eval_chebyt, eval_jacobi, eval_legendre

from adaptkry.spectral.bases import BASES, average, bernstein, chebyshev, jacobi, krylov, legendre, stack
from adaptkry.spectral.lanczos import orthonormal, recurrence
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation_matrix import Laplacian, Propagation
from contracts import BASIS_CONTRACT, LANCZOS_CONTRACT, assert_close, assert_same_bits, random_signal
from strategies import graphs, random_graph

GRAPH = random_graph(1, n=24, connected=True)
X = GRAPH.x
P = Propagation(GRAPH, 0.7)
EIGENVALUES, U = torch.linalg.eigh(P.to_dense())
TAUS = [0.3, 0.9, 1.6]
SEPARATE = [Propagation(GRAPH, tau) for tau in TAUS]
JACOBI = [(0.0, 0.0), (-0.5, -0.5), (1.0, 0.25), (-0.9, 2.0)]
ORTHONORMAL = {"orthonormal": orthonormal, "reorthogonalised": partial(orthonormal, reorthogonalise=True)}
FIXED = {name: basis for name, basis in BASES.items() if name not in ORTHONORMAL}  # the others depend on the signal
FIXED |= {f"jacobi{ab}": partial(jacobi, a=ab[0], b=ab[1]) for ab in JACOBI}

over = partial(pytest.mark.parametrize, "basis")
every_basis = over([*FIXED.values(), *ORTHONORMAL.values()], ids=[*FIXED, *ORTHONORMAL])
every_degree = pytest.mark.parametrize("degree", [0, 1, 6])


@BASIS_CONTRACT
@every_degree
@over(FIXED.values(), ids=FIXED)
def test_polynomials_satisfy_the_basis_contract(check, basis, degree):
    check(basis, P, X, degree)
    check(partial(average, basis), Propagation(GRAPH, TAUS), X, degree)


@LANCZOS_CONTRACT
@every_degree
@over(ORTHONORMAL.values(), ids=ORTHONORMAL)
def test_orthonormal_satisfies_the_basis_contract(check, basis, degree):
    check(basis, P, X, degree)
    check(partial(average, basis), Propagation(GRAPH, TAUS), X, degree)


def eval_bernstein(k, x, degree):
    return math.comb(degree, k) * ((1 + x) / 2) ** (degree - k) * ((1 - x) / 2) ** k


REFERENCES = {
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
@pytest.mark.parametrize(("basis", "reference"), REFERENCES.values(), ids=REFERENCES)
def test_terms_equal_the_polynomials_of_scipy(basis, reference, degree):
    """Evaluated at eigenvalues, and applied to the matrix of a graph."""
    ones = torch.ones(len(GRID), 1, dtype=torch.float64)
    found = stack(basis(Diagonal(torch.from_numpy(GRID)), ones, degree))[:, :, 0]
    wanted = np.stack([reference(k, GRID, degree) for k in range(degree + 1)], 1)
    assert_close(found, torch.from_numpy(wanted), rtol=1e-10, atol=1e-10)
    responses = [reference(k, EIGENVALUES.numpy(), degree)[:, None] for k in range(degree + 1)]
    expected = torch.stack([U @ (torch.from_numpy(g) * (U.T @ X)) for g in responses], 1)
    assert_close(stack(basis(P, X, degree)), expected, rtol=1e-10, atol=1e-10)


@given(graph=graphs(), degree=st.integers(0, 30))
def test_bernstein_terms_add_up_to_the_signal(graph, degree):
    assert_close(stack(bernstein(Propagation(graph, 1.0), graph.x, degree)).sum(1), graph.x, rtol=1e-10, atol=1e-10)


@every_basis
def test_float32_terms_are_the_float64_terms_rounded(basis):
    found = stack(basis(P, X.float(), 6))
    assert found.dtype == torch.float32
    assert_close(found.double(), stack(basis(P, X, 6)), rtol=1e-3, atol=1e-4)


@every_degree
@every_basis
def test_average_is_the_mean_of_the_separate_bases(basis, degree):
    wanted = torch.stack([stack(basis(P_tau, X, degree)) for P_tau in SEPARATE]).mean(0)
    for operators in (SEPARATE, tuple(SEPARATE), Propagation(GRAPH, TAUS)):
        assert_close(stack(average(basis, operators, X, degree)), wanted, rtol=1e-12, atol=1e-12)


def test_average_accepts_operators_of_different_types_and_a_single_one():
    operators = [P, Laplacian(GRAPH, 1.3), P.to_dense()]
    wanted = torch.stack([stack(list(chebyshev(operator, X, 4))) for operator in operators]).mean(0)
    assert_close(stack(average(chebyshev, operators, X, 4)), wanted)
    assert_same_bits(stack(average(chebyshev, P, X, 4)), stack(chebyshev(P, X, 4)))
    with pytest.raises(ValueError, match="at least one operator; got an empty list"):
        average(krylov, [], X, 4)


@every_basis
@pytest.mark.parametrize("layout", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix])
def test_a_sparse_signal_equals_the_dense_one(layout, basis):
    x = torch.where(random_signal(24, 70) > 1, random_signal(24, 70), 0)  # two panels
    sparse = layout(x.numpy())
    terms = basis(P, sparse, 3)
    assert_same_bits(stack(terms), stack(basis(P, x, 3)))
    assert terms.x is sparse
    assert_same_bits(stack(basis(P, sparse.astype(np.float32), 3)), stack(basis(P, x.float(), 3)))


@every_basis
def test_out_is_filled_and_returned(basis):
    for dtype in (torch.float32, torch.float64):
        out = torch.full((24, 6, 3), torch.nan, dtype=dtype)
        assert stack(basis(P, X.to(dtype), 5), out=out) is out
        assert_same_bits(out, stack(basis(P, X.to(dtype), 5)))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((24, 5, 3), torch.float64), ((6, 24, 3), torch.float64), ((24, 6, 3), torch.float32)], ids=str
)
def test_out_of_a_wrong_shape_or_dtype_raises(shape, dtype):
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
def test_an_invalid_degree_raises_when_the_basis_is_created(basis, degree, error, message):
    for make in (basis, partial(average, basis), recurrence):
        with pytest.raises(error, match=message):
            make(P, X, degree)


@pytest.mark.parametrize("ab", [(-1.0, 0.0), (0.0, -2.0), (math.nan, 0.0)])
def test_jacobi_parameters_of_minus_one_or_less_raise(ab):
    with pytest.raises(ValueError, match=f"need a > -1 and b > -1; got a = {ab[0]}, b = {ab[1]}"):
        next(jacobi(P, X, 2, a=ab[0], b=ab[1]))


@every_basis
def test_stack_is_independent_of_terms_already_computed(basis):
    started = basis(P, X, 4)
    first = next(started)
    whole = stack(started)
    assert_same_bits(whole[:, 0], first)
    assert_same_bits(torch.stack([first, *started], 1), whole)


@every_basis
def test_a_basis_is_differentiable(basis):
    x = random_signal(24, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: torch.stack(list(basis(P, x, 3))), x, fast_mode=True)


def test_repr_of_a_basis_shows_its_arguments():
    assert (
        repr(jacobi(P, X, 4, a=2))
        == "Basis(jacobi, degree=4, x=[24, 3], P=Propagation(n=24, tau=0.7, direction='both'))"
    )
