"""A model: its stages one after the other, its weights at the start. The leading axis is always members.

Members are trainings that run at once: splits, seeds, settings.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.common.lookup import pick
from adaptkry.models.dropout import DropoutState
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import STAGES, ModelShape, StageContext, Weights
from adaptkry.spectral.operators import Operator

SOURCES = ("combine", "input", "terms", "each_hop", "arma")  # stages that need no signal before them


def sentence(made: Recipe) -> list[tuple[str, str]]:
    """The stages of a recipe and what follows their colon."""
    if made.stages[0].partition(":")[0] not in SOURCES:
        raise ValueError(f"stages must begin with one of {', '.join(SOURCES)}, but {made.stages[0]!r} came.")
    words = [(name, word) for name, _, word in (stage.partition(":") for stage in made.stages)]
    for name, _ in words:
        pick(STAGES, name, "stage")
    return words


def initial_weights(layout: ModelShape, members: Sequence[tuple[int, Recipe]]) -> Weights:
    """Fresh weights, drawn member by member on the CPU: the same on every device and in any company.

    Members are given as (seed, recipe): where the hop weights start may differ from one to the next.
    """
    each = []
    for seed, own in members:
        die, width, drawn = torch.Generator().manual_seed(seed), layout.features, {}
        for place, (name, word) in enumerate(sentence(layout.made)):
            new = STAGES[name].draw(layout, width, word, own, die)
            drawn |= {k if k.startswith(("filter", "basis")) else f"{k}{place}": w for k, w in new.items()}
            width = STAGES[name].width(layout, width, word)
        if width != layout.classes:
            raise ValueError(
                f"the stages {', '.join(layout.made.stages)} end {width} wide, but there are {layout.classes} classes. "
                f"End with linear:classes, or with mlp."
            )
        each.append(drawn)
    return {name: torch.stack([drawn[name] for drawn in each]) for name in each[0]}


def statistics(layout: ModelShape, members: int) -> Weights:
    """Batch norm's running mean and variance; remembered with the weights, but not trained."""
    made = layout.made
    if not made.batch_norm:
        return {}
    zeros = {f"mean{layer}": torch.zeros(members, 1, made.hidden) for layer in range(made.layers - 1)}
    ones = {f"variance{layer}": torch.ones(members, 1, made.hidden) for layer in range(made.layers - 1)}
    return zeros | ones


def logits(
    layout: ModelShape,
    weights: Weights,
    kept: Weights,
    terms: Tensor,
    rows: Tensor,
    counted: Tensor,
    operator: Operator | None = None,
    chance: DropoutState | None = None,
) -> Tensor:
    """Logits [b, m, c] at each member's rows [b, m]. With `chance` the model trains: dropout, batch statistics."""
    z = terms
    for place, (name, word) in enumerate(sentence(layout.made)):
        here = StageContext(layout, weights, kept, terms, rows, counted, operator, chance, place)
        z = STAGES[name].apply(z, here, word)
    return z


def group(name: str) -> str:
    """Which of the three groups of rates a weight belongs to."""
    return next((kind for kind in ("filter", "basis") if name.startswith(kind)), "mlp")
