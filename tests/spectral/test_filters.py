from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.spectral.bases import BASES, chebyshev_nodes, krylov, stack
from adaptkry.spectral.filters import FIGURE_1, PARAMETRISATIONS, Filter, fit_response, monomials
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS
from adaptkry.spectral.lanczos import orthonormal, recurrence, replay
from adaptkry.spectral.propagation_matrix import Laplacian, Propagation
from adaptkry.spectral.signal_bases import ALL_BASES
from contracts import (
    OPERATOR_CONTRACT,
    assert_close,
    assert_same_bits,
    product_equals_the_dense_matrix,
    random_signal,
    same_input_gives_the_same_bits,
    shape_is_that_of_the_dense_matrix,
)
from strategies import random_graph

GRAPH = random_graph(1, n=24, connected=True)
X = GRAPH.x
P = Propagation(GRAPH, 1.0)  # the spectrum is in [-1, 1]
SEVERAL = Propagation(GRAPH, [0.3, 0.9, 1.6])
EIGENVALUES, U = torch.linalg.eigh(P.to_dense())
GRID = torch.linspace(-1, 1, 57, dtype=torch.float64)
# The polynomials of the orthonormal basis depend on the signal; its recurrence evaluates them anywhere.
RECURRENCE = recurrence(P, X[:, :1], 10)
FIXED_BASES = {name: (basis, {}) for name, basis in BASES.items() if basis.response_from == "polynomial"}
FIXED_BASES |= {
    "jacobi(-0.5, 1.5)": (BASES["jacobi"], {"a": -0.5, "b": 1.5}),
    "replay": (replay, {"recurrence": RECURRENCE}),
}

every_fixed_basis = pytest.mark.parametrize(("basis", "options"), FIXED_BASES.values(), ids=FIXED_BASES)
every_parametrisation = pytest.mark.parametrize("parametrisation", PARAMETRISATIONS)
numbers = st.floats(-5, 5, allow_subnormal=False)


def with_theta(g: Filter, theta: torch.Tensor) -> Filter:
    """The same filter with other weights."""
    g.theta = torch.nn.Parameter(theta)
    return g


def weights(degree: int) -> st.SearchStrategy[torch.Tensor]:
    return st.lists(numbers, min_size=degree + 1, max_size=degree + 1).map(partial(torch.tensor, dtype=torch.float64))


@every_fixed_basis
@every_parametrisation
@pytest.mark.parametrize("start", INITIAL_WEIGHTS)
@pytest.mark.parametrize("degree", [0, 1, 6])
def test_filtering_multiplies_by_the_response_on_the_spectrum(basis, options, parametrisation, start, degree):
    alpha = 0 if start == "spike" else 0.3
    g = Filter(degree, basis, parametrisation=parametrisation, initial_weights=start, alpha=alpha, **options).double()
    filtered = g(stack(basis(P, X[:, :1], degree, **options)))
    wanted = U @ (g.response(EIGENVALUES)[:, None] * (U.T @ X[:, :1]))
    assert_close(filtered, wanted, rtol=1e-10, atol=1e-10)


EXACT = {name: (basis, options, 6) for name, (basis, options) in FIXED_BASES.items()} | {
    "orthonormal": (orthonormal, {}, 6),
    "orthonormal, scaled": (orthonormal, {"reorthogonalise": True, "keep_norm": True}, 6),
    # No single response, but still functions of the operator, computed from the spectral coefficients of the signal.
    "optbasis": (ALL_BASES["optbasis"], {}, 6),
    "unifilter": (ALL_BASES["unifilter"], {"homophily": 0.2}, 6),
    "gaussian": (ALL_BASES["gaussian"], {"high": 3.0, "low": 2.0}, 1),
    "asgc": (ALL_BASES["asgc"], {"orders": (1, 2)}, 9),
}
OPERATORS = {"P": P, "3 taus": SEVERAL, "L": Laplacian(GRAPH, 0.6), "dense": P.to_dense()}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("channels", [None, 3])
@pytest.mark.parametrize(("basis", "options", "degree"), EXACT.values(), ids=EXACT)
def test_apply_equals_exact(basis, options, degree, channels, operator):
    if operator is SEVERAL and basis.name == "asgc":
        return  # defined for one tau
    theta = random_signal(degree + 1) if channels is None else random_signal(channels, degree + 1)
    g = with_theta(Filter(degree, basis, channels=channels, **options), theta)
    x = X[:, :1].expand(-1, 3).contiguous() if basis is replay else X  # its recurrence is that of the first column
    assert_close(g.apply(operator, x), g.exact(operator, x), rtol=0, atol=1e-9)
    if basis.name != "asgc":  # its normal equations lose all digits of float32
        assert_close(g.apply(operator, x.float()).double(), g.exact(operator, x), rtol=0, atol=2e-3)


