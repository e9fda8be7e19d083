"""Inputs of a model: features, structure columns, precomputed terms, and the operator if the model propagates."""

import logging
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common.choices import MIXED_DIRECTIONS
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import normalised
from adaptkry.models.recipe import Recipe
from adaptkry.models.training_nodes import at_places, ids_to_tensor, training_places
from adaptkry.spectral.bases import average, stack
from adaptkry.spectral.kernels import cpu as kernels
from adaptkry.spectral.propagation_matrix import MixedPropagation, Propagation
from adaptkry.spectral.signal_bases import ALL_BASES
from adaptkry.spectral.similarity import Similarity
from adaptkry.spectral.structure import sides_of, sparse_tensor, structure_columns, structure_maps, truncated_svd

logger = logging.getLogger(__name__)
Scaling = tuple[Tensor, Tensor]  # mean [d] and standard deviation [d] of feature columns
REDUCTIONS: WeakKeyDictionary[Graph, dict[Any, Tensor]] = WeakKeyDictionary()  # see `reduction`
SavedInputs = dict[str, Tensor]  # what the inputs of other graphs need from the training graph, besides the scaling

NORM_ROWS = 2**16  # rows that are converted to float64 at a time


@dataclass(frozen=True)
class Inputs:
    """Terms, which are computed once, and the operator of models that propagate or have a structure layer."""

    terms: Tensor  # [T, n, d]; bases of several directions and untied taus are concatenated
    hop_scale: Tensor  # [T] the factor that hop normalisation applied to each term
    operator: Propagation | MixedPropagation | Similarity | None
    scaling: Scaling | None
    saved: SavedInputs


def norm(table: Tensor) -> Tensor:
    """Compute the Frobenius norm of a table [n, d] in float64, some rows at a time: a predictor gets the same norm."""
    squares = [torch.linalg.vector_norm(rows, dtype=torch.float64).square() for rows in table.split(NORM_ROWS)]
    return torch.stack(squares).sum().sqrt()


