"""Initial weights and logits of b members at once; the leading axis is always members.

A member is one training in a batch, with its own split, seed and settings.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.models.dropout import DropoutState, slices
from adaptkry.models.recipe import WEIGHT_GROUPS, Recipe
from adaptkry.models.stages import ARMA, CombineHops, MessagePassing, ModelShape, ResidualMLP, StageContext, Weights
from adaptkry.models.stages.base import weight_name
from adaptkry.models.stages.propagation import STACKS
from adaptkry.spectral.operators import Operator

PART_BYTES = 8 * 2**20  # of the widest activations of the members that are computed together on the CPU


def initial_weights(shape: ModelShape, members: Sequence[tuple[int, Recipe]]) -> Weights:
    """Draw weights member by member on the CPU, so that they are the same on every device and in every batch.

    Args:
        shape: sizes that all members share.
        members: seed and recipe of each member; recipes may differ in the initial weights of hops.

    Returns:
        name -> [b, ...].
    """
    per_member = [_member_weights(shape, seed, recipe) for seed, recipe in members]
    return {name: torch.stack([weights[name] for weights in per_member]) for name in per_member[0]}


def _member_weights(shape: ModelShape, seed: int, recipe: Recipe) -> Weights:
    generator, width, weights = torch.Generator().manual_seed(seed), shape.features, {}
    for position, stage in enumerate(shape.recipe.stages):
        new = stage.initial_weights(shape, width, recipe, generator)
        weights |= {weight_name(name, position): w for name, w in new.items()}
        width = stage.width(shape, width)
    if width != shape.classes:
        names = ", ".join(type(stage).__name__ for stage in shape.recipe.stages)
        raise ValueError(
            f"a model must end with {shape.classes} columns, one per class; got {width} after the stages {names}. "
            'End with Linear("classes"), or with ResidualMLP().'
        )
    return weights


def least_weights(shape: ModelShape) -> int:
    """Return a lower bound of the number of weights of one member, without drawing them: those of its dense layers."""
    hidden, layers, width, count = shape.recipe.hidden, shape.recipe.layers, shape.features, 0
    for stage in shape.recipe.stages:
        output = stage.width(shape, width)
        if isinstance(stage, ResidualMLP | MessagePassing):
            inner = (width + (layers - 2) * hidden + output) * hidden
            count += (inner if layers > 1 else width * output) + shape.nodes * hidden
        elif isinstance(stage, ARMA):
            count += STACKS * (2 * width + output) * output
        elif hasattr(stage, "size"):  # a dense layer
            count += width * output
        elif isinstance(stage, CombineHops) and shape.recipe.combine_hops == "maps":
            count += shape.terms * width * hidden
        width = output
    return count


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
    """Compute the logits [b, m, c] of each member at its rows [b, m]; see `StageContext` for the arguments.

    With a dropout state the model is in training mode: it applies dropout and updates the statistics of batch norm.
    """
    # An exported model (`training/export.py`) has any number of rows, so it cannot depend on sizes in bytes.
    is_divided = dropout is None and not torch.compiler.is_compiling()
    parts = member_parts(shape, rows, operator) if is_divided else []
    if len(parts) > 1:
        shared = [
            ({k: t[part] for k, t in weights.items()}, {k: t[part] for k, t in statistics.items()}) for part in parts
        ]
        found = [
            logits(shape, *own, terms, rows[part], row_mask[part], operator)
            for part, own in zip(parts, shared, strict=True)
        ]
        return torch.cat(found)
    z, stages, output_dropout = terms, shape.recipe.stages, None
    for position, stage in enumerate(stages):
        is_dropped, following = output_dropout is not None, stages[position + 1 :]
        output_dropout = following[0].input_dropout if stage.drops_output and following else None
        inputs = (terms, rows, row_mask, operator, dropout, position, output_dropout, is_dropped)
        z = stage(z, StageContext(shape, weights, statistics, *inputs))
    return z


def member_parts(shape: ModelShape, rows: Tensor, operator: Operator | None) -> list[slice]:
    """Divide the members into parts that are computed one after the other, with rows [b, m].

    On the CPU the activations of a part fit in the cache, and memory is used again for the next part. A GPU computes
    all members at once, and so does a product with an operator, which reads the edges once for all.
    """
    members, m = rows.shape
    is_divided = operator is None and rows.device.type == "cpu"
    return list(slices(members, members_per_part(shape, m) if is_divided else members))


def members_per_part(shape: ModelShape, rows: int) -> int:
    """Return the number of members with so many rows each whose widest activations fit in the cache; at least one."""
    return max(1, PART_BYTES // max(1, 4 * rows * max(shape.features, shape.recipe.hidden)))


def rate_group(name: str) -> str:
    """Return the group that a weight takes its learning rate and decay from: "mlp", "filter" or "basis"."""
    group = name.partition("/")[0]
    assert group in WEIGHT_GROUPS
    return group
