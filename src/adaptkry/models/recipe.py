"""A recipe: everything that decides a training but the graph, the split and the seed. And the signals it starts from.

A recipe is data. What varies from member to member of one training (`PER_MEMBER`) can be given as a list of recipes;
what shapes the basis or the layers must be the same for all of them.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import pick
from adaptkry.graphs import load as datasets
from adaptkry.graphs.graph import Graph
from adaptkry.models.methods import METHODS, PUBLISHED
from adaptkry.spectral.bases import average, stack
from adaptkry.spectral.filters import INITIAL_WEIGHTS, PARAMETRISATIONS
from adaptkry.spectral.propagation import Propagation
from adaptkry.spectral.signal_bases import ALL_BASES


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training but the graph, the split and the seed."""

    method: str = "adaptkry"
    stages: tuple[str, ...] = ("combine", "mlp")
    # the propagation matrix
    taus: tuple[float, ...] = (0.5,)
    directions: tuple[str, ...] = ("both",)
    loops: Literal["keep", "drop", "add"] = "keep"  # self-loops of the data
    isolated: float = 1.0  # what a node without edges keeps of its signal
    # the basis
    basis: str = "krylov"
    basis_options: tuple[tuple[str, Any], ...] = ()
    degree: int = 10
    tied: bool = True  # several taus: one weight a hop for their mean (as published), or a weight each
    terms: Literal["all", "first", "last"] = "all"  # which terms are computed beforehand
    hop_norm: bool = False  # scale every hop to the norm of X
    normalise: bool = False  # divide each feature row by its sum first
    standardise: bool = False  # bring each feature column to mean 0 and deviation 1 first
    # the coefficients
    combine: Literal["sum", "concat"] = "sum"  # hops weighted and added, or side by side
    kind: str = "free"  # see filters.PARAMETRISATIONS
    start: str = "uniform"  # see filters.INITIAL_WEIGHTS
    alpha: float = 0.1  # what the start needs
    per_channel: bool = False
    damping: float = 0.0  # above 0: polynomial coefficient decomposition with this alpha
    # the layers
    hidden: int = 64
    layers: int = 2
    batch_norm: bool = False
    mlp_dropout: float = 0.5
    input_dropout: float = 0.0
    filter_dropout: float = 0.0
    # the training
    # gradient descent, or exact logistic regression on the best of the terms
    optimiser: Literal["adam", "adamw", "logistic"] = "adam"
    loss: Literal["cross_entropy", "binary"] = "cross_entropy"
    mlp_lr: float = 0.01
    filter_lr: float = 0.01
    basis_lr: float = 0.01
    mlp_decay: float = 5e-4
    filter_decay: float = 0.0
    basis_decay: float = 0.0
    # which epoch is kept, and when a member stops
    select: Literal["score", "loss", "last"] = "score"  # by validation score, validation loss, or the last one
    ties: Literal["earlier", "later"] = "earlier"
    stop: Literal["patience", "mean", "never"] = "patience"  # "mean": loss above the mean of the last 200
    least_epochs: int = 0
    patience: int = 200
    epochs: int = 1000

    def __post_init__(self):
        object.__setattr__(self, "taus", checks.taus(self.taus))
        checks.count(self.degree, "degree")
        pick(ALL_BASES, self.basis, "basis")
        pick(PARAMETRISATIONS, self.kind, "kind of filter")
        pick(INITIAL_WEIGHTS, self.start, "start")
        for name, allowed in CHOICES.items():
            pick(dict.fromkeys(allowed), getattr(self, name), name.replace("combine", "combination"))
        for direction in self.directions:
            pick(dict.fromkeys(("both", "out", "in")), direction, "direction")
        for name in DROPOUTS:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), but {getattr(self, name)} came.")
        for name in (*RATES, "damping"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more, but {getattr(self, name)} came.")
        checks.count(self.least_epochs, "least_epochs")
        self._check_shape()
        for name in ("hidden", "layers", "patience", "epochs"):
            if checks.count(getattr(self, name), name) == 0:
                raise ValueError(f"{name} must be 1 or more, but 0 came.")

    def _check_shape(self) -> None:
        """Settings that only some shapes of models have a use for; elsewhere they would fail late, or mislead."""
        filters = "filter" in self.stages
        for name, needed in (("damping", self.damping > 0), ("per_channel", self.per_channel)):
            if needed and not filters:
                raise ValueError(
                    f"{name} is for methods that filter while they train, such as jacobiconv; {self.method} does not."
                )
        if self.basis == "favard" and not filters:
            raise ValueError(
                f"the basis favard is learned while a method filters; {self.method} does not. Use favardgnn."
            )
        if self.basis == "gaussian" and {"high", "low"} - {name for name, _ in self.basis_options}:
            raise ValueError("the basis gaussian needs the options high and low. Use the method g2cn, which has them.")
        if self.optimiser == "logistic" and self.stages != ("combine", "linear:classes"):
            raise ValueError(f"the optimiser logistic solves for one linear layer; {self.method} has others. Use asgc.")
        if self.terms == "first" and "combine" in self.stages:
            raise ValueError(f"with terms = first nothing is left for {self.method} to combine. Use the method mlp.")

    @property
    def signals(self) -> int:
        """How many signals a node has precomputed, T."""
        if self.degree == 0 or self.terms != "all" or "input" in self.stages:
            return 1
        return (self.degree + 1) * len(self.directions) * (1 if self.tied else len(self.taus))

    @property
    def propagates(self) -> bool:
        """Whether the model propagates while it trains, and so must see all nodes at once."""
        return any(stage.partition(":")[0] in ("hop", "hops", "filter", "arma") for stage in self.stages)


DROPOUTS = ("mlp_dropout", "input_dropout", "filter_dropout")
GROUPS = ("mlp", "filter", "basis")
RATES = tuple(f"{group}_{what}" for group in GROUPS for what in ("lr", "decay"))
PER_MEMBER = {*DROPOUTS, *RATES, "patience", "start", "alpha"}
CHOICES = {
    name: get_args(kind) for name, kind in get_type_hints(Recipe).items() if get_origin(kind) is Literal
}  # fmt: skip


def recipe(method: str = "adaptkry", graph: str | None = None, **changes) -> Recipe:
    """A method's settings: defaults, then what was published for that graph, then your changes.

    >>> recipe("adaptkry", "squirrel", degree=4).taus
    (0.8,)
    """
    settings = pick(METHODS, method, "method") | PUBLISHED.get(method, {}).get(graph or "", {})
    known = {f.name for f in fields(Recipe)}
    for name in changes:
        pick(dict.fromkeys(known), name, "setting")
    if method == "mlp" and changes.get("degree"):
        raise ValueError("mlp looks at no edges, so it has no hops. Leave the degree out, or use another method.")
    return replace(Recipe(method=method), **settings | {k: v for k, v in changes.items() if v is not None})


Scaling = tuple[Tensor, Tensor]  # mean and deviation of every feature column


@dataclass(frozen=True)
class Inputs:
    """What a training starts from: signals computed once, and the operator if the model propagates itself."""

    terms: Tensor  # [T, n, d], directions and untied taus one after the other
    scale: Tensor  # [T] what hop normalisation multiplied each term by
    operator: Propagation | None
    scaling: Scaling | None


def features_of(graph: Graph, made: Recipe, scaling: Scaling | None = None) -> Tensor:
    """The features a recipe starts from: as they are, each row divided by its sum, or each column standardised.

    `scaling` is that of the graph that was trained on; without it, the graph's own.
    """
    x = datasets.normalised(graph).x if made.normalise else graph.x
    if not made.standardise:
        return x
    mean, deviation = scaling or column_scaling(graph, made)
    return (x - mean) / deviation


def column_scaling(graph: Graph, made: Recipe) -> Scaling:
    """Mean and standard deviation of every column [d] before it is standardised; a constant column keeps its size."""
    x = features_of(graph, replace(made, standardise=False))
    deviation = x.std(0, correction=0)
    return x.mean(0), torch.where(deviation > 0, deviation, 1)


def propagation(graph: Graph, made: Recipe, taus, direction: str) -> Propagation:
    """The recipe's propagation matrix."""
    loops = {"keep": lambda g: g, "drop": Graph.without_self_loops, "add": Graph.with_self_loops}
    return Propagation(loops[made.loops](graph), taus, direction, isolated=made.isolated)  # type: ignore[arg-type]


def inputs_of(graph: Graph, made: Recipe, device: torch.device | str = "cpu", scaling: Scaling | None = None) -> Inputs:
    """Compute what a recipe starts from."""
    if made.standardise and scaling is None:
        scaling = column_scaling(graph, made)
    x = features_of(graph, made, scaling).to(device)
    operator = propagation(graph, made, made.taus[0], made.directions[0]).to(device) if made.propagates else None
    if made.degree == 0 or made.terms == "first" or "input" in made.stages:
        return Inputs(x[None], torch.ones(1), operator, scaling)
    parts = []
    for direction in made.directions:
        for taus in [made.taus] if made.tied and len(made.taus) > 1 else made.taus:
            parts.append(terms_of(propagation(graph, made, taus, direction).to(device), x, made))
    terms = parts[0] if len(parts) == 1 else torch.cat(parts)
    scale = torch.ones(len(terms), device=device)
    if made.hop_norm:  # every hop at the norm of X; a hop that is zero stays zero
        size = torch.stack([term.norm() for term in terms])
        scale = torch.where(size > 0, x.norm() / size.clamp(min=1e-30), 0)
        terms.mul_(scale[:, None, None])
    return Inputs(terms, scale.cpu(), operator, scaling)


def terms_of(P: Propagation, x: Tensor, made: Recipe) -> Tensor:
    """The basis of x, or its last term alone: [T, n, d]."""
    make, options = ALL_BASES[made.basis], dict(made.basis_options)
    basis = average(make, P, x, made.degree, **options) if P.is_batched else make(P, x, made.degree, **options)
    if made.terms == "all":
        return stack(basis).transpose(0, 1)
    last = x
    for term in basis:
        last = term
    return last[None].contiguous()