def model_inputs(
    graph: Graph,
    recipe: Recipe,
    device: torch.device | str = "cpu",
    scaling: Scaling | None = None,
    saved: SavedInputs | None = None,
) -> Inputs:
    """Compute the inputs of a recipe; `scaling` and `saved` are those of the training graph, if this is another one."""
    if recipe.standardise and scaling is None and graph.features is not None:
        scaling = column_scaling(graph, recipe)
    x, saved = input_columns(graph, recipe, scaling, saved, device)
    x = x.to(device)
    operator = model_operator(graph, recipe, saved)
    operator = None if operator is None else operator.to(device)
    if recipe.uses_features_only:
        return Inputs(x[None], torch.ones(1), operator, scaling, saved)
    taus_of_bases = [recipe.taus] if recipe.tied and len(recipe.taus) > 1 else recipe.taus
    bases = [(direction, taus) for direction in recipe.directions for taus in taus_of_bases]
    terms = empty_terms(len(bases), x, recipe)
    for (direction, taus), out in zip(bases, terms.split(len(terms) // len(bases)), strict=True):
        basis_terms(propagation(graph, recipe, taus, direction).to(device), x, recipe, out)
    hop_scale = torch.ones(len(terms), device=device)
    if recipe.hop_norm:  # scale every hop to the norm of X; a hop of zeros stays zero
        norms = torch.stack([norm(term) for term in terms])  # [T]
        hop_scale = torch.where(norms > 0, norm(x) / norms.clamp(min=1e-30), 0).to(terms.dtype)
        terms.mul_(hop_scale[:, None, None])
    return Inputs(terms, hop_scale.cpu(), operator, scaling, saved)


def input_columns(
    graph: Graph,
    recipe: Recipe,
    scaling: Scaling | None = None,
    saved: SavedInputs | None = None,
    device: torch.device | str = "cpu",
) -> tuple[Tensor, SavedInputs]:
    """Return scaled features and structure columns side by side [n, d], and what another graph's columns need.

    The block of structure columns is scaled to the norm of the features, so that neither drowns the other. Without
    features its entries have a root mean square of 1, and standardised degrees of the nodes stand beside it.
    """
    is_new = saved is None
    saved = dict(saved or {})
    if is_reduced(graph, recipe):
        saved |= {"feature_map": reduction(graph, recipe, scaling, device)} if is_new else {}
        x = torch.from_numpy(features_for_products(graph, recipe, scaling) @ saved["feature_map"].numpy())
    else:
        x = scaled_features(graph, recipe, scaling)
    if not (recipe.structure or recipe.structure_layer or recipe.similar_nodes):
        return x, saved
    saved |= fit_structure(graph, recipe, x, device) if is_new else {}
    places = None if is_new else training_places(graph, saved)
    if not recipe.structure:
        return x, saved
    maps = {side: at_places(values, places, graph.nodes) for side, values in structure_maps_of(saved).items()}
    columns = structure_columns(with_loops(graph, recipe), maps) * saved["structure_scale"]
    if graph.features is None:
        degrees = log_degrees(graph, recipe)
        saved |= {"degree_scaling": torch.stack(standardising(degrees))} if is_new else {}
        mean, std = saved["degree_scaling"]
        x = ((degrees - mean) / std).to(x.dtype)
    return torch.cat([x, columns.to(x.dtype)], 1), saved


def log_degrees(graph: Graph, recipe: Recipe) -> Tensor:
    """Return log(1 + degree) of each side of the edges that the recipe uses: float64 [n, sides]."""
    sides: Any = sides_of(graph, recipe.directions)
    return torch.stack([torch.log1p(graph.degree(side)) for side in sides], 1)


def is_reduced(graph: Graph, recipe: Recipe) -> bool:
    """Return whether features have more columns than the recipe keeps."""
    return bool(recipe.reduce) and graph.features is not None and graph.features.shape[1] > recipe.reduce


def reduction(graph: Graph, recipe: Recipe, scaling: Scaling | None, device: torch.device | str) -> Tensor:
    """Return the map [d, r] from scaled features to their main directions, by a truncated SVD of the features.

    Columns have length 1, so that rows keep their length and the weakest directions, mostly noise, stay small. It is
    kept for the next recipe, since a search trains many of them on the same graph.
    """
    kept, key = REDUCTIONS.setdefault(graph, {}), (recipe.normalise, recipe.standardise, recipe.reduce)
    if key not in kept:
        name, width = graph.info.name, graph.features.shape[1]
        logger.info("%s: a truncated SVD reduces %d feature columns to %d", name, width, recipe.reduce)
        x = features_for_products(graph, recipe, scaling)  # [n, d]
        matrix = sparse_tensor(x, device) if sp.issparse(x) else torch.from_numpy(x).to(device)
        kept[key] = truncated_svd(matrix, recipe.reduce, iterations=2)[2].cpu()  # about the right columns suffice
    return kept[key]


def features_for_products(graph: Graph, recipe: Recipe, scaling: Scaling | None) -> Any:
    """Return scaled features [n, d] as a SciPy matrix if they stay sparse, otherwise as an array."""
    if sp.issparse(graph.features) and not recipe.standardise:
        return normalised(graph).features if recipe.normalise else graph.features
    return scaled_features(graph, recipe, scaling).numpy()


def structure_maps_of(saved: SavedInputs) -> dict[str, Tensor]:
    """Return the maps of the structure columns, side -> [n, r]."""
    return {side: saved[f"structure_{side}"] for side in ("both", "out", "in") if f"structure_{side}" in saved}


def fit_structure(graph: Graph, recipe: Recipe, x: Tensor, device: torch.device | str) -> SavedInputs:
    """Return the nodes and the direction of the graph, and the maps and the scale of its structure columns."""
    saved = {"nodes": torch.tensor(graph.nodes), "is_directed": torch.tensor(graph.is_directed)}
    saved |= {} if graph.info.node_ids is None else {"training_ids": ids_to_tensor(graph.info.node_ids)}
    if not recipe.structure:
        return saved
    sides = sides_of(graph, recipe.directions)
    key = ("structure", recipe.self_loops, recipe.structure, sides)
    looped = with_loops(graph, recipe)
    if key not in graph.edge_results:  # a search trains many recipes on the same graph
        graph.edge_results[key] = structure_maps(looped, recipe.structure, sides, device)
    maps = graph.edge_results[key]
    columns = structure_columns(looped, maps)
    norms = float(x.double().norm()) or columns.numel() ** 0.5, float(columns.double().norm())
    saved |= {f"structure_{side}": values for side, values in maps.items()}
    return saved | {"structure_scale": torch.tensor(norms[0] / norms[1] if norms[1] else 1.0)}


def column_count(graph: Graph, recipe: Recipe) -> int:
    """Return the number of input columns d: features, and structure columns of one or two sides."""
    features = 0 if graph.features is None else graph.features.shape[1]
    features = recipe.reduce if is_reduced(graph, recipe) else features
    columns = recipe.structure + (graph.features is None and recipe.structure > 0)  # with the degree
    return features + columns * len(sides_of(graph, recipe.directions))


def scaled_features(graph: Graph, recipe: Recipe, scaling: Scaling | None = None) -> Tensor:
    """Return the features [n, d], with rows divided by their sum or columns standardised, as the recipe requires.

    `scaling` is that of the training graph; by default that of this graph. Numbers from tables are scaled in float64.
    """
    if graph.features is None and recipe.structure:
        return torch.zeros(graph.nodes, 0)  # degrees and structure columns serve as features
    x = normalised(graph).x if recipe.normalise else graph.x
    if recipe.standardise:
        mean, std = (part.to(x.dtype) for part in scaling or column_scaling(graph, recipe))
        x = (x - mean) / std
    return graph.in_model_dtype(x)


def column_scaling(graph: Graph, recipe: Recipe) -> Scaling:
    """Return mean [d] and standard deviation [d] of the columns, with 1 for the deviation of a constant column."""
    return standardising(normalised(graph).x if recipe.normalise else graph.x)


def standardising(x: Tensor) -> Scaling:
    """Return mean [d] and standard deviation [d] of the columns of x [n, d], with 1 for that of a constant column."""
    mean, std = column_moments(x)
    return mean, torch.where(std > 0, std, 1)


def column_moments(x: Tensor) -> Scaling:
    """Return mean [d] and standard deviation [d] of the columns of x [n, d]; exactly 0 for a constant column only."""
    mean, std, is_constant = x.mean(0), x.std(0, correction=0), (x == x[0]).all(0)
    odd = (~torch.isfinite(mean + std) | (std == 0)) & ~is_constant  # squares or sums are out of range
    if odd.any():
        size = x[:, odd].double().abs().amax(0)
        z = x[:, odd].double() / size
        mean[odd], std[odd] = ((part * size).to(x.dtype) for part in (z.mean(0), z.std(0, correction=0)))
    return torch.where(is_constant, x[0], mean), torch.where(is_constant, 0, std)


def model_operator(
    graph: Graph, recipe: Recipe, saved: SavedInputs
) -> Propagation | MixedPropagation | Similarity | None:
    """Return the operator of the stages that propagate, of the structure layer, or of similar nodes, if there is any.

    A structure layer uses the normalised adjacency matrix, without directions if the training graph had none. Only
    nodes of the training graph count as similar, since new ones have no labels.
    """
    if recipe.similar_nodes:
        known, candidates = int(saved["nodes"]), None
        if known < graph.nodes:
            places = training_places(graph, saved)
            candidates = torch.arange(known) if places is None else places
        return Similarity(graph, recipe.similar_nodes, sides_of(graph, recipe.directions), candidates)
    if recipe.structure_layer:
        looped = with_loops(graph, recipe)
        return Propagation(looped, 1.0, "out" if bool(saved["is_directed"]) else "both", isolated=0.0)
    return propagation(graph, recipe, recipe.taus[0], recipe.directions[0]) if recipe.needs_operator else None


def propagation(graph: Graph, recipe: Recipe, taus, direction: str) -> Propagation | MixedPropagation:
    """Return the propagation matrix of a recipe for one of its directions."""
    scaling = {"isolated": recipe.isolated, "normalisation": recipe.normalisation}
    kind = MixedPropagation if direction in MIXED_DIRECTIONS else Propagation
    return kind(with_loops(graph, recipe), taus, direction, **scaling)  # type: ignore[arg-type]


def with_loops(graph: Graph, recipe: Recipe) -> Graph:
    """Return the graph with its self-loops kept, dropped or added."""
    loops = {"keep": lambda g: g, "drop": Graph.without_self_loops, "add": Graph.with_self_loops}
    return loops[recipe.self_loops](graph)


def empty_terms(bases: int, x: Tensor, recipe: Recipe) -> Tensor:
    """Allocate the terms of several bases of x [n, d], or the last term of each: [T, n, d]."""
    count = recipe.degree + 1 if recipe.terms == "all" else 1
    return kernels.empty(bases * count, *x.shape, dtype=x.dtype, device=x.device)


def basis_terms(P: Propagation | MixedPropagation, x: Tensor, recipe: Recipe, out: Tensor | None = None) -> Tensor:
    """Compute the basis of x [n, d], or its last term only: [T, n, d], in `out` if it is given."""
    out = empty_terms(1, x, recipe) if out is None else out
    basis, options = ALL_BASES[recipe.basis], dict(recipe.basis_options)
    is_mean = len(P.taus) > 1
    terms = average(basis, P, x, recipe.degree, **options) if is_mean else basis(P, x, recipe.degree, **options)
    if recipe.terms == "all":
        stack(terms, out.transpose(0, 1))
        return out
    last = x
    for last in terms:  # noqa: B007  a generator: only one term is in memory at a time
        pass
    out[0] = last
    return out
