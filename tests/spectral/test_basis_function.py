import copy
import inspect
import pickle
from functools import partial

import numpy as np
import pytest
import torch

from adaptkry.spectral.bases import BASES, jacobi, krylov, stack
from adaptkry.spectral.basis_function import BasisFunction, as_basis, basis
from adaptkry.spectral.lanczos import orthonormal, recurrence, replay
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.signal_bases import ALL_BASES, FavardWeights, asgc, favard, gaussian
from contracts import assert_close, assert_same_bits, random_signal
from strategies import random_graph

GRAPH = random_graph(1, n=24, connected=True)
X = GRAPH.x
P = Propagation(GRAPH, 0.7)
LEARNED = FavardWeights()
OPTIONS = {"gaussian": {"high": 3.0, "low": 2.0}}
DEGREES = {"gaussian": 1, "asgc": 19}  # the others accept any degree
every_basis = pytest.mark.parametrize("name", ALL_BASES)


def terms_of(name: str, operator, x: torch.Tensor) -> torch.Tensor:
    basis, degree, options = ALL_BASES[name], DEGREES.get(name, 5), OPTIONS.get(name, {})
    if basis.learned:
        options = options | basis.learned.options(basis.learned.initial_weights(channels=x.shape[1], degree=degree))
    return stack(basis(operator, x, degree, **options))


@every_basis
def test_the_name_of_a_basis_is_its_key_in_the_table(name):
    assert ALL_BASES[name].name == name
    assert (name in BASES) == (ALL_BASES[name] is BASES.get(name))
    assert ALL_BASES[name].__doc__


@every_basis
def test_required_options_are_those_without_a_default(name):
    parameters = inspect.signature(ALL_BASES[name]).parameters.values()
    keywords = [each for each in parameters if each.kind == each.KEYWORD_ONLY]
    assert ALL_BASES[name].required_options == tuple(each.name for each in keywords if each.default is each.empty)


@every_basis
def test_a_basis_that_does_not_depend_on_the_signal_is_linear_in_it(name):
    y = random_signal(24, 3)
    both = terms_of(name, P, X) + terms_of(name, P, y)
    is_linear = torch.allclose(terms_of(name, P, X + y), both, rtol=0, atol=1e-9)
    assert is_linear == (not ALL_BASES[name].depends_on_signal)


@pytest.mark.parametrize("degree", [0, 1, 7])
@pytest.mark.parametrize("name", [name for name, basis in ALL_BASES.items() if basis.expands_in])
def test_an_expansion_gives_the_terms_of_its_basis(name, degree):
    expands_in = ALL_BASES[name].expands_in
    assert expands_in is not None
    other, matrix = expands_in
    expanded = torch.einsum("kl,nld->nkd", torch.from_numpy(matrix(degree)), stack(ALL_BASES[other](P, X, degree)))
    assert_close(expanded, stack(ALL_BASES[name](P, X, degree)), rtol=0, atol=1e-12)


def test_initial_weights_of_favard_give_the_same_recurrence_for_every_member():
    weights = LEARNED.initial_weights(channels=3, degree=4)
    assert {name: list(weight.shape) for name, weight in weights.items()} == {"shift": [3, 5], "scale": [3, 5]}
    one = list(favard(P, X.float(), 4, **LEARNED.options(weights)))
    assert_same_bits(one[0], X.float())
    assert_close(one[2], P @ (P @ X.float()) - X.float())  # P q_1 = q_2 + q_0
    members = {name: weight.expand(2, 3, 5) for name, weight in weights.items()}
    two = list(favard(P, X.float().repeat(1, 2), 4, **LEARNED.options(members)))
    assert_same_bits(two[4], one[4].repeat(1, 2))


def test_favard_is_learned_and_krylov_is_not():
    assert isinstance(favard.learned, FavardWeights)
    assert BASES["krylov"].learned is None


def test_learned_scales_are_clamped_to_one_hundredth():
    weights = {"shift": torch.zeros(1, 3), "scale": torch.tensor([[-1.0, 0.0, 2.0]])}
    found = LEARNED.options(weights)["recurrence"]
    assert (found.norm.item(), found.beta.flatten().tolist()) == (pytest.approx(0.01), [pytest.approx(0.01), 2.0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: gaussian(P, X, 1, high=1.0), "gaussian needs the options high and low; got high"),
        (lambda: gaussian(P, X, 1), "needs the options high and low; got none. Pass options by name"),
        (lambda: replay(P, X, 3), "replay needs the option recurrence; got none"),
        (lambda: next(favard(P, X, 3)), "favard needs a recurrence; got none"),
        (lambda: jacobi(P, X, 3, alpha=1.0), "unknown option of the basis jacobi 'alpha'"),
        (lambda: krylov(P, X, 3, sign=-1), "unknown option of the basis krylov 'sign'"),
        (lambda: next(gaussian(P, X, 2, high=1.0, low=1.0)), "two terms, so its degree must be 1; got 2"),
        (lambda: next(asgc(P, X, 5)), "20 candidates, so its degree must be 19; got 5"),
    ],
)
def test_wrong_options_raise(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_plain_generator_becomes_a_basis():
    def doubling(P, x, degree, **anything):  # noqa: ARG001
        for k in range(degree + 1):
            yield 2.0**k * x

    function = as_basis(doubling)
    assert (function.name, function.response_from, function.known_options) == ("doubling", "polynomial", None)
    assert_same_bits(stack(function(P, X, 2, unused=1))[:, 2], 4 * X)
    assert as_basis(krylov) is krylov


def test_a_partial_basis_keeps_its_properties():
    fixed = as_basis(partial(orthonormal, keep_norm=True))
    assert (fixed.name, fixed.response_from, fixed.depends_on_signal) == ("orthonormal", "recurrence", True)
    assert_same_bits(stack(fixed(P, X, 4)), stack(orthonormal(P, X, 4, keep_norm=True)))
    replayed = as_basis(partial(replay, recurrence=recurrence(P, X, 4)))
    assert replayed.required_options == ()
    assert_close(stack(replayed(P, X, 4)), stack(orthonormal(P, X, 4)))


def test_properties_are_arguments_of_the_decorator():
    @basis(depends_on_signal=True, expands_in=("krylov", np.eye), required_options=("scale",), response_from=None)
    def scaled(P, x, degree, *, scale):
        """The docstring of the generator."""
        return krylov(P, scale * x, degree)

    assert isinstance(scaled, BasisFunction)
    assert (scaled.name, scaled.depends_on_signal, scaled.required_options) == ("scaled", True, ("scale",))
    assert (scaled.__doc__, scaled.known_options) == ("The docstring of the generator.", ("scale",))
    assert_same_bits(stack(scaled(Diagonal(torch.ones(24)), X, 1, scale=3.0))[:, 1], 3 * X)


@every_basis
def test_a_basis_is_pickled_and_copied_by_name(name):
    function = ALL_BASES[name]
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function
