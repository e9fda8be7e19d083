"""A trial: settings trained on every split and scored on validation nodes. Its row has no test score."""

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
    """A row for each recipe, all of them trained as one batch; where that is not possible, one after the other."""
    place = choose_device(device)
    is_single = len(recipes) == 1
    fits = is_single or not batch_size_that_fits(data.graph, recipes[0], len(recipes) * len(splits), place)
    runs, reason = [], ""

    def train() -> None:
        runs.append(fit(data, recipes, splits, device=device, test=False))

    try:
        seconds = timing.seconds(train, place) / len(recipes) if fits else 0.0
    except (ValueError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
        seconds, reason = 0.0, str(error).partition("\n")[0] or type(error).__name__
    if not runs and not is_single:
        return [row for one in recipes for row in train_trials(data, [one], splits, device)]
    common = {"graph": data.name, "metric": data.info.metric, "scheme": splits.scheme, "splits": len(splits)}
    common |= {"split_seeds": list(splits.seeds), **rows.provenance(place)}
    scores = validation_scores(runs[0], len(splits)) if runs else [[None] * len(splits)]
    pairs = zip(recipes, scores, strict=True)
    return [trial_row(one, found, reason) | {"seconds": seconds} | common for one, found in pairs]


def validation_scores(run: Run, splits: int) -> list[list[float | None]]:
    """Validation scores per split, a list for each recipe; None where a training failed."""
    scores = [result.validation for result in run.results]
    finite = [score if score is not None and math.isfinite(score) else None for score in scores]
    return [finite[start : start + splits] for start in range(0, len(finite), splits)]


def trial_row(recipe: Recipe, scores: Sequence[float | None], reason: str) -> Trial:
    """Settings and scores; a trial without a score on every split has failed."""
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
    """The recipe of a row, possibly read from JSON."""
    return Recipe.from_dict(trial["settings"])


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The trial that is best on validation, the earliest of several; trials in order of their numbers."""
    good = [trial for trial in trials if trial["state"] == "complete"]
    if not good:
        raise ValueError(f"at least one trial must be trained; all {len(trials)} failed, first: {trials[0]['reason']}.")
    return max(good, key=lambda trial: trial["validation"])
