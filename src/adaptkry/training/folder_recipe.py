"""What a recipe takes from a basis folder, or why it cannot: a folder has what was propagated, and no edges."""

from collections.abc import Collection
from typing import Any

from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.outofcore.basis_folder import BasisFolder

# What a basis folder fixes besides taus, directions and degree: it was made so, whatever a method's own settings are.
MADE: dict[str, Any] = {"normalise": False, "standardise": False, "hop_norm": False, "loops": "keep", "isolated": 1.0}
WHY = {
    "normalise": "features are scaled before they are propagated: scale them in the graph, and propagate again",
    "standardise": "features are scaled before they are propagated: scale them in the graph, and propagate again",
    "hop_norm": "a folder does not hold the norms of whole hops: leave it out, the weights of hops are learned",
    "loops": "self-loops belong to the graph that was propagated: change them there",
    "isolated": "a node without edges keeps its signal where a basis is made from disk",
}


def from_folder(made: Recipe) -> bool:
    """Whether the method can be trained on a basis folder."""
    is_stored = made.basis == "krylov" or made.degree == 0
    return is_stored and not made.propagates and made.optimiser != "logistic"


def recipe_for(folder: BasisFolder, method: str = "adaptkry", **changes) -> Recipe:
    """A method's settings on a folder: taus, directions and degree are the folder's unless you take fewer of them."""
    known = {name: value for name, value in changes.items() if value is not None}
    own = recipe(method, folder.name)
    stored = MADE | {"taus": folder.taus, "directions": folder.directions, "degree": folder.degree}
    if own.degree == 0:
        stored.pop("degree")
    made = recipe(method, folder.name, **stored | known)
    wanted_terms(folder, made)
    return made


def unlike(folder: BasisFolder, method: str, made: Recipe, asked: Collection[str] = ()) -> list[str]:
    """What the folder decides otherwise than the method would on the graph, as text; not what was asked for."""
    own = recipe(method, folder.name)
    names = [name for name in (*MADE, "taus", "directions", "degree") if name not in asked]
    return [f"{name} {getattr(made, name)}" for name in names if getattr(made, name) != getattr(own, name)]


def wanted_terms(folder: BasisFolder, made: Recipe) -> list[list[int]]:
    """For every term of the recipe the stored terms whose mean it is; or why the folder does not have them."""
    refuse_other_methods(made)
    for name, value in MADE.items():
        if getattr(made, name) != value:
            raise ValueError(
                f"{name} must be {value} with a basis folder, but {getattr(made, name)} came: {WHY[name]}."
            )
    taus = [_place(folder, "taus", tau) for tau in made.taus]
    directions = [_place(folder, "directions", direction) for direction in made.directions]
    if made.degree > folder.degree:
        raise ValueError(
            f"degree {made.degree} was asked for, but {folder.path} holds hops 0 .. {folder.degree}. Use --degree "
            f"{folder.degree} or less, or propagate again with --degree {made.degree}."
        )
    hops = range(made.degree + 1)
    if made.degree == 0 or made.terms == "first" or "input" in made.stages:
        return [[0]]  # x is the same for every direction and tau
    hops = hops[-1:] if made.terms == "last" else hops
    means = [taus] if made.tied else [[tau] for tau in taus]
    number = lambda d, tau, hop: (d * len(folder.taus) + tau) * (folder.degree + 1) + hop  # noqa: E731
    return [[number(d, tau, hop) for tau in mean] for d in directions for mean in means for hop in hops]


def refuse_other_methods(made: Recipe) -> None:
    """Methods that need edges while they train, or another basis than x, Px, ..., P^K x."""
    if from_folder(made):
        return
    if made.propagates:
        why = "propagates while it trains and needs the edges"
    elif made.optimiser == "logistic":
        why = "solves for all nodes at once"
    else:
        why = f"needs the {made.basis} basis, and a folder holds x, Px, ..., P^K x"
    others = ", ".join(name for name in METHODS if from_folder(recipe(name)))
    raise ValueError(f"{made.method} {why}: fit it on the graph itself. From a basis folder: {others}.")


def _place(folder: BasisFolder, name: str, value) -> int:
    stored = list(getattr(folder, name))
    if value not in stored:
        told = ", ".join(f"{one:g}" if name == "taus" else one for one in stored)
        raise ValueError(
            f"{name[:-1]} {value} was asked for, but {folder.path} holds {told}. Take from those, or propagate again "
            f"with --{name} {value}."
        )
    return stored.index(value)
