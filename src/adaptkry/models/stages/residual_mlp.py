"""AdaptKry's own MLP: residual maps without bias, perhaps with batch norm."""

import math
from itertools import pairwise

import torch
from torch import Tensor

from adaptkry.models.recipe import Recipe
from adaptkry.models.stages.base import ModelShape, StageContext, Weights, stage, uniform


def mlp_widths(layout: ModelShape, width: int) -> list[int]:
    """Width of the signal before and after each dense map."""
    return [width, *[layout.made.hidden] * (layout.made.layers - 1), layout.classes]


def draw_mlp(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Dense maps uniform in +-1/sqrt(fan out), as in the published program."""
    drawn: Weights = {}
    for layer, (wide, narrow) in enumerate(pairwise(mlp_widths(layout, width))):
        drawn[f"dense{layer}_"] = uniform(die, 1 / math.sqrt(narrow), wide, narrow)
        if layout.made.batch_norm and layer < layout.made.layers - 1:
            drawn |= {f"scale{layer}_": torch.ones(1, narrow), f"shift{layer}_": torch.zeros(1, narrow)}
    return drawn


@stage("mlp", width=lambda layout, width, word: layout.classes, draw=draw_mlp)
def mlp(z: Tensor, here: StageContext, word: str) -> Tensor:
    """Dense maps without bias: dropout before each, residual where widths agree, ReLU after all but the last."""
    made = here.layout.made
    for layer in range(made.layers):
        z = here.drop(z, "mlp_dropout", layer + 1)
        fed, z = z, z @ here.weight(f"dense{layer}_")
        last = layer == made.layers - 1
        if made.batch_norm and not last:
            z = batch_norm(z, here, layer)
        if fed.shape[-1] == z.shape[-1]:
            z = z + fed
        z = z if last else torch.relu(z)
    return z


def batch_norm(z: Tensor, here: StageContext, layer: int) -> Tensor:
    """Batch norm over each member's real rows (momentum 0.1, epsilon 1e-5, as torch has them)."""
    kept = [here.statistics[f"{name}{layer}"] for name in ("mean", "variance")]
    mean, variance = kept
    if here.chance is not None:
        count = here.counted.sum(1, keepdim=True).clamp(min=1)
        mean = (z * here.counted).sum(1, keepdim=True) / count
        variance = ((z - mean).square() * here.counted).sum(1, keepdim=True) / count
        with torch.no_grad():
            kept[0].lerp_(mean, 0.1)
            kept[1].lerp_(variance * count / (count - 1).clamp(min=1), 0.1)
    scaled = (z - mean) * torch.rsqrt(variance + 1e-5)
    return scaled * here.weight(f"scale{layer}_") + here.weight(f"shift{layer}_")
