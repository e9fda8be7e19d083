"""Methods by name: operator, basis, combination, model and published settings, as one table.

A recipe is data. What varies from member to member of one training (rates, dropouts, patience) can be given as a
list of recipes; what shapes the basis or the layers must be the same for all of them.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from adaptkry import checks, datasets
from adaptkry.bases import BASES, average, stack
from adaptkry.graph import Graph
from adaptkry.lookup import pick
from adaptkry.operators import Propagation


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training but the graph, the split and the seed."""

    method: str = "adaptkry"
    basis: str = "krylov"
    taus: tuple[float, ...] = (0.5,)
    degree: int = 10
    directions: tuple[str, ...] = ("both",)
    tied: bool = True  # several taus: one weight a hop for their mean (as published), or a weight each
    combine: str = "sum"  # "sum" of weighted hops, or "concat"
    hop_norm: bool = False  # scale every hop to the norm of X
    normalise: bool = False  # divide each feature row by its sum first
    start_hop: int | None = None  # all weight on this hop at the start; None is 1 / (K + 1) on each
    hidden: int = 64
    layers: int = 2
    batch_norm: bool = False
    mlp_lr: float = 0.01
    filter_lr: float = 0.01
    mlp_decay: float = 5e-4
    filter_decay: float = 0.0
    mlp_dropout: float = 0.5
    filter_dropout: float = 0.0
    patience: int = 200
    epochs: int = 1000

    def __post_init__(self):
        object.__setattr__(self, "taus", checks.taus(self.taus))
        checks.count(self.degree, "degree")
        pick(BASES, self.basis, "basis")
        pick(dict.fromkeys(("sum", "concat")), self.combine, "combination")
        for direction in self.directions:
            pick(dict.fromkeys(("both", "out", "in")), direction, "direction")
        for name in ("mlp_dropout", "filter_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), but {getattr(self, name)} came.")
        for name in ("hidden", "layers", "patience", "epochs"):
            if checks.count(getattr(self, name), name) == 0:
                raise ValueError(f"{name} must be 1 or more, but 0 came.")

    @property
    def hops(self) -> int:
        """Terms of one basis: K + 1."""
        return self.degree + 1


METHODS: dict[str, dict[str, Any]] = {
    "adaptkry": {},
    "orthkry": {"basis": "orthonormal"},
    "mlp": {"degree": 0},
    "lowpass": {"taus": (0.3,), "degree": 6, "start_hop": 6, "filter_lr": 0.0},  # a fixed filter P^6, in SGC's manner
}

# The published program's settings (the paper's table gives taus, hidden and some rates; the rest is in its scripts).
PUBLISHED: dict[str, dict[str, dict[str, Any]]] = {
    "adaptkry": {
        "cora": dict(taus=(0.5, 0.8, 1.1), hidden=256, layers=3, mlp_lr=0.1, filter_lr=5e-4, mlp_decay=1e-3,
                     filter_dropout=0.2, mlp_dropout=0.3),
        "citeseer": dict(taus=(0.1,), hidden=128, layers=4, mlp_lr=0.01, filter_lr=0.05, mlp_decay=5e-5,
                         filter_decay=1e-4, filter_dropout=0.9, mlp_dropout=0.8),
        "pubmed": dict(taus=(0.5,), hidden=128, layers=4, mlp_lr=0.1, filter_lr=0.05, mlp_decay=5e-4,
                       filter_decay=1e-4, filter_dropout=0.4, mlp_dropout=0.0),
        "actor": dict(taus=(0.6, 1.7, 1.8), hidden=256, layers=4, mlp_lr=0.1, filter_lr=0.01, mlp_decay=5e-4,
                      mlp_dropout=0.4),
        "chameleon": dict(taus=(0.5, 0.8), hidden=256, layers=4, mlp_lr=0.015, filter_lr=0.05, mlp_decay=1e-4,
                          filter_decay=1e-4, mlp_dropout=0.7, patience=400),
        "squirrel": dict(taus=(0.8,), hidden=256, layers=2, mlp_lr=0.01, filter_lr=0.1, mlp_decay=1e-4,
                         filter_decay=5e-4, mlp_dropout=0.6, batch_norm=True),
    },
}  # fmt: skip
for _settings in PUBLISHED["adaptkry"].values():
    _settings["normalise"] = True


def recipe(method: str = "adaptkry", graph: str | None = None, **changes) -> Recipe:
    """A method's settings: defaults, then what was published for that graph, then your changes.

    >>> recipe("adaptkry", "squirrel", degree=4).taus
    (0.8,)
    """
    settings = dict(pick(METHODS, method, "method"))
    settings |= PUBLISHED.get(method, PUBLISHED["adaptkry"] if method == "orthkry" else {}).get(graph or "", {})
    known = {f.name for f in fields(Recipe)}
    for name in changes:
        pick(dict.fromkeys(known), name, "setting")
    return replace(Recipe(method=method), **settings | {k: v for k, v in changes.items() if v is not None})


def features_of(graph: Graph, made: Recipe) -> Tensor:
    """The features a recipe starts from: as they are, or each row divided by its sum."""
    return datasets.normalised(graph).x if made.normalise else graph.x


def basis_of(graph: Graph, made: Recipe, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """All basis terms of a recipe [T, n, d], directions and untied taus one after the other, and their scaling [T]."""
    x = features_of(graph, made).to(device)
    if made.degree == 0:
        return x[None], torch.ones(1)
    make, parts = BASES[made.basis], []
    for direction in made.directions:
        if made.tied or len(made.taus) == 1:
            P = Propagation(graph, made.taus, direction).to(device)  # type: ignore[arg-type]
            parts.append(stack(average(make, P, x, made.degree)).transpose(0, 1))
        else:
            for tau in made.taus:
                P = Propagation(graph, tau, direction).to(device)  # type: ignore[arg-type]
                parts.append(stack(make(P, x, made.degree)).transpose(0, 1))
    terms = parts[0] if len(parts) == 1 else torch.cat(parts)
    scale = torch.ones(len(terms), device=device)
    if made.hop_norm:  # every hop at the norm of X; a hop that is zero stays zero
        size = torch.stack([term.norm() for term in terms])
        scale = torch.where(size > 0, x.norm() / size.clamp(min=1e-30), 0)
        terms.mul_(scale[:, None, None])
    return terms, scale.cpu()
