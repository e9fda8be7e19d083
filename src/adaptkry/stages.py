"""What a model is made of. A model is a sentence of stages, such as "input drop linear:hidden relu linear:classes".

A stage takes the signal of all members [b, m, h] and gives the next one. Members share sizes and nothing else, and
every product is a batched one, so what happens to one member never touches another. Stages before "rows" see all
nodes; "combine", "each_hop" and "rows" leave each member with the rows it is asked about.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from adaptkry.bases import Recurrence, bernstein_in_chebyshev
from adaptkry.chances import Chance, dropout
from adaptkry.filters import KINDS, STARTS
from adaptkry.method_bases import METHOD_BASES
from adaptkry.operators import Operator
from adaptkry.recipes import Recipe
from adaptkry.sums import weighted_sum

Weights = dict[str, Tensor]  # name -> [b, ...]; "filter..." and "basis..." have rates of their own, the rest is "mlp"


@dataclass(frozen=True)
class Layout:
    """The sizes all members share."""

    made: Recipe  # what it says of shapes; rates and dropouts are each member's own
    terms: int  # T precomputed signals a node
    features: int  # d
    classes: int  # c

    def size(self, word: str) -> int:
        """The width a stage's word asks for."""
        return {"hidden": self.made.hidden, "classes": self.classes}[word]


@dataclass(frozen=True)
class Here:
    """What a stage may look at."""

    layout: Layout
    weights: Weights
    statistics: Weights  # remembered with the weights, but not trained
    terms: Tensor  # [T, n, d]
    rows: Tensor  # [b, m]
    counted: Tensor  # [b, m, 1]: 1 for real rows, 0 for padding
    operator: Operator | None  # for stages that propagate
    chance: Chance | None  # None: evaluation
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

    apply: Callable[[Tensor, Here, str], Tensor]
    width: Callable[[Layout, int, str], int] = lambda layout, width, word: width
    draw: Callable[[Layout, int, str, Recipe, torch.Generator], Weights] = lambda *_: {}


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


# Where the signal comes from, and who gets which rows.


@stage("input")
def whole_input(z: Tensor, here: Here, word: str) -> Tensor:
    """The first precomputed signal at all nodes, for every member."""
    return here.terms[0].expand(len(here.rows), -1, -1)


@stage("terms", width=lambda layout, width, word: width * layout.terms)
def all_terms(z: Tensor, here: Here, word: str) -> Tensor:
    """All precomputed signals side by side at all nodes."""
    side = here.terms[0] if len(here.terms) == 1 else here.terms.transpose(0, 1).flatten(1)
    return side.expand(len(here.rows), -1, -1)


@stage("rows")
def own_rows(z: Tensor, here: Here, word: str) -> Tensor:
    """Each member's rows of a signal at all nodes."""
    return z.gather(1, here.rows[:, :, None].expand(-1, -1, z.shape[2]))


