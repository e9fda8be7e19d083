"""The portfolio of `auto`: recipes to try on any graph, read from `portfolio.toml`, most frequent winners first."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from adaptkry.models.recipe import Recipe, recipe
from adaptkry.training.data import GraphData

SETTINGS_OF_RECIPES = frozenset(field.name for field in fields(Recipe))


@cache
def table() -> Mapping[str, Any]:
    """Return the content of `portfolio.toml`: shapes and rates."""
    return tomllib.loads((files("adaptkry.selection") / "portfolio.toml").read_text(encoding="utf-8"))


def portfolio(data: GraphData, suggested: Recipe, settings: Mapping[str, Any]) -> Iterator[list[Recipe]]:
    """Yield groups of recipes that can train as one batch: every shape with all its rates.

    Args:
        data: the graph; shapes for directed graphs are left out if it is undirected.
        suggested: the settings suggested for the graph, on which shapes of its method are based.
        settings: settings of the user, which every recipe has.
    """
    for shape in table()["shapes"]:
        if shape.get("directed") and not data.graph.is_directed:
            continue
        base = suggested if shape["method"] == suggested.method else method_recipe(shape["method"], suggested)
        changes = {name: value for name, value in shape.items() if name in SETTINGS_OF_RECIPES and name != "method"}
        group = []
        for rates in table()["rates"][shape["rates"]]:
            try:
                found = replace(base, **_tuples(changes | rates | dict(settings)))
                data.check_recipe(found)
            except ValueError:
                continue  # the user's settings exclude this recipe
            group.append(found)
        if group:
            yield list(dict.fromkeys(group))


def method_recipe(method: str, suggested: Recipe, **settings) -> Recipe:
    """Return the default recipe of another method, with the scaling of features of the suggested one."""
    scaling = {"normalise": suggested.normalise, "standardise": suggested.standardise}
    return recipe(method, None, **scaling | settings)


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert lists of a TOML file to tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
