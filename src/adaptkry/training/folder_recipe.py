"""Recipes on a basis folder: which stored terms a recipe reads, and errors for those that a folder does not hold.

A folder holds propagated features, x, Px, ..., P^K x for each tau and direction, and no edges.
"""

from collections.abc import Collection
from typing import Any

from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.outofcore.basis_folder import BasisFolder
from adaptkry.outofcore.request import check_stored_directions

STORED_BASIS = "krylov"
# Settings that a basis folder fixes for every method, besides taus, directions and degree.
FIXED: dict[str, Any] = {
    "normalise": False,
    "standardise": False,
    "hop_norm": False,
    "self_loops": "keep",
    "normalisation": "symmetric",
    "isolated": 1.0,
    "reduce": 0,
    "structure": 0,
    "similar_nodes": 0,
    "structure_layer": False,
}
REMEDY = {
    "normalise": "Features are scaled before they are propagated: scale them in the graph, and propagate again",
    "standardise": "Features are scaled before they are propagated: scale them in the graph, and propagate again",
    "hop_norm": "A folder does not hold the norms of whole hops: leave it out, the weights of hops are learned",
    "self_loops": "Self-loops belong to the graph that was propagated: change them there",
    "normalisation": "A basis on disk is computed with the symmetric matrix",
    "isolated": "A node without edges keeps its signal in a basis on disk",
    "reduce": "Features are reduced before they are propagated: reduce them in the graph, and propagate again",
    "structure": "Structure columns are computed from edges, which a folder does not hold: fit on the graph itself",
    "similar_nodes": "Similar nodes are found by their edges: fit on the graph itself",
    "structure_layer": "It needs the edges, which a folder does not hold: fit on the graph itself",
}


def is_stored(recipe: Recipe) -> bool:
    """Return whether the recipe can be trained on a basis folder."""
    return (recipe.basis == STORED_BASIS or recipe.degree == 0) and not (recipe.propagates or recipe.is_exact)


def folder_recipe(folder: BasisFolder, method: str = "adaptkry", **settings) -> Recipe:
    """Return the recipe of a method with the taus, directions and degree of the folder, updated by `settings`."""
    given = {name: value for name, value in settings.items() if value is not None}
    stored = FIXED | {"taus": folder.taus, "directions": folder.directions, "degree": folder.degree}
    if recipe(method, folder.known_as).degree == 0:
        stored.pop("degree")
    result = recipe(method, folder.known_as, **stored | given)
    stored_terms(folder, result)
    return result


def overridden_settings(folder: BasisFolder, actual: Recipe, requested: Collection[str] = ()) -> list[str]:
    """List "name value" of the settings in which the folder differs from the method on the graph, except requested."""
    defaults = recipe(actual.method, folder.known_as)
    names = [name for name in (*FIXED, "taus", "directions", "degree") if name not in requested]
    return [f"{name} {getattr(actual, name)}" for name in names if getattr(actual, name) != getattr(defaults, name)]


def stored_terms(folder: BasisFolder, recipe: Recipe) -> list[list[int]]:
    """Return, for every term of the recipe, the numbers of the stored terms whose mean it is.

    Raises:
        ValueError: the folder does not hold them.
    """
    check_method(recipe)
    for name, value in FIXED.items():
        if getattr(recipe, name) != value:
            raise ValueError(
                f"{name} must be {value} with a basis folder; got {getattr(recipe, name)}. {REMEDY[name]}."
            )
    taus = [_position(folder, "taus", tau) for tau in recipe.taus]
    check_stored_directions(recipe.directions)
    directions = [_position(folder, "directions", direction) for direction in recipe.directions]
    if recipe.degree > folder.degree:
        raise ValueError(
            f"degree must be at most {folder.degree}, the hops in {folder.path}; got {recipe.degree}. Use --degree "
            f"{folder.degree} or less, or propagate again with --degree {recipe.degree}."
        )
    if recipe.uses_features_only:
        return [[0]]  # x is the same for every direction and tau
    hops = range(recipe.degree + 1)
    hops = hops[-1:] if recipe.terms == "last" else hops
    tau_groups = [taus] if recipe.tied else [[tau] for tau in taus]

    def term_number(direction: int, tau: int, hop: int) -> int:
        return (direction * len(folder.taus) + tau) * (folder.degree + 1) + hop

    return [
        [term_number(direction, tau, hop) for tau in tau_group]
        for direction in directions
        for tau_group in tau_groups
        for hop in hops
    ]


def check_method(recipe: Recipe) -> None:
    """Refuse methods that need edges while they train, all nodes at once, or another basis."""
    if is_stored(recipe):
        return
    if recipe.propagates:
        reason = "propagates while it trains and needs the edges"
    elif recipe.is_exact:
        reason = "solves for all nodes at once"
    else:
        reason = f"needs the {recipe.basis} basis, and a folder holds x, Px, ..., P^K x"
    methods = ", ".join(stored_methods())
    raise ValueError(
        f"a basis folder needs one of the methods {methods}; got {recipe.method}, which {reason}. "
        f"Use one of those, or fit {recipe.method} on the graph itself."
    )


def stored_methods() -> list[str]:
    """Return the names of the methods that can be trained on a basis folder."""
    return [name for name in METHODS if is_stored(recipe(name))]


def _position(folder: BasisFolder, name: str, value) -> int:
    """Return the position of a tau or a direction among those of the folder."""
    stored = list(getattr(folder, name))
    if value not in stored:
        listed = ", ".join(f"{item:g}" if name == "taus" else item for item in stored)
        raise ValueError(
            f"{name} must be among {listed}, which {folder.path} holds; got {value}. Choose from those, or propagate "
            f"again with --{name} {value}."
        )
    return stored.index(value)
