import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from adaptkry import models
from adaptkry.models import Chance, DroppedSum, Layout, WeightedSum

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
    return Chance(dice(len(sizes)), filter_dropout or zero, mlp_dropout or zero, sizes)


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
            mask = models.keep((T, M, D), p, die).double() / (1 - p)
        wanted.append((w[b, :, None, None] * mask * basis[:, rows[b]]).sum(0))
    torch.testing.assert_close(found, torch.stack(wanted))
    push = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((z * push).sum(), w)[0] for z in (found, torch.stack(wanted)))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_coins_fall_with_the_asked_chance_and_independently(p):
    kept = models.keep((400, 999), p, dice(1)[0]).double()
    assert abs(float(kept.mean()) - (1 - p)) < 0.005
    assert float(kept.mean(0).std()) == pytest.approx((p * (1 - p) / 400) ** 0.5, rel=0.1)
    for lag in (1, 2, 3, 4):  # four coins come from one number: they must not know of each other
        assert abs(float(torch.corrcoef(torch.stack([kept[:, lag:].flatten(), kept[:, :-lag].flatten()]))[0, 1])) < 0.01


def test_dense_maps_start_uniform_within_one_over_root_fan_out():
    layout = Layout(terms=11, features=50, hidden=16, classes=4, layers=3)
    weights = models.initial_weights(layout, seeds=[0, 1], hops=11)
    for name, out in (("dense0", 16), ("dense1", 16), ("dense2", 4)):
        assert 0.9 * out**-0.5 < float(weights[name].abs().max()) <= out**-0.5
    assert not torch.equal(weights["dense0"][0], weights["dense0"][1])
    torch.testing.assert_close(weights["filter"], torch.full((2, 11), 1 / 11))


class Reference(nn.Module):
    """One member, written with torch's own layers."""

    def __init__(self, layout: Layout, weights, member: int):
        super().__init__()
        self.dense = [weights[f"dense{i}"][member] for i in range(layout.layers)]
        self.norms = nn.ModuleList([nn.BatchNorm1d(layout.hidden).double() for _ in range(layout.layers - 1)])
        self.use_norm = layout.batch_norm

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
    layout = Layout(terms=1, features=features, hidden=8, classes=3, layers=4, batch_norm=batch_norm)
    weights = {k: w.double() for k, w in models.initial_weights(layout, [0, 1], 1).items()}
    statistics = {k: s.double() for k, s in models.running_statistics(layout, 2).items()}
    z = torch.randn(2, 7, features, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    counted = torch.ones(2, 7, 1, dtype=torch.float64)
    references = [Reference(layout, weights, b).train() for b in range(2)]
    trained = models.mlp(layout, weights, statistics, z, counted, chance([7, 7]))
    for b, reference in enumerate(references):
        torch.testing.assert_close(trained[b], reference(z[b]))
    evaluated = models.mlp(layout, weights, statistics, z, counted)
    for b, reference in enumerate(references):
        torch.testing.assert_close(evaluated[b], reference.eval()(z[b]))


def test_padding_rows_change_nothing_for_batch_norm():
    layout = Layout(terms=1, features=4, hidden=6, classes=2, layers=2, batch_norm=True)
    weights = {k: w.double() for k, w in models.initial_weights(layout, [0], 1).items()}
    z = torch.randn(1, 5, 4, dtype=torch.float64)
    padded = torch.cat([z, torch.full((1, 3, 4), 99.0, dtype=torch.float64)], 1)
    short, long = (
        models.mlp(
            layout, weights, {k: s.double() for k, s in models.running_statistics(layout, 1).items()}, x, c, chance([5])
        )
        for x, c in (
            (z, torch.ones(1, 5, 1, dtype=torch.float64)),
            (padded, torch.tensor([1.0] * 5 + [0.0] * 3, dtype=torch.float64).reshape(1, 8, 1)),
        )
    )
    torch.testing.assert_close(short, long[:, :5])


def test_concat_puts_the_hops_of_a_node_side_by_side(parts):
    _, basis, rows = parts
    layout = Layout(terms=T, features=D, hidden=4, classes=2, layers=2, combine="concat")
    found = models.combine(layout, {}, basis, rows)
    assert layout.widths[0] == T * D
    torch.testing.assert_close(found[1, 2], basis[:, rows[1, 2]].flatten())
