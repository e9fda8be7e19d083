"""Every method is compared with its formula, and with PyG's layer if there is one."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
import torch
from scipy.special import eval_jacobi
from torch.testing import assert_close
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, ARMAConv, ChebConv, GCNConv, SGConv
from torch_geometric.transforms import SIGN

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched
from adaptkry.models.inputs import model_inputs
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.models.stages import ModelShape, PolynomialFilter, filter_weights
from adaptkry.spectral.bases import stack
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.signal_bases import ALL_BASES, gaussian, optbasis, unifilter
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run
from contracts import check_members_are_independent

N, D, C, B = 40, 7, 3, 2


def random_graph(seed: int) -> Graph:
    """Return an undirected graph with self-loops and isolated nodes."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, N - 3, (2, 90), generator=generator)
    features = torch.rand(N, D, generator=generator)
    return Graph(edges, features, torch.arange(N) % C)


GRAPHS = [random_graph(seed) for seed in range(3)]


class InitialModel:
    """A method with initial weights on a graph, and its logits at all nodes."""

    def __init__(self, method: str, graph: Graph, **changes):
        self.recipe = recipe(method, normalise=False, **{"hidden": 6} | changes)  # type: ignore[arg-type]
        self.inputs = model_inputs(graph, self.recipe)
        self.shape = ModelShape(self.recipe, len(self.inputs.terms), D, C)
        self.weights = batched.initial_weights(self.shape, [(seed, self.recipe) for seed in range(B)])
        self.graph = graph

    def logits(self, **changes) -> torch.Tensor:
        shape = replace(self.shape, recipe=replace(self.recipe, **changes))
        rows = torch.arange(N).expand(B, -1)
        statistics = {"basis_mix": torch.eye(self.shape.terms)[:B]} if self.recipe.method == "asgc" else {}
        row_mask = torch.ones(B, N, 1)
        return batched.logits(shape, self.weights, statistics, self.inputs.terms, rows, row_mask, self.inputs.operator)

    def weight(self, name: str, member: int) -> torch.Tensor:
        return self.weights[name][member]


def edges_of(graph: Graph, self_loops: str = "drop") -> torch.Tensor:
    rows = torch.repeat_interleave(torch.arange(N), graph.indptr.diff())
    pairs = torch.stack([rows, graph.indices.long()])
    return pairs[:, pairs[0] != pairs[1]] if self_loops == "drop" else pairs