def test_every_basis_with_a_response_is_compared_with_it():
    assert {name for name, basis in ALL_BASES.items() if basis.response_from} <= set(EXACT)


def test_apply_accepts_a_vector():
    g = fit_response("comb", 6)
    assert_close(g.apply(P, X[:, 0]), g.apply(P, X)[:, 0])
    assert_close(g.exact(P, X[:, 0]), g.exact(P, X)[:, 0])


def test_apply_is_differentiable_in_signal_and_weights():
    g = Filter(3, "jacobi", channels=2).double()
    x = random_signal(24, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, _: g.apply(P, x), (x, g.theta), fast_mode=True)


def test_apply_with_one_argument_is_module_apply():
    seen = []
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Filter(3))
    model.apply(lambda part: seen.append(type(part).__name__))
    assert seen == ["Linear", "Filter", "Sequential"]


def test_exact_raises_for_large_and_directed_graphs():
    g = Filter(3)
    for operator in (P, SEVERAL):
        with pytest.raises(ValueError, match="at most 10 nodes; got 24 nodes"):
            g.exact(operator, X, limit=10)
    with pytest.raises(ValueError, match="needs a symmetric operator"):
        g.exact(Propagation(random_graph(1, directed=True), 0.5, "out"), X[:20])


@OPERATOR_CONTRACT
def test_a_filter_of_an_operator_satisfies_the_operator_contract_to_rounding(check):
    g = fit_response("comb", 5, "chebyshev").requires_grad_(False)
    for operator in (P, SEVERAL, Propagation(random_graph(3, directed=True), 0.8, "out")):
        G = g.on(operator)
        assert (G.T is G) == G.is_symmetric == operator.is_symmetric
        assert_close(G.T.to_dense(), G.to_dense().mT, rtol=0, atol=1e-13)
        if check in (
            product_equals_the_dense_matrix,
            shape_is_that_of_the_dense_matrix,
            same_input_gives_the_same_bits,
        ):
            check(G)  # the others compare bits, and the sum over terms is a dense product


def test_a_filter_of_an_operator_applies_it():
    g = fit_response("comb", 5)
    assert_same_bits(g.on(P) @ X, g.apply(P, X))
    assert_close(g.on(P).to_dense() @ X, g.exact(P, X).detach())
    with pytest.raises(ValueError, match="one filter for all columns; got one for each of 3 channels"):
        Filter(5, channels=3).on(P)


def test_orthonormal_filter_is_the_replayed_polynomial_on_the_spectrum():
    replayed = with_theta(Filter(6, replay, recurrence=RECURRENCE), random_signal(7))
    filtered = with_theta(Filter(6, "orthonormal"), random_signal(7))(stack(orthonormal(P, X[:, :1], 6)))
    assert_close(filtered, U @ (replayed.response(EIGENVALUES)[:, None] * (U.T @ X[:, :1])), rtol=0, atol=1e-9)


def test_orthonormal_filter_has_no_response_without_its_signal():
    for convert in (Filter.to_krylov, lambda g: g.response(GRID), lambda g: g.on(P)):
        with pytest.raises(ValueError, match=r"needs a basis of fixed polynomials; got orthonormal\. For .* replay"):
            convert(Filter(6, "orthonormal"))


