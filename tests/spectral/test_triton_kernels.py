"""The fused kernels for GPUs against plain torch: on a GPU, or in Triton's interpreter where Triton is installed."""

import os

import pytest
import torch
from torch import Tensor

IS_GPU = torch.cuda.is_available()
if not IS_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="Triton comes with torch's CUDA builds only")

from adaptkry.spectral.kernels import triton_adam, triton_dropout, triton_hidden_layer, triton_weighted_sum  # noqa: E402
from adaptkry.training import adam  # noqa: E402

pytestmark = [pytest.mark.gpu] if IS_GPU else []
DEVICE = "cuda" if IS_GPU else "cpu"
COUNTS, RATES = [9, 7, 8], [0.0, 0.5, 0.9]


def inputs(T: int, n: int = 13, d: int = 37) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hop weights [b, T], terms [T, n, d], rows [b, m] and whether they are real [b, m]."""
    generator = torch.Generator().manual_seed(T)
    rows, is_real = torch.zeros(3, 9, dtype=torch.long), torch.zeros(3, 9, dtype=torch.bool)
    for i, count in enumerate(COUNTS):
        rows[i, :count], is_real[i, :count] = torch.randperm(n, generator=generator)[:count], True
    w, basis = torch.randn(3, T, generator=generator), torch.randn(T, n, d, generator=generator)
    return w.to(DEVICE).requires_grad_(), basis.to(DEVICE), rows.to(DEVICE), is_real.to(DEVICE)


def drop(rates: list[float], first_seed: int = 5, layer: int = 0) -> triton_dropout.Drop:
    seeds, step = torch.arange(first_seed, first_seed + len(rates), device=DEVICE), torch.tensor(3, device=DEVICE)
    return triton_dropout.Drop(seeds, step, layer, triton_dropout.DropoutRates(rates, DEVICE))


def fused(
    w: Tensor, basis: Tensor, rows: Tensor, _: Tensor, rates: list[float] | None = None, sums: list[float] | None = None
) -> Tensor:
    drops = [None if p is None else drop(p, layer=i) for i, p in enumerate((rates, sums))]
    return triton_weighted_sum.TritonSumAtRows.apply(w, basis, rows, *drops, torch.float32)  # type: ignore[return-value]


def plain(w: Tensor, basis: Tensor, rows: Tensor, is_real: Tensor, kept: Tensor | float = 1.0) -> Tensor:
    return torch.einsum("bk,kbmd->bmd", w, basis[:, rows] * kept) * is_real[..., None]


def kept_entries(T: int, rates: list[float]) -> Tensor:
    """Whether each entry is kept [T, b, m, d], found one term at a time."""
    _, basis, rows, is_real = inputs(T)
    units = torch.eye(T, device=DEVICE)
    found = [fused(unit.expand(3, T), torch.ones_like(basis), rows, is_real, rates) for unit in units]
    return torch.stack(found) != 0


def same_gradients(found: Tensor, expected: Tensor, w: Tensor, is_real: Tensor) -> None:
    push = torch.randn_like(expected) * is_real[..., None]
    gradients = [torch.autograd.grad(out, w, push)[0] for out in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("T", [1, 3, 12, 13, 30])
def test_fused_sums_and_their_gradients_equal_those_of_torch(T):
    w, *rest = inputs(T)
    found, expected = fused(w, *rest) * rest[2][..., None], plain(w, *rest)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    same_gradients(found, expected, w, rest[2])


@pytest.mark.parametrize("sums", [None, [0.5, 0.0, 0.8]])
@pytest.mark.parametrize("rates", [None, RATES])
def test_fused_sums_with_dropout_equal_those_of_torch_with_the_same_entries(rates, sums):
    w, *rest = inputs(13)
    kept, scales = torch.ones(13, 3, 9, 37, device=DEVICE), torch.ones(3, device=DEVICE)
    if rates:
        kept, scales = kept_entries(13, rates), 1 / (1 - (512 * torch.tensor(rates, device=DEVICE)).round() / 512)
    found = fused(w, *rest, rates, sums) * rest[2][..., None]
    expected = plain(w * scales[:, None], *rest, kept)
    if sums:
        units = fused(torch.ones_like(w), torch.ones_like(rest[0]), *rest[1:], sums=sums)
        expected = expected * torch.where(units != 0, 1 / (1 - torch.tensor(sums, device=DEVICE))[:, None, None], 0)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    same_gradients(found, expected, w, rest[2])


def test_entries_are_dropped_at_the_rate_of_their_member_and_independently():
    kept = kept_entries(11, RATES).double()
    w, basis, rows, is_real = inputs(11)
    sums = fused(torch.ones_like(w), torch.ones_like(basis), rows, is_real, sums=RATES) != 0
    for i, (count, rate) in enumerate(zip(COUNTS, RATES, strict=True)):
        assert float(kept[:, i, :count].mean()) == pytest.approx(1 - rate, abs=0.03)
        assert float(sums[i, :count].double().mean()) == pytest.approx(1 - rate, abs=0.08)
    pairs = torch.cat([kept[:, 1, :7], sums[None, 1, :7].double()]).flatten(1)  # of the member with rate 0.5
    correlation = torch.corrcoef(pairs) - torch.eye(12, device=DEVICE)
    assert float(correlation.abs().max()) < 0.3  # 259 entries: a standard deviation of 0.06


def test_fused_sums_of_a_member_do_not_depend_on_the_other_members():
    w, basis, rows, _ = inputs(11)
    many, table = w.repeat(3, 1)[:7], rows.repeat(3, 1)[:7]

    def sums(members: slice) -> Tensor:
        drops = [drop([0.5] * len(many[members]), 5 + members.start, layer) for layer in (0, 1)]
        return triton_weighted_sum.TritonSumAtRows.apply(many[members], basis, table[members], *drops, w.dtype)  # type: ignore[return-value]

    together = sums(slice(0, 7))
    for i in range(7):
        assert torch.equal(sums(slice(i, i + 1))[0], together[i])


def test_places_are_rows_by_node_and_padding_is_none():
    rows = torch.tensor([[2, 0, 0], [1, 2, 3], [0, 0, 0]], device=DEVICE)
    places, is_padding = triton_weighted_sum.places_of(rows, 4)
    assert places.T.tolist() == [[1, -1, 0, -1], [-1, 0, 1, 2], [0, -1, -1, -1]]
    assert is_padding.T.tolist() == [[False, False, True], [False] * 3, [False, True, True]]


def test_dropout_drops_at_the_rate_and_scales():
    x = torch.ones(3, 70, 60, device=DEVICE)
    found = triton_dropout.dropped(x, drop(RATES))
    for i, rate in enumerate(RATES):
        kept = found[i] > 0
        torch.testing.assert_close(found[i][kept], torch.full_like(found[i][kept], 1 / (1 - rate)))
        assert float(kept.double().mean()) == pytest.approx(1 - rate, abs=0.03)
    alone = triton_dropout.dropped(x[1:2], drop(RATES[1:2], 6))
    assert torch.equal(alone[0], found[1])


def plain_layer(
    z: Tensor, x: Tensor | None, scale: Tensor, shift: Tensor, statistics, row_mask: Tensor, factors
) -> Tensor:
    """relu(norm(z) + x) with dropped entries, and statistics of the real rows unless they are given."""
    if statistics is None:
        count = row_mask.sum(1, keepdim=True)
        mean = (z * row_mask).sum(1, keepdim=True) / count
        statistics = mean, ((z - mean).square() * row_mask).sum(1, keepdim=True) / count
    mean, variance = statistics
    z = z if scale is None else (z - mean) / (variance + 1e-5).sqrt() * scale + shift
    return torch.relu(z if x is None else z + x) * factors


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("is_dropped", [False, True])
@pytest.mark.parametrize("is_residual", [False, True])
@pytest.mark.parametrize("is_normed", [False, True])
def test_hidden_layers_and_their_gradients_equal_those_of_torch(is_normed, is_residual, is_dropped, is_training):
    generator = torch.Generator().manual_seed(0)
    b, m, h = 3, 150, 20
    row_mask = (torch.arange(m) < torch.tensor([[150], [7], [131]]))[..., None].float().to(DEVICE)
    z, x, push = (torch.randn(b, m, h, generator=generator).to(DEVICE) for _ in range(3))
    x = torch.cat([x, x], 2)[..., :h]  # rows of a wider table
    scale, shift, mean, variance = (torch.rand(b, 1, h, generator=generator).to(DEVICE) + 0.5 for _ in range(4))
    leaves = [z, x, scale, shift] if is_normed else [z, x]
    for leaf in leaves:
        leaf.requires_grad_()
    rates = drop(RATES) if is_dropped else None
    running = mean.clone(), variance.clone()
    norm = triton_hidden_layer.BatchNorm(*running, is_training) if is_normed else None
    weights = (scale, shift) if is_normed else (None, None)
    layer = triton_hidden_layer.TritonHiddenLayer.apply
    found = layer(z, x if is_residual else None, *weights, norm, row_mask, rates)
    ones = torch.ones(b, m, h, device=DEVICE)
    factors = layer(ones, None, None, None, None, row_mask, rates)
    if is_dropped:
        kept = factors != 0
        torch.testing.assert_close(
            kept.double().mean((1, 2)).cpu(), 1 - torch.tensor(RATES).double(), rtol=0, atol=0.03
        )
    statistics = None if is_training else (mean, variance)
    expected = plain_layer(z, x if is_residual else None, *weights, statistics, row_mask, factors)
    torch.testing.assert_close(found * row_mask, expected * row_mask, rtol=1e-4, atol=1e-5)
    if not is_training:
        assert torch.equal(running[0], mean)
        assert torch.equal(running[1], variance)
        return
    leaves = [leaf for leaf in leaves if leaf is not x or is_residual]
    gradients = [torch.autograd.grad((out * push * row_mask).sum(), leaves) for out in (found, expected)]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    if is_normed:
        rows = z[0].detach()
        torch.testing.assert_close(running[0][0], mean[0].lerp(rows.mean(0), 0.1))
        torch.testing.assert_close(running[1][0], variance[0].lerp(rows.var(0), 0.1))


@pytest.mark.parametrize("decoupled", [False, True])
def test_fused_adam_equals_torch(decoupled):
    generator = torch.Generator().manual_seed(0)
    w, g = (torch.randn(3, 40, 33, generator=generator).to(DEVICE) for _ in range(2))
    lr, decay = torch.tensor([0.1, 0.01, 1e-3], device=DEVICE), torch.tensor([0.0, 1e-3, 0.1], device=DEVICE)
    mine, first, second = w.clone(), torch.zeros_like(w), torch.zeros_like(w)
    theirs = [w[i].clone().requires_grad_() for i in range(3)]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    steps = [kind([t], lr=float(lr[i]), weight_decay=float(decay[i])) for i, t in enumerate(theirs)]
    constants = (adam.BETA2, adam.ONE_MINUS_BETA1, adam.ONE_MINUS_BETA2, adam.EPSILON)
    for step in range(1, 4):
        corrections = torch.tensor([1 - beta**step for beta in (adam.BETA1, adam.BETA2)], device=DEVICE)
        padded = torch.cat([g * step, g], 1)[:, :40]  # part of a larger matrix
        triton_adam.adam(mine, padded, first, second, lr, decay, corrections, constants, decoupled=decoupled)
        for i, optimiser in enumerate(steps):
            theirs[i].grad = g[i] * step
            optimiser.step()
    torch.testing.assert_close(mine, torch.stack([t.detach() for t in theirs]), rtol=1e-5, atol=1e-6)
