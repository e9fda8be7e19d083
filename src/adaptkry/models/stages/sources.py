"""Stages that read the precomputed terms, and the selection of the rows of each member."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights
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

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Select the rows: [b, n, h] -> [b, m, h]."""
        return z.gather(1, context.rows[:, :, None].expand(-1, -1, z.shape[2]))


@dataclass(frozen=True)
class CombineHops(Stage):
    """The precomputed hops at the rows of each member: a weighted sum, or concatenated (`combine="concat"`)."""

    is_source: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the width of one hop, or of all if they are concatenated."""
        return width * (shape.terms if shape.recipe.combine == "concat" else 1)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Return one set of hop weights for each direction, and for each tau if taus are not tied."""
        if shape.recipe.combine != "sum":
            return {}
        weights = initial_hop_weights(shape, recipe)
        repeats = len(shape.recipe.directions) if recipe.tied else shape.terms // len(weights)
        weights = weights.repeat(repeats)
        return {"filter/weights": weights.repeat(width, 1) if recipe.per_channel else weights}

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Return [b, m, d], or [b, m, T d] if hops are concatenated."""
        recipe = context.shape.recipe
        if recipe.combine == "concat":
            return context.terms[:, context.rows].permute(1, 2, 0, 3).flatten(2)
        weights = PARAMETRISATIONS[recipe.parametrisation](context.weights["filter/weights"])
        if "basis_mix" in context.statistics:  # [b, taus]: members differ in taus
            weights = (context.statistics["basis_mix"][:, :, None] * weights[:, None]).flatten(1)
        return weighted_sum(weights, context.terms, context.rows, context.dropout)


def initial_hop_weights(shape: ModelShape, recipe: "Recipe") -> Tensor:
    """Return the initial hop weights of one member for one basis: [K + 1], or [1] if only one term is kept."""
    if shape.recipe.terms != "all":
        return torch.ones(1)
    return INITIAL_WEIGHTS[recipe.initial_weights](shape.recipe.degree, recipe.alpha)
