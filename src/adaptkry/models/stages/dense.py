"""Dense layers, activations and dropout."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, uniform

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe

Size = Literal["hidden", "classes"]


@dataclass(frozen=True)
class Linear(Stage):
    """A dense layer.

    Args:
        size: number of units.
        bias: whether a bias is added.
        init: "torch" is uniform within 1/sqrt(fan in), as in torch.nn.Linear; "glorot" is Glorot's for each of the
            concatenated terms, as in PyG's layers.
        rates: the weight group, which decides learning rate and decay. GNN-LF and GNN-HF decay only their first layer,
            so their second one is in the group "basis".
    """

    size: Size
    bias: bool = True
    init: Literal["torch", "glorot"] = "torch"
    rates: Literal["mlp", "basis"] = "mlp"

    @property
    def _weight(self) -> str:
        return "weight" if self.rates == "mlp" else f"{self.rates}/weight"

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of units."""
        return shape.size(self.size)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw the weight first, then the bias."""
        units = shape.size(self.size)
        is_glorot = self.init == "glorot"
        bound = math.sqrt(6 / (width // shape.terms + units)) if is_glorot else 1 / math.sqrt(width)
        weights = {self._weight: uniform(generator, bound, width, units)}
        return weights | ({"bias": uniform(generator, bound, 1, units)} if self.bias else {})

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Return z W + bias: [b, m, h] -> [b, m, units]."""
        product = z @ context.weight(self._weight)
        return product + context.weight("bias") if self.bias else product


@dataclass(frozen=True)
class Bias(Stage):
    """A learned number per channel, added to the signal; initially 0."""

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Return zeros."""
        return {"bias": torch.zeros(1, width)}

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Add it to z."""
        return z + context.weight("bias")


@dataclass(frozen=True)
class LinearPerHop(Stage):
    """A dense layer for each precomputed hop, with concatenated outputs (SIGN)."""

    size: Size
    is_source: ClassVar[bool] = True
    selects_rows: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of units of all hops."""
        return shape.terms * shape.size(self.size)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw as torch.nn.Linear does, for each hop."""
        hops, units, bound = shape.terms, shape.size(self.size), 1 / math.sqrt(width)
        return {
            "weight": uniform(generator, bound, hops, width, units),
            "bias": uniform(generator, bound, hops, 1, units),
        }

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Return [b, m, T units]."""
        return torch.cat(list(self.outputs(context)), 2)

    def outputs(self, context: StageContext) -> Iterator[Tensor]:
        """Yield the output of each hop [b, m, units].

        Products are computed at all nodes and rows selected afterwards, since a copy of X for each member would cost
        far more.
        """
        rows = context.rows[:, :, None].expand(-1, -1, context.shape.size(self.size))
        for k, hop in enumerate(context.terms):
            product = hop.expand(len(rows), -1, -1) @ context.weight("weight")[:, k] + context.weight("bias")[:, k]
            yield product.gather(1, rows)


@dataclass(frozen=True)
class ReLU(Stage):
    """max(z, 0)."""

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply the function."""
        return torch.relu(z)


@dataclass(frozen=True)
class Dropout(Stage):
    """Dropout with the recipe's rate of that name: mlp_dropout, input_dropout or filter_dropout."""

    rate: Literal["mlp", "input", "filter"] = "mlp"

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply dropout during training."""
        return context.drop(z, f"{self.rate}_dropout")


@dataclass(frozen=True)
class FixedNoise(Stage):
    """Noise 1e-5 N(0, 1), drawn once and added, so that no column is zero (OptBasisGNN)."""

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Add it to z."""
        return z + _noise(z.shape[1], z.shape[2], z.dtype, z.device)


@cache
def _noise(n: int, h: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return 1e-5 * torch.randn(n, h, generator=torch.Generator().manual_seed(0)).to(device, dtype)
