"""Dense layers, activations and dropout."""

import math
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
        init: "torch" is uniform within 1/sqrt(fan in), as torch.nn.Linear; "glorot" is Glorot's for each of the terms
            that lie side by side, as PyG's layers have it.
        rates: the group of learning rate and decay. GNN-LF and GNN-HF decay their first layer only: their second one
            is in the group "basis".
    """

    size: Size
    bias: bool = True
    init: Literal["torch", "glorot"] = "torch"
    rates: Literal["mlp", "basis"] = "mlp"

    @property
    def _weight(self) -> str:
        return "weight" if self.rates == "mlp" else f"{self.rates}/weight"

    def width(self, shape: ModelShape, width: int) -> int:
        """As many columns as units."""
        return shape.size(self.size)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Weight first, then bias."""
        units = shape.size(self.size)
        glorot = self.init == "glorot"
        bound = math.sqrt(6 / (width // shape.terms + units)) if glorot else 1 / math.sqrt(width)
        weights = {self._weight: uniform(generator, bound, width, units)}
        return weights | ({"bias": uniform(generator, bound, 1, units)} if self.bias else {})

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Multiply, add."""
        product = z @ context.weight(self._weight)
        return product + context.weight("bias") if self.bias else product


@dataclass(frozen=True)
class Bias(Stage):
    """One number per channel, added; initially 0."""

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Zeros."""
        return {"bias": torch.zeros(1, width)}

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Add."""
        return z + context.weight("bias")


@dataclass(frozen=True)
class LinearPerHop(Stage):
    """A dense layer for each precomputed hop, their outputs side by side (SIGN)."""

    size: Size
    is_source: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """The units of all hops."""
        return shape.terms * shape.size(self.size)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """As torch.nn.Linear, for each hop."""
        hops, units, bound = shape.terms, shape.size(self.size), 1 / math.sqrt(width)
        return {
            "weight": uniform(generator, bound, hops, width, units),
            "bias": uniform(generator, bound, hops, 1, units),
        }

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Multiply at all nodes, then take the rows: copying each member's rows of X would cost far more."""
        rows = context.rows[:, :, None].expand(-1, -1, context.shape.size(self.size))
        parts = []
        for k, hop in enumerate(context.terms):
            product = hop.expand(len(rows), -1, -1) @ context.weight("weight")[:, k] + context.weight("bias")[:, k]
            parts.append(product.gather(1, rows))
        return torch.cat(parts, 2)


@dataclass(frozen=True)
class ReLU(Stage):
    """Negative numbers become 0."""

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """max(z, 0)."""
        return torch.relu(z)


@dataclass(frozen=True)
class Dropout(Stage):
    """Dropout with the recipe's rate of that name: mlp_dropout, input_dropout or filter_dropout."""

    rate: Literal["mlp", "input", "filter"] = "mlp"

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Drop entries while training."""
        return context.drop(z, f"{self.rate}_dropout")


@dataclass(frozen=True)
class FixedNoise(Stage):
    """Add 1e-5 N(0, 1), drawn once, so that a column of zeros does not stay one (OptBasisGNN)."""

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Add."""
        return z + _noise(z.shape[1], z.shape[2], z.dtype, z.device)


@cache
def _noise(n: int, h: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return 1e-5 * torch.randn(n, h, generator=torch.Generator().manual_seed(0)).to(device, dtype)
