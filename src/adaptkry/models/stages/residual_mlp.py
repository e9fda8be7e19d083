"""The MLP of AdaptKry: residual dense layers without bias, optionally with batch norm or layer norm."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, uniform
from adaptkry.models.stages.label_inputs import label_columns, label_width

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class ResidualMLP(Stage):
    """Dense layers without bias: dropout before each, residual if widths agree, ReLU after all but the last.

    With `label_hops`, a learned map of propagated training labels is added to the first layer.
    """

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of classes."""
        return shape.classes

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw uniformly within 1/sqrt(fan out), as in the published code."""
        layers = shape.recipe.layers
        widths = [width, *[shape.recipe.hidden] * (layers - 1), shape.classes]
        weights: Weights = {}
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            weights[f"layer{layer}"] = uniform(generator, 1 / math.sqrt(outputs), inputs, outputs)
            if (shape.recipe.batch_norm or shape.recipe.layer_norm) and layer < layers - 1:
                weights |= {f"norm{layer}_scale": torch.ones(1, outputs), f"norm{layer}_shift": torch.zeros(1, outputs)}
        if shape.recipe.label_hops:
            weights["labels"] = uniform(generator, 1 / math.sqrt(widths[1]), label_width(shape), widths[1])
        return weights

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply all layers: [b, m, h] -> [b, m, c]."""
        recipe = context.shape.recipe
        for layer in range(recipe.layers):
            z = context.drop(z, "mlp_dropout", layer + 1)
            x, z = z, z @ context.weight(f"layer{layer}")
            if layer == 0 and recipe.label_hops:
                z = z + label_columns(context) @ context.weight("labels")
            is_last = layer == recipe.layers - 1
            if recipe.batch_norm and not is_last:
                z = batch_norm(z, context, layer)
            if recipe.layer_norm and not is_last:
                z = layer_norm(z, context.weight(f"norm{layer}_scale"), context.weight(f"norm{layer}_shift"))
            if x.shape[-1] == z.shape[-1]:
                z = z + x
            z = z if is_last else torch.relu(z)
        return z


def initial_statistics(shape: ModelShape, members: int) -> Weights:
    """Return the initial running mean and variance of batch norm, name -> [b, 1, h]."""
    if not shape.recipe.batch_norm:
        return {}
    hidden, layers = shape.recipe.hidden, range(shape.recipe.layers - 1)
    zeros = {f"norm{layer}_mean": torch.zeros(members, 1, hidden) for layer in layers}
    ones = {f"norm{layer}_variance": torch.ones(members, 1, hidden) for layer in layers}
    return zeros | ones


def batch_norm(z: Tensor, context: StageContext, layer: int) -> Tensor:
    """Apply batch norm over the real rows of each member (momentum 0.1, epsilon 1e-5, as in torch): [b, m, h]."""
    running_mean, running_variance = (context.statistics[f"norm{layer}_{name}"] for name in ("mean", "variance"))
    mean, variance = running_mean, running_variance
    if context.dropout is not None:  # training
        count = context.row_mask.sum(1, keepdim=True).clamp(min=1)
        mean = (z * context.row_mask).sum(1, keepdim=True) / count
        variance = ((z - mean).square() * context.row_mask).sum(1, keepdim=True) / count
        with torch.no_grad():
            running_mean.lerp_(mean, 0.1)
            running_variance.lerp_(variance * count / (count - 1).clamp(min=1), 0.1)
    scaled = (z - mean) * torch.rsqrt(variance + 1e-5)
    return scaled * context.weight(f"norm{layer}_scale") + context.weight(f"norm{layer}_shift")


def layer_norm(z: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Apply layer norm to every row of z [b, m, h], with scale and shift [b, 1, h] (epsilon 1e-5, as in torch)."""
    return torch.nn.functional.layer_norm(z, z.shape[2:]) * scale + shift
