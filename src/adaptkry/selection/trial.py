"""A trial: settings trained on every split and scored on validation nodes; its row has no test score."""

import math
from collections.abc import Sequence
from typing import Any

from adaptkry.common import rows, timing
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import Recipe
from adaptkry.training.data import GraphData, batch_size_that_fits
from adaptkry.training.fit import choose_device, fit
from adaptkry.training.run import Run

Trial = dict[str, Any]


def train_trials(data: GraphData, recipes: Sequence[Recipe], splits: Splits, device: str) -> list[Trial]:
    """Train recipes as one batch, or one after the other if they do not fit in memory; return a row for each."""
    torch_device = choose_device(device)
    is_single = len(recipes) == 1
    members = len(recipes) * len(splits)
    fits = is_single or not batch_size_that_fits(data.graph, recipes[0], members, torch_device)
    runs, reason = [], ""

    def train() -> None:
        runs.append(fit(data, recipes, splits, device=device, test=False))

    try:
        seconds = timing.seconds(train, torch_device) / len(recipes) if fits else 0.0
    except (ValueError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
        seconds, reason = 0.0, str(error).partition("\n")[0] or type(error).__name__
    if not runs and not is_single:
        return [row for recipe in recipes for row in train_trials(data, [recipe], splits, device)]
    common = {"graph": data.name, "metric": data.info.metric, "scheme": splits.scheme, "splits": len(splits)}
    common |= {"split_seeds": list(splits.seeds), **rows.provenance(torch_device)}
    scores = validation_scores(runs[0], len(splits)) if runs else [[None] * len(splits)]
    return [
        trial_row(recipe, recipe_scores, reason) | {"seconds": seconds} | common
        for recipe, recipe_scores in zip(recipes, scores, strict=True)
    ]


def validation_scores(run: Run, splits: int) -> list[list[float | None]]:
    """Return the validation scores of each recipe [recipes][splits]; None if a training failed."""
    scores = [result.validation for result in run.results]
    finite = [score if score is not None and math.isfinite(score) else None for score in scores]
    return [finite[start : start + splits] for start in range(0, len(finite), splits)]


def trial_row(recipe: Recipe, scores: Sequence[float | None], reason: str) -> Trial:
    """Return the row of a trial; it has failed unless there is a score on every split."""
    good = [score for score in scores if score is not None]
    is_complete = len(good) == len(scores)
    failed = reason or f"the loss or the score was not finite on {len(scores) - len(good)} of {len(scores)} splits"
    return {
        "settings": recipe.to_dict(),
        "method": recipe.method,
        "state": "complete" if is_complete else "failed",
        "reason": None if is_complete else failed,
        "validation": sum(good) / len(good) if is_complete else None,
        "validations": list(scores),
    }


def recipe_of(trial: Trial) -> Recipe:
    """Return the recipe of a row, also of one read from JSON."""
    return Recipe.from_dict(trial["settings"])


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the best trial on validation; the first of equally good ones."""
    good = [trial for trial in trials if trial["state"] == "complete"]
    if not good:
        raise ValueError(
            f"at least one trial must be trained; all {len(trials)} failed, the first because: {trials[0]['reason']}."
        )
    return max(good, key=lambda trial: trial["validation"])
