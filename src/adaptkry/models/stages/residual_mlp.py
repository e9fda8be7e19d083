"""The MLP of AdaptKry: residual dense layers, optionally with batch norm or layer norm."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, to_columns, to_members, uniform
from adaptkry.models.stages.label_inputs import label_columns, label_width
from adaptkry.models.stages.norms import apply_norm, norm_weights
from adaptkry.spectral.kernels import triton_kernels

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class ResidualMLP(Stage):
    """Dense layers without bias: dropout before each, residual if widths agree, ReLU after all but the last.

    With `label_hops`, a learned map of propagated training labels is added to the first layer. The last layer has an
    intercept if the task is not classification: labels and targets have means that differ from those of the features.
    """

    input_dropout: ClassVar[tuple[str, int] | None] = ("mlp_dropout", 2)

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of classes."""
        return shape.classes

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw uniformly within 1/sqrt(fan out), as in the published code; those of a structure layer last.

        For tasks other than classification, the last layer is drawn within 1/sqrt(fan in): targets are few, often one,
        and standardised, so that 1/sqrt(fan out) would give initial predictions far outside of their range.
        """
        layers = shape.recipe.layers
        widths = [width, *[shape.recipe.hidden] * (layers - 1), shape.classes]
        weights: Weights = {}
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            is_last = layer == layers - 1
            fan = inputs if is_last and shape.recipe.task != "classification" else outputs
            weights[f"layer{layer}"] = uniform(generator, 1 / math.sqrt(fan), inputs, outputs)
            if not is_last:
                weights |= norm_weights(shape.recipe, layer, outputs)
        if shape.recipe.task != "classification":
            weights["intercept"] = torch.zeros(1, shape.classes)
        if shape.recipe.label_hops:
            weights["labels"] = uniform(generator, 1 / math.sqrt(widths[1]), label_width(shape), widths[1])
        if shape.recipe.structure_layer:
            hidden = shape.recipe.hidden
            weights["structure"] = uniform(generator, 1 / math.sqrt(hidden), shape.nodes, hidden)
        return weights

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply all layers: [b, m, h] -> [b, m, c]."""
        recipe = context.shape.recipe
        z = z if context.is_input_dropped else context.drop(z, "mlp_dropout", 1)
        for layer in range(recipe.layers):
            weight = context.weight(f"layer{layer}")  # [b, inputs, outputs]
            x, z = z, product(z, weight)
            if layer == 0 and recipe.label_hops:
                z = z + label_columns(context) @ context.weight("labels")
            if recipe.structure_layer and layer == 0:
                z = z + structure_layer(context)
            x = x[..., : weight.shape[2]] if weight.shape[1] == weight.shape[2] else None
            if layer < recipe.layers - 1:
                z = activated(z, x, context, layer)
            elif x is not None:
                z = z + x
        return z if recipe.task == "classification" else z + context.weight("intercept")


def activated(z: Tensor, x: Tensor | None, context: StageContext, layer: int) -> Tensor:
    """Return drop(relu(norm(z) + x)), where x is the input of a layer with as many columns: [b, m, h]."""
    state, norm = context.dropout, context.shape.recipe.norm
    kernels = triton_kernels() if z.is_cuda and z.dtype != torch.float64 and norm != "layer" else None
    if kernels and (state is None or state.gpu):
        fused, scale, shift, batch_norm = kernels.triton_hidden_layer, None, None, None
        if norm:
            scale, shift = (context.weight(f"norm{layer}_{name}") for name in ("scale", "shift"))
            running = [context.statistics[f"norm{layer}_{name}"] for name in ("mean", "variance")]
            batch_norm = fused.BatchNorm(*running, is_training=state is not None)
        is_active = state is not None and state.is_active("mlp_dropout")
        drop = state.gpu.drop("mlp_dropout", layer + 3) if is_active else None
        return fused.TritonHiddenLayer.apply(z, x, scale, shift, batch_norm, context.row_mask, drop)
    z = apply_norm(z, context, layer)
    return context.drop(torch.relu(z if x is None else z + x), "mlp_dropout", layer + 2)


def product(z: Tensor, weight: Tensor) -> Tensor:
    """Compute z W where z [b, m, h] may have more columns than W has rows, as on GPUs; these are 0."""
    extra = z.shape[2] - weight.shape[1]
    return z @ (pad(weight, (0, 0, 0, extra)) if extra else weight)


def structure_layer(context: StageContext) -> Tensor:
    """Return the normalised adjacency matrix times a learned vector per training node, at the rows: [b, m, h].

    New nodes, which follow the training nodes, have no vector of their own.
    """
    assert context.operator is not None
    weight = context.weight("structure")  # [b, training nodes, h]
    weight = pad(weight, (0, 0, 0, context.operator.shape[0] - weight.shape[1]))  # [b, n, h]
    at_nodes = to_members(context.operator @ to_columns(weight), len(weight))  # [b, n, h]
    return at_nodes.gather(1, context.rows[:, :, None].expand(-1, -1, weight.shape[2]))
