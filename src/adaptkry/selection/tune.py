"""Tune: a search for settings, round by round. Validation nodes alone decide; the winner is tested once.

A round's proposals depend on the trials of earlier rounds and on the seed alone. So a search that was killed, at the
end of a round or in the middle of one, goes on from its rows as if it had not been.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from adaptkry.common import checks
from adaptkry.common import files as storage
from adaptkry.common import rows as results
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.models import recipe_text as settings
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.selection import grid as tuning
from adaptkry.selection import trial as trials
from adaptkry.selection.sampler import proposals
from adaptkry.selection.space import Space, space_of
from adaptkry.selection.trial import FILE, kept
from adaptkry.training import fit as fitting
from adaptkry.training import run as runs
from adaptkry.training.loop import Member
from adaptkry.training.run import Run

SETTINGS = "tuned.toml"
ASKS = 20  # proposals a wanted trial, before all there is to try counts as tried
NOTE = (
    "the settings are the best of {} trials on validation nodes, so their validation score is optimistic; test nodes "
    "took no part in the choice: quote the test score."
)


def tune(
    graph: Graph,
    method: str = "adaptkry",
    split: Splits | str | None = None,
    *,
    trials: int = 40,
    together: int = 8,
    count: int = 10,
    seed: int = 0,
    device: str = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    done: Callable[[dict], object] = lambda _: None,
    **changes,
) -> tuple[Run, list[dict]]:
    """Search a method's settings with Optuna's TPE sampler; return the run of the best ones, and a row a trial.

    Args:
        graph: the graph, with features and labels.
        method: the method's name; what varies is in `spaces.SPACES`.
        split: a `Splits`, a scheme's name, or None for class_balanced; a trial trains on all splits.
        trials: how many settings to try; the published ones and the defaults come first.
        together: how many are proposed at once; those of one shape train as one batch.
        count: number of splits, where a scheme makes them.
        seed: of the proposals.
        device: "auto", "cpu", "cuda".
        out: folder for `trials.jsonl`, `tuned.toml` and the run.
        resume: go on with the trials in `out`.
        done: called with each trial's row.
        changes: settings that are fixed.
    """
    folder = None if out is None else Path(out)
    for what, number in (("trials", trials), ("trials together", together)):
        if number < 1:
            raise ValueError(f"the number of {what} must be 1 or more, but {number} came.")
    checks.classes(graph.y, graph.info.class_names)
    split = split if isinstance(split, Splits) else splits.make(graph, split or "class_balanced", count)
    search = prepare(graph, method, split, checks.count(seed, "the seed"), together, device, changes)
    rows = [] if folder is None else kept(folder, search.key, resume)
    for row in rows:
        done(row)

    def keep(new: list[dict]) -> None:
        rows.extend(new)
        if folder:
            results.append(folder / FILE, new)
        for row in new:
            done(row)

    search.run(rows, trials, keep)
    rows.sort(key=lambda row: row["trial"])
    return conclude(search, rows, folder), rows


@dataclass(frozen=True)
class Search:
    """What decides which trials are made, and how they are trained."""

    graph: Graph
    split: Splits
    starts: tuple[Recipe, ...]  # tried first: what was published for the graph, and the defaults
    space: Space
    seed: int
    together: int
    device: str

    @cached_property
    def key(self) -> str:
        """A digest that must match on resuming: graph, splits, fixed settings, space, seed, trials a round."""
        members = fitting.members_of(self.starts, self.split, 1)
        whole = [fitting.describe(members, self.graph, self.split, None), repr(self.space), self.seed, self.together]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]

    def run(self, rows: list[dict], most: int, keep: Callable[[list[dict]], object]) -> None:
        """Try what is still to be tried, round by round, batch by batch; `keep` adds the new rows to `rows`."""
        for start in range(0, most, self.together):
            wanted = self.round(start, sorted((r for r in rows if r["trial"] < start), key=lambda r: r["trial"]))
            known = {row["trial"] for row in rows}
            todo = {made: i for i, made in enumerate(wanted, start) if i < most and i not in known}
            for batch in tuning.batches(list(todo)):
                new = trials.train(self.graph, batch, self.split, self.device)
                keep([self.signed(todo[made]) | row for made, row in zip(batch, new, strict=True)])
            if len(wanted) < self.together:  # there is nothing else to try
                return

    def signed(self, trial: int) -> dict:
        """What a row says of the search it belongs to."""
        return {"trial": trial, "search": self.key, "seed": self.seed, "together": self.together}

    def round(self, start: int, before: Sequence[dict]) -> list[Recipe]:
        """The trials from number `start` on, none of which was tried before; fewer where there are no more."""
        tried = {trials.recipe_of(row): row["validation"] for row in before}
        asked = proposals(self.space, [(vars(made), score) for made, score in tried.items()], self.seed_of(start))
        wanted = dict.fromkeys(self.starts[start : start + self.together])
        for found in itertools.islice(asked, ASKS * self.together):
            if len(wanted) == self.together:
                break
            made = replace(self.starts[0], **found)
            if made not in tried and made not in self.starts:
                wanted[made] = None
        return list(wanted)

    def seed_of(self, start: int) -> int:
        """Another seed for every round, else every round would begin with the same numbers."""
        return 1_000_003 * self.seed + start


def prepare(graph: Graph, method: str, split: Splits, seed: int, together: int, device: str, changes: dict) -> Search:
    """The search of a method's settings around those published for the graph."""
    published = recipe(method, graph.info.name, **changes)
    starts = tuple(dict.fromkeys([published, recipe(method, None, **changes)]))
    fixed = {name for name, value in changes.items() if value is not None}
    return Search(graph, split, starts, space_of(published, fixed, graph.is_directed), seed, together, device)


def conclude(search: Search, rows: Sequence[dict], folder: Path | None) -> Run:
    """Train the best settings as `fit` would, test them, and write them down."""
    found = trials.best(rows)
    made, note = trials.recipe_of(found), NOTE.format(len(rows))
    if folder:
        heading = f"Trial {found['trial']} of {len(rows)}, mean validation score {found['validation']:.4f}."
        use = f"To use it again: adaptkry fit GRAPH --settings {SETTINGS}"
        storage.write(folder / SETTINGS, settings.as_toml(made, f"{heading}\n{use}"))
        if (run := finished(folder, fitting.members_of([made], search.split, 1), note)) is not None:
            return run
    run = fitting.fit(search.graph, made, search.split, device=search.device)
    run.about["warnings"] = [*run.about["warnings"], note]
    if folder:
        run.save(folder)
    return run


def finished(folder: Path, wanted: Sequence[Member], note: str) -> Run | None:
    """The run that is in the folder already, if it is the one that would be trained."""
    try:
        run = runs.load_run(folder)
    except (OSError, ValueError):  # there is none, or it was being written when the program was killed
        return None
    return run if run.members == list(wanted) and note in run.about["warnings"] else None
