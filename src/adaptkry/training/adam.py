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
    correction1, correction2 = corrections
    for name, g in gradients.items():
        group, per_member = rate_group(name), (-1, *[1] * (g.ndim - 1))  # [b] -> [b, 1, ...]
        lr, decay = rates[f"{group}_lr"].reshape(per_member), rates[f"{group}_decay"].reshape(per_member)
        w = weights[name]
        if w.is_cuda and w.dtype == torch.float32 and (kernels := triton_kernels()):
            constants = (BETA2, ONE_MINUS_BETA1, ONE_MINUS_BETA2, EPSILON)
            of_member = rates[f"{group}_lr"], rates[f"{group}_decay"]
            moments = first[name], second[name]
            kernels.triton_adam.adam(w, g, *moments, *of_member, corrections, constants, decoupled=decoupled)
            continue
        if decoupled:
            w.mul_(1 - lr * decay)
        else:
            g = torch.addcmul(g, w, decay)
        first[name].lerp_(g, ONE_MINUS_BETA1)
        second[name].mul_(BETA2).addcmul_(g, g, value=ONE_MINUS_BETA2)
        w.addcdiv_(first[name] * (lr / -correction1), (second[name] / correction2).sqrt_().add_(EPSILON))