@every_fixed_basis
@every_parametrisation
def test_one_filter_per_channel_is_each_filter_on_one_column(basis, options, parametrisation):
    theta = random_signal(3, 5)
    g = with_theta(Filter(4, basis, parametrisation=parametrisation, channels=3, **options), theta)
    singly = [with_theta(Filter(4, basis, parametrisation=parametrisation, **options), row) for row in theta]
    terms = stack([term.expand(24, 3) for term in basis(P, X[:, :1], 4, **options)])
    columns = [one(terms[:, :, [i]]) for i, one in enumerate(singly)]
    assert_close(g(terms), torch.cat(columns, 1), rtol=1e-12, atol=1e-12)
    assert_close(g.response(GRID), torch.stack([one.response(GRID) for one in singly], 1), rtol=1e-12, atol=1e-12)
    assert_close(g.to_krylov().response(GRID), g.response(GRID), rtol=1e-8, atol=1e-8)
    assert_close(g.from_krylov(theta).to_krylov().theta, theta, rtol=1e-8, atol=1e-8)


@every_fixed_basis
@given(data=st.data(), degree=st.integers(0, 10), parametrisation=st.sampled_from(list(PARAMETRISATIONS)))
def test_every_filter_is_a_krylov_filter_and_back(basis, options, data, degree, parametrisation):
    """Proposition 1 of the paper, with explicit weights."""
    theta = data.draw(weights(degree))
    g = with_theta(Filter(degree, basis, parametrisation=parametrisation, **options), theta)
    through = g.to_krylov()
    assert through.basis is krylov
    assert_close(through.response(GRID), g.response(GRID), rtol=1e-8, atol=1e-8)
    back = g.from_krylov(through.theta)
    assert (back.basis, back.parametrisation, back.options) == (basis, "free", options)
    assert_close(back.coefficients, g.coefficients.detach(), rtol=1e-8, atol=1e-8, check_dtype=False)
    again = g.from_krylov(theta).to_krylov()
    assert_close(again.theta, theta, rtol=1e-8, atol=1e-8)


@every_fixed_basis
def test_monomials_evaluate_to_the_basis(basis, options):
    phi = monomials(basis, 7, **options)
    assert not phi.triu(1).any() or basis is BASES["bernstein"]  # p_k has degree k; Bernstein's all have degree K
    values = stack(list(basis(torch.diag(GRID), torch.ones(57, 1, dtype=torch.float64), 7, **options)))[:, :, 0]
    assert_close(torch.stack([GRID**k for k in range(8)], 1) @ phi.T, values, rtol=1e-10, atol=1e-10)


@given(theta=st.integers(0, 12).flatmap(weights))
def test_parametrisations_equal_their_formulas(theta):
    found = {
        name: with_theta(Filter(len(theta) - 1, parametrisation=name), theta).coefficients for name in PARAMETRISATIONS
    }
    assert_same_bits(found["free"].detach(), theta)
    assert_same_bits(found["positive"].detach(), theta.clamp(min=0))
    assert_same_bits(found["even"][::2].detach(), theta[::2])
    assert not found["even"][1::2].any()


