"""The table of stages, and what a stage may look at."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptkry.common.lookup import pick
from adaptkry.models.dropout import DropoutState, dropout
from adaptkry.models.recipe import Recipe
from adaptkry.spectral.operators import Operator

Weights = dict[str, Tensor]  # name -> [b, ...]; "filter..." and "basis..." have rates of their own, the rest is "mlp"


@dataclass(frozen=True)
class ModelShape:
    """The sizes all members share."""

    made: Recipe  # what it says of shapes; rates and dropouts are each member's own
    terms: int  # T precomputed signals a node
    features: int  # d
    classes: int  # c

    def size(self, word: str) -> int:
        """The width a stage's word asks for."""
        return pick({"hidden": self.made.hidden, "classes": self.classes}, word, "width of a stage")


@dataclass(frozen=True)
class StageContext:
    """What a stage may look at."""

    layout: ModelShape
    weights: Weights
    statistics: Weights  # remembered with the weights, but not trained
    terms: Tensor  # [T, n, d]
    rows: Tensor  # [b, m]
    counted: Tensor  # [b, m, 1]: 1 for real rows, 0 for padding
    operator: Operator | None  # for stages that propagate
    chance: DropoutState | None  # None: evaluation
    place: int  # of this stage in its sentence

    def weight(self, name: str) -> Tensor:
        """This stage's own weight of that name."""
        return self.weights[f"{name}{self.place}"]

    def drop(self, z: Tensor, which: str, layer: int = 0) -> Tensor:
        """Dropout by the members' chances of that name."""
        return dropout(z, self.chance, which, 1 + layer if layer else 32 + self.place)


@dataclass(frozen=True)
class Stage:
    """One word: what it does, how wide its result is, and the weights of one member at the start."""

    apply: Callable[[Tensor, StageContext, str], Tensor]
    width: Callable[[ModelShape, int, str], int] = lambda layout, width, word: width
    draw: Callable[[ModelShape, int, str, Recipe, torch.Generator], Weights] = lambda *_: {}


STAGES: dict[str, Stage] = {}


def stage(name: str, **parts) -> Callable:
    """Enter a function into the table of stages."""

    def enter(apply):
        STAGES[name] = Stage(apply, **parts)
        return apply

    return enter


def uniform(die: torch.Generator, bound: float, *shape: int) -> Tensor:
    """Numbers in +-bound."""
    return (torch.rand(*shape, generator=die) * 2 - 1) * bound
