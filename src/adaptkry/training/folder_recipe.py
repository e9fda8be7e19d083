"""What a recipe takes from a basis folder, or why it cannot: a folder has what was propagated, and no edges."""

from collections.abc import Collection
from typing import Any

from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.outofcore.basis_folder import BasisFolder

# What a basis folder fixes besides taus, directions and degree, whatever a method's own settings are.
FIXED: dict[str, Any] = {
    "normalise": False,
    "standardise": False,
    "hop_norm": False,
    "self_loops": "keep",
    "isolated": 1.0,
}
REMEDY = {
    "normalise": "Features are scaled before they are propagated: scale them in the graph, and propagate again",
    "standardise": "Features are scaled before they are propagated: scale them in the graph, and propagate again",
    "hop_norm": "A folder does not hold the norms of whole hops: leave it out, the weights of hops are learned",
    "self_loops": "Self-loops belong to the graph that was propagated: change them there",
    "isolated": "A node without edges keeps its signal in a basis on disk",
}


def is_stored(recipe: Recipe) -> bool:
    """Whether the recipe can be trained on a basis folder, which holds x, Px, ..., P^K x."""
    return (recipe.basis == STORED_BASIS or recipe.degree == 0) and not recipe.needs_all_nodes


STORED_BASIS = "krylov"


def folder_recipe(folder: BasisFolder, method: str = "adaptkry", **settings) -> Recipe:
    """A method's settings; taus, directions and degree are the folder's unless `settings` asks for fewer of them."""
    given = {name: value for name, value in settings.items() if value is not None}
    stored = FIXED | {"taus": folder.taus, "directions": folder.directions, "degree": folder.degree}
    if recipe(method, folder.name).degree == 0:
        stored.pop("degree")
    found = recipe(method, folder.name, **stored | given)
    stored_terms(folder, found)
    return found


def overridden_settings(folder: BasisFolder, used: Recipe, requested: Collection[str] = ()) -> list[str]:
    """Settings that the folder decides differently from the method on the graph, as text; not those requested."""
    defaults = recipe(used.method, folder.name)
    names = [name for name in (*FIXED, "taus", "directions", "degree") if name not in requested]
    return [f"{name} {getattr(used, name)}" for name in names if getattr(used, name) != getattr(defaults, name)]


def stored_terms(folder: BasisFolder, recipe: Recipe) -> list[list[int]]:
    """For every term of the recipe the stored terms whose mean it is; an error if the folder does not have them."""
    check_method(recipe)
    for name, value in FIXED.items():
        if getattr(recipe, name) != value:
            raise ValueError(
                f"{name} must be {value} with a basis folder; got {getattr(recipe, name)}. {REMEDY[name]}."
            )
    taus = [_position(folder, "taus", tau) for tau in recipe.taus]
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
    means = [taus] if recipe.tied else [[tau] for tau in taus]
    number = lambda d, tau, hop: (d * len(folder.taus) + tau) * (folder.degree + 1) + hop  # noqa: E731
    return [[number(d, tau, hop) for tau in mean] for d in directions for mean in means for hop in hops]


def check_method(used: Recipe) -> None:
    """Refuse methods that need edges while they train, all nodes at once, or another basis."""
    if is_stored(used):
        return
    if used.propagates:
        reason = "propagates while it trains and needs the edges"
    elif used.is_exact:
        reason = "solves for all nodes at once"
    else:
        reason = f"needs the {used.basis} basis, and a folder holds x, Px, ..., P^K x"
    others = ", ".join(name for name in METHODS if is_stored(recipe(name)))
    raise ValueError(f"{used.method} {reason}: fit it on the graph itself. For a basis folder use one of {others}.")


def _position(folder: BasisFolder, name: str, value) -> int:
    stored = list(getattr(folder, name))
    if value not in stored:
        listed = ", ".join(f"{one:g}" if name == "taus" else one for one in stored)
        raise ValueError(
            f"{name} must be among {listed}, which {folder.path} holds; got {value}. Choose from those, or propagate "
            f"again with --{name} {value}."
        )
    return stored.index(value)
