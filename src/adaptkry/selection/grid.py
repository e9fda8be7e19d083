"""Grid search: every recipe is trained on every split, and the best mean validation score is chosen.

Recipes that differ only in rates, dropouts or initial weights train as one batch, others one after the other.
"""

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adaptkry.graphs.splits import Splits
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.training.data import TrainingData, open_data
from adaptkry.training.fit import fit
from adaptkry.training.loop import Callback
from adaptkry.training.run import Run


def alternatives(method: str, graph: str | None, **settings) -> list[Recipe]:
    """Return one recipe if settings are published for this graph, else every combination of the fallback grid."""
    base = recipe(method, graph, **settings)
    given = [name for name, value in settings.items() if value is not None]
    return [base] if graph in METHODS[method].published else variations(base, given)


def variations(base: Recipe, fixed: Collection[str] = ()) -> list[Recipe]:
    """Return a recipe with every combination of its method's fallback grid, without the settings that are fixed."""
    grid = METHODS[base.method].fallback_grid
    grid = {name: values for name, values in grid.items() if name not in fixed}
    return [replace(base, **dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]


def group_into_batches(recipes: Iterable[Recipe]) -> list[list[Recipe]]:
    """Group recipes that can train as one batch."""
    groups: dict[Recipe, list[Recipe]] = {}
    for member_recipe in recipes:
        shared = replace(member_recipe, **{name: getattr(Recipe(), name) for name in member_recipe.per_member})
        groups.setdefault(shared, []).append(member_recipe)
    return list(groups.values())


def choose(
    data: Any,
    recipes: Sequence[Recipe],
    splits: Splits,
    *,
    device: str = "auto",
    callbacks: Iterable[Callback] = (),
) -> tuple[Run, list[dict]]:
    """Train all recipes; return the run of the best one on validation, and a row for each of them."""
    source: TrainingData = open_data(data)
    best, tried = None, []
    for batch in group_into_batches(recipes):
        run = fit(source, batch, splits, device=device, callbacks=callbacks)
        for start in range(0, len(run.results), len(splits)):
            part = run.only(range(start, start + len(splits)))
            score = validation_score(part)
            tried.append({"settings": part.results[0].settings, "validation": score, "seeds": len(part.results)})
            if best is None or score > validation_score(best):
                best = part
    assert best is not None
    return best, tried


def validation_score(run: Run) -> float:
    """Return the mean validation score; a member that failed counts as 0."""
    return float(np.mean([result.validation or 0.0 for result in run.results]))
