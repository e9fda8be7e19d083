import pytest
import torch

from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models import batched
from adaptkry.models.dropout import DropoutState, random_half
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.models.stages import CombineHops, ModelShape, StageContext
from adaptkry.models.stages.label_inputs import label_columns
from adaptkry.spectral.similarity import SHARPNESS

B, N, C = 2, 40, 3
RATES = dict.fromkeys(("mlp_dropout", "filter_dropout", "input_dropout"), [0.0] * B)
LABELS = torch.randint(-1, C, (B, N), generator=torch.Generator().manual_seed(0))
ROWS = torch.tensor([[3, 1, 7], [0, 39, 5]])


def inputs_of(direction: str, **settings):
    graph = csbm(N, classes=C) if direction == "both" else directed_csbm(N, classes=C)
    used = Recipe(similar_nodes=5, taus=(0.7, 1.0), tied=False, degree=1, hidden=5, directions=(direction,), **settings)
    inputs = model_inputs(graph, used)
    return inputs, ModelShape(used, len(inputs.terms), inputs.terms.shape[2], C)


def training_state(visible: torch.Tensor) -> DropoutState:
    return DropoutState([torch.Generator() for _ in range(B)], RATES, [3] * B, visible=visible)  # type: ignore[arg-type]


def expected_columns(S: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute the shares of classes among similar nodes of one member with dense matrices [r, n, n]: [n, r c]."""
    Y = torch.zeros(N, C, dtype=torch.float64)
    for node in range(N):
        if labels[node] >= 0:
            Y[node, labels[node]] = 1
    return torch.cat([M @ Y / ((M @ Y).sum(1, keepdim=True) + 1e-3) for M in S], 1)


@pytest.mark.parametrize("direction", ["both", "out"])
def test_label_columns_equal_shares_computed_with_the_dense_matrices(direction):
    inputs, shape = inputs_of(direction)
    S, terms = inputs.operator.to_dense(), inputs.terms.double()  # type: ignore[union-attr]
    assert S.shape == (len(SHARPNESS), N, N)
    visible = torch.rand(B, N, generator=torch.Generator().manual_seed(1)) < 0.5
    for state in (None, training_state(visible)):
        statistics = {"labels": LABELS.double()}
        context = StageContext(shape, {}, statistics, terms, ROWS, torch.ones(B, 3, 1), inputs.operator, state, 1)
        found = label_columns(context)
        for b in range(B):
            expected = expected_columns(S, LABELS[b])[ROWS[b]]
            expected = expected if state is None else expected * visible[b, ROWS[b], None]
            torch.testing.assert_close(found[b], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_map_of_labels_is_added_to_the_first_layer(layers):
    inputs, shape = inputs_of("out", layers=layers)
    weights = batched.initial_weights(shape, [(seed, shape.recipe) for seed in range(B)])
    weights = {name: w.double() for name, w in weights.items()}
    terms, row_mask = inputs.terms.double(), torch.ones(B, 3, 1)
    context = StageContext(shape, weights, {}, terms, ROWS, row_mask, None, None, 0)
    found = batched.logits(shape, weights, {"labels": LABELS.double()}, terms, ROWS, row_mask, inputs.operator)
    for b, z in enumerate(CombineHops()(terms, context)):
        columns = expected_columns(inputs.operator.to_dense(), LABELS[b])[ROWS[b]]  # type: ignore[union-attr]
        z = z @ weights["mlp/1/layer0"][b] + columns @ weights["mlp/1/labels"][b]
        z = torch.relu(z) @ weights["mlp/1/layer1"][b] if layers == 2 else z
        torch.testing.assert_close(found[b], z, rtol=0, atol=1e-12)


def test_other_weights_are_the_same_with_and_without_labels():
    without = ModelShape(recipe("adaptkry", hidden=5), 4, 16, C)
    with_labels = ModelShape(recipe("adaptkry", hidden=5, similar_nodes=5), 4, 16, C)
    one, other = (batched.initial_weights(shape, [(7, shape.recipe)]) for shape in (without, with_labels))
    assert other.keys() - one.keys() == {"mlp/1/labels"}
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_random_halves_are_independent_of_position_step_and_seed():
    seeds = torch.tensor([0, 1, 2, 1000, 5_000_000_000])
    steps = [random_half(seeds, torch.tensor(step), 4000) for step in range(40)]
    drawn = torch.stack(steps).double()  # [steps, members, positions]
    assert abs(float(drawn.mean()) - 0.5) < 0.005
    assert float(drawn.mean(2).std()) == pytest.approx(0.5 / 4000**0.5, rel=0.2)
    assert float(drawn.mean(0).std()) == pytest.approx(0.5 / 40**0.5, rel=0.02)
    signs = 2 * drawn - 1
    for pairs in (signs[:-1] * signs[1:], signs[:, :-1] * signs[:, 1:], signs[:, :, :-1] * signs[:, :, 1:]):
        assert abs(float(pairs.mean())) < 0.01
    assert torch.equal(random_half(seeds[3:4], torch.tensor(7), 4000), steps[7][3:4])  # alone and in company


@pytest.mark.parametrize("method", ["gcn", "sign", "gprgnn"])
def test_methods_with_other_layers_refuse_similar_nodes(method):
    with pytest.raises(ValueError, match=f"similar_nodes is for methods with the layers of adaptkry.*got {method}"):
        recipe(method, similar_nodes=1)
