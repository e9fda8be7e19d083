"""Where the signal comes from, and who gets which rows."""

import torch
from torch import Tensor

from adaptkry.models.recipe import Recipe
from adaptkry.models.stages.base import ModelShape, StageContext, Weights, stage
from adaptkry.models.weighted_sum import weighted_sum
from adaptkry.spectral.filters import INITIAL_WEIGHTS, PARAMETRISATIONS


@stage("input")
def whole_input(z: Tensor, here: StageContext, word: str) -> Tensor:
    """The first precomputed signal at all nodes, for every member."""
    return here.terms[0].expand(len(here.rows), -1, -1)


@stage("terms", width=lambda layout, width, word: width * layout.terms)
def all_terms(z: Tensor, here: StageContext, word: str) -> Tensor:
    """All precomputed signals side by side at all nodes."""
    side = here.terms[0] if len(here.terms) == 1 else here.terms.transpose(0, 1).flatten(1)
    return side.expand(len(here.rows), -1, -1)


@stage("rows")
def own_rows(z: Tensor, here: StageContext, word: str) -> Tensor:
    """Each member's rows of a signal at all nodes."""
    return z.gather(1, here.rows[:, :, None].expand(-1, -1, z.shape[2]))


def draw_hop_weights(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Where the weights over the basis start: shared by all channels, or one set a channel."""
    if layout.made.combine != "sum":
        return {}
    start = INITIAL_WEIGHTS[own.start](layout.made.degree, own.alpha) if layout.made.terms == "all" else torch.ones(1)
    if "combine" in layout.made.stages and own.tied:  # a set for each direction
        start = start.repeat(len(layout.made.directions))
    elif "combine" in layout.made.stages:  # and for each tau
        start = start.repeat(layout.terms // len(start))
    return {"filter": start.repeat(width, 1) if own.per_channel else start}


def combined_width(layout: ModelShape, width: int, word: str) -> int:
    """Side by side is wider."""
    return width * (layout.terms if layout.made.combine == "concat" else 1)


@stage("combine", width=combined_width, draw=draw_hop_weights)
def combine(z: Tensor, here: StageContext, word: str) -> Tensor:
    """The precomputed hops at each member's rows, weighted and added, or side by side."""
    if here.layout.made.combine == "concat":
        return here.terms[:, here.rows].permute(1, 2, 0, 3).flatten(2)
    w = PARAMETRISATIONS[here.layout.made.kind](here.weights["filter"])
    if "mix" in here.statistics:  # members of several sets of taus: each weighs the taus in its own way
        w = (here.statistics["mix"][:, :, None] * w[:, None]).flatten(1)
    return weighted_sum(w, here.terms, here.rows, here.chance)
