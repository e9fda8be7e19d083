r"""Operators: anything with `@`, `shape` and `to_dense`, and ways to compose them."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from adaptkry.common import checks


class Operator(Protocol):
    """What a basis needs to know of a matrix, and one thing more for the oracle tests."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        ...

    def __matmul__(self, x: Tensor, /) -> Tensor:
        """The product with a signal of n rows."""
        ...

    def to_dense(self) -> Tensor:
        """The same matrix, dense, in float64."""
        ...


class Diagonal:
    """A spectrum posing as an operator: give it to a basis and you read the basis' frequency response.

    >>> Diagonal(torch.tensor([1.0, -0.5])) @ torch.ones(2, 1)
    tensor([[ 1.0000], [-0.5000]])
    """

    def __init__(self, eigenvalues: Tensor):
        self.eigenvalues = checks.floats(eigenvalues, "eigenvalues")
        if self.eigenvalues.ndim != 1:
            raise ValueError(f"eigenvalues must have shape [n], but {list(self.eigenvalues.shape)} came.")

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return (len(self.eigenvalues), len(self.eigenvalues))

    def __matmul__(self, x: Tensor) -> Tensor:
        checks.signal(x, self.shape[0])
        return self.eigenvalues.to(x).reshape(-1, *[1] * (x.ndim - 1)) * x

    def to_dense(self) -> Tensor:
        """The diagonal matrix in float64."""
        return torch.diag(self.eigenvalues.double())

    def __repr__(self) -> str:
        return f"Diagonal(n={self.shape[0]})"


class Shift:
    """Multiplication by lambda on polynomials written as coefficients of 1, lambda, lambda^2, ..."""

    def __init__(self, size: int):
        self.shape = (size, size)
        self.is_symmetric = False  # so that the orthonormal basis refuses it: Lanczos would yield nonsense

    def __matmul__(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x[:1]), x[:-1]])

    def to_dense(self) -> Tensor:
        """Ones below the diagonal."""
        return torch.diag(torch.ones(self.shape[0] - 1, dtype=torch.float64), -1)


class SideBySide:
    """r operators as one on signals [r, n, d] (or [n, d], taken r times): slice i goes through operator i."""

    def __init__(self, operators: Sequence):
        if not operators:
            raise ValueError("an average needs at least one operator, but an empty list came.")
        self.operators = list(operators)
        self.shape = operators[0].shape
        self.is_symmetric = all(getattr(P, "is_symmetric", True) for P in operators)
        self.panel = min(getattr(P, "panel", 2**31) for P in operators)

    def __matmul__(self, x: Tensor) -> Tensor:
        slices = x.expand(len(self.operators), *x.shape[-2:])
        return torch.stack([P @ part for P, part in zip(self.operators, slices, strict=True)])

    def to_dense(self) -> Tensor:
        """The matrices one behind the other: [r, n, n]."""
        return torch.stack([P.to_dense() for P in self.operators])
