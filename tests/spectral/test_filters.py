from functools import partial
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.spectral.bases import BASES, chebyshev_nodes, krylov, stack
from adaptkry.spectral.filters import FIGURE_1, INITIAL_WEIGHTS, PARAMETRISATIONS, Filter, fit_response, monomials
from adaptkry.spectral.lanczos import orthonormal, recurrence, replay
from adaptkry.spectral.propagation import Laplacian, Propagation
from contracts import assert_close, assert_same_bits, random_signal
from strategies import random_graph

GRAPH = random_graph(1, n=24, connected=True)
X = GRAPH.x
P = Propagation(GRAPH, 1.0)  # its spectrum lies in [-1, 1]
EIGENVALUES, U = torch.linalg.eigh(P.to_dense())
GRID = torch.linspace(-1, 1, 57, dtype=torch.float64)
# The orthonormal basis has no polynomials until it hears a signal; its recurrence then replays them anywhere.
HEARD = recurrence(P, X[:, :1], 10)
SPACES = {name: (basis, {}) for name, basis in BASES.items() if name != "orthonormal"}
SPACES |= {"jacobi(-0.5, 1.5)": (BASES["jacobi"], {"a": -0.5, "b": 1.5}), "replay": (replay, {"recurrence": HEARD})}

every_space = pytest.mark.parametrize(("basis", "options"), SPACES.values(), ids=SPACES)
every_kind = pytest.mark.parametrize("kind", PARAMETRISATIONS)
numbers = st.floats(-5, 5, allow_subnormal=False)


def with_theta(made: Filter, theta: torch.Tensor) -> Filter:
    """The same filter with other weights."""
    made.theta = torch.nn.Parameter(theta)
    return made


def weights(degree: int) -> st.SearchStrategy[torch.Tensor]:
    return st.lists(numbers, min_size=degree + 1, max_size=degree + 1).map(partial(torch.tensor, dtype=torch.float64))


@every_space
@every_kind
@pytest.mark.parametrize("start", INITIAL_WEIGHTS)
@pytest.mark.parametrize("degree", [0, 1, 6])
def test_filtering_is_multiplying_with_the_response_on_the_spectrum(basis, options, kind, start, degree):
    made = Filter(degree, basis, kind=kind, start=start, alpha=0 if start == "spike" else 0.3, **options).double()
    filtered = made(stack(basis(P, X[:, :1], degree, **options)))
    wanted = U @ (made.response(EIGENVALUES)[:, None] * (U.T @ X[:, :1]))
    assert_close(filtered, wanted, rtol=1e-10, atol=1e-10)


def test_orthonormal_filter_is_the_replayed_polynomial_on_the_spectrum():
    replayed = with_theta(Filter(6, replay, recurrence=HEARD), random_signal(7))
    filtered = with_theta(Filter(6, "orthonormal"), random_signal(7))(stack(orthonormal(P, X[:, :1], 6)))
    assert_close(filtered, U @ (replayed.response(EIGENVALUES)[:, None] * (U.T @ X[:, :1])), rtol=0, atol=1e-9)


def test_orthonormal_filter_has_no_monomials_without_its_signal():
    with pytest.raises(ValueError, match="needs a symmetric operator"):
        Filter(6, "orthonormal").to_krylov()


@every_space
@every_kind
def test_one_filter_a_channel_is_each_filter_on_its_own_column(basis, options, kind):
    theta = random_signal(3, 5)
    made = with_theta(Filter(4, basis, kind=kind, channels=3, **options), theta)
    alone = [with_theta(Filter(4, basis, kind=kind, **options), row) for row in theta]
    terms = stack([term.expand(24, 3) for term in basis(P, X[:, :1], 4, **options)])
    columns = [one(terms[:, :, [i]]) for i, one in enumerate(alone)]
    assert_close(made(terms), torch.cat(columns, 1), rtol=1e-12, atol=1e-12)
    assert_close(made.response(GRID), torch.stack([one.response(GRID) for one in alone], 1), rtol=1e-12, atol=1e-12)
    assert_close(made.to_krylov().response(GRID), made.response(GRID), rtol=1e-8, atol=1e-8)
    assert_close(made.from_krylov(theta).to_krylov().theta, theta, rtol=1e-8, atol=1e-8)


@every_space
@given(data=st.data(), degree=st.integers(0, 10), kind=st.sampled_from(list(PARAMETRISATIONS)))
def test_every_filter_is_a_krylov_filter_and_back(basis, options, data, degree, kind):
    """Proposition 1 of the paper, with the weights for a witness."""
    theta = data.draw(weights(degree))
    made = with_theta(Filter(degree, basis, kind=kind, **options), theta)
    through = made.to_krylov()
    assert through.basis is krylov
    assert_close(through.response(GRID), made.response(GRID), rtol=1e-8, atol=1e-8)
    back = made.from_krylov(through.theta)
    assert (back.basis, back.kind, back.options) == (basis, "free", options)
    assert_close(back.coefficients, made.coefficients.detach(), rtol=1e-8, atol=1e-8, check_dtype=False)
    again = made.from_krylov(theta).to_krylov()
    assert_close(again.theta, theta, rtol=1e-8, atol=1e-8)


