"""Tune: a search for settings, round by round. Validation nodes alone decide; the best settings are tested once.

A round's proposals depend on the trials of earlier rounds and on the seed only. So an interrupted search, between
rounds or inside one, continues as if it had not been interrupted.
"""

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from adaptkry.common import checks
from adaptkry.common.files import write
from adaptkry.common.journal import Journal
from adaptkry.graphs.splits import Splits
from adaptkry.models import recipe_text
from adaptkry.models.recipe import Recipe, check_names, recipe
from adaptkry.selection.grid import batches
from adaptkry.selection.sampler import propose
from adaptkry.selection.space import Space, space_of
from adaptkry.selection.trial import Trial, best_trial, recipe_of, train_trials
from adaptkry.training.data import GraphData, open_data, training_key
from adaptkry.training.fit import check_splits, fit, make_members
from adaptkry.training.run import Run, load_run
from adaptkry.training.state import Member

TRIALS = "trials.jsonl"
SETTINGS = "tuned.toml"
PROPOSALS_PER_TRIAL = 20  # after so many that were all tried before, the space counts as exhausted
NOTE = (
    "the settings are the best of {} trials on validation nodes, so their validation score is optimistic; test nodes "
    "were not used in the choice: quote the test score."
)


class Tuned(NamedTuple):
    """The run of the best settings, and all trials."""

    run: Run
    trials: list[Trial]


def tune(
    data: Any,
    method: str = "adaptkry",
    splits: Splits | str | None = None,
    *,
    trials: int = 40,
    together: int = 8,
    count: int = 10,
    seed: int = 0,
    device: str = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    on_trial: Callable[[Trial], object] = lambda _: None,
    **settings,
) -> Tuned:
    """Search a method's settings with Optuna's TPE sampler; return the run of the best ones, and all trials.

    Args:
        data: a graph: everything that `fit` accepts except basis folders.
        method: the method's name; its TOML file says what varies.
        splits: `Splits`, the name of a scheme, or None for class_balanced; a trial trains on all splits.
        trials: number of settings to try; the published ones and the defaults come first.
        together: number of settings proposed at once; those of one shape train as one batch.
        count: number of splits, where a scheme draws them.
        seed: of the proposals.
        device: "auto", "cpu" or "cuda".
        out: folder for `trials.jsonl`, `tuned.toml` and the run.
        resume: continue with the trials in `out`.
        on_trial: called with each trial.
        settings: settings that are fixed.
    """
    checks.positive_count(trials, "trials")
    checks.positive_count(together, "together")
    check_names(settings, inspect.signature(tune).parameters)
    source = open_data(data)
    if not isinstance(source, GraphData):
        raise TypeError(f"tune needs a graph; got the basis folder of {source.name}. Tune on the graph itself.")
    checks.classes(source.labels, source.info.class_names)
    splits = splits if isinstance(splits, Splits) else source.splits(splits, count)
    check_splits(splits, source.labels, test=True)
    search = make_search(source, method, splits, checks.count(seed, "seed"), together, device, settings)
    with _journal(out, search, resume) as journal:
        found = [record | {"trial": int(name)} for name, record in (journal.done if journal else {}).items()]
        for trial in found:
            on_trial(trial)

        def keep(new: Iterable[Trial]) -> None:
            for trial in new:
                found.append(trial)
                if journal:
                    journal.add(str(trial["trial"]), {k: v for k, v in trial.items() if k != "trial"})
                on_trial(trial)

        search.run(found, trials, keep)
        found.sort(key=lambda trial: trial["trial"])
        return Tuned(conclude(search, found, journal.folder if journal else None), found)


@contextmanager
def _journal(out: Path | str | None, search: "Search", resume: bool) -> Iterator[Journal | None]:
    if out is None:
        yield None
        return
    with Journal(
        out, search.key, command="tune", request=search.request, resume=resume, file=TRIALS, overwrite=False
    ) as journal:
        yield journal


