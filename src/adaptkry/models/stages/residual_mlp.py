"""The MLP of AdaptKry: residual dense layers, optionally with batch norm or layer norm."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from adaptkry.models.dropout import gpu_drop
from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, to_columns, to_members, uniform
from adaptkry.models.stages.label_inputs import label_columns, label_width
from adaptkry.models.stages.norms import apply_norm, norm_weights
from adaptkry.spectral.kernels import onednn, triton_kernels

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe

BLOCK_SIZE = 128  # rows and columns of a block of a product
OCCUPYING_BLOCKS = 264  # blocks that occupy a GPU


@dataclass(frozen=True)
class ResidualMLP(Stage):
    """Dense layers without bias: dropout before each, residual if widths agree, ReLU after all but the last.

    With `similar_nodes`, a learned map of their training labels is added to the first layer. The last layer has an
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
        if shape.recipe.similar_nodes:
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
            is_last = layer == recipe.layers - 1
            # Logits have float32 also where activations have bfloat16.
            x, z = z, product(z.float() if is_last and z.dtype == torch.bfloat16 else z, weight)
            if layer == 0 and recipe.similar_nodes:
                z = z + label_columns(context) @ context.weight("labels")
            if recipe.structure_layer and layer == 0:
                z = z + structure_layer(context)
            x = x[..., : weight.shape[2]] if weight.shape[1] == weight.shape[2] else None
            if not is_last:
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
        drop = gpu_drop(state, "mlp_dropout", layer + 3)
        return fused.TritonHiddenLayer.apply(z, x, scale, shift, batch_norm, context.row_mask, drop)
    z = apply_norm(z, context, layer)
    return context.drop(torch.relu(z if x is None else z + x), "mlp_dropout", layer + 2)


def product(z: Tensor, weight: Tensor) -> Tensor:
    """Compute z W where z [b, m, h] may have more columns than W has rows, as on GPUs; these are 0."""
    if z.is_cuda:
        return GpuProduct.apply(z, weight)  # type: ignore[return-value]
    extra = z.shape[2] - weight.shape[1]
    weight = pad(weight, (0, 0, 0, extra)) if extra else weight
    if onednn.is_faster(z, weight):
        return onednn.Product.apply(z[0], weight[0])[None]  # type: ignore[index]
    return z @ weight


class GpuProduct(torch.autograd.Function):
    """The same on a GPU, in the type of z; the gradient of W is the sum of those of several parts of the rows.

    One product over all rows would have fewer blocks than the GPU has processors.
    """

    @staticmethod
    def forward(ctx, z: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        padded = pad(weight, (0, 0, 0, z.shape[2] - weight.shape[1])).to(z.dtype)
        ctx.save_for_backward(z, padded)
        ctx.inputs, ctx.dtype = weight.shape[1], weight.dtype
        return z @ padded

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        z, weight = ctx.saved_tensors
        parts = row_parts(z.shape, weight.shape[2]) if z.stride(0) else 1  # members may share z
        b, gradient = len(z), gradient.contiguous()
        split = [t.reshape(b * parts, -1, t.shape[2]) for t in (z, gradient)]
        of_parts = (split[0].transpose(1, 2) @ split[1]).view(b, parts, *weight.shape[1:])
        of_weight = of_parts[:, 0].to(ctx.dtype) if parts == 1 else of_parts.sum(1, dtype=ctx.dtype)
        return (gradient @ weight.transpose(1, 2) if ctx.needs_input_grad[0] else None), of_weight[:, : ctx.inputs]


def row_parts(shape: torch.Size, outputs: int) -> int:
    """Return the number of equal parts, at most 16, into which the rows of z [b, m, h] are divided on a GPU."""
    b, m, inputs = shape
    blocks = b * -(-inputs // BLOCK_SIZE) * -(-outputs // BLOCK_SIZE)
    fitting = [p for p in (2, 4, 8, 16) if m % p == 0 and m // p >= BLOCK_SIZE and p * blocks <= OCCUPYING_BLOCKS]
    return max(fitting, default=1)


def structure_layer(context: StageContext) -> Tensor:
    """Return the normalised adjacency matrix times a learned vector per training node, at the rows: [b, m, h].

    New nodes, which follow the training nodes, have no vector of their own.
    """
    assert context.operator is not None
    weight = context.weight("structure")  # [b, training nodes, h]
    weight = pad(weight, (0, 0, 0, context.operator.shape[0] - weight.shape[1]))  # [b, n, h]
    at_nodes = to_members(context.operator @ to_columns(weight), len(weight))  # [b, n, h]
    return at_nodes.gather(1, context.rows[:, :, None].expand(-1, -1, weight.shape[2]))
