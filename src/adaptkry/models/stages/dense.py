"""Dense maps, and small change between them."""

import math
from functools import cache

import torch
from torch import Tensor

from adaptkry.models.recipe import Recipe
from adaptkry.models.stages.base import STAGES, ModelShape, Stage, StageContext, Weights, stage, uniform


def draw_linear(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Torch's own start: weight and bias uniform in +-1/sqrt(fan in)."""
    out, bound = layout.size(word), 1 / math.sqrt(width)
    return {"weight": uniform(die, bound, width, out), "bias": uniform(die, bound, 1, out)}


def sized(layout: ModelShape, width: int, word: str) -> int:
    """As wide as the word says."""
    return layout.size(word)


@stage("linear", width=sized, draw=draw_linear)
def linear(z: Tensor, here: StageContext, word: str) -> Tensor:
    """A dense map with bias."""
    return z @ here.weight("weight") + here.weight("bias")


def draw_map(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Without a bias."""
    return {"weight": uniform(die, 1 / math.sqrt(width), width, layout.size(word))}


@stage("map", width=sized, draw=draw_map)
def dense_map(z: Tensor, here: StageContext, word: str) -> Tensor:
    """A dense map without bias."""
    return z @ here.weight("weight")


def draw_free_map(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """In the third group of rates: GNN-LF and GNN-HF decay their first map only."""
    return {"basis_map": uniform(die, 1 / math.sqrt(width), width, layout.size(word))}


@stage("free_map", width=sized, draw=draw_free_map)
def free_map(z: Tensor, here: StageContext, word: str) -> Tensor:
    """A dense map with rates of its own."""
    return z @ here.weights["basis_map"]


def draw_glorot(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Glorot's start for each of the hops that lie side by side, as PyG's layers have it."""
    hops = layout.made.degree + 1 if layout.made.basis == "chebyshev" else 1
    bound = math.sqrt(6 / (width // hops + layout.size(word)))
    return {"weight": uniform(die, bound, width, layout.size(word))}


STAGES["glorot"] = Stage(dense_map, sized, draw_glorot)


def draw_bias(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Zero."""
    return {"bias": torch.zeros(1, width)}


@stage("bias", draw=draw_bias)
def bias(z: Tensor, here: StageContext, word: str) -> Tensor:
    """A number a channel, added."""
    return z + here.weight("bias")


def draw_each_hop(layout: ModelShape, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """A linear map a hop."""
    shape, bound = (layout.terms, width, layout.size(word)), 1 / math.sqrt(width)
    return {"weight": uniform(die, bound, *shape), "bias": uniform(die, bound, shape[0], 1, shape[2])}


@stage("each_hop", width=lambda layout, width, word: layout.terms * layout.size(word), draw=draw_each_hop)
def each_hop(z: Tensor, here: StageContext, word: str) -> Tensor:
    """Every precomputed hop through a linear map of its own, side by side (SIGN)."""
    side = here.rows[:, :, None].expand(-1, -1, here.layout.size(word))
    parts = []
    for k, hop in enumerate(here.terms):  # all nodes, then the rows: each member's rows of X would be far more to copy
        whole = hop.expand(len(side), -1, -1) @ here.weight("weight")[:, k] + here.weight("bias")[:, k]
        parts.append(whole.gather(1, side))
    return torch.cat(parts, 2)


@stage("relu")
def relu(z: Tensor, here: StageContext, word: str) -> Tensor:
    """Negative numbers to 0."""
    return torch.relu(z)


@stage("drop")
def drop(z: Tensor, here: StageContext, word: str) -> Tensor:
    """Dropout: of the MLP, or of the kind that the word names."""
    return here.drop(z, f"{word or 'mlp'}_dropout")


@cache
def trace_of_noise(n: int, h: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1e-5 N(0, 1), drawn once."""
    return 1e-5 * torch.randn(n, h, generator=torch.Generator().manual_seed(0)).to(device, dtype)


@stage("noise")
def noise(z: Tensor, here: StageContext, word: str) -> Tensor:
    """A trace of fixed noise, so that a column of zeros does not stay one (OptBasisGNN)."""
    return z + trace_of_noise(z.shape[1], z.shape[2], z.dtype, z.device)
