"""The base class of stages, and the context that a stage reads.

A model is a sequence of stages. A stage takes the signal of all members [b, m, h] and returns the next one. Members
share only sizes, and every product is batched, so that no member affects another. Stages before `SelectRows` see all
nodes, m = n; `CombineHops`, `LinearPerHop` and `SelectRows` return only the rows of each member.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import pick
from adaptkry.models.dropout import DropoutState, dropout
from adaptkry.spectral.operators import Operator

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe

Weights = dict[str, Tensor]  # name -> [b, ...]; the part before the first "/" is the weight group


@dataclass(frozen=True)
class ModelShape:
    """The sizes that all members share."""

    recipe: "Recipe"  # used for sizes only: rates and dropouts may differ between members
    terms: int  # T precomputed terms
    features: int  # d
    classes: int  # c
    nodes: int = 0  # of the training graph, if there are weights for each of them

    def size(self, name: str) -> int:
        """Return the number of units for "hidden" or "classes"."""
        return pick({"hidden": self.recipe.hidden, "classes": self.classes}, name, "size of a stage")


@dataclass(frozen=True)
class StageContext:
    """Everything that a stage can read besides its input."""

    shape: ModelShape
    weights: Weights
    statistics: Weights  # saved with the weights, but not trained
    terms: Tensor  # [T, n, d]
    rows: Tensor  # [b, m]
    row_mask: Tensor  # [b, m, 1]: 1 for real rows, 0 for padding
    operator: Operator | None  # for stages that propagate, and for a structure layer
    dropout: DropoutState | None  # None: evaluation
    position: int  # of this stage in the model
    output_dropout: tuple[str, int] | None = None  # name and layer of the dropout that this stage applies at its end
    is_input_dropped: bool = False  # whether the stage before has applied the dropout of the input

    def weight(self, name: str) -> Tensor:
        """Return a weight of this stage: [b, ...]."""
        return self.weights[weight_name(name, self.position)]

    def drop(self, z: Tensor, name: str, layer: int = 0) -> Tensor:
        """Apply dropout with each member's rate of that name; `layer` distinguishes several dropouts of one stage."""
        return dropout(z, self.dropout, name, 1 + layer if layer else 32 + self.position)

    def drop_output(self, z: Tensor) -> Tensor:
        """Apply the dropout of the next stage's input, if this stage has to."""
        return dropout(z, self.dropout, *self.output_dropout) if self.output_dropout else z


def weight_name(name: str, position: int) -> str:
    """Return the full name of a stage's weight: "filter/..." and "basis/..." unchanged, others with the position."""
    return name if "/" in name else f"mlp/{position}/{name}"


@dataclass(frozen=True)
class Stage(ABC):
    """One step of a model: the width of its output, the initial weights of a member, and the computation."""

    is_source: ClassVar[bool] = False  # whether it reads the precomputed terms instead of its input
    propagates: ClassVar[bool] = False  # whether it multiplies by the propagation matrix, which needs all nodes
    selects_rows: ClassVar[bool] = False  # whether its output has the rows of each member only
    drops_output: ClassVar[bool] = False  # whether it applies the dropout of the next stage's input, with its own work
    input_dropout: ClassVar[tuple[str, int] | None] = None  # name and layer of the dropout of its input

    def __post_init__(self):
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal:
                pick(dict.fromkeys(get_args(hint)), getattr(self, name), f"{name} of the stage {type(self).__name__}")
            elif hint is bool:
                checks.flag(getattr(self, name), f"{name} of the stage {type(self).__name__}")

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of output columns for an input of `width` columns."""
        return width

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw the weights of one member with its recipe and its generator."""
        return {}

    @abstractmethod
    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Compute the next signal from z [b, m, h]."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, which `stages.stage_from_dict` reads."""
        return {"stage": type(self).__name__, **vars(self)}


def uniform(generator: torch.Generator, bound: float, *shape: int) -> Tensor:
    """Draw numbers between -bound and bound."""
    return (torch.rand(*shape, generator=generator) * 2 - 1) * bound


def to_columns(z: Tensor) -> Tensor:
    """Arrange the channels of all members as columns: [b, n, h] -> [n, b h]."""
    return z.transpose(0, 1).flatten(1)


def to_members(columns: Tensor, members: int) -> Tensor:
    """Undo `to_columns`: [n, b h] -> [b, n, h]."""
    return columns.unflatten(1, (members, -1)).transpose(0, 1)
