"""Propagation inside the model: all members' columns side by side, one sparse product a hop."""

import math
from functools import cache

import torch
from torch import Tensor

from adaptkry.models.recipe import Recipe
from adaptkry.models.stages.base import ModelShape, StageContext, Weights, stage, uniform
from adaptkry.models.stages.dense import sized
from adaptkry.models.stages.sources import draw_hop_weights, whole_input
from adaptkry.spectral.bases import bernstein_in_chebyshev
from adaptkry.spectral.filters import PARAMETRISATIONS
from adaptkry.spectral.lanczos import Recurrence
from adaptkry.spectral.signal_bases import ALL_BASES


def by_columns(z: Tensor) -> Tensor:
    """All members' channels as columns: [b, n, h] -> [n, b h]."""
    return z.transpose(0, 1).flatten(1)


def by_members(columns: Tensor, members: int) -> Tensor:
    """And back."""
    return columns.unflatten(1, (members, -1)).transpose(0, 1)


@stage("hop")
def hop(z: Tensor, here: StageContext, word: str) -> Tensor:
    """One product with the propagation matrix."""
    return by_members(here.operator @ by_columns(z), len(z))  # type: ignore[operator]


@stage("hops", width=lambda layout, width, word: width * (layout.made.degree + 1))
def hops(z: Tensor, here: StageContext, word: str) -> Tensor:
    """All terms of the basis of z side by side."""
    made = here.layout.made
    terms = ALL_BASES[made.basis](here.operator, by_columns(z), made.degree, **dict(made.basis_options))
    return torch.cat([by_members(term, len(z)) for term in terms], 2)


def draw_filter(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Coefficients, and what a learned basis needs besides."""
    K, made = layout.made.degree, layout.made
    drawn = draw_hop_weights(layout, width, word, own, die)
    if made.damping:
        drawn["basis_eta"] = torch.full((K + 1,), min(1 / made.damping, 1.0))
    if made.basis == "favard":
        drawn |= {"basis_shift": torch.zeros(width, K + 1), "basis_scale": torch.ones(width, K + 1)}
    return drawn


@stage("filter", draw=draw_filter)
def polynomial_filter(z: Tensor, here: StageContext, word: str) -> Tensor:
    """sum_k w_k p_k(P) z, the basis made anew from z at every step."""
    w = coefficients(here.layout.made, here.weights)  # [b, K + 1] or [b, h, K + 1]
    w = w[:, None].expand(-1, z.shape[2], -1) if w.ndim == 2 else w
    terms = torch.stack(list(filter_terms(z, here)))  # [K + 1, n, b h]
    return by_members((terms * w.flatten(0, 1).T[:, None]).sum(0), len(z))


def coefficients(made: Recipe, weights: Weights) -> Tensor:
    """The weights over the terms that are really made, [b, K + 1] or [b, h, K + 1]."""
    w = PARAMETRISATIONS[made.kind](weights["filter"])
    if made.damping:  # polynomial coefficient decomposition: hop k is damped by k factors that are learned
        w = w * damped(made.damping * torch.tanh(weights["basis_eta"]))[:, None]
    if made.basis == "bernstein":  # K + 1 sums of K + 1 terms become one small product with the weights
        w = w @ expansion(made.degree, w.dtype, w.device)
    return w


def damped(factors: Tensor) -> Tensor:
    """1, s_0, s_0 s_1, ... of factors [b, K + 1]; torch's cumprod would ask the device for zeros on its way back."""
    products = [torch.ones_like(factors[:, 0])]
    for k in range(factors.shape[1] - 1):
        products.append(products[-1] * factors[:, k])
    return torch.stack(products, 1)


@cache
def expansion(degree: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Bernstein polynomials in Chebyshev's, on the device once and for all."""
    return torch.from_numpy(bernstein_in_chebyshev(degree)).to(device, dtype)


def filter_terms(z: Tensor, here: StageContext):
    """p_k(P) z for all members' columns."""
    made, columns = here.layout.made, by_columns(z)
    options = dict(made.basis_options)
    if made.basis == "favard":
        shift, scale = (here.weights[f"basis_{name}"].flatten(0, 1).T[:, None] for name in ("shift", "scale"))
        scale = scale.clamp(min=0.01)
        options["recurrence"] = Recurrence(scale[0], shift, scale[1:])
    name = "chebyshev" if made.basis == "bernstein" else made.basis  # see `coefficients`
    return ALL_BASES[name](here.operator, columns, made.degree, **options)


STACKS = 3  # of ARMA, as in PyG's example


def draw_arma(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Glorot's start, biases zero."""
    h = layout.size(word)
    wide, inner = math.sqrt(6 / (width + h)), math.sqrt(3 / h)
    shapes = {"first": (wide, width, STACKS * h), "root": (wide, width, STACKS * h), "inner": (inner, STACKS, h, h)}
    drawn = {name: uniform(die, bound, *shape) for name, (bound, *shape) in shapes.items()}
    return drawn | {"bias": torch.zeros(1, STACKS * h)}


@stage("arma", width=sized, draw=draw_arma)
def arma(z: Tensor, here: StageContext, word: str) -> Tensor:
    """ARMA: stacks of the same recursive step Z <- relu(P Z W + dropout(X) V + b), their mean; K steps."""
    x = whole_input(z, here, word)
    z = x @ here.weight("first")
    for step in range(here.layout.made.degree):
        if step:
            parts = z.unflatten(2, (STACKS, -1)).transpose(1, 2) @ here.weight("inner")  # [b, stacks, n, h]
            z = parts.transpose(1, 2).flatten(2)
        z = hop(z, here, word) + here.drop(x, "input_dropout", step + 1) @ here.weight("root")
        z = torch.relu(z + here.weight("bias"))
    return z.unflatten(2, (STACKS, -1)).mean(2)
