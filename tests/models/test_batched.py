from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models import batched
from adaptkry.models import dropout as dropout_module
from adaptkry.models.dropout import DropoutState, dropout, keep_mask, rounded_rate
from adaptkry.models.inputs import model_inputs
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.models.stages import CombineHops, ModelShape, ResidualMLP, StageContext, initial_statistics, residual_mlp
from adaptkry.models.stages.base import weight_name
from adaptkry.models.weighted_sum import SumAtRows, sum_at_nodes, weighted_sum
from adaptkry.training.batches import aligned_columns

T, N, D, B, M = 4, 9, 5, 3, 6


@pytest.fixture
def parts():
    torch.manual_seed(0)
    basis = torch.randn(T, N, D, dtype=torch.float64)
    rows = torch.stack([torch.randperm(N)[:M] for _ in range(B)])
    return torch.randn(B, T, dtype=torch.float64, requires_grad=True), basis, rows


def generators(count=B):
    return [torch.Generator().manual_seed(i) for i in range(count)]


def dropout_state(row_counts, filter_dropout=None, mlp_dropout=None):
    zero = [0.0] * len(row_counts)
    rates = {"filter_dropout": filter_dropout or zero, "mlp_dropout": mlp_dropout or zero, "input_dropout": zero}
    return DropoutState(generators(len(row_counts)), rates, row_counts)


