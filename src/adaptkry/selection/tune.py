"""Tune: a search for the best settings on validation nodes, round by round; the best settings are tested once.

The proposals of a round depend only on the trials of earlier rounds and on the seed. Hence an interrupted search,
between rounds or within one, continues as if it had not been interrupted.
"""

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from adaptkry.common import checks
from adaptkry.common.files import write
from adaptkry.common.journal import Journal
from adaptkry.graphs.splits import Splits
from adaptkry.models import recipe_text
from adaptkry.models.recipe import Recipe, check_names, given_settings, recipe
from adaptkry.selection.grid import group_into_batches
from adaptkry.selection.sampler import propose
from adaptkry.selection.space import Space, space_of
from adaptkry.selection.trial import TRIALS, Trial, best_trial, changed_recipe, rank_value, recipe_of, train_trials
from adaptkry.training.data import GraphData, check_trainable, open_graph, training_key
from adaptkry.training.fit import check_resume, choose_device, fit, make_members, resolve_splits
from adaptkry.training.metrics import check_metrics
from adaptkry.training.run import Run
from adaptkry.training.run_folder import load_run, write_run
from adaptkry.training.state import Member

SETTINGS = "tuned.toml"
MAX_TRIALS, MAX_TOGETHER = 100_000, 1000
PROPOSALS_PER_TRIAL = 20  # if all of these were tried before, the space counts as exhausted
NOTE = (
    "the settings are the best of {} trials on validation nodes, so their validation score is optimistic; test nodes "
    "were not used in the choice: quote the test score."
)


class Tuned(NamedTuple):
    """The result of `tune`: the run of the best settings, and all trials."""

    run: Run
    trials: list[Trial]


def tune(
    data: Any,
    method: str = "adaptkry",
    splits: Splits | str | None = None,
    *,
    trials: int = 40,
    together: int = 8,
    count: int | None = None,
    seed: int = 0,
    task: str | None = None,
    metrics: str | Sequence[str] | None = None,
    device: str | torch.device = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    on_trial: Callable[[Trial], object] = lambda _: None,
    **settings,
) -> Tuned:
    """Search the settings of a method with Optuna's TPE sampler; return the run of the best ones, and all trials.

    Args:
        data: everything that `fit` accepts except basis folders.
        method: name of the method; its TOML file lists the settings that vary.
        splits: `Splits`, or the name of a scheme; None as in `fit`. Every trial trains on all splits.
        trials: number of settings to try; the published or suggested ones and the defaults are tried first.
        together: number of trials per round; those of one shape train as one batch.
        count: number of splits of the scheme, as in `fit`.
        seed: seed of the sampler.
        task: as in `fit`.
        metrics: as in `fit`; the first chooses the settings.
        device: "auto", "cpu" or "cuda".
        out: folder for `trials.jsonl`, `tuned.toml` and the run.
        resume: continue after the trials in `out`.
        on_trial: called with each trial.
        settings: settings that do not vary, such as `hidden=64`.
    """
    checks.positive_count(trials, "trials", MAX_TRIALS)
    checks.positive_count(together, "together", MAX_TOGETHER)
    check_resume(resume, out)
    checks.function(on_trial, "on_trial")
    device = str(choose_device(device))
    check_names(settings, inspect.signature(tune).parameters)
    source = open_graph(data, "tune", metrics=metrics, task=task)
    check_trainable(source)
    splits = resolve_splits(source, splits, count)
    check_metrics(source.metrics, source.truth, splits)
    search = make_search(source, method, splits, checks.count(seed, "seed"), together, device, settings)
    with _journal(out, search, resume) if out is not None else nullcontext() as journal:
        finished = [record | {"trial": int(name)} for name, record in (journal.done if journal else {}).items()]
        for trial in finished:
            on_trial(trial)

        def record(new: Iterable[Trial]) -> None:
            for trial in new:
                finished.append(trial)
                if journal:
                    journal.add(str(trial["trial"]), {k: v for k, v in trial.items() if k != "trial"})
                on_trial(trial)

        search.run(finished, trials, record)
        finished.sort(key=lambda trial: trial["trial"])
        return Tuned(fit_best(search, finished, journal.folder if journal else None), finished)


def _journal(out: Path | str, search: "Search", resume: bool) -> Journal:
    """Return the journal of the output folder, which records finished trials."""
    return Journal(out, search.key, command="tune", request=search.request, resume=resume, file=TRIALS, overwrite=False)


