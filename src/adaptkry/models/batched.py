"""A model of b members at once: its initial weights and its logits. The leading axis is always members.

Members are trainings that run as one batch: splits, seeds, settings.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.models.dropout import DropoutState
from adaptkry.models.recipe import GROUPS, Recipe
from adaptkry.models.stages import ModelShape, StageContext, Weights
from adaptkry.models.stages.base import weight_name
from adaptkry.spectral.operators import Operator


def initial_weights(shape: ModelShape, members: Sequence[tuple[int, Recipe]]) -> Weights:
    """New weights, drawn member by member on the CPU: the same on every device and in every batch.

    Members are given as (seed, recipe): the initial weights of hops may differ from one to the next.
    """
    drawn = [_member_weights(shape, seed, recipe) for seed, recipe in members]
    return {name: torch.stack([weights[name] for weights in drawn]) for name in drawn[0]}


def _member_weights(shape: ModelShape, seed: int, recipe: Recipe) -> Weights:
    generator, width, weights = torch.Generator().manual_seed(seed), shape.features, {}
    for position, stage in enumerate(shape.recipe.stages):
        new = stage.initial_weights(shape, width, recipe, generator)
        weights |= {weight_name(name, position): w for name, w in new.items()}
        width = stage.width(shape, width)
    if width != shape.classes:
        names = ", ".join(type(stage).__name__ for stage in shape.recipe.stages)
        raise ValueError(
            f"a model must end with one column per class, {shape.classes} here; the stages {names} end with {width}. "
            'End with Linear("classes"), or with ResidualMLP().'
        )
    return weights


def logits(
    shape: ModelShape,
    weights: Weights,
    statistics: Weights,
    terms: Tensor,
    rows: Tensor,
    row_mask: Tensor,
    operator: Operator | None = None,
    dropout: DropoutState | None = None,
) -> Tensor:
    """Logits [b, m, c] at each member's rows [b, m]. With `dropout` the model trains: dropout, batch statistics."""
    z = terms
    for position, stage in enumerate(shape.recipe.stages):
        z = stage(z, StageContext(shape, weights, statistics, terms, rows, row_mask, operator, dropout, position))
    return z


def rate_group(name: str) -> str:
    """Which learning rate and decay a weight has: "mlp", "filter" or "basis"."""
    group = name.partition("/")[0]
    assert group in GROUPS
    return group