@every_space
def test_monomials_are_read_off_the_basis_itself(basis, options):
    phi = monomials(basis, 7, **options)
    assert not phi.triu(1).any() or basis is BASES["bernstein"]  # p_k has degree k; Bernstein's all have degree K
    values = stack(list(basis(torch.diag(GRID), torch.ones(57, 1, dtype=torch.float64), 7, **options)))[:, :, 0]
    assert_close(torch.stack([GRID**k for k in range(8)], 1) @ phi.T, values, rtol=1e-10, atol=1e-10)


@given(theta=st.integers(0, 12).flatmap(weights))
def test_kinds_are_what_they_say(theta):
    made = {kind: with_theta(Filter(len(theta) - 1, kind=kind), theta).coefficients for kind in PARAMETRISATIONS}
    assert_same_bits(made["free"].detach(), theta)
    assert_same_bits(made["positive"].detach(), theta.clamp(min=0))
    assert_same_bits(made["even"][::2].detach(), theta[::2])
    assert not made["even"][1::2].any()


@given(theta=st.integers(0, 12).flatmap(weights))
def test_interpolated_filter_has_the_values_relu_theta_at_the_chebyshev_nodes(theta):
    made = with_theta(Filter(len(theta) - 1, "chebyshev", kind="interpolated"), theta)
    nodes = torch.from_numpy(chebyshev_nodes(len(theta) - 1)[0].copy())
    assert_close(made.response(nodes), theta.clamp(min=0), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["krylov", "chebyshev", "legendre"])
@given(theta=weights(7))
def test_even_filter_treats_smooth_and_rough_alike(name, theta):
    made = with_theta(Filter(7, name, kind="even"), theta)
    assert_close(made.response(GRID), made.response(-GRID), rtol=1e-10, atol=1e-10)


@given(theta=weights(8))
def test_positive_bernstein_filter_is_nowhere_negative(theta):
    assert (with_theta(Filter(8, "bernstein", kind="positive"), theta).response(GRID) > -1e-12).all()


@pytest.mark.parametrize("degree", [0, 1, 5, 10])
@pytest.mark.parametrize(
    "choice",
    [
        {"basis": "bernstein", "kind": "positive", "start": "ones"},
        {"basis": "chebyshev", "kind": "interpolated", "start": "ones"},
        {"basis": "krylov", "start": "spike", "alpha": 0},
    ],
    ids=str,
)
def test_these_filters_start_as_the_identity(choice, degree):
    made = Filter(degree, **choice)
    assert_close(made(stack(made.basis(P, X, degree))), X, rtol=0, atol=1e-5)


@given(degree=st.integers(0, 30), alpha=st.floats(0.01, 0.99))
def test_pagerank_weights_sum_to_one_and_fall_by_one_minus_alpha(degree, alpha):
    theta = Filter(degree, start="ppr", alpha=alpha).theta.detach()
    hops = torch.arange(degree, dtype=torch.float64)
    assert_close(theta[:-1], (alpha * (1 - alpha) ** hops).float())
    assert_close(theta.sum(), torch.tensor(1.0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 9])
def test_starts_are_what_they_say(degree):
    assert_same_bits(Filter(degree).theta.detach(), torch.full((degree + 1,), 1 / (degree + 1)))
    assert_same_bits(Filter(degree, start="ones").theta.detach(), torch.ones(degree + 1))
    for hop in range(degree + 1):
        spike = Filter(degree, start="spike", alpha=hop)
        assert_same_bits(spike.theta.detach(), torch.eye(degree + 1)[hop])
        assert_close(spike.response(GRID), GRID**hop)


@pytest.mark.parametrize("alpha", [-1, 5, 0.5])
def test_a_spike_outside_the_hops_is_refused(alpha):
    with pytest.raises(ValueError, match=rf"stands at a hop 0 \.\. 4, but alpha = {alpha} came"):
        Filter(4, start="spike", alpha=alpha)


@pytest.mark.parametrize("degree", [4, 7])
@pytest.mark.parametrize("name", FIGURE_1)
@every_space
def test_figure_1_is_recovered_exactly_from_degree_4_on(basis, options, name, degree):
    wanted = FIGURE_1[name](1 - GRID)
    for made in (
        fit_response(name, degree, basis, **options),
        fit_response(FIGURE_1[name], degree, basis, eigenvalues=EIGENVALUES, **options),
    ):
        assert_close(made.response(GRID), wanted, rtol=0, atol=1e-8)
        assert_close(made.to_krylov().response(GRID), wanted, rtol=0, atol=1e-8)
    through = U @ (FIGURE_1[name](1 - EIGENVALUES)[:, None] * (U.T @ X[:, :1]))
    assert_close(made(stack(basis(P, X[:, :1], degree, **options))), through, rtol=0, atol=1e-8)


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


