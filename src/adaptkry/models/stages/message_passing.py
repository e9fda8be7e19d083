"""GCN, GraphSAGE and GAT: several graph convolutions, for all members at once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import elu, gelu

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, uniform
from adaptkry.models.stages.norms import apply_norm, norm_weights
from adaptkry.models.stages.propagation import propagate
from adaptkry.spectral.propagation_matrix import Propagation

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class MessagePassing(Stage):
    r"""As many graph convolutions as the recipe has layers, each but the last with `hidden` units.

    Between two of them are a norm, if the recipe has one, ReLU (GAT: ELU) and dropout.

    .. math::
        z'_i = \begin{cases}
            \sum_j P_{ij}\, z_j W + b & \text{gcn} \\
            z_i W_{self} + \sum_j P_{ij}\, z_j W + b & \text{sage, where } P \text{ is the mean over neighbours} \\
            \sum_j \alpha_{ij}\, z_j W + b, \quad
            \alpha_{ij} \propto \exp \mathrm{LeakyReLU}(a \cdot z_j W + a' \cdot z_i W) & \text{gat}
        \end{cases}

    GAT has several heads: `hidden` units are divided among them, and the last layer is their mean. Edge weights have no
    effect on it, and `filter_dropout` is the dropout rate of alpha. See `spectral/attention.py` for its cost.
    With `self_weights`, gcn and gat add :math:`z_i W_{self}` too.

    With `residual`, each convolution is in a block of its own (Platonov et al., ICLR 2023): a dense layer with GELU
    first, then :math:`z + \mathrm{linear}(\mathrm{gelu}(\mathrm{convolution}(\mathrm{norm}(z))))` for each layer, with
    dropout after every dense layer and convolution, and a norm and a dense layer at the end.

    Args:
        kind: the convolution.
    """

    kind: Literal["gcn", "sage", "gat"]
    propagates: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of classes."""
        return shape.classes

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw as PyG's and torch's layers do."""
        hidden, layers = shape.recipe.hidden, shape.recipe.layers
        weights: Weights = {}
        widths = [hidden] * (layers + 1) if shape.recipe.residual else [width, *[hidden] * (layers - 1), shape.classes]
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            is_mean = layer == layers - 1 and not shape.recipe.residual
            new = self._convolution_weights(shape.recipe, inputs, outputs, generator, is_mean=is_mean)
            weights |= {f"{name}{layer}": w for name, w in new}
        for number in range(shape.recipe.norm_count):
            weights |= norm_weights(shape.recipe, number, hidden)
        if shape.recipe.residual:
            weights |= dense_weights("input", width, hidden, generator)
            for layer in range(layers):
                weights |= dense_weights(f"block{layer}", hidden, hidden, generator)
            weights |= dense_weights("output", hidden, shape.classes, generator)
        return weights

    def _convolution_weights(
        self, recipe: "Recipe", inputs: int, outputs: int, generator: torch.Generator, *, is_mean: bool
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield name and initial value of the weights of one convolution."""
        bound = 1 / math.sqrt(inputs)
        if self.kind == "sage":
            yield "weight", uniform(generator, bound, inputs, outputs)
            yield "bias", uniform(generator, bound, 1, outputs)
        else:
            units = outputs * recipe.heads if self.kind == "gat" and is_mean else outputs
            yield "weight", uniform(generator, math.sqrt(6 / (inputs + units)), inputs, units)
            yield "bias", torch.zeros(1, outputs)
        if self.kind == "gat":  # for every head: a (of the node heard) and a' (of the node that hears)
            channels = outputs if is_mean else outputs // recipe.heads
            yield "attention", uniform(generator, math.sqrt(6 / (recipe.heads + channels)), recipe.heads, channels, 2)
        if self._has_self_weights(recipe):
            yield "self", uniform(generator, bound, inputs, outputs)

    def _has_self_weights(self, recipe: "Recipe") -> bool:
        return self.kind == "sage" or recipe.self_weights

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply all layers: [b, n, h] -> [b, n, c]."""
        context = replace(context, row_mask=z.new_ones(1, z.shape[1], 1))  # batch norm is over all nodes
        return self._blocks(z, context) if context.shape.recipe.residual else self._layers(z, context)

    def _layers(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply convolutions one after the other."""
        layers = context.shape.recipe.layers
        for layer in range(layers):
            is_last = layer == layers - 1
            if layer:
                z = context.drop(z, "mlp_dropout", FIRST_DROPOUT + layer)
            z = self._convolution(z, context, layer, is_mean=is_last)
            if not is_last:
                z = apply_norm(z, context, layer)
                z = elu(z) if self.kind == "gat" else torch.relu(z)
        return z

    def _blocks(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply residual blocks."""
        layers = context.shape.recipe.layers
        z = gelu(context.drop(dense(z, context, "input"), "mlp_dropout", FIRST_DROPOUT + 1))
        for layer in range(layers):
            change = self._convolution(apply_norm(z, context, layer), context, layer, is_mean=False)
            change = gelu(context.drop(change, "mlp_dropout", FIRST_DROPOUT + 2 * layer + 2))
            change = dense(change, context, f"block{layer}")
            z = z + context.drop(change, "mlp_dropout", FIRST_DROPOUT + 2 * layer + 3)
        return dense(apply_norm(z, context, layers), context, "output")

    def _convolution(self, z: Tensor, context: StageContext, layer: int, *, is_mean: bool) -> Tensor:
        """Apply one convolution: [b, n, h] -> [b, n, h']."""
        product = z @ context.weight(f"weight{layer}")
        is_precomputed = layer == 0 and not context.shape.recipe.uses_features_only
        if self.kind == "gat":
            product = attend(product, context, layer, is_mean=is_mean)
        elif not is_precomputed:  # GCN's first product P X is the same in every epoch
            product = propagate(product, context)
        if self._has_self_weights(context.shape.recipe):
            product = product + z @ context.weight(f"self{layer}")
        return product + context.weight(f"bias{layer}")


# Numbers of dropouts on a GPU; a dropout of GCN with two layers draws what it drew as a stage of its own.
FIRST_DROPOUT, FIRST_ATTENTION_DROPOUT = 34, 1


def dense_weights(name: str, inputs: int, outputs: int, generator: torch.Generator) -> Weights:
    """Draw weight and bias of a dense layer, as torch.nn.Linear does."""
    bound = 1 / math.sqrt(inputs)
    return {
        f"{name}_weight": uniform(generator, bound, inputs, outputs),
        f"{name}_bias": uniform(generator, bound, 1, outputs),
    }


def dense(z: Tensor, context: StageContext, name: str) -> Tensor:
    """Apply a dense layer: [b, n, h] -> [b, n, h']."""
    return z @ context.weight(f"{name}_weight") + context.weight(f"{name}_bias")


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
