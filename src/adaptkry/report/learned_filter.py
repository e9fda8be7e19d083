"""The learned filter of a run as a function of the operator's eigenvalues."""

import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.models.inputs import input_columns, propagation
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import filter_weights
from adaptkry.spectral.bases import BASES, stack
from adaptkry.spectral.lanczos import recurrence, replay
from adaptkry.spectral.operators import Diagonal
from adaptkry.spectral.signal_bases import ALL_BASES
from adaptkry.training.run import Run

AVERAGED_COLUMNS = 64  # feature columns over which the polynomials of an orthonormal basis are averaged


def learned_response(run: Run, graph: Graph | None, grid: Tensor) -> Tensor | None:
    """Return the learned filter g of each member at operator eigenvalues `grid` [m], for the first direction: [m, b].

    Tied taus share the weights of one polynomial, which is returned, as in the paper. An orthonormal basis has
    different polynomials for each feature column, and their mean over columns is returned. None if no single curve
    represents the filter, or if it needs the graph and `graph` is None.
    """
    recipe = run.recipes[0]
    source = ALL_BASES[recipe.basis].response_from
    if "filter/weights" not in run.weights or recipe.degree == 0 or source is None or recipe.combine_hops != "sum":
        return None
    grid = grid.double()
    if recipe.terms == "last":
        return grid[:, None] ** recipe.degree * run.weights["filter/weights"].double().flatten(1).mean(1)
    if source == "recurrence":
        responses = None if graph is None else orthonormal_responses(graph, recipe, grid)
    else:
        responses = polynomial_responses(recipe, grid)
    return None if responses is None else responses @ hop_coefficients(run, recipe)


def hop_coefficients(run: Run, recipe: Recipe) -> Tensor:
    """Return the coefficients of the basis terms of each member, averaged over channels: [K + 1, b]."""
    w = filter_weights(recipe, {name: weight.double() for name, weight in run.weights.items()})  # [b, ..., K + 1]
    scale = run.info.hop_scale
    w = w * torch.tensor(scale) if len(scale) == w.shape[-1] else w
    return w.reshape(len(w), -1, w.shape[-1]).mean(1)[:, : recipe.degree + 1].T


def polynomial_responses(recipe: Recipe, grid: Tensor) -> Tensor:
    """Evaluate the basis polynomials at `grid`: [m, K + 1]. A basis applied to a spectrum gives its responses."""
    basis = ALL_BASES[recipe.basis]
    basis = BASES[basis.expands_in[0]] if basis.expands_in else basis  # the filter's weights are those of that basis
    ones = torch.ones(len(grid), 1, dtype=torch.float64)
    return stack(list(basis(Diagonal(grid), ones, recipe.degree, **dict(recipe.basis_options))))[:, :, 0]


def orthonormal_responses(graph: Graph, recipe: Recipe, grid: Tensor) -> Tensor:
    """Evaluate the orthonormal polynomials of the graph's features at `grid`, averaged over columns: [m, K + 1]."""
    P = propagation(graph, recipe, recipe.taus[0], recipe.directions[0])
    x = input_columns(graph, recipe)[0][:, :AVERAGED_COLUMNS].double()
    coefficients = recurrence(P, x, recipe.degree)
    ones = torch.ones(len(grid), x.shape[1], dtype=torch.float64)
    terms = stack(list(replay(Diagonal(grid), ones, recipe.degree, recurrence=coefficients)))
    return (terms * coefficients.norm if dict(recipe.basis_options).get("keep_norm") else terms).mean(2)