def draw_hop_weights(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Where the weights over the basis start: shared by all channels, or one set a channel."""
    if layout.made.combine != "sum":
        return {}
    start = STARTS[own.start](layout.made.degree, own.alpha) if layout.made.terms == "all" else torch.ones(1)
    if "combine" in layout.made.stages and own.tied:  # a set for each direction
        start = start.repeat(len(layout.made.directions))
    elif "combine" in layout.made.stages:  # and for each tau
        start = start.repeat(layout.terms // len(start))
    return {"filter": start.repeat(width, 1) if own.per_channel else start}


def combined_width(layout: Layout, width: int, word: str) -> int:
    """Side by side is wider."""
    return width * (layout.terms if layout.made.combine == "concat" else 1)


@stage("combine", width=combined_width, draw=draw_hop_weights)
def combine(z: Tensor, here: Here, word: str) -> Tensor:
    """The precomputed hops at each member's rows, weighted and added, or side by side."""
    if here.layout.made.combine == "concat":
        return here.terms[:, here.rows].permute(1, 2, 0, 3).flatten(2)
    w = KINDS[here.layout.made.kind](here.weights["filter"])
    if "mix" in here.statistics:  # members of several sets of taus: each weighs the taus in its own way
        w = (here.statistics["mix"][:, :, None] * w[:, None]).flatten(1)
    return weighted_sum(w, here.terms, here.rows, here.chance)


# Dense maps.


def draw_linear(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Torch's own start: weight and bias uniform in +-1/sqrt(fan in)."""
    out, bound = layout.size(word), 1 / math.sqrt(width)
    return {"weight": uniform(die, bound, width, out), "bias": uniform(die, bound, 1, out)}


def sized(layout: Layout, width: int, word: str) -> int:
    """As wide as the word says."""
    return layout.size(word)


@stage("linear", width=sized, draw=draw_linear)
def linear(z: Tensor, here: Here, word: str) -> Tensor:
    """A dense map with bias."""
    return z @ here.weight("weight") + here.weight("bias")


def draw_map(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Without a bias."""
    return {"weight": uniform(die, 1 / math.sqrt(width), width, layout.size(word))}


@stage("map", width=sized, draw=draw_map)
def dense_map(z: Tensor, here: Here, word: str) -> Tensor:
    """A dense map without bias."""
    return z @ here.weight("weight")


def draw_free_map(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """In the third group of rates: GNN-LF and GNN-HF decay their first map only."""
    return {"basis_map": uniform(die, 1 / math.sqrt(width), width, layout.size(word))}


@stage("free_map", width=sized, draw=draw_free_map)
def free_map(z: Tensor, here: Here, word: str) -> Tensor:
    """A dense map with rates of its own."""
    return z @ here.weights["basis_map"]


def draw_glorot(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Glorot's start for each of the hops that lie side by side, as PyG's layers have it."""
    hops = layout.made.degree + 1 if layout.made.basis == "chebyshev" else 1
    bound = math.sqrt(6 / (width // hops + layout.size(word)))
    return {"weight": uniform(die, bound, width, layout.size(word))}


STAGES["glorot"] = Stage(dense_map, sized, draw_glorot)


def draw_bias(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Zero."""
    return {"bias": torch.zeros(1, width)}


@stage("bias", draw=draw_bias)
def bias(z: Tensor, here: Here, word: str) -> Tensor:
    """A number a channel, added."""
    return z + here.weight("bias")


def draw_each_hop(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """A linear map a hop."""
    shape, bound = (layout.terms, width, layout.size(word)), 1 / math.sqrt(width)
    return {"weight": uniform(die, bound, *shape), "bias": uniform(die, bound, shape[0], 1, shape[2])}


@stage("each_hop", width=lambda layout, width, word: layout.terms * layout.size(word), draw=draw_each_hop)
def each_hop(z: Tensor, here: Here, word: str) -> Tensor:
    """Every precomputed hop through a linear map of its own, side by side (SIGN)."""
    side = here.rows[:, :, None].expand(-1, -1, here.layout.size(word))
    parts = []
    for k, hop in enumerate(here.terms):  # all nodes, then the rows: each member's rows of X would be far more to copy
        whole = hop.expand(len(side), -1, -1) @ here.weight("weight")[:, k] + here.weight("bias")[:, k]
        parts.append(whole.gather(1, side))
    return torch.cat(parts, 2)


# Small change.


@stage("relu")
def relu(z: Tensor, here: Here, word: str) -> Tensor:
    """Negative numbers to 0."""
    return torch.relu(z)


@stage("drop")
def drop(z: Tensor, here: Here, word: str) -> Tensor:
    """Dropout: of the MLP, or of the kind that the word names."""
    return here.drop(z, f"{word or 'mlp'}_dropout")


@cache
def trace_of_noise(n: int, h: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1e-5 N(0, 1), drawn once."""
    return 1e-5 * torch.randn(n, h, generator=torch.Generator().manual_seed(0)).to(device, dtype)


@stage("noise")
def noise(z: Tensor, here: Here, word: str) -> Tensor:
    """A trace of fixed noise, so that a column of zeros does not stay one (OptBasisGNN)."""
    return z + trace_of_noise(z.shape[1], z.shape[2], z.dtype, z.device)


# Propagation inside the model: all members' columns side by side, one sparse product a hop.


def by_columns(z: Tensor) -> Tensor:
    """All members' channels as columns: [b, n, h] -> [n, b h]."""
    return z.transpose(0, 1).flatten(1)


def by_members(columns: Tensor, members: int) -> Tensor:
    """And back."""
    return columns.unflatten(1, (members, -1)).transpose(0, 1)


@stage("hop")
def hop(z: Tensor, here: Here, word: str) -> Tensor:
    """One product with the propagation matrix."""
    return by_members(here.operator @ by_columns(z), len(z))  # type: ignore[operator]


@stage("hops", width=lambda layout, width, word: width * (layout.made.degree + 1))
def hops(z: Tensor, here: Here, word: str) -> Tensor:
    """All terms of the basis of z side by side."""
    made = here.layout.made
    terms = METHOD_BASES[made.basis](here.operator, by_columns(z), made.degree, **dict(made.basis_options))
    return torch.cat([by_members(term, len(z)) for term in terms], 2)


def draw_filter(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Coefficients, and what a learned basis needs besides."""
    K, made = layout.made.degree, layout.made
    drawn = draw_hop_weights(layout, width, word, own, die)
    if made.damping:
        drawn["basis_eta"] = torch.full((K + 1,), min(1 / made.damping, 1.0))
    if made.basis == "favard":
        drawn |= {"basis_shift": torch.zeros(width, K + 1), "basis_scale": torch.ones(width, K + 1)}
    return drawn


@stage("filter", draw=draw_filter)
def polynomial_filter(z: Tensor, here: Here, word: str) -> Tensor:
    """sum_k w_k p_k(P) z, the basis made anew from z at every step."""
    w = coefficients(here.layout.made, here.weights)  # [b, K + 1] or [b, h, K + 1]
    w = w[:, None].expand(-1, z.shape[2], -1) if w.ndim == 2 else w
    terms = torch.stack(list(filter_terms(z, here)))  # [K + 1, n, b h]
    return by_members((terms * w.flatten(0, 1).T[:, None]).sum(0), len(z))


def coefficients(made: Recipe, weights: Weights) -> Tensor:
    """The weights over the terms that are really made, [b, K + 1] or [b, h, K + 1]."""
    w = KINDS[made.kind](weights["filter"])
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


def filter_terms(z: Tensor, here: Here):
    """p_k(P) z for all members' columns."""
    made, columns = here.layout.made, by_columns(z)
    options = dict(made.basis_options)
    if made.basis == "favard":
        shift, scale = (here.weights[f"basis_{name}"].flatten(0, 1).T[:, None] for name in ("shift", "scale"))
        scale = scale.clamp(min=0.01)
        options["recurrence"] = Recurrence(scale[0], shift, scale[1:])
    name = "chebyshev" if made.basis == "bernstein" else made.basis  # see `coefficients`
    return METHOD_BASES[name](here.operator, columns, made.degree, **options)


STACKS = 3  # of ARMA, as in PyG's example


def draw_arma(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Glorot's start, biases zero."""
    h = layout.size(word)
    wide, inner = math.sqrt(6 / (width + h)), math.sqrt(3 / h)
    shapes = {"first": (wide, width, STACKS * h), "root": (wide, width, STACKS * h), "inner": (inner, STACKS, h, h)}
    drawn = {name: uniform(die, bound, *shape) for name, (bound, *shape) in shapes.items()}
    return drawn | {"bias": torch.zeros(1, STACKS * h)}


@stage("arma", width=sized, draw=draw_arma)
def arma(z: Tensor, here: Here, word: str) -> Tensor:
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


# AdaptKry's own MLP.


def mlp_widths(layout: Layout, width: int) -> list[int]:
    """Width of the signal before and after each dense map."""
    return [width, *[layout.made.hidden] * (layout.made.layers - 1), layout.classes]


def draw_mlp(layout: Layout, width: int, word: str, own: Recipe, die: torch.Generator) -> Weights:
    """Dense maps uniform in +-1/sqrt(fan out), as in the published program."""
    drawn: Weights = {}
    for layer, (wide, narrow) in enumerate(pairwise(mlp_widths(layout, width))):
        drawn[f"dense{layer}_"] = uniform(die, 1 / math.sqrt(narrow), wide, narrow)
        if layout.made.batch_norm and layer < layout.made.layers - 1:
            drawn |= {f"scale{layer}_": torch.ones(1, narrow), f"shift{layer}_": torch.zeros(1, narrow)}
    return drawn


@stage("mlp", width=lambda layout, width, word: layout.classes, draw=draw_mlp)
def mlp(z: Tensor, here: Here, word: str) -> Tensor:
    """Dense maps without bias: dropout before each, residual where widths agree, ReLU after all but the last."""
    made = here.layout.made
    for layer in range(made.layers):
        z = here.drop(z, "mlp_dropout", layer + 1)
        fed, z = z, z @ here.weight(f"dense{layer}_")
        last = layer == made.layers - 1
        if made.batch_norm and not last:
            z = batch_norm(z, here, layer)
        if fed.shape[-1] == z.shape[-1]:
            z = z + fed
        z = z if last else torch.relu(z)
    return z


def batch_norm(z: Tensor, here: Here, layer: int) -> Tensor:
    """Batch norm over each member's real rows (momentum 0.1, epsilon 1e-5, as torch has them)."""
    kept = [here.statistics[f"{name}{layer}"] for name in ("mean", "variance")]
    mean, variance = kept
    if here.chance is not None:
        count = here.counted.sum(1, keepdim=True).clamp(min=1)
        mean = (z * here.counted).sum(1, keepdim=True) / count
        variance = ((z - mean).square() * here.counted).sum(1, keepdim=True) / count
        with torch.no_grad():
            kept[0].lerp_(mean, 0.1)
            kept[1].lerp_(variance * count / (count - 1).clamp(min=1), 0.1)
    scaled = (z - mean) * torch.rsqrt(variance + 1e-5)
    return scaled * here.weight(f"scale{layer}_") + here.weight(f"shift{layer}_")
