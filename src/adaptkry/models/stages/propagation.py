"""Stages that propagate while the model trains: all members' columns side by side, one sparse product per hop."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, uniform
from adaptkry.models.stages.sources import initial_hop_weights
from adaptkry.spectral.filters import PARAMETRISATIONS
from adaptkry.spectral.signal_bases import ALL_BASES

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


def to_columns(z: Tensor) -> Tensor:
    """All members' channels as columns: [b, n, h] -> [n, b h]."""
    return z.transpose(0, 1).flatten(1)


def to_members(columns: Tensor, members: int) -> Tensor:
    """The inverse: [n, b h] -> [b, n, h]."""
    return columns.unflatten(1, (members, -1)).transpose(0, 1)


@dataclass(frozen=True)
class Propagate(Stage):
    """One product with the propagation matrix."""

    propagates: ClassVar[bool] = True

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """P z."""
        return propagate(z, context)


def propagate(z: Tensor, context: StageContext) -> Tensor:
    """P z for all members: [b, n, h] -> [b, n, h]."""
    return to_members(context.operator @ to_columns(z), len(z))  # type: ignore[operator]


@dataclass(frozen=True)
class BasisTerms(Stage):
    """All terms of the basis of z, side by side."""

    propagates: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """K + 1 times as wide."""
        return width * (shape.recipe.degree + 1)

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """[b, n, (K + 1) h]."""
        recipe = context.shape.recipe
        basis = ALL_BASES[recipe.basis]
        terms = basis(context.operator, to_columns(z), recipe.degree, **dict(recipe.basis_options))
        return torch.cat([to_members(term, len(z)) for term in terms], 2)


@dataclass(frozen=True)
class PolynomialFilter(Stage):
    """sum_k w_k p_k(P) z, the basis computed from z at every step."""

    propagates: ClassVar[bool] = True

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Coefficients, and what damping or a learned basis needs besides."""
        K, damping, learned = shape.recipe.degree, shape.recipe.damping, ALL_BASES[shape.recipe.basis].learned
        coefficients = initial_hop_weights(shape, recipe)
        weights = {"filter/weights": coefficients.repeat(width, 1) if recipe.per_channel else coefficients}
        if damping:
            weights["basis/damping"] = torch.full((K + 1,), min(1 / damping, 1.0))
        if learned:
            weights |= {f"basis/{name}": w for name, w in learned.initial_weights(width, K).items()}
        return weights

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """[b, n, h] -> [b, n, h]."""
        weights = filter_weights(context.shape.recipe, context.weights)  # [b, K + 1] or [b, h, K + 1]
        weights = weights[:, None].expand(-1, z.shape[2], -1) if weights.ndim == 2 else weights
        terms = torch.stack(list(filter_terms(z, context)))  # [K + 1, n, b h]
        return to_members((terms * weights.flatten(0, 1).T[:, None]).sum(0), len(z))


def filter_weights(recipe: "Recipe", weights: Weights) -> Tensor:
    """Weights over the terms that are computed, [b, K + 1] or [b, h, K + 1]: constrained, damped, expanded."""
    found = PARAMETRISATIONS[recipe.parametrisation](weights["filter/weights"])
    if recipe.damping:  # polynomial coefficient decomposition: hop k is damped by k learned factors
        found = found * cumulative_product(recipe.damping * torch.tanh(weights["basis/damping"]))[:, None]
    if ALL_BASES[recipe.basis].expands_in:  # K + 1 sums of K + 1 terms become one small product with the weights
        found = found @ expansion(recipe.basis, recipe.degree, found.dtype, found.device)
    return found


def cumulative_product(factors: Tensor) -> Tensor:
    """1, s_0, s_0 s_1, ... of factors [b, K + 1]; torch.cumprod would wait for the GPU in its backward pass."""
    products = [torch.ones_like(factors[:, 0])]
    for k in range(factors.shape[1] - 1):
        products.append(products[-1] * factors[:, k])
    return torch.stack(products, 1)


@cache
def expansion(basis: str, degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The polynomials of one basis as combinations of another's, kept on the device."""
    expands_in = ALL_BASES[basis].expands_in
    assert expands_in is not None
    return torch.from_numpy(expands_in[1](degree)).to(device, dtype)


def filter_terms(z: Tensor, context: StageContext) -> Iterable[Tensor]:
    """p_k(P) z for all members' columns."""
    recipe = context.shape.recipe
    basis, options = ALL_BASES[recipe.basis], dict(recipe.basis_options)
    if basis.learned:
        options |= basis.learned.options(
            {name.removeprefix("basis/"): w for name, w in context.weights.items() if name.startswith("basis/")}
        )
    if basis.expands_in:  # see `filter_weights`
        basis = ALL_BASES[basis.expands_in[0]]
    return basis(context.operator, to_columns(z), recipe.degree, **options)


STACKS = 3  # of ARMA, as in PyG's example


@dataclass(frozen=True)
class ARMA(Stage):
    """ARMA: stacks of the same recursive step Z <- relu(P Z W + dropout(X) V + b), averaged; K steps."""

    size: Literal["hidden", "classes"]
    is_source: ClassVar[bool] = True
    propagates: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """As many columns as units."""
        return shape.size(self.size)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Glorot's, biases zero."""
        h = shape.size(self.size)
        outer, inner = math.sqrt(6 / (width + h)), math.sqrt(3 / h)
        return {
            "first": uniform(generator, outer, width, STACKS * h),
            "root": uniform(generator, outer, width, STACKS * h),
            "inner": uniform(generator, inner, STACKS, h, h),
            "bias": torch.zeros(1, STACKS * h),
        }

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """[b, n, h] from the features."""
        x = context.terms[0].expand(len(context.rows), -1, -1)
        z = x @ context.weight("first")
        for step in range(context.shape.recipe.degree):
            if step:
                parts = z.unflatten(2, (STACKS, -1)).transpose(1, 2) @ context.weight("inner")  # [b, stacks, n, h]
                z = parts.transpose(1, 2).flatten(2)
            z = propagate(z, context) + context.drop(x, "input_dropout", step + 1) @ context.weight("root")
            z = torch.relu(z + context.weight("bias"))
        return z.unflatten(2, (STACKS, -1)).mean(2)
