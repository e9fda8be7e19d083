"""Stages that propagate while the model trains: one sparse product per hop for the columns of all members."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights, to_columns, to_members, uniform
from adaptkry.models.stages.sources import initial_hop_weights
from adaptkry.spectral.filters import PARAMETRISATIONS
from adaptkry.spectral.signal_bases import ALL_BASES

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


@dataclass(frozen=True)
class Propagate(Stage):
    """One product with the propagation matrix."""

    propagates: ClassVar[bool] = True

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Return P z."""
        return propagate(z, context)


def propagate(z: Tensor, context: StageContext) -> Tensor:
    """Compute P z for all members: [b, n, h] -> [b, n, h]."""
    return to_members(context.operator @ to_columns(z), len(z))  # type: ignore[operator]


@dataclass(frozen=True)
class BasisTerms(Stage):
    """All terms of the basis of z, concatenated."""

    propagates: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return K + 1 times the width."""
        return width * (shape.recipe.degree + 1)

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Compute the terms: [b, n, h] -> [b, n, (K + 1) h]."""
        recipe = context.shape.recipe
        basis = ALL_BASES[recipe.basis]
        terms = basis(context.operator, to_columns(z), recipe.degree, **dict(recipe.basis_options))
        return torch.cat([to_members(term, len(z)) for term in terms], 2)


@dataclass(frozen=True)
class PolynomialFilter(Stage):
    """sum_k w_k p_k(P) z, with the basis of z computed at every step."""

    propagates: ClassVar[bool] = True

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Return the coefficients, and the weights of damping and of a learned basis."""
        K, damping, learned = shape.recipe.degree, shape.recipe.damping, ALL_BASES[shape.recipe.basis].learned
        coefficients = initial_hop_weights(shape, recipe)
        weights = {"filter/weights": coefficients.repeat(width, 1) if recipe.per_channel else coefficients}
        if damping:
            weights["basis/damping"] = torch.full((K + 1,), min(1 / damping, 1.0))
        if learned:
            weights |= {f"basis/{name}": w for name, w in learned.initial_weights(width, K).items()}
        return weights

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Apply the filter: [b, n, h] -> [b, n, h]."""
        weights = filter_weights(context.shape.recipe, context.weights)  # [b, K + 1] or [b, h, K + 1]
        weights = weights[:, None].expand(-1, z.shape[2], -1) if weights.ndim == 2 else weights
        terms = torch.stack(list(filter_terms(z, context)))  # [K + 1, n, b h]
        return to_members((terms * weights.flatten(0, 1).T[:, None]).sum(0), len(z))


def filter_weights(recipe: "Recipe", weights: Weights) -> Tensor:
    """Return the coefficients of the computed terms: [b, K + 1] or [b, h, K + 1]."""
    coefficients = PARAMETRISATIONS[recipe.parametrisation](weights["filter/weights"])
    if recipe.damping:  # polynomial coefficient decomposition: hop k is damped by k learned factors
        damping = cumulative_product(recipe.damping * torch.tanh(weights["basis/damping"]))  # [b, K + 1]
        coefficients = coefficients * damping[:, None]
    if ALL_BASES[recipe.basis].expands_in:  # one small product instead of K + 1 sums of K + 1 terms
        coefficients = coefficients @ expansion(recipe.basis, recipe.degree, coefficients.dtype, coefficients.device)
    return coefficients


def cumulative_product(factors: Tensor) -> Tensor:
    """Compute 1, s_0, s_0 s_1, ... of factors [b, K + 1]; the backward pass of torch.cumprod would wait for the GPU."""
    products = [torch.ones_like(factors[:, 0])]
    for k in range(factors.shape[1] - 1):
        products.append(products[-1] * factors[:, k])
    return torch.stack(products, 1)


@cache
def expansion(basis: str, degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the matrix [K + 1, K + 1] that expresses a basis in the one that is computed, cached on the device."""
    expands_in = ALL_BASES[basis].expands_in
    assert expands_in is not None
    return torch.from_numpy(expands_in[1](degree)).to(device, dtype)


def filter_terms(z: Tensor, context: StageContext) -> Iterable[Tensor]:
    """Yield p_k(P) z for the columns of all members: [n, b h] each."""
    recipe = context.shape.recipe
    basis, options = ALL_BASES[recipe.basis], dict(recipe.basis_options)
    if basis.learned:
        options |= basis.learned.options(
            {name.removeprefix("basis/"): w for name, w in context.weights.items() if name.startswith("basis/")}
        )
    if basis.expands_in:  # see `filter_weights`
        basis = ALL_BASES[basis.expands_in[0]]
    return basis(context.operator, to_columns(z), recipe.degree, **options)


STACKS = 3  # number of parallel stacks in ARMA, as in PyG's example


@dataclass(frozen=True)
class ARMA(Stage):
    """ARMA: the average of several stacks of K steps Z <- relu(P Z W + dropout(X) V + b)."""

    size: Literal["hidden", "classes"]
    is_source: ClassVar[bool] = True
    propagates: ClassVar[bool] = True

    def width(self, shape: ModelShape, width: int) -> int:
        """Return the number of units."""
        return shape.size(self.size)

    def initial_weights(self, shape: ModelShape, width: int, recipe: "Recipe", generator: torch.Generator) -> Weights:
        """Draw Glorot's weights; biases are zero."""
        h = shape.size(self.size)
        outer, inner = math.sqrt(6 / (width + h)), math.sqrt(3 / h)
        return {
            "first": uniform(generator, outer, width, STACKS * h),
            "root": uniform(generator, outer, width, STACKS * h),
            "inner": uniform(generator, inner, STACKS, h, h),
            "bias": torch.zeros(1, STACKS * h),
        }

    def __call__(self, z: Tensor, context: StageContext) -> Tensor:
        """Compute [b, n, h] from the features."""
        x = context.terms[0].expand(len(context.rows), -1, -1)
        z = x @ context.weight("first")
        for step in range(context.shape.recipe.degree):
            if step:
                parts = z.unflatten(2, (STACKS, -1)).transpose(1, 2) @ context.weight("inner")  # [b, stacks, n, h]
                z = parts.transpose(1, 2).flatten(2)
            z = propagate(z, context) + context.drop(x, "input_dropout", step + 1) @ context.weight("root")
            z = torch.relu(z + context.weight("bias"))
        return z.unflatten(2, (STACKS, -1)).mean(2)