@pytest.mark.parametrize("settings", [{}, {"layers": 5, "hidden": 32}], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_number_of_weights_is_estimated_from_below_without_drawing_them(method, settings):
    given = recipe(method, **settings)
    shape = ModelShape(given, given.term_count, 30, 5)
    drawn = sum(w[0].numel() for w in batched.initial_weights(shape, [(0, given)]).values())
    assert 0.4 * drawn < batched.least_weights(shape) <= drawn


def test_weighted_sum_is_the_sum_of_weighted_hops_at_each_members_rows(parts):
    w, basis, rows = parts
    for job in (sum_at_nodes, lambda *arguments: SumAtRows.apply(*arguments, None, None)):
        found = job(w, basis, rows)
        for b in range(B):
            torch.testing.assert_close(found[b], sum(w[b, k] * basis[k, rows[b]] for k in range(T)))
        assert gradcheck(lambda w: job(w, basis, rows), w)  # noqa: B023


@pytest.mark.parametrize("cache", [1, 2**20])
def test_dropped_sum_and_its_gradient_equal_those_of_separately_dropped_hops(parts, cache, monkeypatch):
    monkeypatch.setattr(dropout_module, "CACHE_BYTES", cache)  # one row at a time, or all
    w, basis, rows = parts
    rates = [0.0, 0.3, 0.8]
    found = SumAtRows.apply(w, basis, rows, dropout_state([M] * B, rates), None)
    expected = []
    for b, (p, generator) in enumerate(zip(rates, generators(), strict=True)):
        mask = torch.ones(T, M, D, dtype=torch.float64)
        if p:
            mask = keep_mask((T, M, D), p, generator).double() / (1 - rounded_rate(p))
        expected.append((w[b, :, None, None] * mask * basis[:, rows[b]]).sum(0))
    torch.testing.assert_close(found, torch.stack(expected))
    cotangent = torch.randn_like(found)
    gradient, expected_gradient = (
        torch.autograd.grad((z * cotangent).sum(), w)[0] for z in (found, torch.stack(expected))
    )
    torch.testing.assert_close(gradient, expected_gradient)


def test_columns_of_zeros_that_align_rows_for_a_gpu_change_nothing():
    graph = csbm(60, features=14)
    given = recipe("adaptkry", hidden=16, layers=2, degree=2)  # with 16 columns a residual connection would fit
    assert given.reads_padded_columns
    assert not replace(given, per_channel=True).reads_padded_columns
    terms = model_inputs(graph, given).terms
    shape = ModelShape(given, len(terms), terms.shape[2], 2)
    weights = batched.initial_weights(shape, [(0, given), (1, given)])
    rows = torch.arange(60).expand(2, -1)
    arguments = (rows, torch.ones(2, 60, 1))
    expected = batched.logits(shape, weights, {}, terms, *arguments)
    aligned = aligned_columns(terms)
    assert aligned.shape[2] == 16
    torch.testing.assert_close(batched.logits(shape, weights, {}, aligned, *arguments), expected)


def test_products_of_gpus_and_their_gradients_equal_plain_ones_whatever_the_number_of_parts(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    z, weight = (
        torch.randn(2, *shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in ((24, 8), (5, 3))
    )
    monkeypatch.setattr(residual_mlp, "BLOCK_SIZE", 6)
    assert residual_mlp.row_parts(z.shape, 3) == 4
    for blocks in (1, 264):  # one part, or four
        monkeypatch.setattr(residual_mlp, "OCCUPYING_BLOCKS", blocks)
        torch.testing.assert_close(residual_mlp.GpuProduct.apply(z, weight), z[..., :5] @ weight)
        masked = lambda z, weight: residual_mlp.GpuProduct.apply(z * (torch.arange(8) < 5), weight)  # noqa: E731
        assert gradcheck(masked, (z, weight))


def varying_weights(per):
    shape = {"row": (B, M, 1, T), "channel": (B, 1, D, T)}[per]
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()


@pytest.mark.parametrize("per", ["row", "channel"])
def test_sums_with_weights_per_row_or_channel_equal_dense_ones(parts, per):
    _, basis, rows = parts
    w = varying_weights(per)
    torch.testing.assert_close(weighted_sum(w, basis, rows, None), (w * basis[:, rows].permute(1, 2, 3, 0)).sum(3))
    assert gradcheck(lambda w: weighted_sum(w, basis, rows, None), w)


@pytest.mark.parametrize("per", ["row", "channel"])
def test_dropped_sums_with_weights_per_row_or_channel_draw_the_same_masks_in_both_passes(parts, per):
    _, basis, rows = parts
    w, rates, counts = varying_weights(per), [0.0, 0.3, 0.8], [M, M - 2, M]
    state = dropout_state(counts, rates)
    found = weighted_sum(w, basis, rows, state)
    after = [generator.get_state() for generator in state.generators]
    masks = torch.ones(B, T, M, D, dtype=torch.float64)
    for b, (p, m, generator) in enumerate(zip(rates, counts, generators(), strict=True)):
        for k in range(T if p else 0):
            masks[b, k] = 1 / (1 - rounded_rate(p))
            masks[b, k, :m] *= keep_mask((m, D), p, generator)
    expected = (w * (masks * basis[:, rows].transpose(0, 1)).permute(0, 2, 3, 1)).sum(3)
    torch.testing.assert_close(found, expected)
    cotangent = torch.randn_like(found)
    gradient, expected_gradient = (torch.autograd.grad((z * cotangent).sum(), w)[0] for z in (found, expected))
    torch.testing.assert_close(gradient, expected_gradient)
    assert all(torch.equal(one.get_state(), other) for one, other in zip(state.generators, after, strict=True))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_entries_are_kept_with_the_given_probability_and_independently(p):
    kept = keep_mask((400, 999), p, generators(1)[0]).double()
    assert abs(float(kept.mean()) - (1 - p)) < 0.005
    assert float(kept.mean(0).std()) == pytest.approx((p * (1 - p) / 400) ** 0.5, rel=0.1)
    for lag in range(1, 9):  # eight entries are drawn as one integer, but must be independent
        assert abs(float(torch.corrcoef(torch.stack([kept[:, lag:].flatten(), kept[:, :-lag].flatten()]))[0, 1])) < 0.01


@pytest.mark.parametrize("cache", [1, 2**20])
def test_dropout_and_its_gradient_scale_the_kept_entries(cache, monkeypatch):
    monkeypatch.setattr(dropout_module, "CACHE_BYTES", cache)
    x = torch.ones(2, 400, 50, dtype=torch.float64, requires_grad=True)
    found = dropout(x, dropout_state([400, 300], mlp_dropout=[0.0, 0.75]), "mlp_dropout", 0)
    assert torch.equal(found[0], x[0])
    assert set(found[1, :300].unique().tolist()) == {0.0, 4.0}
    assert float(found[1, :300].detach().mean()) == pytest.approx(1, abs=0.03)
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert torch.equal(gradient, found)


def shape_of(features, classes, terms=1, **settings) -> ModelShape:
    return ModelShape(Recipe(**settings), terms, features, classes)


def initial(shape, members=1):
    weights = batched.initial_weights(shape, [(seed, shape.recipe) for seed in range(members)])
    return {name: w.double() for name, w in weights.items()}


def apply_mlp(shape, weights, z, row_mask, statistics=None, dropout=None):
    context = StageContext(shape, weights, statistics or {}, z, torch.zeros(1), row_mask, None, dropout, 1)
    return ResidualMLP()(z, context)


def test_initial_dense_weights_are_uniform_within_one_over_sqrt_fan_out():
    weights = initial(shape_of(50, 4, 11, hidden=16, layers=3), 2)
    for name, out in (("mlp/1/layer0", 16), ("mlp/1/layer1", 16), ("mlp/1/layer2", 4)):
        assert 0.9 * out**-0.5 < float(weights[name].abs().max()) <= out**-0.5
    assert not torch.equal(weights["mlp/1/layer0"][0], weights["mlp/1/layer0"][1])
    torch.testing.assert_close(weights["filter/weights"].float(), torch.full((2, 11), 1 / 11))


class Reference(nn.Module):
    """One member, written with the layers of torch."""

    def __init__(self, recipe: Recipe, weights, member: int):
        super().__init__()
        self.dense = [weights[f"mlp/1/layer{i}"][member] for i in range(recipe.layers)]
        kind = nn.LayerNorm if recipe.layer_norm else nn.BatchNorm1d
        self.norms = nn.ModuleList([kind(recipe.hidden).double() for _ in range(recipe.layers - 1)])
        self.use_norm = recipe.batch_norm or recipe.layer_norm
        for i, norm in enumerate(self.norms if self.use_norm else ()):
            norm.weight = nn.Parameter(weights[f"mlp/1/norm{i}_scale"][member, 0])
            norm.bias = nn.Parameter(weights[f"mlp/1/norm{i}_shift"][member, 0])

    def forward(self, z):
        for i, w in enumerate(self.dense):
            x, z = z, z @ w
            is_last = i == len(self.dense) - 1
            z = self.norms[i](z) if self.use_norm and not is_last else z
            z = z + x if z.shape == x.shape else z
            z = z if is_last else torch.relu(z)
        return z


@pytest.mark.parametrize(("task", "loss"), [("regression", "mse"), ("multilabel", "binary")])
def test_the_last_layer_of_other_tasks_than_classification_is_within_one_over_sqrt_fan_in(task, loss):
    settings = {"hidden": 256, "layers": 3, "batch_norm": True}
    weights, classes = (initial(shape_of(50, 1, **settings, **more)) for more in ({"task": task, "loss": loss}, {}))
    position = next(name for name in weights if name.endswith("layer2")).rsplit("/", 1)[0]
    assert 0.95 / 16 < float(weights[f"{position}/layer2"].abs().max()) <= 1 / 16
    assert float(classes[f"{position}/layer2"].abs().max()) > 0.95
    for name, w in classes.items():
        if not name.endswith("layer2"):
            torch.testing.assert_close(weights[name], w)


def test_initial_predictions_of_numbers_are_within_their_range():
    shape = shape_of(100, 1, hidden=256, layers=3, task="regression", loss="mse")
    weights = {name.rsplit("/", 1)[1]: w for name, w in initial(shape).items() if "/layer" in name}
    z = torch.randn(500, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for layer in range(3):
        x, z = z, z @ weights[f"layer{layer}"][0]
        z = z if layer == 2 else torch.relu(z + x if layer == 1 else z)
    assert float(z.std()) < 1


@pytest.mark.parametrize("norm", [None, "batch_norm", "layer_norm"])
@pytest.mark.parametrize("features", [8, 5])  # 8: the first layer is square too, so it has a residual connection
def test_mlp_equals_the_layers_of_torch_for_every_member(norm, features):
    shape = shape_of(features, 3, hidden=8, layers=4, **({norm: True} if norm else {}))
    weights = initial(shape, 2)
    generator = torch.Generator().manual_seed(2)
    for name in [name for name in weights if "norm" in name]:  # trained ones are not 1 and 0
        weights[name] = torch.randn(weights[name].shape, dtype=torch.float64, generator=generator)
    statistics = {k: s.double() for k, s in initial_statistics(shape, 2).items()}
    z = torch.randn(2, 7, features, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    row_mask = torch.ones(2, 7, 1, dtype=torch.float64)
    references = [Reference(shape.recipe, weights, b).train() for b in range(2)]
    trained = apply_mlp(shape, weights, z, row_mask, statistics, dropout_state([7, 7]))
    for b, reference in enumerate(references):
        torch.testing.assert_close(trained[b], reference(z[b]))
    evaluated = apply_mlp(shape, weights, z, row_mask, statistics)
    for b, reference in enumerate(references):
        torch.testing.assert_close(evaluated[b], reference.eval()(z[b]))


def test_batch_norm_ignores_padding_rows():
    shape = shape_of(4, 2, hidden=6, layers=2, batch_norm=True)
    weights, z = initial(shape), torch.randn(1, 5, 4, dtype=torch.float64)
    padded = torch.cat([z, torch.full((1, 3, 4), 99.0, dtype=torch.float64)], 1)
    found = []
    for x in (z, padded):
        statistics = {k: s.double() for k, s in initial_statistics(shape, 1).items()}
        row_mask = (torch.arange(x.shape[1]) < 5).double().reshape(1, -1, 1)
        found.append(apply_mlp(shape, weights, x, row_mask, statistics, dropout_state([5])))
    torch.testing.assert_close(found[0], found[1][:, :5])


@pytest.mark.parametrize("new_nodes", [0, 2])
@pytest.mark.parametrize("make", [csbm, directed_csbm])
def test_structure_layer_adds_the_dense_product_at_the_rows_of_each_member(make, new_nodes):
    graph = make(nodes=30, seed=0)
    n, trained, members = 30, 30 - new_nodes, 2
    recipe = Recipe(degree=0, hidden=4, layers=2, structure_layer=True, mlp_dropout=0)
    inputs = model_inputs(graph, recipe)
    shape = ModelShape(recipe, 1, inputs.terms.shape[2], 3, trained)
    weights = {name: w.requires_grad_() for name, w in initial(shape, members).items()}
    assert weights["mlp/1/structure"].shape == (members, trained, 4)
    assert 0.4 < float(weights["mlp/1/structure"].detach().abs().max()) <= 0.5
    rows = torch.stack([torch.randperm(n, generator=torch.Generator().manual_seed(i))[:7] for i in range(members)])
    terms, row_mask = inputs.terms.double(), torch.ones(members, 7, 1, dtype=torch.float64)
    found = batched.logits(shape, weights, {}, terms, rows, row_mask, inputs.operator)
    A = torch.from_numpy(graph.adjacency.toarray())
    roots = [torch.where(d > 0, d.clamp(min=1e-9).rsqrt(), 0) for d in (A.sum(1), A.sum(0))]
    matrix = roots[0][:, None] * A * roots[1]  # D_out^-1/2 A D_in^-1/2
    expected = []
    for b in range(members):
        z = weights["filter/weights"][b, 0] * terms[0] @ weights["mlp/1/layer0"][b]
        hidden = torch.relu(z + matrix[:, :trained] @ weights["mlp/1/structure"][b])
        expected.append((hidden @ weights["mlp/1/layer1"][b])[rows[b]])
    torch.testing.assert_close(found, torch.stack(expected))
    gradients = [torch.autograd.grad(z.square().sum(), list(weights.values())) for z in (found, torch.stack(expected))]
    for gradient, expected_gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)


def test_other_weights_do_not_depend_on_the_structure_layer():
    without = initial(shape_of(5, 3, hidden=4, layers=3), 2)
    recipe = Recipe(hidden=4, layers=3, structure_layer=True)
    found = initial(ModelShape(recipe, 1, 5, 3, nodes=6), 2)
    assert found.keys() - without.keys() == {"mlp/1/structure"}
    assert all(torch.equal(found[name], w) for name, w in without.items())


def test_concat_concatenates_the_hops_of_a_node(parts):
    _, basis, rows = parts
    shape = shape_of(D, 2, T, combine_hops="concat")
    found = CombineHops()(basis, StageContext(shape, {}, {}, basis, rows, torch.ones(B, M, 1), None, None, 0))
    assert CombineHops().width(shape, D) == T * D == found.shape[2]
    torch.testing.assert_close(found[1, 2], basis[:, rows[1, 2]].flatten())


def random_weights(shape: ModelShape):
    """Weights of the first stage of B members, none of them 0 or 1 as initial ones are."""
    initial_ones = CombineHops().initial_weights(shape, D, shape.recipe, torch.Generator())
    generator = torch.Generator().manual_seed(4)
    return {
        weight_name(name, 0): torch.randn(B, *w.shape, dtype=torch.float64, generator=generator).requires_grad_()
        for name, w in initial_ones.items()
    }


def combined(shape: ModelShape, weights, basis, rows):
    context = StageContext(shape, weights, {}, basis, rows, torch.ones(B, M, 1), None, None, 0)
    found = CombineHops()(basis, context)
    assert found.shape[2] == CombineHops().width(shape, D)
    return found


def dense_per_channel(w, hops):
    """sum_k F_k diag(w_k); hops [T, m, d]."""
    return sum(hop @ torch.diag(w["filter/weights"][:, k]) for k, hop in enumerate(hops))


def dense_gate(w, hops):
    """T sum_k g_k w_k F_k, node by node."""
    gates = nn.functional.softmax(hops[0] @ w["filter/gate"] + w["filter/gate_bias"], 1)  # [m, T]
    return torch.stack([T * (g * w["filter/weights"]) @ hops[:, i] for i, g in enumerate(gates)])


def dense_maps(w, hops, *, norm=False):
    """Layers of torch for each hop."""
    total = 0
    for k, hop in enumerate(hops):
        z = nn.functional.linear(hop, w["mlp/0/weight"][k].T, w["mlp/0/bias"][k, 0])
        if norm:
            z = nn.functional.layer_norm(z, z.shape[1:], w["mlp/0/norm_scale"][k, 0], w["mlp/0/norm_shift"][k, 0])
        total = total + w["filter/weights"][k] * torch.relu(z)
    return total


@pytest.mark.parametrize(
    ("settings", "dense"),
    [
        ({"per_channel": True}, dense_per_channel),
        ({"combine_hops": "gate"}, dense_gate),
        ({"combine_hops": "maps", "hidden": 7}, dense_maps),
        ({"combine_hops": "maps", "hidden": 7, "layer_norm": True}, partial(dense_maps, norm=True)),
    ],
    ids=["per channel", "gate", "maps", "maps with norm"],
)
def test_combined_hops_and_their_gradients_equal_dense_formulas_for_every_member(parts, settings, dense):
    _, basis, rows = parts
    shape = shape_of(D, 2, T, degree=T - 1, **settings)
    weights = random_weights(shape)
    found = combined(shape, weights, basis, rows)
    expected = torch.stack([dense({name: w[b] for name, w in weights.items()}, basis[:, rows[b]]) for b in range(B)])
    torch.testing.assert_close(found, expected)
    cotangent = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    gradients, expected_gradients = (
        torch.autograd.grad((z * cotangent).sum(), list(weights.values())) for z in (found, expected)
    )
    torch.testing.assert_close(gradients, expected_gradients)


@pytest.mark.parametrize("settings", [{"per_channel": True}, {"combine_hops": "gate"}], ids=str)
@pytest.mark.parametrize("directions", [("both",), ("out", "in")])
def test_filters_per_channel_and_gates_start_as_one_filter_for_all(settings, directions):
    shape = shape_of(D, 2, T * len(directions), degree=T - 1, directions=directions, initial_weights="ppr", **settings)
    basis = torch.randn(shape.terms, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = torch.arange(M).expand(B, -1)
    plain = replace(shape, recipe=replace(shape.recipe, combine_hops="sum", per_channel=False))
    found, expected = (combined(one, initial(one, B), basis, rows) for one in (shape, plain))
    torch.testing.assert_close(found, expected)


def test_filter_dropout_of_maps_drops_entries_of_every_mapped_hop(parts):
    _, basis, rows = parts
    shape = shape_of(D, 2, T, degree=T - 1, combine_hops="maps", hidden=7)
    weights, rates = random_weights(shape), [0.0, 0.5, 0.8]
    state = dropout_state([M] * B, rates)
    context = StageContext(shape, weights, {}, basis, rows, torch.ones(B, M, 1), None, state, 0)
    found = CombineHops()(basis, context)
    for b, (p, generator) in enumerate(zip(rates, generators(), strict=True)):
        expected = 0
        for k in range(T):
            mapped = torch.relu(basis[k, rows[b]] @ weights["mlp/0/weight"][b, k] + weights["mlp/0/bias"][b, k])
            mask = keep_mask((M, 7), p, generator) / (1 - rounded_rate(p)) if p else 1
            expected = expected + weights["filter/weights"][b, k] * mapped * mask
        torch.testing.assert_close(found[b], expected)
