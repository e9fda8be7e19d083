import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.operators import Diagonal, Matrix, Operator, Rescaled, Shift, StackedOperators, as_operator
from adaptkry.spectral.propagation_matrix import Laplacian, Propagation
from contracts import OPERATOR_CONTRACT, assert_close, assert_same_bits, columns_are_independent, random_signal
from strategies import graphs, random_graph

some_eigenvalues = st.lists(st.floats(-2, 2), min_size=1, max_size=9)


@OPERATOR_CONTRACT
@given(eigenvalues=some_eigenvalues)
def test_diagonal_and_shift_satisfy_the_operator_contract(check, eigenvalues):
    check(Diagonal(torch.tensor(eigenvalues, dtype=torch.float64)))
    check(Shift(len(eigenvalues)))


@OPERATOR_CONTRACT
@given(graph=graphs(), tau=st.floats(0.1, 1.9), centre=st.floats(-1, 1), half_width=st.floats(0.5, 2))
def test_composed_operators_satisfy_the_operator_contract(check, graph, tau, centre, half_width):
    P, P_out = Propagation(graph, tau), Propagation(graph, 2 - tau, "out")
    check(StackedOperators([Laplacian(graph, tau), P_out, P]))
    check(Rescaled(P_out, centre, half_width))
    check(Rescaled(Propagation(graph, [tau, 1.0]), centre, half_width))


@OPERATOR_CONTRACT
@given(graph=graphs(), directed=st.booleans())
def test_matrix_satisfies_the_operator_contract(check, graph, directed):
    if check is columns_are_independent:
        return  # equal up to rounding only: the order of torch's dense sums depends on the number of columns
    P = Propagation(graph, 0.7, "out" if directed else "both")
    check(Matrix(P.to_dense()))
    check(Matrix(torch.stack([P.to_dense(), P.to_dense() / 2])))
    check(Matrix(P.to_csr(0, torch.float64)))


@given(graph=graphs())
def test_a_matrix_is_symmetric_if_it_equals_its_transpose_to_rounding(graph):
    P = Propagation(graph, 0.7, "out")
    A = P.to_dense()
    is_symmetric = bool((A - A.mT).abs().max() < 1e-9)
    for matrix in (A, A.float(), P.to_csr(0), P.to_csr(0, torch.float64), A.to_sparse_coo()):
        assert Matrix(matrix).is_symmetric == is_symmetric
    U = torch.linalg.eigh(A + A.mT)[1]
    assert Matrix(U @ torch.diag(torch.arange(1.0, len(U) + 1, dtype=torch.float64)) @ U.mT).is_symmetric


def test_a_basis_accepts_torch_matrices_of_any_layout():
    P, x = Propagation(random_graph(1), 0.7), random_signal(20, 3)
    for matrix in (P.to_dense(), P.to_csr(0, torch.float64)):
        assert_close(stack(krylov(matrix, x, 4)), stack(krylov(P, x, 4)), rtol=0, atol=1e-12)
    assert as_operator(P) is P


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3), (1, 2, 2, 2)], ids=str)
def test_a_matrix_that_is_not_square_raises(shape):
    with pytest.raises(ValueError, match=r"shape \[n, n\] or \[r, n, n\]; got \[" + ", ".join(map(str, shape))):
        as_operator(torch.ones(shape))


@pytest.mark.parametrize("P", [None, 2.0, [[0.0]], random_graph(1)], ids=["None", "number", "list", "graph"])
def test_an_operator_of_a_wrong_type_raises_when_the_basis_is_created(P):
    with pytest.raises(TypeError, match=f"must be an Operator or a torch matrix; got {type(P).__name__}. Use torch"):
        krylov(P, torch.ones(1, 1), 2)


def test_an_operator_must_define_products_transpose_and_dense_matrix():
    class Half(Operator):
        def __matmul__(self, x):
            return x / 2

    with pytest.raises(TypeError, match=r"abstract methods '?T'?, '?to_dense'?"):
        Half((2, 2), is_symmetric=True)  # type: ignore[abstract]


def test_eigenvalues_must_be_one_dimensional():
    with pytest.raises(ValueError, match=r"shape \[n\]; got \[2, 2\]"):
        Diagonal(torch.eye(2))


def test_stacked_operators_have_the_narrowest_panel_and_are_symmetric_if_all_are():
    graph = random_graph(2, directed=True)
    both = StackedOperators([Diagonal(torch.ones(20)), Propagation(graph, 0.5)])
    assert (both.panel, both.is_symmetric, both.T) == (kernels.panel_width(20), True, both)
    assert not StackedOperators([Propagation(graph, 0.5), Propagation(graph, 0.5, "out")]).is_symmetric
    with pytest.raises(ValueError, match="at least one operator; got an empty list"):
        StackedOperators([])


def test_slices_of_a_batched_product_are_the_products_of_the_slices():
    operators = [Diagonal(torch.full((4,), float(i))) for i in range(3)]
    x = random_signal(3, 4, 2)
    wanted = torch.stack([P @ part for P, part in zip(operators, x, strict=True)])
    assert_same_bits(StackedOperators(operators) @ x, wanted)
