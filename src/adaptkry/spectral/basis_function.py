r"""The class of bases: a function that yields the terms, and the properties that other modules use.

A basis is written as a generator of the terms :math:`p_0(P)x, \dots, p_K(P)x`. The decorator turns it into a
`BasisFunction`; calling it returns a `Basis`, an iterator that computes one product at a time:

>>> @basis()
... def squares(P, x, degree, *, scale=1.0):
...     yield x
...     for _ in range(degree):
...         x = scale * (P @ (P @ x))
...         yield x
>>> [float(term) for term in squares(torch.tensor([[2.0]]), torch.ones(1, 1), degree=3)]
[1.0, 4.0, 16.0, 64.0]
>>> squares.name, squares.depends_on_signal, squares.response_from
('squares', False, 'polynomial')
>>> squares(torch.tensor([[2.0]]), torch.ones(1, 1), degree=3, scal=2.0)
Traceback (most recent call last):
...
ValueError: unknown option of the basis squares 'scal'. Did you mean 'scale'? Known: scale.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import pick, shortened
from adaptkry.spectral.operators import as_operator

Terms = Iterator[Tensor]


class LearnedBasis(Protocol):
    """The trainable weights of a basis, and the options computed from them."""

    def initial_weights(self, channels: int, degree: int) -> dict[str, Tensor]:
        """Return the initial weights by name, each [channels, ...]."""
        ...

    def options(self, weights: dict[str, Tensor]) -> dict[str, Any]:
        """Return the options of the basis, from weights each [channels, ...] or [members, channels, ...]."""
        ...


@dataclass(frozen=True, eq=False)
class BasisFunction:
    """A basis: call it with an operator, a signal, a degree and its options.

    Args:
        terms: generator `terms(P, x, degree, **options)` of the K + 1 terms.
        name: the key in the table of bases.
        depends_on_signal: whether the polynomials depend on x, so that the basis is not linear in x.
        learned: the trainable weights of the basis, if it has any.
        expands_in: another basis and a function degree -> matrix [K + 1, K + 1] whose row k holds the coefficients of
            p_k in that basis. Filters with trained coefficients use it to compute K + 1 terms instead of (K + 1)^2.
        multiplies_terms: whether the k-th product is that of P with term k - 1, and nothing else depends on other rows:
            after a change of the graph, terms can then be updated by rows (`local_update.py`).
        required_options: options without a default.
        response_from: how the frequency response is computed: "polynomial" if p_k is a fixed polynomial of degree at
            most K; "recurrence" if the polynomials depend on the signal and are those of `lanczos.recurrence`; None if
            there is no single response.
        fill_on_gpu: `fill_on_gpu(basis, out)` computes all terms in one kernel and returns True, or returns False if
            the kernel does not apply.
    """

    terms: Callable[..., Terms]
    name: str
    depends_on_signal: bool = False
    learned: LearnedBasis | None = None
    expands_in: tuple[str, Callable[[int], np.ndarray]] | None = None
    multiplies_terms: bool = False
    required_options: tuple[str, ...] = ()
    response_from: Literal["polynomial", "recurrence"] | None = "polynomial"
    fill_on_gpu: "Callable[[Basis, Tensor], bool] | None" = None
    known_options: tuple[str, ...] | None = field(init=False, default=None)  # None if `terms` has **options

    def __post_init__(self):
        # As functools.wraps does: docstring, doctests and signature are those of the generator.
        names = ("__doc__", "__module__", "__name__", "__qualname__")
        vars(self).update({name: getattr(self.terms, name, None) for name in names}, __wrapped__=self.terms)
        parameters = inspect.signature(self.terms).parameters.values()
        has_var_keyword = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)
        known = [parameter.name for parameter in parameters if parameter.kind == parameter.KEYWORD_ONLY]
        vars(self)["known_options"] = None if has_var_keyword else tuple(known)

    def __call__(self, P, x, degree: int, **options) -> "Basis":
        """Return the basis of a signal."""
        self.check_options(options)
        return Basis(self, P, x, degree, options)

    def check_options(self, options: dict[str, Any]) -> None:
        """Raise ValueError for unknown options and for missing required ones."""
        if self.known_options is not None:
            for option in options:
                pick(dict.fromkeys(self.known_options), option, f"option of the basis {self.name}")
        for option, value in options.items():
            if value is None or isinstance(value, str):
                raise TypeError(f"the basis option {option} must be a number; got {shortened(value)}.")
        if any(option not in options for option in self.required_options):
            raise ValueError(
                f"the basis {self.name} needs the option{'s' * (len(self.required_options) > 1)} "
                f"{' and '.join(self.required_options)}; got {', '.join(options) or 'none'}. Pass options by name."
            )

    def __reduce__(self):
        return self.__qualname__  # type: ignore[attr-defined]  # pickled by name, as functions are

    def __deepcopy__(self, _):
        return self

    def __repr__(self) -> str:
        return f"BasisFunction({self.name})"


def basis(**properties: Any) -> Callable[[Callable[..., Terms]], BasisFunction]:
    """Decorate a generator of terms; `properties` are arguments of `BasisFunction`."""
    return lambda terms: BasisFunction(terms, terms.__name__, **properties)


def as_basis(function: Callable) -> BasisFunction:
    """Convert a generator of terms, or a `functools.partial` of a basis, to a basis; return a basis unchanged.

    >>> from adaptkry.spectral.bases import jacobi
    >>> as_basis(partial(jacobi, a=2.0)).name
    'jacobi'
    """
    if isinstance(function, BasisFunction):
        return function
    if isinstance(function, partial) and isinstance(function.func, BasisFunction):
        inner, fixed = function.func, function.keywords
        required = tuple(option for option in inner.required_options if option not in fixed)
        return replace(inner, terms=partial(inner.terms, **fixed), required_options=required)
    if not callable(function):
        raise TypeError(f"a basis must be a generator of terms; got {shortened(function)}. Use adaptkry.krylov.")
    return BasisFunction(function, getattr(function, "__name__", type(function).__name__))


class Basis(Iterator[Tensor]):
    """The K + 1 terms of a basis of one signal, computed one product at a time; `bases.stack` computes them all."""

    def __init__(self, function: BasisFunction, P, x, degree: int, options: dict[str, Any] | None = None):
        self.function, self.P, self.x, self.options = function, as_operator(P), x, options or {}
        self.degree = checks.count(degree, "degree", checks.MAX_DEGREE)
        if not sp.issparse(x) and (not isinstance(x, Tensor) or not x.is_floating_point()):
            given = getattr(x, "dtype", type(x).__name__)
            raise TypeError(
                f"a basis needs a float tensor or a SciPy sparse matrix; got {given}. Use torch.as_tensor(x).float()."
            )
        self._iterator: Terms | None = None

    def __next__(self) -> Tensor:
        if self._iterator is None:
            self._iterator = self._terms(self.x)
        return next(self._iterator)

    def columns(self, start: int, stop: int) -> Terms:
        """Return a new iterator over the terms of the columns start:stop."""
        return self._terms(self.x[:, start:stop])

    def of(self, x) -> "Basis":
        """Return the same basis of another signal, as a new iterator."""
        return Basis(self.function, self.P, x, self.degree, self.options)

    def _terms(self, x) -> Terms:
        return self.function.terms(self.P, dense(x), self.degree, **self.options)

    def __repr__(self) -> str:
        return f"Basis({self.function.name}, degree={self.degree}, x={list(self.x.shape)}, P={self.P!r})"


def dense(x) -> Tensor:
    """Convert a tensor or a SciPy sparse matrix to a contiguous tensor."""
    if not isinstance(x, Tensor) and not sp.issparse(x):
        raise TypeError(f"a signal must be a tensor or a SciPy sparse matrix; got {type(x).__name__}. Convert it.")
    return x.contiguous() if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x.toarray()))
