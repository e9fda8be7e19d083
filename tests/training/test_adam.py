"""Steps of Adam for several members equal those of torch.optim for each of them."""

import pytest
import torch

from adaptkry.training.adam import adam_step, betas, fused_step, plain_step

LR, DECAY = torch.tensor([0.1, 0.02, 0.1, 0.1]), torch.tensor([0.0, 0.5, 0.0, 1e-3])


def plain(w, g, first, second, steps, lr, decay, *, decoupled):
    corrections = (1 - betas(steps.device) ** steps).to(w.dtype)
    plain_step(w, g, first, second, corrections, lr, decay, decoupled=decoupled)


@pytest.mark.parametrize("lr", [LR, torch.full((4,), 0.1)], ids=["different", "equal"])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("step", [fused_step, plain])
def test_steps_of_members_equal_those_of_torch_optim(step, decoupled, lr):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(4, 5, 7, dtype=torch.float64, generator=generator)
    decay, w, moments = DECAY.double() if lr is LR else torch.full((4,), 0.3).double(), start.clone(), []
    moments = [torch.zeros_like(w) for _ in range(2)]
    alone = [one.clone().requires_grad_() for one in start]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimisers = [kind([one], lr=float(a), weight_decay=float(b)) for one, a, b in zip(alone, lr, decay, strict=True)]
    for number in range(1, 6):
        g = torch.randn(4, 7, 5, dtype=torch.float64, generator=generator).transpose(1, 2)  # not contiguous
        step(w, g, *moments, torch.tensor(number), lr.double(), decay, decoupled=decoupled)
        for one, gradient, optimiser in zip(alone, g, optimisers, strict=True):
            one.grad = gradient.contiguous()
            optimiser.step()
        torch.testing.assert_close(w, torch.stack([one.detach() for one in alone]), rtol=1e-7, atol=1e-9)


def test_weights_of_each_group_take_the_rates_of_the_group():
    names = {"mlp/0/weight": "mlp", "filter/weights": "filter"}
    weights = {name: torch.ones(2, 3) for name in names}
    moments = [{name: torch.zeros(2, 3) for name in names} for _ in range(2)]
    rates = {"mlp_lr": torch.tensor([0.1, 0.2]), "filter_lr": torch.tensor([0.0, 0.4])}
    rates |= {f"{group}_decay": torch.zeros(2) for group in names.values()}
    gradients, steps = {name: torch.full((2, 3), 5.0) for name in names}, torch.tensor(0)
    adam_step(
        weights, gradients, moments[0], moments[1], steps, rates, decoupled=False
    )  # the first step has the length of the rate
    assert int(steps) == 1
    torch.testing.assert_close(weights["mlp/0/weight"], torch.tensor([0.9, 0.8])[:, None].expand(2, 3))
    torch.testing.assert_close(weights["filter/weights"], torch.tensor([1.0, 0.6])[:, None].expand(2, 3))