@pytest.mark.parametrize("graph", GRAPHS, ids=["0", "1", "2"])
class TestAgainstPyG:
    def test_gcn(self, graph):
        model = InitialModel("gcn", graph)
        for i in range(B):
            first, second = GCNConv(D, 6), GCNConv(6, C)
            for layer, conv in enumerate((first, second)):
                conv.lin.weight.data = model.weight(f"mlp/2/weight{layer}", i).T
                conv.bias.data = model.weight(f"mlp/2/bias{layer}", i)[0]
            edges = edges_of(graph, "keep")  # PyG adds only the missing self-loops
            expected = second(torch.relu(first(graph.x, edges)), edges)
            assert_close(model.logits()[i], expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("degree", [1, 3, 10])
    def test_sgc(self, graph, degree):
        model = InitialModel("sgc", graph, degree=degree)
        for i in range(B):
            layer = SGConv(D, C, K=degree)
            layer.lin.weight.data = model.weight("mlp/1/weight", i).T
            layer.lin.bias.data = model.weight("mlp/1/bias", i)[0]
            assert_close(model.logits()[i], layer(graph.x, edges_of(graph, "keep")), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("degree", [1, 2, 4])
    def test_chebnet(self, graph, degree):
        model = InitialModel("chebnet", graph, degree=degree)
        edges, lambda_max = edges_of(graph), torch.tensor(2.0)
        for i in range(B):
            layers = ChebConv(D, 6, degree + 1), ChebConv(6, C, degree + 1)
            for layer, name, width, bias in zip(
                layers, ("mlp/1/weight", "mlp/6/weight"), (D, 6), ("mlp/2/bias", "mlp/7/bias"), strict=True
            ):
                for k, lin in enumerate(layer.lins):
                    lin.weight.data = model.weight(name, i)[k * width : (k + 1) * width].T
                layer.bias.data = model.weight(bias, i)[0]
            hidden = torch.relu(layers[0](graph.x, edges, lambda_max=lambda_max))
            assert_close(model.logits()[i], layers[1](hidden, edges, lambda_max=lambda_max), rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("alpha", [0.1, 0.5])
    def test_appnp(self, graph, alpha):
        model = InitialModel("appnp", graph, alpha=alpha)
        plain = without_filter(model)  # f(X): the stages' positions, and so their weights, stay the same
        layer = APPNP(K=10, alpha=alpha)
        for i in range(B):
            expected = layer(plain[i], edges_of(graph, "keep"))
            assert_close(model.logits()[i], expected, rtol=1e-5, atol=1e-5)

    def test_arma(self, graph):
        model = InitialModel("arma", graph)
        for i in range(B):
            layer = ARMAConv(D, 6, num_stacks=3, num_layers=2, shared_weights=True, act=torch.nn.ReLU())
            layer.init_weight.data = model.weight("mlp/0/first", i).view(D, 3, 6).transpose(0, 1)
            layer.weight.data = model.weight("mlp/0/inner", i)[None]
            layer.root_weight.data = model.weight("mlp/0/root", i).view(D, 3, 6).transpose(0, 1)[None]
            layer.bias.data = model.weight("mlp/0/bias", i).view(3, 1, 6)[None]
            hidden = layer(graph.x, edges_of(graph))
            expected = hidden @ model.weight("mlp/2/weight", i) + model.weight("mlp/2/bias", i)
            assert_close(model.logits()[i], expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.filterwarnings("ignore:Sparse")  # raised by PyG
    def test_sign(self, graph):
        model = InitialModel("sign", graph, degree=3)
        transformed = SIGN(3)(Data(x=graph.x, edge_index=edges_of(graph), num_nodes=N))
        for k, name in enumerate(("x", "x1", "x2", "x3")):
            assert_close(model.inputs.terms[k], transformed[name], rtol=1e-5, atol=1e-5)


IDENTITY = ["bernnet", "chebnetii"]
SHARED = ["gprgnn", "bernnet", "chebnetii", "evennet", "appnp"]
GRID = np.linspace(-1, 1, 41)


def without_filter(model: InitialModel) -> torch.Tensor:
    return model.logits(stages=tuple(stage for stage in model.recipe.stages if stage != PolynomialFilter()))


@pytest.mark.parametrize("method", IDENTITY)
def test_bernnet_and_chebnetii_start_as_the_identity(method):
    model = InitialModel(method, GRAPHS[0])
    assert_close(model.logits(), without_filter(model), rtol=1e-5, atol=1e-5)


def response(recipe: Recipe, weights: dict) -> np.ndarray:
    """The response of member 0 at GRID, eigenvalues of P, through the code that trains: [41] or [41, channels]."""
    w = filter_weights(recipe, {name: w.double() for name, w in weights.items()})[0]
    basis = ALL_BASES[recipe.basis]
    basis = ALL_BASES[basis.expands_in[0]] if basis.expands_in else basis
    ones = torch.ones(len(GRID), 1, dtype=torch.float64)
    spectrum, options = Diagonal(torch.from_numpy(GRID)), dict(recipe.basis_options)
    terms = stack(list(basis(spectrum, ones, recipe.degree, **options)))[:, :, 0]
    return torch.einsum("mk,...k->m...", terms, w).numpy()


def random_weights(*shape) -> torch.Tensor:
    return torch.randn(1, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def test_gprgnn_equals_a_sum_of_powers():
    theta = random_weights(11)
    expected = sum(float(theta[0, k]) * GRID**k for k in range(11))
    np.testing.assert_allclose(response(recipe("gprgnn"), {"filter/weights": theta}), expected, atol=1e-9)


def test_bernnet_equals_the_bernstein_formula():
    theta, laplacian = random_weights(11), 1 - GRID
    terms = [comb(10, k) / 2**10 * (2 - laplacian) ** (10 - k) * laplacian**k for k in range(11)]
    expected = sum(max(float(theta[0, k]), 0) * term for k, term in enumerate(terms))
    np.testing.assert_allclose(response(recipe("bernnet"), {"filter/weights": theta}), expected, atol=1e-9)


def test_chebnetii_equals_the_formula_of_its_paper_at_minus_p():
    theta, K = random_weights(11), 10
    nodes = np.cos((K - np.arange(K + 1) + 0.5) * np.pi / (K + 1))
    w = [
        2 / (K + 1) * sum(max(float(theta[0, j]), 0) * np.cos(k * np.arccos(nodes[j])) for j in range(K + 1))
        for k in range(K + 1)
    ]
    expected = w[0] / 2 + sum(w[k] * np.cos(k * np.arccos(-GRID)) for k in range(1, K + 1))
    np.testing.assert_allclose(response(recipe("chebnetii"), {"filter/weights": theta}), expected, atol=1e-9)


def test_evennet_ignores_odd_hops():
    theta = random_weights(11)
    used = recipe("evennet")
    expected = sum(float(theta[0, k]) * GRID**k for k in range(0, 11, 2))
    np.testing.assert_allclose(response(used, {"filter/weights": theta}), expected, atol=1e-9)
    start = INITIAL_WEIGHTS[used.initial_weights](used.degree, used.alpha)[::2]
    assert_close(start, torch.tensor([0.1 * 0.9 ** (2 * k) for k in range(6)]))


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.5, -0.25)])
def test_jacobiconv_equals_damped_jacobi_polynomials(a, b):
    used = recipe("jacobiconv", basis_options=(("a", a), ("b", b)), damping=1.5)
    theta, eta = random_weights(C, 11), random_weights(11) / 2
    damping = np.cumprod(np.concatenate([[1.0], 1.5 * np.tanh(eta[0, :-1].numpy())]))
    expected = sum(theta[0, :, k].numpy() * damping[k] * eval_jacobi(k, a, b, GRID)[:, None] for k in range(11))
    np.testing.assert_allclose(response(used, {"filter/weights": theta, "basis/damping": eta}), expected, atol=1e-8)


def test_jacobiconvs_published_sign_differs_from_the_textbook_unless_a_equals_b():
    theta, eta = random_weights(C, 11), random_weights(11) / 2
    for a, b, same in ((1.0, 1.0, True), (2.0, -0.25, False)):
        options, weights = (("a", a), ("b", b)), {"filter/weights": theta, "basis/damping": eta}
        textbook, published = (
            response(recipe("jacobiconv", basis_options=options + more), weights)
            for more in ((), (("published", True),))
        )
        assert np.allclose(textbook, published) == same


def test_published_jacobi_basis_equals_its_recurrence():
    used = recipe("jacobiconv", "cora")
    a, b = (dict(used.basis_options)[name] for name in "ab")
    q = [np.ones_like(GRID), (a - b) / 2 + (a + b + 2) / 2 * GRID]
    for k in range(2, 11):
        s = 2 * k + a + b
        t1 = s * (s - 1) / (2 * k * (k + a + b))
        t2 = (s - 1) * (a**2 - b**2) / (2 * k * (k + a + b) * (s - 2))
        t3 = (k + a - 1) * (k + b - 1) * s / (k * (k + a + b) * (s - 2))
        q.append(t1 * GRID * q[-1] - t2 * q[-1] - t3 * q[-2])
    theta, eta = random_weights(C, 11), torch.full((1, 11), 40.0, dtype=torch.float64)
    damping = used.damping ** np.arange(11)
    expected = sum(theta[0, :, k].numpy() * damping[k] * q[k][:, None] for k in range(11))
    found = response(used, {"filter/weights": theta, "basis/damping": eta})
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_gnn_lf_and_hf_equal_their_iterations(alpha):
    mu = beta = 0.9
    for method, scale, start, factor in (
        ("gnn-lf", 1 + alpha * mu - alpha, lambda d: mu / d + (1 - mu) / d * GRID, 1 - 2 * alpha + mu * alpha),
        ("gnn-hf", alpha * beta + 1, lambda d: 1 / d + beta / d * (1 - GRID), alpha * beta + 1 - alpha),
    ):
        z = first = start(scale)
        for _ in range(10):
            z = factor / scale * GRID * z + alpha * first
        used = recipe(method, alpha=alpha)
        theta = INITIAL_WEIGHTS[used.initial_weights](used.degree, alpha)[None]
        np.testing.assert_allclose(response(used, {"filter/weights": theta}), z, atol=1e-5)


def test_favardgnn_equals_its_recurrence():
    model = InitialModel("favardgnn", GRAPHS[0], degree=4)
    generator = torch.Generator().manual_seed(0)
    for name in ("filter/weights", "basis/shift", "basis/scale"):
        model.weights[name] = torch.randn(model.weights[name].shape, generator=generator)
    P = Propagation(GRAPHS[0].without_self_loops(), 1.0, isolated=0.0).to_dense().float()
    for i in range(B):
        x = torch.relu(GRAPHS[0].x @ model.weight("mlp/2/weight", i) + model.weight("mlp/2/bias", i))
        w, shift, scale = (model.weight(name, i) for name in ("filter/weights", "basis/shift", "basis/scale"))
        scale = scale.clamp(min=0.01)
        previous, current = torch.zeros_like(x), x / scale[:, 0]
        total = w[:, 0] * current
        for k in range(1, 5):
            previous, current = (
                current,
                (P @ current - shift[:, k - 1] * current - scale[:, k - 1] * previous) / scale[:, k],
            )
            total = total + w[:, k] * current
        expected = total @ model.weight("mlp/7/weight", i) + model.weight("mlp/7/bias", i)
        assert_close(model.logits()[i], expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.parametrize("method", ["optbasis", "orthkry"])
def test_bases_are_orthonormal_column_by_column(method):
    graph = csbm(nodes=300, features=5, seed=0)
    P = Propagation(graph, 1.0)
    basis = ALL_BASES[recipe(method).basis]
    terms = stack(list(basis(P, graph.x.double(), 8))).permute(2, 1, 0)  # [d, K + 1, n]
    assert_close(terms @ terms.mT, torch.eye(9, dtype=torch.float64).expand(5, 9, 9), rtol=0, atol=1e-6)


def test_optbasis_is_differentiable():
    P, x = Propagation(csbm(nodes=30, seed=0), 1.0), torch.randn(30, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.stack(list(optbasis(P, x, 3))), x)


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.8])
def test_unifilter_vectors_have_equal_angles(homophily):
    graph = csbm(nodes=200, features=3, seed=0)
    x = graph.x.double()
    terms = stack(list(unifilter(Propagation(graph, 1.0), x, 6, homophily=homophily, share=0.0))).permute(2, 1, 0)
    unit = terms / terms.norm(dim=2, keepdim=True)
    cosine = np.cos(np.pi / 2 * (1 - homophily))
    expected = torch.full((7, 7), cosine, dtype=torch.float64).fill_diagonal_(1).expand(3, 7, 7)
    assert_close(unit @ unit.mT, expected, rtol=0, atol=1e-6)


def test_g2cn_equals_two_gaussians():
    laplacian = torch.from_numpy(1 - GRID)
    high, low = gaussian(
        Diagonal(1 - laplacian), torch.ones(41, 1, dtype=torch.float64), 1, high=1.0, low=4.0, steps=100
    )
    for found, exponent, length in ((high, (2 - laplacian) ** 2, 0.1), (low, laplacian**2, 0.2)):
        assert_close(found[:, 0], (1 - length**2 * exponent) ** 100)


COUPLED = [name for name in METHODS if recipe(name).propagates]


@pytest.mark.parametrize("method", COUPLED)
def test_a_coupled_member_trained_separately_equals_the_same_member_in_a_batch(method):
    graph = csbm(nodes=90, phi=-0.5, features=6, classes=3, seed=0)
    used = recipe(method, hidden=8, epochs=12, degree=None if METHODS[method].settings.get("degree") else 3)
    check_members_are_independent(graph, used)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_a_synthetic_graph_and_can_be_saved(method, tmp_path):
    graph = csbm(nodes=200, phi=0.8, information=1.5, seed=0)
    run = fit(graph, recipe(method, epochs=60, hidden=16), splits.stratified(graph.y, count=2), device="cpu")
    assert run.test_scores.mean() > 0.8
    loaded = load_run(run.save(tmp_path))
    assert torch.equal(loaded.probabilities(graph), run.probabilities(graph))


def test_every_method_has_a_source_and_valid_settings():
    for name, method in METHODS.items():
        assert method.source
        for graph, settings in method.published.items():
            found = recipe(name, graph)
            assert all(getattr(found, setting) == value for setting, value in settings.items() if setting != "stages")
        for setting, values in method.fallback_grid.items():
            for value in values:
                assert getattr(recipe(name, **{setting: value}), setting) == value


class ProductCounter:
    """Counts the sparse products of a propagation."""

    def __init__(self, monkeypatch):
        self.count, product = 0, Propagation.product

        def counting_product(operator, x):
            self.count += 1
            return product(operator, x)

        monkeypatch.setattr(Propagation, "product", counting_product)


@pytest.mark.parametrize("method", ["gprgnn", "bernnet", "jacobiconv", "evennet", "chebnetii", "optbasis", "favardgnn"])
def test_a_basis_takes_k_products_for_all_members(method, monkeypatch):
    model = InitialModel(method, GRAPHS[0], degree=6)
    products = ProductCounter(monkeypatch)
    model.logits()
    assert products.count == 6


def test_initial_weights_of_chebnet_have_the_bound_of_pygs_layer():
    model = InitialModel("chebnet", GRAPHS[0], degree=2, hidden=50)
    for stage, (inputs, outputs) in ((1, (D, 50)), (6, (50, C))):
        weight = model.weights[f"mlp/{stage}/weight"]  # [b, terms x inputs, outputs]
        assert weight.shape[1:] == (3 * inputs, outputs)
        reference: torch.Tensor = ChebConv(inputs, outputs, 3).lins[0].weight  # type: ignore[assignment]
        bound = (6 / (inputs + outputs)) ** 0.5
        assert float(reference.detach().abs().max()) == pytest.approx(bound, rel=0.1)
        assert float(weight.abs().max()) == pytest.approx(bound, rel=0.1)
