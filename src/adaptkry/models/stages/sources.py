"""Stages that read the precomputed terms, and the selection of the rows of each member."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from adaptkry.models.dropout import dropout
from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights
from adaptkry.models.stages.dense import LinearPerHop
from adaptkry.models.stages.norms import layer_norm
from adaptkry.models.weighted_sum import weighted_sum
from adaptkry.spectral.filters import PARAMETRISATIONS
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class Input(Stage):
    """The first precomputed term (the features) at all nodes, for every member."""

    is_source: ClassVar[bool] = True

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Return [b, n, d] without a copy."""
        return context.terms[0].expand(len(context.rows), -1, -1)


@dataclass(frozen=True)
class AllTerms(Stage):
    """All precomputed terms, concatenated, at all nodes."""

    is_source: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of columns of all terms."""
        return width * shape.terms

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Return [b, n, T d]."""
        terms = context.terms
        table = terms[0] if len(terms) == 1 else terms.transpose(0, 1).flatten(1)
        return table.expand(len(context.rows), -1, -1)


@dataclass(frozen=True)
class SelectRows(Stage):
    """The rows of each member of a signal at all nodes."""

    selects_rows: ClassVar[bool] = True

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Select the rows: [b, n, h] -> [b, m, h]."""
        return z.gather(1, context.rows[:, :, None].expand(-1, -1, z.shape[2]))


@dataclass(frozen=True)
class CombineHops(Stage):
    """The precomputed hops F_k at the rows of each member, combined as `combine_hops` says.

    | combine_hops | result |
    |---|---|
    | `sum` | sum_k w_k F_k, with one weight per hop, or one per hop and channel (`per_channel`) |
    | `gate` | T sum_k g_k w_k F_k, where g = softmax(F_0 G + bias) depends on the node; initially the same as `sum` |
    | `concat` | all F_k side by side |
    | `maps` | sum_k w_k relu(norm(F_k W_k + b_k)), with a dense layer per hop, and layer norm if it is on |
    """

    is_source: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = True
    drops_output: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the width of one hop, of all if they are concatenated, or the number of hidden units for maps."""
        return {"concat": width * shape.terms, "maps": shape.recipe.hidden}.get(shape.recipe.combine_hops, width)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Return one set of hop weights for each direction, and for each tau if taus are not tied; draw the maps."""
        if shape.recipe.combine_hops == "concat":
            return {}
        weights = initial_hop_weights(shape, recipe)
        bases = shape.terms // len(weights)  # 1 with features only; members that differ in taus share their weights
        weights = weights.repeat(min(len(shape.recipe.directions), bases) if recipe.tied else bases)
        found = {"filter/weights": weights.repeat(width, 1) if recipe.per_channel else weights}
        if shape.recipe.combine_hops == "gate":
            found |= {"filter/gate": torch.zeros(width, shape.terms), "filter/gate_bias": torch.zeros(1, shape.terms)}
        if shape.recipe.combine_hops == "maps":
            found |= MAPS.initial_weights(shape, width, recipe, generator)
            if shape.recipe.layer_norm:
                size = (shape.terms, 1, shape.recipe.hidden)
                found |= {"norm_scale": torch.ones(size), "norm_shift": torch.zeros(size)}
        return found

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Return [b, m, d], [b, m, T d] if hops are concatenated, or [b, m, hidden] for maps."""
        recipe = context.shape.recipe
        if recipe.combine_hops == "concat":
            return context.drop_output(context.terms[:, context.rows].permute(1, 2, 0, 3).flatten(2))
        weights = PARAMETRISATIONS[recipe.parametrisation](context.weights["filter/weights"])  # [b, T] or [b, d, T]
        if "basis_mix" in context.statistics:  # [b, taus]: members differ in taus
            mix = context.statistics["basis_mix"].reshape(len(weights), *[1] * (weights.ndim - 2), -1, 1)
            weights = (mix * weights[..., None, :]).flatten(-2)
        if recipe.combine_hops == "maps":
            return context.drop_output(mapped_sum(weights, context))
        if recipe.combine_hops == "gate":
            weights = gate(context)[:, :, None] * weights[:, None, None]  # [b, m, 1, T]
        elif weights.ndim == 3:
            weights = weights[:, None]  # [b, 1, d, T]
        dtype = torch.bfloat16 if recipe.dtype == "bfloat16" and context.terms.is_cuda else None
        return weighted_sum(weights, context.terms, context.rows, context.dropout, context.output_dropout, dtype)


MAPS = LinearPerHop("hidden")


def mapped_sum(weights: Tensor, context: StageContext) -> Tensor:
    """Compute sum_k w_k relu(norm(F_k W_k + b_k)) with weights [b, T], with filter dropout of every hop: [b, m, h]."""
    total = None
    for k, hop in enumerate(MAPS.outputs(context)):
        if context.shape.recipe.layer_norm:
            hop = layer_norm(hop, context.weight("norm_scale")[:, k], context.weight("norm_shift")[:, k])
        hop = dropout(torch.relu(hop), context.dropout, "filter_dropout", 0, part=k) * weights[:, k, None, None]
        total = hop if total is None else total + hop
    assert total is not None
    return total


def gate(context: StageContext) -> Tensor:
    """Compute T softmax(F_0 G + bias) at the rows of each member: [b, m, T]; the mean over hops is 1."""
    features = context.terms[0].expand(len(context.rows), -1, -1)
    scores = features @ context.weight("filter/gate") + context.weight("filter/gate_bias")  # [b, n, T]
    terms = scores.shape[2]
    return terms * scores.gather(1, context.rows[:, :, None].expand(-1, -1, terms)).softmax(2)


def initial_hop_weights(shape: ModelShape, recipe: "Recipe") -> Tensor:
    """Return the initial hop weights of one member for one basis: [K + 1], or [1] if only one term is kept."""
    if shape.recipe.terms != "all":
        return torch.ones(1)
    return INITIAL_WEIGHTS[recipe.initial_weights](shape.recipe.degree, recipe.alpha)