@every_space
@pytest.mark.parametrize(
    ("wanted", "last"),
    [
        pytest.param(torch.exp, 1e-9, id="exp"),
        pytest.param(lambda f: (f < 0.7).double(), 0.12, id="step"),
        pytest.param(lambda f: (f - 1).abs(), 0.02, id="corner"),
    ],
)
def test_any_response_is_approached_with_rising_degree(basis, options, wanted, last):
    points = torch.from_numpy(chebyshev_nodes(199)[0].copy())
    fitted = [fit_response(wanted, degree, basis, **options).response(points).detach() for degree in (0, 2, 4, 7, 10)]
    errors = [float((found - wanted(1 - points)).square().mean().sqrt()) for found in fitted]
    assert all(after <= before + 1e-9 for before, after in pairwise(errors)), errors
    assert errors[-1] < last


@pytest.mark.parametrize("operator", [P, Propagation(GRAPH, 1.7), Laplacian(GRAPH, 0.6)], ids=repr)
def test_a_fit_on_a_graphs_own_spectrum_filters_as_wanted(operator):
    """Least squares spends its coefficients where the eigenvalues are, also outside [-1, 1]."""
    eigenvalues, V = torch.linalg.eigh(operator.to_dense())
    errors = []
    for degree in (4, 8, 16):
        made = fit_response(torch.cos, degree, "legendre", eigenvalues=eigenvalues).requires_grad_(False)
        wanted = V @ (torch.cos(1 - eigenvalues)[:, None] * (V.T @ X))
        errors.append(float((made(stack(made.basis(operator, X, degree))) - wanted).norm() / wanted.norm()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-8


@every_space
@pytest.mark.parametrize("count", [1, 3])
def test_a_fit_at_fewer_points_than_coefficients_goes_through_them(basis, options, count):
    points = torch.linspace(-0.8, 0.9, count, dtype=torch.float64).repeat(2)  # and each twice
    found = fit_response(torch.exp, 8, basis, eigenvalues=points, **options).response(points)
    assert_close(found, torch.exp(1 - points), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Filter(3, "chebishev"), "unknown basis 'chebishev'. Did you mean 'chebyshev'"),
        (lambda: Filter(3, kind="postive"), "unknown kind of filter 'postive'. Did you mean 'positive'"),
        (lambda: Filter(3, start="unifrom"), "unknown start 'unifrom'. Did you mean 'uniform'"),
        (lambda: fit_response("bend", 3), "unknown response 'bend'. Did you mean 'band'"),
        (lambda: Filter(-1), r"degree must be 0 or more; got -1\.( |$)"),
        (lambda: fit_response(lambda f: f.sum(), 3), r"one value a frequency, but \[\] came"),
        (lambda: fit_response(lambda f: 1 / (f * 0), 3), "wanted response must be finite; frequency 0 has inf"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_nearest_that_does(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("degree", [2.5, True, "3", None])
def test_a_degree_that_is_no_whole_number_is_refused(degree):
    with pytest.raises(TypeError, match=f"degree must be an integer; got {degree!r}"):
        Filter(degree)


@pytest.mark.parametrize(
    ("channels", "shape"), [(None, (5, 4, 2)), (None, (5, 3)), (None, (3,)), (2, (5, 3, 4)), (2, (5, 4, 2))], ids=str
)
def test_terms_of_a_wrong_shape_are_refused(channels, shape):
    wanted = rf"takes \[n, 3, {channels or 'd'}\], but \[{', '.join(map(str, shape))}\] came"
    with pytest.raises(ValueError, match=wanted):
        Filter(2, channels=channels)(torch.ones(shape))


@every_kind
@pytest.mark.parametrize("channels", [None, 3])
def test_gradients_flow_to_the_weights(kind, channels):
    made = Filter(4, "chebyshev", kind=kind, channels=channels).double()
    terms = stack(made.basis(P, X, 4))

    def loss(theta: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(made, {"theta": theta}, terms)

    theta = random_signal(*made.theta.shape).requires_grad_()  # no entry near the kink of relu
    assert torch.autograd.gradcheck(loss, theta, fast_mode=True)
    made(terms).square().sum().backward()
    assert made.theta.grad is not None
    frozen = torch.arange(5) % 2 == 1 if kind == "even" else torch.zeros(5, dtype=torch.bool)
    assert (made.theta.grad != 0).logical_xor(frozen).all()


def test_a_filter_learns_a_response_it_can_hold():
    wanted = fit_response("comb", 4, "chebyshev")
    terms = stack(wanted.basis(P, random_signal(24, 8), 4))
    made = Filter(4, "chebyshev").double()
    optimizer = torch.optim.LBFGS(made.parameters(), max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-16)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (made(terms) - wanted(terms).detach()).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    assert_close(made.theta.detach(), wanted.theta.detach(), rtol=0, atol=1e-6)


def test_a_filter_keeps_the_precision_of_its_terms():
    made = Filter(3)
    for dtype in (torch.float32, torch.float64):
        assert made(stack(krylov(P, X.to(dtype), 3))).dtype == dtype
        assert made.response(GRID.to(dtype)).dtype == dtype


def test_a_filter_prints_what_it_is():
    assert (
        repr(Filter(3, "jacobi", kind="even", channels=2)) == "Filter(degree=3, basis=jacobi, kind=even, theta=[2, 4])"
    )