@dataclass(frozen=True)
class Search:
    """What decides which trials are made, and how they are trained."""

    data: GraphData
    splits: Splits
    first: tuple[Recipe, ...]  # tried first: what was published for the graph, and the defaults
    space: Space
    seed: int
    together: int
    device: str

    @property
    def key(self) -> str:
        """A digest that must match on resuming: graph, splits, fixed settings, space, seed, trials per round."""
        members = make_members(self.first, self.splits, 1)
        parts = {"data": self.data.digest(self.splits), "space": repr(self.space)}
        return training_key(members, seed=self.seed, together=self.together, **parts)

    @property
    def request(self) -> dict[str, Any]:
        """The same in words, for the message about another search in the folder."""
        found = {"graph": self.data.name, "scheme": self.splits.scheme, "splits": len(self.splits)}
        found |= {"seed": self.seed, "together": self.together, "varied": list(self.space)}
        return found | {name: value for name, value in self.first[0].to_dict().items() if name not in self.space}

    def run(self, found: list[Trial], total: int, keep: Callable[[Iterable[Trial]], object]) -> None:
        """Train what has not been tried yet, round by round, batch by batch; `keep` adds new trials to `found`."""
        for start in range(0, total, self.together):
            before = sorted((t for t in found if t["trial"] < start), key=lambda t: t["trial"])
            wanted = self.round(start, before)
            known = {trial["trial"] for trial in found}
            todo = {one: i for i, one in enumerate(wanted, start) if i < total and i not in known}
            for batch in batches(todo):
                new = train_trials(self.data, batch, self.splits, self.device)
                common = {"seed": self.seed, "together": self.together}
                keep({"trial": todo[one]} | common | row for one, row in zip(batch, new, strict=True))
            if len(wanted) < self.together:  # nothing else to try
                return

    def round(self, start: int, before: Sequence[Trial]) -> list[Recipe]:
        """The trials from number `start` on, none of which was tried before; fewer where there are no more."""
        tried = {recipe_of(trial): trial["validation"] for trial in before}
        scored = [(vars(one), score) for one, score in tried.items()]
        proposals = propose(self.space, scored, self.round_seed(start))
        wanted = dict.fromkeys(self.first[start : start + self.together])
        for settings in itertools.islice(proposals, PROPOSALS_PER_TRIAL * self.together):
            if len(wanted) == self.together:
                break
            one = replace(self.first[0], **settings)
            if one not in tried and one not in self.first:
                wanted[one] = None
        return list(wanted)

    def round_seed(self, start: int) -> int:
        """Another seed for every round, or every round would begin with the same numbers."""
        return 1_000_003 * self.seed + start


def make_search(
    data: GraphData, method: str, splits: Splits, seed: int, together: int, device: str, settings: dict
) -> Search:
    """The search of a method's settings around those published for the graph."""
    published = data.recipe(method, **settings)
    data.check_recipe(published)
    defaults = recipe(method, None, **{**settings, **data.default_settings(settings)})
    first = tuple(dict.fromkeys([published, defaults]))
    fixed = {name for name, value in settings.items() if value is not None} | data.default_settings(settings).keys()
    return Search(data, splits, first, space_of(published, fixed, data.graph.is_directed), seed, together, device)


def conclude(search: Search, trials: Sequence[Trial], folder: Path | None) -> Run:
    """Train the best settings as `fit` would, test them, and write them down."""
    best = best_trial(trials)
    found, note = recipe_of(best), NOTE.format(len(trials))
    if folder:
        heading = f"Trial {best['trial']} of {len(trials)}, mean validation score {best['validation']:.4f}."
        usage = f"To use it again: adaptkry fit GRAPH --settings {SETTINGS}"
        write(folder / SETTINGS, recipe_text.to_toml(found, f"{heading}\n{usage}"))
        if (run := finished_run(folder, make_members([found], search.splits, 1), note)) is not None:
            return run
    run = fit(search.data, found, search.splits, device=search.device)
    run.info.warnings = [*run.info.warnings, note]
    if folder:
        run.save(folder)
    return run


def finished_run(folder: Path, members: Sequence[Member], note: str) -> Run | None:
    """The run that is in the folder already, if it is the one that would be trained."""
    try:
        run = load_run(folder)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or written in part
        return None
    return run if run.members == list(members) and note in run.info.warnings else None