@dataclass(frozen=True)
class Search:
    """Everything that decides which settings are tried and how they are trained."""

    data: GraphData
    splits: Splits
    first: tuple[Recipe, ...]  # the recipes to try first: published or suggested, and the defaults
    space: Space
    seed: int
    together: int  # trials per round
    device: str

    @property
    def key(self) -> str:
        """Digest of graph, splits, fixed settings, space, seed and trials per round, which must match on resuming."""
        members = make_members(self.first, self.splits, 1)
        parts = {"data": self.data.digest(self.splits), "space": repr(self.space)}
        return training_key(members, seed=self.seed, together=self.together, metrics=self.data.metrics, **parts)

    @property
    def request(self) -> dict[str, Any]:
        """The same by name, so that the error about another search in the folder can say what differs."""
        request = {"graph": self.data.name, "scheme": self.splits.scheme, "splits": len(self.splits)}
        request |= {"seed": self.seed, "together": self.together, "varied": list(self.space)}
        request |= {"metrics": list(self.data.metrics)}
        return request | {name: value for name, value in self.first[0].to_dict().items() if name not in self.space}

    def run(self, finished: list[Trial], total: int, record: Callable[[Iterable[Trial]], object]) -> None:
        """Train the missing trials, round by round and batch by batch; `record` adds new trials to `finished`."""
        for start in range(0, total, self.together):
            earlier = sorted((t for t in finished if t["trial"] < start), key=lambda t: t["trial"])
            recipes = self.propose_round(start, earlier)
            numbers = {trial["trial"] for trial in finished}
            missing = {candidate: i for i, candidate in enumerate(recipes, start) if i < total and i not in numbers}
            for batch in group_into_batches(missing):
                rows = [trained.row for trained in train_trials(self.data, batch, self.splits, self.device)]
                common = {"seed": self.seed, "together": self.together}
                record({"trial": missing[r]} | common | row for r, row in zip(batch, rows, strict=True))
            if len(recipes) < self.together:  # the space is exhausted
                return

    def propose_round(self, start: int, earlier: Sequence[Trial]) -> list[Recipe]:
        """Return new recipes for the trials from number `start` on; fewer than `together` if there are no more."""
        tried = {recipe_of(t): None if t["validation"] is None else rank_value(t) for t in earlier}
        scored = [(vars(candidate), score) for candidate, score in tried.items()]
        proposals = propose(self.space, scored, self.round_seed(start))
        recipes = dict.fromkeys(self.first[start : start + self.together])  # an ordered set
        for settings in itertools.islice(proposals, PROPOSALS_PER_TRIAL * self.together):
            if len(recipes) == self.together:
                break
            candidate = changed_recipe(self.data, self.first[0], settings)
            if candidate is not None and candidate not in tried and candidate not in self.first:
                recipes[candidate] = None
        return list(recipes)

    def round_seed(self, start: int) -> int:
        """Return the seed of a round; with one seed for all, every round would draw the same numbers."""
        return 1_000_003 * self.seed + start


def make_search(
    data: GraphData, method: str, splits: Splits, seed: int, together: int, device: str, settings: dict
) -> Search:
    """Return the search of a method's settings, around those published or suggested for the graph."""
    start = data.recipe(method, splits.train[0], **settings)
    data.check_recipe(start)
    scaling = data.input_settings(start)
    task = {} if data.task == "classification" else {"task": data.task}
    defaults = recipe(method, None, **settings | scaling | task)
    fixed = given_settings(settings).keys() | scaling.keys()
    space = space_of(start, fixed, data.graph.is_directed)
    return Search(data, splits, tuple(dict.fromkeys([start, defaults])), space, seed, together, device)


def fit_best(search: Search, trials: Sequence[Trial], folder: Path | None) -> Run:
    """Train and test the recipe of the best trial; write its settings and its run to the folder."""
    best = best_trial(trials)
    best_recipe, note = recipe_of(best), NOTE.format(len(trials))
    if folder:
        heading = f"Trial {best['trial']} of {len(trials)}, mean validation score {best['validation']:.4f}."
        usage = f"To use it again: adaptkry fit GRAPH --settings {SETTINGS}"
        write(folder / SETTINGS, recipe_text.to_toml(best_recipe, f"{heading}\n{usage}"))
        if (run := finished_run(folder, make_members([best_recipe], search.splits, 1), note)) is not None:
            return run
    run = fit(search.data, best_recipe, search.splits, device=search.device)
    run.info.warnings = [*run.info.warnings, note]
    if folder:
        write_run(run, folder)
    return run


def finished_run(folder: Path, members: Sequence[Member], note: str) -> Run | None:
    """Return the run in the folder if it is the one that would be trained, else None."""
    try:
        run = load_run(folder)
    except (OSError, ValueError):  # there is no run, or only a part of it
        return None
    if isinstance(run, Run) and run.members == list(members) and note in run.info.warnings:
        return run
    return None
