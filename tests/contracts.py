"""Checks that every operator, every basis and every method must pass. To test a new operator or basis:

@OPERATOR_CONTRACT
def test_my_operator_satisfies_the_contract(check):
    check(MyOperator(...))

@BASIS_CONTRACT
def test_my_basis_satisfies_the_contract(check):
    check(my_basis, P, x, degree=5)
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import ModelShape
from adaptkry.spectral.bases import stack
from adaptkry.spectral.basis_function import Basis
from adaptkry.spectral.operators import ALL_COLUMNS, Diagonal, Operator
from adaptkry.training.batches import FullBatch
from adaptkry.training.loop import GradientDescent
from adaptkry.training.losses import chunk_logits
from adaptkry.training.state import Member

assert_close = torch.testing.assert_close
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def random_signal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normally distributed numbers; the seed depends on the shape only."""
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def assert_same_bits(found: Tensor, expected: Tensor) -> None:
    """Assert that two tensors have the same shape, dtype and values, without tolerance."""
    assert_close(found, expected, rtol=0, atol=0)


# Checks of an operator: check(P), where P is one matrix [n, n] or a batch [r, n, n].


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


def properties_are_those_of_the_dense_matrix(P) -> None:
    dense = P.to_dense()
    assert P.is_batched == (dense.ndim == 3)
    assert P.panel >= 1
    if P.is_symmetric:
        assert P.T is P
        assert_close(dense, dense.mT, rtol=1e-14, atol=0)


def transpose_is_that_of_the_dense_matrix(P) -> None:
    assert_close(P.T.to_dense(), P.to_dense().mT, rtol=1e-14, atol=0)
    assert_close(P.T.T.to_dense(), P.to_dense(), rtol=1e-14, atol=0)
    assert (P.T.shape, P.T.is_batched) == (P.shape, P.is_batched)


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
        before = x.clone()
        assert_same_bits(P @ x, P @ x)
        assert_same_bits(x, before)


# Checks of a basis: check(basis, P, x, degree), with P symmetric and degree below the grade of every column of x.


class Counting(Operator):
    """An operator that counts its products and has a given panel width."""

    def __init__(self, P: Operator, panel: int = ALL_COLUMNS):
        super().__init__(P.shape, is_symmetric=P.is_symmetric, is_batched=P.is_batched, panel=panel)
        self.P, self.products = P, 0

    @property
    def T(self) -> Operator:  # noqa: N802
        return Counting(self.P.T, self.panel)

    def __matmul__(self, x: Tensor) -> Tensor:
        self.products += 1
        return self.P @ x

    def to_dense(self) -> Tensor:
        return self.P.to_dense()


def computed_on_the_spectrum(basis: Callable[..., Basis], P, x: Tensor, degree: int) -> Tensor:
    """U p_k(Lambda) U^T x as [n, K+1, d], the mean over the matrices if P is batched.

    The basis is computed for the signal U^T x and not for ones, because the orthonormal basis depends on the signal.
    """
    dense = P.to_dense()
    results = []
    for matrix in dense.reshape(-1, *dense.shape[-2:]):
        eigenvalues, U = torch.linalg.eigh(matrix)
        terms = basis(Diagonal(eigenvalues), U.T @ x, degree)
        results.append(torch.stack([U @ term for term in terms], 1))
    return torch.stack(results).mean(0)


def degree_k_takes_k_products_and_gives_k_plus_1_terms(basis, P, x, degree) -> None:
    counting = Counting(P)
    terms = list(basis(counting, x, degree))
    assert [term.shape for term in terms] == [x.shape] * (degree + 1)
    assert counting.products == degree


def terms_equal_their_response_on_the_spectrum(basis, P, x, degree) -> None:
    assert_close(stack(basis(P, x, degree)), computed_on_the_spectrum(basis, P, x, degree), rtol=1e-10, atol=1e-10)


def stack_in_panels_equals_the_terms(basis, P, x, degree, tolerance: float = 1e-10) -> None:
    whole = torch.stack(list(basis(P, x, degree)), 1)
    for panel in (1, 2, x.shape[1] + 1):
        counting = Counting(P, panel)
        assert_close(stack(basis(counting, x, degree)), whole, rtol=tolerance, atol=tolerance)
        assert counting.products == degree * -(-x.shape[1] // panel)


def stack_in_panels_has_the_bits_of_the_terms(basis, P, x, degree) -> None:
    stack_in_panels_equals_the_terms(basis, P, x, degree, tolerance=0)


def _contract(*checks: Callable) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


OPERATOR_CONTRACT = _contract(
    product_equals_the_dense_matrix,
    shape_is_that_of_the_dense_matrix,
    properties_are_those_of_the_dense_matrix,
    transpose_is_that_of_the_dense_matrix,
    columns_are_independent,
    same_input_gives_the_same_bits,
)
_BASIS = (degree_k_takes_k_products_and_gives_k_plus_1_terms, terms_equal_their_response_on_the_spectrum)
BASIS_CONTRACT = _contract(*_BASIS, stack_in_panels_has_the_bits_of_the_terms)
# Lanczos sums over nodes; the order of torch's sums depends on the number of columns.
LANCZOS_CONTRACT = _contract(*_BASIS, stack_in_panels_equals_the_terms)


def check_members_are_independent(graph: Graph, used: Recipe) -> None:
    """Three members that differ in split, seed, rate and dropout train in a batch as each of them does alone."""
    split = splits.stratified(graph.y, count=2)
    inputs = model_inputs(graph, used)
    shape = ModelShape(used, len(inputs.terms), inputs.terms.shape[2], graph.classes)
    members = [Member(i % 2, i, replace(used, mlp_lr=0.01 * (i + 1), mlp_dropout=0.2 * i)) for i in range(3)]

    def train(members: list[Member]) -> Tensor:
        masks = {"train": split.train, "validation": split.validation}
        split_of_member = torch.tensor([member.split for member in members])
        batches = FullBatch(inputs.terms.double(), graph.y, masks, split_of_member, operator=inputs.operator)
        state = GradientDescent(shape, batches, members).run()
        ((logits, _),) = chunk_logits(shape, state.group("best"), batches.chunks(), inputs.operator)
        return logits

    in_batch = train(members)
    for i, member in enumerate(members):
        assert_close(in_batch[i], train([member])[0], rtol=0, atol=1e-10)
