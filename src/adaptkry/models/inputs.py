"""Inputs of a model: scaled features, precomputed terms, and the operator if the model propagates."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import normalised
from adaptkry.models.recipe import Recipe
from adaptkry.spectral.bases import average, stack
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.signal_bases import ALL_BASES

Scaling = tuple[Tensor, Tensor]  # mean [d] and standard deviation [d] of feature columns


@dataclass(frozen=True)
class Inputs:
    """Terms, which are computed once, and the operator if the model propagates."""

    terms: Tensor  # [T, n, d]; bases of several directions and untied taus are concatenated
    hop_scale: Tensor  # [T] the factor that hop normalisation applied to each term
    operator: Propagation | None
    scaling: Scaling | None


def model_inputs(
    graph: Graph, recipe: Recipe, device: torch.device | str = "cpu", scaling: Scaling | None = None
) -> Inputs:
    """Compute the inputs of a recipe; `scaling` is that of the training graph, if this is another graph."""
    if recipe.standardise and scaling is None:
        scaling = column_scaling(graph, recipe)
    x = scaled_features(graph, recipe, scaling).to(device)
    operator = propagation(graph, recipe, recipe.taus[0], recipe.directions[0]) if recipe.propagates else None
    operator = None if operator is None else operator.to(device)
    if recipe.uses_features_only:
        return Inputs(x[None], torch.ones(1), operator, scaling)
    parts = []
    for direction in recipe.directions:
        for taus in [recipe.taus] if recipe.tied and len(recipe.taus) > 1 else recipe.taus:
            parts.append(basis_terms(propagation(graph, recipe, taus, direction).to(device), x, recipe))
    terms = parts[0] if len(parts) == 1 else torch.cat(parts)
    hop_scale = torch.ones(len(terms), device=device)
    if recipe.hop_norm:  # scale every hop to the norm of X; a hop of zeros stays zero
        norms = torch.stack([term.norm() for term in terms])  # [T]
        hop_scale = torch.where(norms > 0, x.norm() / norms.clamp(min=1e-30), 0)
        terms.mul_(hop_scale[:, None, None])
    return Inputs(terms, hop_scale.cpu(), operator, scaling)


def scaled_features(graph: Graph, recipe: Recipe, scaling: Scaling | None = None) -> Tensor:
    """Return the features [n, d], with rows divided by their sum or columns standardised, as the recipe requires.

    `scaling` is that of the training graph; by default that of this graph.
    """
    x = normalised(graph).x if recipe.normalise else graph.x
    if not recipe.standardise:
        return x
    mean, std = scaling or column_scaling(graph, recipe)
    return (x - mean) / std


def column_scaling(graph: Graph, recipe: Recipe) -> Scaling:
    """Return mean [d] and standard deviation [d] of the columns, with 1 for the deviation of a constant column."""
    x = scaled_features(graph, replace(recipe, standardise=False))
    std = x.std(0, correction=0)
    return x.mean(0), torch.where(std > 0, std, 1)


def propagation(graph: Graph, recipe: Recipe, taus, direction: str) -> Propagation:
    """Return the propagation matrix of a recipe."""
    loops = {"keep": lambda g: g, "drop": Graph.without_self_loops, "add": Graph.with_self_loops}
    scaling = {"isolated": recipe.isolated, "normalisation": recipe.normalisation}
    return Propagation(loops[recipe.self_loops](graph), taus, direction, **scaling)  # type: ignore[arg-type]


def basis_terms(P: Propagation, x: Tensor, recipe: Recipe) -> Tensor:
    """Compute the basis of x [n, d], or its last term only: [T, n, d]."""
    basis, options = ALL_BASES[recipe.basis], dict(recipe.basis_options)
    is_mean = len(P.taus) > 1
    terms = average(basis, P, x, recipe.degree, **options) if is_mean else basis(P, x, recipe.degree, **options)
    if recipe.terms == "all":
        return stack(terms).transpose(0, 1)
    last = x
    for last in terms:  # noqa: B007  a generator: only one term is in memory at a time
        pass
    return last[None].contiguous()
