"""The MLP of AdaptKry: residual dense layers without bias, optionally with batch norm or layer norm."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, uniform
from adaptkry.models.stages.label_inputs import label_columns, label_width
from adaptkry.models.stages.norms import apply_norm, norm_weights

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
            if layer < layers - 1:
                weights |= norm_weights(shape.recipe, layer, outputs)
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
            z = z if is_last else apply_norm(z, context, layer)
            if x.shape[-1] == z.shape[-1]:
                z = z + x
            z = z if is_last else torch.relu(z)
        return z
