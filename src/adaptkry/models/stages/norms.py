"""Batch norm and layer norm, with weights of their own for each member."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from adaptkry.models.stages.base import ModelShape, StageContext, Weights

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


def norm_weights(recipe: "Recipe", number: int, width: int) -> Weights:
    """Return the initial scale and shift [1, h] of norm layer `number`; none if the recipe has no norm."""
    if recipe.norm is None:
        return {}
    return {f"norm{number}_scale": torch.ones(1, width), f"norm{number}_shift": torch.zeros(1, width)}


def initial_statistics(shape: ModelShape, members: int) -> Weights:
    """Return the initial running mean and variance of batch norm, name -> [b, 1, h]."""
    if shape.recipe.norm != "batch":
        return {}
    hidden, layers = shape.recipe.hidden, range(shape.recipe.norm_count)
    zeros = {f"norm{layer}_mean": torch.zeros(members, 1, hidden) for layer in layers}
    ones = {f"norm{layer}_variance": torch.ones(members, 1, hidden) for layer in layers}
    return zeros | ones


def apply_norm(z: Tensor, context: StageContext, number: int) -> Tensor:
    """Apply norm layer `number` of the recipe to z [b, m, h]: batch norm, layer norm or none."""
    norm = context.shape.recipe.norm
    if norm is None:
        return z
    scale, shift = context.weight(f"norm{number}_scale"), context.weight(f"norm{number}_shift")  # [b, 1, h]
    return layer_norm(z, scale, shift) if norm == "layer" else batch_norm(z, context, number) * scale + shift


def batch_norm(z: Tensor, context: StageContext, number: int) -> Tensor:
    """Standardise over the real rows of each member (momentum 0.1, epsilon 1e-5, as in torch): [b, m, h]."""
    running_mean, running_variance = (context.statistics[f"norm{number}_{name}"] for name in ("mean", "variance"))
    mean, variance = running_mean, running_variance
    if context.dropout is not None:  # training
        count = context.row_mask.sum(1, keepdim=True).clamp(min=1)
        mean = (z * context.row_mask).sum(1, keepdim=True) / count
        variance = ((z - mean).square() * context.row_mask).sum(1, keepdim=True) / count
        with torch.no_grad():
            running_mean.lerp_(mean, 0.1)
            running_variance.lerp_(variance * count / (count - 1).clamp(min=1), 0.1)
    return (z - mean) * torch.rsqrt(variance + 1e-5)


def layer_norm(z: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Apply layer norm to every row of z [b, m, h], with scale and shift [b, 1, h] (epsilon 1e-5, as in torch)."""
    return torch.nn.functional.layer_norm(z, z.shape[2:]) * scale + shift
