"""Adam and AdamW with a learning rate and a weight decay per member and group of weights."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from adaptkry.models.batched import rate_group
from adaptkry.models.stages import Weights
from adaptkry.spectral.kernels import triton_kernels

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's defaults
ONE_MINUS_BETA1, ONE_MINUS_BETA2 = 0.1, 0.001  # exact, where the subtraction would round


@cache
def betas(device: torch.device) -> Tensor:
    """Return both betas in float64 [2]."""
    return torch.tensor([BETA1, BETA2], dtype=torch.float64, device=device)


@torch.no_grad()
def adam_step(
    weights: Weights,
    gradients: Weights,
    first: Weights,
    second: Weights,
    steps: Tensor,
    rates: Mapping[str, Tensor],
    *,
    decoupled: bool,
) -> None:
    """Take one step, in place.

    Args:
        weights: name -> [b, ...].
        gradients: with the same names and shapes as `weights`.
        first: running means of the gradients.
        second: running means of the squared gradients.
        steps: number of steps so far, a tensor [] on the device; increased by one.
        rates: "mlp_lr", "mlp_decay", "filter_lr", ... -> [b].
        decoupled: shrink the weights directly, as AdamW does, or add the decay to the gradient, as Adam does.
    """
    steps.add_(1)
    corrections = (1 - betas(steps.device) ** steps).to(next(iter(weights.values())).dtype)  # [2]
    for name, g in gradients.items():
        w, moments, group = weights[name], (first[name], second[name]), rate_group(name)
        of_member = rates[f"{group}_lr"], rates[f"{group}_decay"]
        if not w.is_cuda:
            fused_step(w, g, *moments, steps, *of_member, decoupled=decoupled)
        elif w.dtype == torch.float32 and (kernels := triton_kernels()):
            constants = (BETA2, ONE_MINUS_BETA1, ONE_MINUS_BETA2, EPSILON)
            kernels.triton_adam.adam(w, g, *moments, *of_member, corrections, constants, decoupled=decoupled)
        else:
            plain_step(w, g, *moments, corrections, *of_member, decoupled=decoupled)


def fused_step(
    w: Tensor, g: Tensor, first: Tensor, second: Tensor, steps: Tensor, lr: Tensor, decay: Tensor, *, decoupled: bool
) -> None:
    """Take one step for one weight [b, ...] on the CPU, in one pass over memory for members with equal rates."""
    assert w.is_contiguous()  # it reads and writes in the order of memory
    step = torch.ops.aten._fused_adamw_ if decoupled else torch.ops.aten._fused_adam_
    tensors, rates = (w, g.contiguous(), first, second), list(zip(lr.tolist(), decay.tolist(), strict=True))
    for lr_decay in dict.fromkeys(rates):
        members = [i for i, other in enumerate(rates) if other == lr_decay]
        parts = [[t] if len(members) == len(w) else [t[i] for i in members] for t in tensors]
        step(
            *parts, [], [steps.float()] * len(parts[0]), lr=lr_decay[0], weight_decay=lr_decay[1],
            beta1=BETA1, beta2=BETA2, eps=EPSILON, amsgrad=False, maximize=False,
        )  # fmt: skip


def plain_step(
    w: Tensor, g: Tensor, first: Tensor, second: Tensor, corrections: Tensor, lr: Tensor, decay: Tensor, *,
    decoupled: bool,
) -> None:  # fmt: skip
    """Take one step for one weight [b, ...] on any device, without waiting for it; `corrections` [2] of the moments."""
    per_member = (-1, *[1] * (g.ndim - 1))  # [b] -> [b, 1, ...]
    lr, decay, (correction1, correction2) = lr.reshape(per_member), decay.reshape(per_member), corrections
    if decoupled:
        w.mul_(1 - lr * decay)
    else:
        g = torch.addcmul(g, w, decay)
    first.lerp_(g, ONE_MINUS_BETA1)
    second.mul_(BETA2).addcmul_(g, g, value=ONE_MINUS_BETA2)
    w.addcdiv_(first * (lr / -correction1), (second / correction2).sqrt_().add_(EPSILON))
