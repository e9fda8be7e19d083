"""What a stage is, and what it can read.

A model is a sequence of stages. A stage takes the signal of all members [b, m, h] and returns the next one. Members
share sizes and nothing else, and every product is a batched one, so no member affects another. Stages before
`SelectRows` see all nodes; `CombineHops`, `LinearPerHop` and `SelectRows` return each member's own rows.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from adaptkry.common.lookup import pick
from adaptkry.models.dropout import DropoutState, dropout
from adaptkry.spectral.operators import Operator

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe

Weights = dict[str, Tensor]  # name -> [b, ...]; the part before the first "/" names the learning rate and decay


@dataclass(frozen=True)
class ModelShape:
    """The sizes that all members share."""

    recipe: "Recipe"  # only what it says of shapes: rates and dropouts are per member
    terms: int  # T precomputed signals per node
    features: int  # d
    classes: int  # c

    def size(self, name: str) -> int:
        """Number of units that a stage asks for by name."""
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
    operator: Operator | None  # for stages that propagate
    dropout: DropoutState | None  # None: evaluation
    position: int  # of this stage in the model

    def weight(self, name: str) -> Tensor:
        """A weight of this stage."""
        return self.weights[weight_name(name, self.position)]

    def drop(self, z: Tensor, name: str, layer: int = 0) -> Tensor:
        """Dropout with each member's rate of that name; `layer` tells several dropouts of one stage apart."""
        return dropout(z, self.dropout, name, 1 + layer if layer else 32 + self.position)


def weight_name(name: str, position: int) -> str:
    """The full name of a stage's weight: "filter/..." and "basis/..." as they are, others by position."""
    return name if "/" in name else f"mlp/{position}/{name}"


@dataclass(frozen=True)
class Stage:
    """One step of a model: the width of its output, one member's initial weights, and what it computes."""

    is_source: ClassVar[bool] = False  # it starts from precomputed terms and needs no stage before it
    propagates: ClassVar[bool] = False  # it multiplies by the propagation matrix, so it must see all nodes

    def width(self, shape: ModelShape, width: int) -> int:
        """Columns of the output for an input of `width` columns."""
        return width

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Weights of one member, with that member's own recipe and generator."""
        return {}

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """The next signal."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `stages.stage_from_dict` reads."""
        return {"stage": type(self).__name__, **vars(self)}


def uniform(generator: torch.Generator, bound: float, *shape: int) -> Tensor:
    """Random numbers between -bound and bound."""
    return (torch.rand(*shape, generator=generator) * 2 - 1) * bound
