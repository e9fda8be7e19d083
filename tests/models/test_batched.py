import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from adaptkry.models import batched as models
from adaptkry.models.dropout import DropoutState, dropout, keep
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import STAGES, ModelShape, StageContext
from adaptkry.models.weighted_sum import DroppedSum, WeightedSum

T, N, D, B, M = 4, 9, 5, 3, 6


@pytest.fixture
def parts():
    torch.manual_seed(0)
    basis = torch.randn(T, N, D, dtype=torch.float64)
    rows = torch.stack([torch.randperm(N)[:M] for _ in range(B)])
    return torch.randn(B, T, dtype=torch.float64, requires_grad=True), basis, rows


def dice(count=B):
    return [torch.Generator().manual_seed(i) for i in range(count)]


def chance(sizes, filter_dropout=None, mlp_dropout=None):
    zero = [0.0] * len(sizes)
    drops = {"filter_dropout": filter_dropout or zero, "mlp_dropout": mlp_dropout or zero, "input_dropout": zero}
    return DropoutState(dice(len(sizes)), drops, sizes)


def test_weighted_sum_is_the_sum_of_weighted_hops_at_each_members_rows(parts):
    w, basis, rows = parts
    found = WeightedSum.apply(w, basis, rows)
    for b in range(B):
        torch.testing.assert_close(found[b], sum(w[b, k] * basis[k, rows[b]] for k in range(T)))
    assert gradcheck(lambda w: WeightedSum.apply(w, basis, rows), w)


def test_dropped_sum_is_the_sum_of_separately_dropped_hops_and_so_is_its_gradient(parts):
    w, basis, rows = parts
    drop = [0.0, 0.3, 0.8]
    found = DroppedSum.apply(w, basis, rows, chance([M] * B, drop))
    wanted = []
    for b, (p, die) in enumerate(zip(drop, dice(), strict=True)):
        mask = torch.ones(T, M, D, dtype=torch.float64)
        if p:
            mask = keep((T, M, D), p, die).double() / (1 - p)
        wanted.append((w[b, :, None, None] * mask * basis[:, rows[b]]).sum(0))
    torch.testing.assert_close(found, torch.stack(wanted))
    push = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((z * push).sum(), w)[0] for z in (found, torch.stack(wanted)))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_coins_fall_with_the_asked_chance_and_independently(p):
    kept = keep((400, 999), p, dice(1)[0]).double()
    assert abs(float(kept.mean()) - (1 - p)) < 0.005
    assert float(kept.mean(0).std()) == pytest.approx((p * (1 - p) / 400) ** 0.5, rel=0.1)
    for lag in (1, 2, 3, 4):  # four coins come from one number: they must not know of each other
        assert abs(float(torch.corrcoef(torch.stack([kept[:, lag:].flatten(), kept[:, :-lag].flatten()]))[0, 1])) < 0.01


def test_dropout_enlarges_what_it_keeps_and_so_does_its_gradient():
    x = torch.ones(2, 400, 50, dtype=torch.float64, requires_grad=True)
    found = dropout(x, chance([400, 300], mlp_dropout=[0.0, 0.75]), "mlp_dropout", 0)
    assert torch.equal(found[0], x[0])
    assert set(found[1, :300].unique().tolist()) == {0.0, 4.0}
    assert float(found[1, :300].detach().mean()) == pytest.approx(1, abs=0.03)
    (slope,) = torch.autograd.grad(found.sum(), x)
    assert torch.equal(slope, found)


def layout_of(features, classes, terms=1, **settings) -> ModelShape:
    return ModelShape(Recipe(**settings), terms, features, classes)


def start(layout, members=1):
    weights = models.initial_weights(layout, [(seed, layout.made) for seed in range(members)])
    return {name: w.double() for name, w in weights.items()}


def apply(name, layout, weights, z, counted, kept=None, throw=None):
    here = StageContext(layout, weights, kept or {}, z, torch.zeros(1), counted, None, throw, 1)
    return STAGES[name].apply(z, here, "")


def test_dense_maps_start_uniform_within_one_over_root_fan_out():
    weights = start(layout_of(50, 4, 11, hidden=16, layers=3), 2)
    for name, out in (("dense0_1", 16), ("dense1_1", 16), ("dense2_1", 4)):
        assert 0.9 * out**-0.5 < float(weights[name].abs().max()) <= out**-0.5
    assert not torch.equal(weights["dense0_1"][0], weights["dense0_1"][1])
    torch.testing.assert_close(weights["filter"].float(), torch.full((2, 11), 1 / 11))


class Reference(nn.Module):
    """One member, written with torch's own layers."""

    def __init__(self, made: Recipe, weights, member: int):
        super().__init__()
        self.dense = [weights[f"dense{i}_1"][member] for i in range(made.layers)]
        self.norms = nn.ModuleList([nn.BatchNorm1d(made.hidden).double() for _ in range(made.layers - 1)])
        self.use_norm = made.batch_norm

    def forward(self, z):
        for i, w in enumerate(self.dense):
            fed, z = z, z @ w
            last = i == len(self.dense) - 1
            z = self.norms[i](z) if self.use_norm and not last else z
            z = z + fed if z.shape == fed.shape else z
            z = z if last else torch.relu(z)
        return z


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("features", [8, 5])  # 8: the first map is square too, and adds its input
def test_mlp_equals_torchs_own_layers_member_by_member(batch_norm, features):
    layout = layout_of(features, 3, hidden=8, layers=4, batch_norm=batch_norm)
    weights = start(layout, 2)
    kept = {k: s.double() for k, s in models.statistics(layout, 2).items()}
    z = torch.randn(2, 7, features, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    counted = torch.ones(2, 7, 1, dtype=torch.float64)
    references = [Reference(layout.made, weights, b).train() for b in range(2)]
    trained = apply("mlp", layout, weights, z, counted, kept, chance([7, 7]))
    for b, reference in enumerate(references):
        torch.testing.assert_close(trained[b], reference(z[b]))
    evaluated = apply("mlp", layout, weights, z, counted, kept)
    for b, reference in enumerate(references):
        torch.testing.assert_close(evaluated[b], reference.eval()(z[b]))


def test_padding_rows_change_nothing_for_batch_norm():
    layout = layout_of(4, 2, hidden=6, layers=2, batch_norm=True)
    weights, z = start(layout), torch.randn(1, 5, 4, dtype=torch.float64)
    padded = torch.cat([z, torch.full((1, 3, 4), 99.0, dtype=torch.float64)], 1)
    found = []
    for x in (z, padded):
        kept = {k: s.double() for k, s in models.statistics(layout, 1).items()}
        counted = (torch.arange(x.shape[1]) < 5).double().reshape(1, -1, 1)
        found.append(apply("mlp", layout, weights, x, counted, kept, chance([5])))
    torch.testing.assert_close(found[0], found[1][:, :5])


def test_concat_puts_the_hops_of_a_node_side_by_side(parts):
    _, basis, rows = parts
    layout = layout_of(D, 2, T, combine="concat")
    here = StageContext(layout, {}, {}, basis, rows, torch.ones(B, M, 1), None, None, 0)
    found = STAGES["combine"].apply(basis, here, "")
    assert STAGES["combine"].width(layout, D, "") == T * D == found.shape[2]
    torch.testing.assert_close(found[1, 2], basis[:, rows[1, 2]].flatten())
