"""A basis as a function of an operator and a signal, and the terms it gives."""

from collections.abc import Callable, Iterator
from functools import partial, wraps

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks

Terms = Iterator[Tensor]


class Basis(Iterator[Tensor]):
    """The K + 1 terms of a basis, made one product at a time as you iterate; `stack` makes them all."""

    def __init__(self, terms: Callable[..., Terms], P, x, degree: int):
        self.terms, self.P, self.x, self.degree = terms, P, x, checks.count(degree, "degree")
        if not sp.issparse(x) and (not isinstance(x, Tensor) or not x.is_floating_point()):
            came = getattr(x, "dtype", type(x).__name__)
            raise TypeError(
                f"a basis wants a float tensor or a SciPy matrix, but {came} came. Use torch.as_tensor(x).float()."
            )
        self._running: Terms | None = None

    def __next__(self) -> Tensor:
        if self._running is None:
            self._running = self.terms(self.P, dense(self.x), self.degree)
        return next(self._running)

    def columns(self, start: int, stop: int) -> Terms:
        """The same basis of columns start..stop-1 alone, as a fresh iterator."""
        return self.terms(self.P, dense(self.x[:, start:stop]), self.degree)

    def __repr__(self) -> str:
        name = getattr(self.terms, "func", self.terms).__name__
        return f"Basis({name}, degree={self.degree}, x={list(self.x.shape)}, P={self.P!r})"


def dense(x) -> Tensor:
    """A contiguous tensor; SciPy sparse signals are filled in here, a panel at a time."""
    return torch.from_numpy(np.ascontiguousarray(x.toarray())) if sp.issparse(x) else x.contiguous()


def basis(terms: Callable[..., Terms]) -> Callable[..., Basis]:
    """Turn a generator `terms(P, x, degree, **options)` into a maker of `Basis`."""

    @wraps(terms)
    def make(P, x, degree: int, **options) -> Basis:
        return Basis(partial(terms, **options) if options else terms, P, x, degree)

    return make
