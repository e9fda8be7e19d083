"""What every operator and every basis promises. Put a new one into a test marked with the contract:

@OPERATOR_CONTRACT
def test_my_operator_keeps_the_contract(clause):
    clause(MyOperator(...))

@BASIS_CONTRACT
def test_my_basis_keeps_the_contract(clause):
    clause(my_basis, P, x, degree=5)
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from adaptkry.spectral.bases import stack
from adaptkry.spectral.basis_function import Basis
from adaptkry.spectral.operators import Diagonal

assert_close = torch.testing.assert_close
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def random_signal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers, the same for the same shape."""
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def assert_same_bits(found: Tensor, wanted: Tensor) -> None:
    """Equal without any tolerance, dtype and shape included."""
    assert_close(found, wanted, rtol=0, atol=0)


# Operators: clause(P). A matrix [n, n], or r of them as [r, n, n].


def product_equals_the_dense_matrix(P) -> None:
    dense = P.to_dense()
    *r, n, _ = dense.shape
    shapes = [(*r, n, 3), (n, 3)] if r else [(n,), (n, 1), (n, 3)]
    for dtype, tolerance in TOLERANCE.items():
        for shape in shapes:
            x = random_signal(*shape, dtype=dtype)
            product = P @ x
            size = 1 + float(dense.abs().sum(-1).max())
            assert product.dtype == dtype
            assert_close(product.double(), dense @ x.double(), rtol=0, atol=tolerance * size)


def shape_is_that_of_the_dense_matrix(P) -> None:
    dense = P.to_dense()
    assert dense.dtype == torch.float64
    assert tuple(P.shape) == dense.shape[-2:]
    assert P.shape[0] == P.shape[1]


def matrix_is_symmetric_when_it_says_so(P) -> None:
    dense = P.to_dense()
    if getattr(P, "is_symmetric", False):
        assert_close(dense, dense.mT, rtol=1e-14, atol=0)
    if hasattr(P, "T"):
        assert_close(P.T.to_dense(), dense.mT, rtol=1e-14, atol=0)


def columns_are_independent(P) -> None:
    for dtype in TOLERANCE:
        x = random_signal(P.shape[0], 5, dtype=dtype)
        among_nans = torch.full_like(x, torch.nan)
        among_nans[:, 2] = x[:, 2]
        for column in (P @ x[:, 2:3], (P @ among_nans)[..., 2:3]):
            assert_same_bits(column, (P @ x)[..., 2:3])


def same_input_gives_the_same_bits(P) -> None:
    for dtype in TOLERANCE:
        x = random_signal(P.shape[0], 7, dtype=dtype)
        kept = x.clone()
        assert_same_bits(P @ x, P @ x)
        assert_same_bits(x, kept)


# Bases: clause(basis, P, x, degree), with P symmetric and degree below the grade of every column of x.


class Watched:
    """An operator that counts its products and prescribes the width of panels."""

    def __init__(self, P, panel: int = 2**31):
        self.P, self.panel, self.products = P, panel, 0
        self.shape, self.is_symmetric = P.shape, getattr(P, "is_symmetric", True)

    def __matmul__(self, x: Tensor) -> Tensor:
        self.products += 1
        return self.P @ x


def through_the_spectrum(basis: Callable[..., Basis], P, x: Tensor, degree: int) -> Tensor:
    """U p_k(Lambda) U^T x as [n, K+1, d], the mean over the matrices where P holds several.

    The basis itself is run on the spectrum, on U^T x and not on ones: the orthonormal basis hears its signal.
    """
    dense = P.to_dense()
    made = []
    for matrix in dense.reshape(-1, *dense.shape[-2:]):
        eigenvalues, U = torch.linalg.eigh(matrix)
        terms = basis(Diagonal(eigenvalues), U.T @ x, degree)
        made.append(torch.stack([U @ term for term in terms], 1))
    return torch.stack(made).mean(0)


def degree_k_takes_k_products_and_gives_k_plus_1_terms(basis, P, x, degree) -> None:
    watched = Watched(P)
    terms = list(basis(watched, x, degree))
    assert [term.shape for term in terms] == [x.shape] * (degree + 1)
    assert watched.products == degree


def terms_equal_their_response_on_the_spectrum(basis, P, x, degree) -> None:
    assert_close(stack(basis(P, x, degree)), through_the_spectrum(basis, P, x, degree), rtol=1e-10, atol=1e-10)


def stack_in_panels_equals_the_terms(basis, P, x, degree, tolerance: float = 1e-10) -> None:
    whole = torch.stack(list(basis(P, x, degree)), 1)
    for panel in (1, 2, x.shape[1] + 1):
        watched = Watched(P, panel)
        assert_close(stack(basis(watched, x, degree)), whole, rtol=tolerance, atol=tolerance)
        assert watched.products == degree * -(-x.shape[1] // panel)


def stack_in_panels_has_the_bits_of_the_terms(basis, P, x, degree) -> None:
    stack_in_panels_equals_the_terms(basis, P, x, degree, tolerance=0)


def _contract(*clauses: Callable) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("clause", clauses, ids=lambda clause: clause.__name__)


OPERATOR_CONTRACT = _contract(
    product_equals_the_dense_matrix,
    shape_is_that_of_the_dense_matrix,
    matrix_is_symmetric_when_it_says_so,
    columns_are_independent,
    same_input_gives_the_same_bits,
)
_BASIS = (degree_k_takes_k_products_and_gives_k_plus_1_terms, terms_equal_their_response_on_the_spectrum)
BASIS_CONTRACT = _contract(*_BASIS, stack_in_panels_has_the_bits_of_the_terms)
# Lanczos sums over nodes, and torch orders such a sum according to the number of columns beside it.
LANCZOS_CONTRACT = _contract(*_BASIS, stack_in_panels_equals_the_terms)
