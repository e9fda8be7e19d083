"""The portfolio of `auto`: recipes to try on any graph, read from `portfolio.toml`, most frequent winners first."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any

from adaptkry.graphs.duplicates import shared_neighbours
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.models.suggest import INPUT_SETTINGS
from adaptkry.selection.trial import changed_recipe
from adaptkry.training.data import GraphData

SETTINGS_OF_RECIPES = frozenset(field.name for field in fields(Recipe))


@cache
def table() -> Mapping[str, Any]:
    """Return the content of `portfolio.toml`: shapes and rates."""
    return tomllib.loads((files("adaptkry.selection") / "portfolio.toml").read_text(encoding="utf-8"))


def portfolio(
    data: GraphData, published: Recipe | None, suggested: Recipe, settings: Mapping[str, Any], *, is_gpu: bool
) -> Iterator[list[Recipe]]:
    """Yield groups of recipes that can train as one batch: every shape with all its rates.

    Args:
        data: the graph; shapes for directed graphs are left out if it is undirected.
        published: the settings published for this graph, if there are any.
        suggested: the settings suggested for the graph.
        settings: settings of the user, which every recipe has.
        is_gpu: whether a GPU trains; otherwise slow shapes are left out.
    """
    width = 0 if data.graph.features is None else data.graph.features.shape[1]
    shared = shared_neighbours(data.graph)
    for shape in table()["shapes"]:
        name = shape["base"]
        if (shape.get("directed") and not data.graph.is_directed) or (name == "published" and published is None):
            continue
        if (shape.get("gpu") and not is_gpu) or width > shape.get("max_columns", width):
            continue
        if (shape.get("published") and not data.has_published(name)) or shared < shape.get("min_shared", 0.0):
            continue
        base = {"published": published, "suggested": suggested}.get(name)
        base = base or (data.recipe(name) if shape.get("published") else method_recipe(data, name, suggested))
        changes = {name: value for name, value in shape.items() if name in SETTINGS_OF_RECIPES}
        if "structure" in changes:
            changes["structure"] = min(changes["structure"], data.graph.nodes // 4)
        group = []
        for rates in rates_of(shape["rates"], base):
            found = changed_recipe(data, base, changes | rates | dict(settings))
            if found is not None:  # otherwise the settings of the user or of the base exclude it
                group.append(found)
        if group:
            yield list(dict.fromkeys(group))


def rates_of(name: str, base: Recipe) -> list[dict[str, float]]:
    """Return the learning rates, dropouts and decays of that name; "near" is around those of the base."""
    if name != "near":
        return table()["rates"][name]
    near = table()["near"]
    return [
        {
            "mlp_lr": base.mlp_lr * lr,
            "mlp_dropout": round(min(max(base.mlp_dropout + dropout, 0.0), 0.95), 3),
            "mlp_decay": base.mlp_decay * decay,
        }
        for lr, dropout, decay in zip(near["mlp_lr"], near["mlp_dropout"], near["mlp_decay"], strict=True)
    ]


def method_recipe(data: GraphData, method: str, suggested: Recipe, **settings) -> Recipe:
    """Return the default recipe of another method, with the suggested settings of its inputs."""
    return recipe(method, None, **input_settings(data, suggested) | settings)


def input_settings(data: GraphData, suggested: Recipe) -> dict[str, Any]:
    """Return how features are scaled and reduced; a graph without features has structure columns instead."""
    names = INPUT_SETTINGS if data.graph.features is not None else ("structure",)
    return {name: getattr(suggested, name) for name in names}
