"""Adam and AdamW with a learning rate and a weight decay per member and group of weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptkry.models.batched import rate_group
from adaptkry.models.stages import Weights

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's defaults
REST1, REST2 = 0.1, 0.001  # 1 - BETA: the subtraction itself would round


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
    """One step in place.

    Args:
        weights: name -> [b, ...].
        gradients: of the same names and shapes.
        first: running means of gradients.
        second: running means of squared gradients.
        steps: number of steps so far, a tensor [] on the device; it is increased.
        rates: "mlp_lr", "mlp_decay", "filter_lr", ... -> [b].
        decoupled: decay as AdamW has it, or added to the gradient as Adam has it.
    """
    steps.add_(1)
    correction1, correction2 = (1 - torch.pow(beta, steps.double()) for beta in (BETA1, BETA2))
    for name, g in gradients.items():
        correction1, correction2 = correction1.to(g.dtype), correction2.to(g.dtype)
        lr, decay = (rates[f"{rate_group(name)}_{what}"].reshape(-1, *[1] * (g.ndim - 1)) for what in ("lr", "decay"))
        w = weights[name]
        if decoupled:
            w.mul_(1 - lr * decay)
        else:
            g = torch.addcmul(g, w, decay)
        first[name].lerp_(g, REST1)
        second[name].mul_(BETA2).addcmul_(g, g, value=REST2)
        w.addcdiv_(first[name] * (lr / -correction1), (second[name] / correction2).sqrt_().add_(EPSILON))
