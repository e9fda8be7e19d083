"""GCN, GraphSAGE and GAT: several graph convolutions, for all members at once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import elu

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, uniform
from adaptkry.models.stages.propagation import propagate
from adaptkry.spectral.propagation_matrix import Propagation

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class MessagePassing(Stage):
    r"""As many graph convolutions as the recipe has layers, each but the last with `hidden` units.

    Between two of them are ReLU (GAT: ELU) and dropout.

    .. math::
        z'_i = \begin{cases}
            \sum_j P_{ij}\, z_j W + b & \text{gcn} \\
            z_i W_{self} + \sum_j P_{ij}\, z_j W + b & \text{sage, where } P \text{ is the mean over neighbours} \\
            \sum_j \alpha_{ij}\, z_j W + b, \quad
            \alpha_{ij} \propto \exp \mathrm{LeakyReLU}(a \cdot z_j W + a' \cdot z_i W) & \text{gat}
        \end{cases}

    GAT has several heads: `hidden` units are divided among them, and the last layer is their mean. Edge weights have no
    effect on it, and `filter_dropout` is the dropout rate of alpha. See `spectral/attention.py` for its cost.

    Args:
        kind: the convolution.
    """

    kind: Literal["gcn", "sage", "gat"]
    propagates: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of classes."""
        return shape.classes

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw as PyG's layers do."""
        widths = [width, *[shape.recipe.hidden] * (shape.recipe.layers - 1), shape.classes]
        weights: Weights = {}
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            is_last = layer == shape.recipe.layers - 1
            new = self._convolution_weights(shape.recipe, inputs, outputs, generator, is_mean=is_last)
            weights |= {f"{name}{layer}": w for name, w in new}
        return weights

    def _convolution_weights(
        self, recipe: "Recipe", inputs: int, outputs: int, generator: torch.Generator, *, is_mean: bool
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield name and initial value of the weights of one convolution."""
        bound = 1 / math.sqrt(inputs)
        if self.kind == "sage":
            yield "weight", uniform(generator, bound, inputs, outputs)
            yield "bias", uniform(generator, bound, 1, outputs)
            yield "self", uniform(generator, bound, inputs, outputs)
        else:
            units = outputs * recipe.heads if self.kind == "gat" and is_mean else outputs
            yield "weight", uniform(generator, math.sqrt(6 / (inputs + units)), inputs, units)
            yield "bias", torch.zeros(1, outputs)
        if self.kind == "gat":  # for every head: a (of the node heard) and a' (of the node that hears)
            channels = outputs if is_mean else outputs // recipe.heads
            bound = math.sqrt(6 / (recipe.heads + channels))
            yield "attention", uniform(generator, bound, recipe.heads, channels, 2)

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply all layers: [b, n, h] -> [b, n, c]."""
        recipe = context.shape.recipe
        for layer in range(recipe.layers):
            is_last = layer == recipe.layers - 1
            if layer:
                z = context.drop(z, "mlp_dropout", FIRST_DROPOUT + layer)
            z = self._convolution(z, context, layer, is_mean=is_last)
            if not is_last:
                z = elu(z) if self.kind == "gat" else torch.relu(z)
        return z

    def _convolution(self, z: Tensor, context: StageContext, layer: int, *, is_mean: bool) -> Tensor:
        """Apply one convolution: [b, n, h] -> [b, n, h']."""
        product = z @ context.weight(f"weight{layer}")
        is_precomputed = layer == 0 and not context.shape.recipe.uses_features_only
        if self.kind == "gat":
            product = attend(product, context, layer, is_mean=is_mean)
        elif not is_precomputed:  # GCN's first product P X is the same in every epoch
            product = propagate(product, context)
        if self.kind == "sage":
            product = product + z @ context.weight(f"self{layer}")
        return product + context.weight(f"bias{layer}")


# Numbers of dropouts on a GPU; a dropout of GCN with two layers draws what it drew as a stage of its own.
FIRST_DROPOUT, FIRST_ATTENTION_DROPOUT = 34, 1


def attend(z: Tensor, context: StageContext, layer: int, *, is_mean: bool) -> Tensor:
    """Sum over neighbours with attention: [b, n, heads f] -> [b, n, heads f], or [b, n, f], the mean of the heads."""
    operator, heads = context.operator, context.shape.recipe.heads
    assert isinstance(operator, Propagation)
    edges, b = operator.edge_lists, len(z)
    z = z.unflatten(2, (heads, -1))  # [b, n, heads, f]
    scores = torch.einsum("bnhf,bhfs->snbh", z, context.weight(f"attention{layer}")).flatten(2)  # [2, n, b heads]
    weights = edges.softmax(scores[0].contiguous(), scores[1]).unflatten(1, (b, heads))  # [m, b, heads]
    weights = weights.transpose(0, 1)  # [b, m, heads]
    if context.dropout is not None:  # it is drawn for edges, not for nodes
        state = replace(context.dropout, row_counts=[weights.shape[1]] * b)
        weights = replace(context, dropout=state).drop(weights, "filter_dropout", FIRST_ATTENTION_DROPOUT + layer)
    columns = z.transpose(1, 2).flatten(0, 1)  # [b heads, n, f]
    sums = edges.weighted_sum(weights.transpose(1, 2).flatten(0, 1), columns).unflatten(0, (b, heads))
    return sums.mean(1) if is_mean else sums.transpose(1, 2).flatten(2)