@given(theta=st.integers(0, 12).flatmap(weights))
def test_interpolated_filter_has_the_values_relu_theta_at_the_chebyshev_nodes(theta):
    g = with_theta(Filter(len(theta) - 1, "chebyshev", parametrisation="interpolated"), theta)
    nodes = torch.from_numpy(chebyshev_nodes(len(theta) - 1)[0].copy())
    assert_close(g.response(nodes), theta.clamp(min=0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["krylov", "chebyshev", "legendre"])
@given(theta=weights(7))
def test_even_filter_has_a_symmetric_response(name, theta):
    g = with_theta(Filter(7, name, parametrisation="even"), theta)
    assert_close(g.response(GRID), g.response(-GRID), rtol=1e-10, atol=1e-10)


@given(theta=weights(8))
def test_positive_bernstein_filter_is_nowhere_negative(theta):
    assert (with_theta(Filter(8, "bernstein", parametrisation="positive"), theta).response(GRID) > -1e-12).all()


@pytest.mark.parametrize("degree", [0, 1, 5, 10])
@pytest.mark.parametrize(
    "choice",
    [
        {"basis": "bernstein", "parametrisation": "positive", "initial_weights": "ones"},
        {"basis": "chebyshev", "parametrisation": "interpolated", "initial_weights": "ones"},
        {"basis": "krylov", "initial_weights": "spike", "alpha": 0},
    ],
    ids=str,
)
def test_initial_filter_is_the_identity(choice, degree):
    g = Filter(degree, **choice)
    assert_close(g(stack(g.basis(P, X, degree))), X, rtol=0, atol=1e-5)


@given(degree=st.integers(0, 30), alpha=st.floats(0.01, 0.99))
def test_pagerank_weights_sum_to_one_and_decay_by_one_minus_alpha(degree, alpha):
    theta = Filter(degree, initial_weights="ppr", alpha=alpha).theta.detach()
    hops = torch.arange(degree, dtype=torch.float64)
    assert_close(theta[:-1], (alpha * (1 - alpha) ** hops).float())
    assert_close(theta.sum(), torch.tensor(1.0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 9])
def test_initial_weights_equal_their_formulas(degree):
    assert_same_bits(Filter(degree).theta.detach(), torch.full((degree + 1,), 1 / (degree + 1)))
    assert_same_bits(Filter(degree, initial_weights="ones").theta.detach(), torch.ones(degree + 1))
    for hop in range(degree + 1):
        spike = Filter(degree, initial_weights="spike", alpha=hop)
        assert_same_bits(spike.theta.detach(), torch.eye(degree + 1)[hop])
        assert_close(spike.response(GRID), GRID**hop)


@pytest.mark.parametrize("alpha", [-1, 5, 0.5])
def test_a_spike_at_an_invalid_hop_raises(alpha):
    with pytest.raises(ValueError, match=rf"hop 0 \.\. 4 for a spike; got {alpha}"):
        Filter(4, initial_weights="spike", alpha=alpha)


@pytest.mark.parametrize("degree", [4, 7])
@pytest.mark.parametrize("name", FIGURE_1)
@every_fixed_basis
def test_figure_1_is_recovered_exactly_from_degree_4_on(basis, options, name, degree):
    wanted = FIGURE_1[name](1 - GRID)
    for g in (
        fit_response(name, degree, basis, **options),
        fit_response(FIGURE_1[name], degree, basis, eigenvalues=EIGENVALUES, **options),
    ):
        assert_close(g.response(GRID), wanted, rtol=0, atol=1e-8)
        assert_close(g.to_krylov().response(GRID), wanted, rtol=0, atol=1e-8)
    through = U @ (FIGURE_1[name](1 - EIGENVALUES)[:, None] * (U.T @ X[:, :1]))
    assert_close(g(stack(basis(P, X[:, :1], degree, **options))), through, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("wanted", "coefficients"),
    [
        ("low", [0.4, 0.3, 0.2, 0.1, 0]),  # the docstrings of Figure 1, multiplied out at f = 1 - lambda
        ("band", [1, 0, -2, 0, 1]),
        ("comb", [9 / 25, 0, 72 / 25, 0, -81 / 25]),
        ("high", [0.4, -0.3, 0.2, -0.1, 0]),
    ],
)
def test_figure_1_in_monomials_of_the_eigenvalue(wanted, coefficients):
    found = fit_response(wanted, 4).coefficients.detach()
    assert_close(found, torch.tensor(coefficients, dtype=torch.float64), rtol=0, atol=1e-8)


@every_fixed_basis
@pytest.mark.parametrize(
    ("wanted", "last"),
    [
        pytest.param(torch.exp, 1e-9, id="exp"),
        pytest.param(lambda f: (f < 0.7).double(), 0.12, id="step"),
        pytest.param(lambda f: (f - 1).abs(), 0.02, id="corner"),
    ],
)
def test_the_error_of_a_fit_decreases_with_the_degree(basis, options, wanted, last):
    points = torch.from_numpy(chebyshev_nodes(199)[0].copy())
    fitted = [fit_response(wanted, degree, basis, **options).response(points).detach() for degree in (0, 2, 4, 7, 10)]
    errors = [float((found - wanted(1 - points)).square().mean().sqrt()) for found in fitted]
    assert all(after <= before + 1e-9 for before, after in pairwise(errors)), errors
    assert errors[-1] < last


@pytest.mark.parametrize("operator", [P, Propagation(GRAPH, 1.7), Laplacian(GRAPH, 0.6)], ids=repr)
def test_a_fit_on_the_spectrum_of_a_graph_applies_the_wanted_response(operator):
    """The fit is accurate at the eigenvalues, also outside [-1, 1]."""
    eigenvalues, V = torch.linalg.eigh(operator.to_dense())
    errors = []
    for degree in (4, 8, 16):
        g = fit_response(torch.cos, degree, "legendre", eigenvalues=eigenvalues).requires_grad_(False)
        wanted = V @ (torch.cos(1 - eigenvalues)[:, None] * (V.T @ X))
        errors.append(float((g(stack(g.basis(operator, X, degree))) - wanted).norm() / wanted.norm()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-8


@every_fixed_basis
@pytest.mark.parametrize("count", [1, 3])
def test_a_fit_at_fewer_points_than_coefficients_interpolates_them(basis, options, count):
    points = torch.linspace(-0.8, 0.9, count, dtype=torch.float64).repeat(2)  # and each twice
    found = fit_response(torch.exp, 8, basis, eigenvalues=points, **options).response(points)
    assert_close(found, torch.exp(1 - points), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Filter(3, "chebishev"), "unknown basis 'chebishev'. Did you mean 'chebyshev'"),
        (lambda: Filter(3, parametrisation="postive"), "unknown parametrisation 'postive'. Did you mean 'positive'"),
        (lambda: Filter(3, initial_weights="unifrom"), "unknown initial weights 'unifrom'. Did you mean 'uniform'"),
        (lambda: Filter(3, start="ppr"), "unknown option of the basis krylov 'start'"),
        (lambda: Filter(3, replay), "replay needs the option recurrence; got none"),
        (lambda: fit_response("bend", 3), "unknown response 'bend'. Did you mean 'band'"),
        (lambda: Filter(-1), r"degree must be 0 or more; got -1\.( |$)"),
        (lambda: fit_response(lambda f: f.sum(), 3), r"one value per frequency; got shape \[\] for 200 frequencies"),
        (lambda: fit_response(lambda f: 1 / (f * 0), 3), "wanted response must be finite; frequency 0 has inf"),
    ],
)
def test_wrong_arguments_raise_and_suggest_similar_names(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("degree", [2.5, True, "3", None])
def test_a_degree_that_is_not_an_integer_raises(degree):
    with pytest.raises(TypeError, match=f"degree must be an integer; got {degree!r}"):
        Filter(degree)


@pytest.mark.parametrize(
    ("channels", "shape"), [(None, (5, 4, 2)), (None, (5, 3)), (None, (3,)), (2, (5, 3, 4)), (2, (5, 4, 2))], ids=str
)
def test_terms_of_a_wrong_shape_raise(channels, shape):
    wanted = rf"terms must have shape \[n, 3, {channels or 'd'}\]; got \[{', '.join(map(str, shape))}\]"
    with pytest.raises(ValueError, match=wanted):
        Filter(2, channels=channels)(torch.ones(shape))


@every_parametrisation
@pytest.mark.parametrize("channels", [None, 3])
def test_gradients_flow_to_the_weights(parametrisation, channels):
    g = Filter(4, "chebyshev", parametrisation=parametrisation, channels=channels).double()
    terms = stack(g.basis(P, X, 4))

    def loss(theta: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(g, {"theta": theta}, terms)

    theta = random_signal(*g.theta.shape).requires_grad_()  # no entry near 0, where relu is not differentiable
    assert torch.autograd.gradcheck(loss, theta, fast_mode=True)
    g(terms).square().sum().backward()
    assert g.theta.grad is not None
    frozen = torch.arange(5) % 2 == 1 if parametrisation == "even" else torch.zeros(5, dtype=torch.bool)
    assert (g.theta.grad != 0).logical_xor(frozen).all()


def test_a_filter_learns_a_response_of_its_degree():
    wanted = fit_response("comb", 4, "chebyshev")
    terms = stack(wanted.basis(P, random_signal(24, 8), 4))
    g = Filter(4, "chebyshev").double()
    optimizer = torch.optim.LBFGS(g.parameters(), max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-16)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (g(terms) - wanted(terms).detach()).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    assert_close(g.theta.detach(), wanted.theta.detach(), rtol=0, atol=1e-6)


def test_a_filter_keeps_the_dtype_of_its_terms():
    g = Filter(3)
    for dtype in (torch.float32, torch.float64):
        assert g(stack(krylov(P, X.to(dtype), 3))).dtype == dtype
        assert g.response(GRID.to(dtype)).dtype == dtype


def test_repr_of_a_filter_shows_its_arguments():
    found = repr(Filter(3, "jacobi", parametrisation="even", channels=2))
    assert found == "Filter(degree=3, basis=jacobi, parametrisation=even, theta=[2, 4])"
