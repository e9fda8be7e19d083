"""A trial: settings trained on every split and scored on validation nodes; its row has no test score."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from adaptkry.common import errors, rows, timing
from adaptkry.common.intervals import nodes_ratio
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import Recipe
from adaptkry.training.data import GraphData
from adaptkry.training.fit import choose_device, fit
from adaptkry.training.loop import Callback
from adaptkry.training.memory_estimate import fits, graph_workload
from adaptkry.training.metrics import pick_metric
from adaptkry.training.run import Run, join_splits

log = logging.getLogger("adaptkry")

TRIALS = "trials.jsonl"  # the journal of a search
Trial = dict[str, Any]


class TrainedTrial(NamedTuple):
    """The row of a trial, and its run; None if it could not be trained."""

    row: Trial
    run: Run | None
    together: int = 1  # number of recipes that were trained as one batch


def train_trials(
    data: GraphData,
    recipes: Sequence[Recipe],
    splits: Splits,
    device: str,
    *,
    predict: bool = False,
    callbacks: Iterable[Callback] = (),
    on_divided: Callable[[str], object] = log.info,
) -> list[TrainedTrial]:
    """Train recipes as one batch, or as several smaller ones if they do not fit in memory.

    Args:
        data: the graph.
        recipes: settings that can train together.
        splits: the splits.
        device: "auto", "cpu" or "cuda".
        predict: whether to keep the class probabilities of all nodes.
        callbacks: as in `fit`.
        on_divided: called with a message if smaller batches are used.
    """
    torch_device, callbacks = choose_device(device), list(callbacks)
    is_single = len(recipes) == 1
    most = int(splits.train.sum(1).max())
    work = graph_workload(data.graph, recipes[0], len(recipes) * len(splits), most, torch_device)
    is_fitting = is_single or fits(work, torch_device)
    runs, reason = [], ""

    def train() -> None:
        options = {"device": device, "test": False, "predict": predict, "callbacks": callbacks}
        runs.append(fit_within_memory(data, recipes, splits, on_divided, options))

    try:
        seconds = timing.seconds(train, torch_device) / len(recipes) if is_fitting else 0.0
    except Exception as error:
        seconds, reason = 0.0, errors.reason(error)
        if reason is None:  # a bug
            raise
    if not runs and not is_single:
        half = len(recipes) // 2
        on_divided(f"{len(recipes)} recipes do not fit in memory as one batch; smaller batches are used")
        options = {"predict": predict, "callbacks": callbacks, "on_divided": lambda _: None}
        parts = (recipes[:half], recipes[half:])
        return [trained for part in parts for trained in train_trials(data, part, splits, device, **options)]
    common = {"graph": data.name, "metric": data.info.metric, "scheme": splits.scheme, "splits": len(splits)}
    sizes = [splits.sizes(split) for split in range(len(splits))]
    common |= {"validation_ratio": nodes_ratio(sizes, "validation")}
    common |= {"split_seeds": list(splits.seeds), **rows.provenance(torch_device)}
    found = []
    for number, recipe in enumerate(recipes):
        run = runs[0].only(range(number * len(splits), (number + 1) * len(splits))) if runs else None
        scores = [None] * len(splits) if run is None else validation_scores(run)
        found.append(TrainedTrial(trial_row(recipe, scores, reason) | {"seconds": seconds} | common, run, len(recipes)))
    return found


def fit_within_memory(
    data: GraphData,
    recipes: Sequence[Recipe],
    splits: Splits,
    on_divided: Callable[[str], object],
    options: dict[str, Any],
) -> Run:
    """Train recipes as one batch; if memory does not suffice for a single recipe, some of the splits at a time."""
    try:
        return fit(data, recipes, splits, **options)
    except Exception as error:
        if not errors.is_out_of_memory(error) or len(recipes) > 1 or len(splits) == 1:
            raise
    on_divided(f"{len(splits)} splits do not fit in memory as one batch; smaller batches are used")
    half = len(splits) // 2
    halves = splits.only(range(half)), splits.only(range(half, len(splits)))
    first, second = (fit_within_memory(data, recipes, part, lambda _: None, options) for part in halves)
    return join_splits(first, second, half)


def validation_scores(run: Run) -> list[float | None]:
    """Return the validation score of each member; None if its training failed."""
    scores = [result.validation for result in run.results]
    return [score if score is not None and math.isfinite(score) else None for score in scores]


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


def changed_recipe(data: GraphData, base: Recipe, settings: Mapping[str, Any]) -> Recipe | None:
    """Return a recipe with other settings; None if they do not fit together or do not fit the graph."""
    try:
        changed = replace(base, **settings)
        data.check_recipe(changed)
    except ValueError as error:
        if not errors.is_declared(error):
            raise
        return None
    return changed


def recipe_of(trial: Trial) -> Recipe:
    """Return the recipe of a row, also of one read from JSON."""
    return Recipe.from_dict(trial["settings"])


def rank_value(trial: Trial) -> float:
    """Return the validation score of a trial as a number of which the greatest is best."""
    metric = pick_metric(trial["metric"], trial["settings"].get("task", "classification"))
    return trial["validation"] if metric.greater_is_better else -trial["validation"]


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the best trial on validation; the first of equally good ones."""
    good = [trial for trial in trials if trial["state"] == "complete"]
    if not good:
        raise ValueError(
            f"at least one trial must be trained; all {len(trials)} failed, the first because: "
            f"{trials[0]['reason'].rstrip('.')}."
        )
    return max(good, key=rank_value)
