"""The search of `auto`: what was trained, and what to train next in the time that is left."""

import itertools
import logging
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common.files import write
from adaptkry.common.journal import Journal
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import PER_MEMBER, Recipe
from adaptkry.models.suggest import REDUCED, reduced, suggest
from adaptkry.selection.auto_result import REFERENCES
from adaptkry.selection.ensemble_selection import selection_seconds
from adaptkry.selection.grid import alternatives, group_into_batches
from adaptkry.selection.portfolio import input_settings, method_recipe, portfolio
from adaptkry.selection.sampler import draw_at_random, has_optuna, propose
from adaptkry.selection.space import Space, around, space_of
from adaptkry.selection.trial import TrainedTrial, Trial, changed_recipe, recipe_of, train_trials
from adaptkry.training.data import GraphData
from adaptkry.training.loop import Callback
from adaptkry.training.run import Run
from adaptkry.training.run_folder import load_run, load_tensors, write_run
from adaptkry.training.state import TrainingState

log = logging.getLogger("adaptkry")

WORK = "trials"  # folder of the trained trials while the search runs
TOGETHER = 8  # recipes trained as one batch on a GPU
FIRST_RATES = 2  # recipes of a shape that are tried at first
LARGEST_SHARE = 0.4  # of the remaining time, which one batch may take
GPU_SHARE = 0.1  # of the whole time, which a batch after the first may take on a GPU from its first check on
GPU_RECIPE_SHARE = 0.1  # of the whole time, which a recipe of a shape may take on a GPU for the others to be trained
SHORT = 2.0  # seconds that a batch may take in any case, if there are so many
EXPECTED_SHARE = 0.25  # of the remaining time, which a batch should take: it has fewer recipes if they are slow
RESERVE = 0.03  # share of the time that is kept for the test and the files of the ensemble
SELECTION_SHARE = 0.1  # the largest share of the time that is kept for the selection of the ensemble
CPU_SETTINGS = {"hidden": 64, "filter_dropout": 0.0}  # dropout of all terms takes most of an epoch
WIDE_INPUT = 20_000_000  # entries of the features, from which recipes have reduced features on the CPU
BASELINE_SETTINGS = ("epochs", "patience", "reduce")  # those of all recipes that the baselines have too
KEPT_TRIALS = 64  # trials whose weights are kept: the best on validation
KEPT_OF_METHOD = 8  # of these, for every method: an ensemble of trials that are too similar gains little
VARIED_SHAPES = 4  # the search changes the settings of this many best shapes in turn, if they are
CLOSE, SLOW = 0.01, 5  # at most so far below the best validation score, and not so many times as slow as the best


@dataclass(frozen=True)
class Progress:
    """What `auto` is doing: for a progress line."""

    elapsed: float  # seconds
    time_limit: float  # seconds
    best: float | None  # best mean validation score so far
    trials: int  # finished trials
    what: str  # what is being trained


@dataclass
class AutoSearch:
    """The state of `auto`: what was trained, and what to train next in the time that is left."""

    data: GraphData
    splits: Splits
    device: str
    seed: int
    fixed: dict[str, Any]  # settings of the user
    start: float  # time.monotonic() at the beginning
    time_limit: float  # seconds
    test: bool = True  # whether to evaluate on test nodes
    trained: list[TrainedTrial] = field(default_factory=list)
    needed: float = math.inf  # seconds that the fastest batch that it ended would have taken
    missing: float = 0.0  # seconds by which the time limit was too short for that batch
    is_divided: bool = False  # whether memory did not suffice for some batch
    fitting: dict[str, int] = field(default_factory=dict)  # recipes of a method that fit in memory as one batch
    starts: list[float] = field(default_factory=list)  # seconds from the beginning of a batch to its first check
    spent_before: float = 0.0  # seconds of an interrupted search that is resumed
    journal: Journal | None = None
    on_progress: Callable[[Progress], object] = lambda _: None
    on_trial: Callable[[Trial], object] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, with those of an interrupted search."""
        return time.monotonic() - self.start + self.spent_before

    @property
    def left(self) -> float:
        """Seconds that are left for training."""
        return (1 - RESERVE) * self.time_limit - self.elapsed - self.selection_time

    @property
    def selection_time(self) -> float:
        """Seconds that are kept for the selection of the ensemble."""
        metric, classes = self.data.info.metric, self.data.graph.classes
        estimated = selection_seconds(len(self.trained) + 1, classes, self.splits, metric, self.device)
        return min(SELECTION_SHARE * self.time_limit, estimated)

    @property
    def is_gpu(self) -> bool:
        """Whether a GPU trains."""
        return self.device.startswith("cuda")

    @property
    def rows(self) -> list[Trial]:
        """The rows of all trials."""
        return [trained.row for trained in self.trained]

    def run(self) -> None:
        """Train batch after batch until the time is over or nothing is left to try."""
        suggested = suggest(self.data.graph, train=self.splits.train[0], **self.settings)
        self.data.check_recipe(suggested)  # settings of the user that do not fit the graph are refused
        is_published = not self.data.has_suggested("adaptkry")
        published = self.data.recipe("adaptkry", **self.settings) if is_published else None
        for batch in self.batches(published, suggested):
            if self.trained and (self.left < self.shortest(batch) or self.should_stop()):
                return
            self.train(batch)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of all recipes."""
        return search_settings(self.data.graph, self.device, self.fixed)

    def shortest(self, batch: Sequence[Recipe]) -> float:
        """Seconds below which it is not worth to begin a batch.

        That is a tenth of the fastest training so far, or the time to the first check of one of the last batches. For
        a baseline that was not tried yet it is the shortest time to a first check, so that the report can compare.
        """
        tried = {row["method"] for row in self.rows}
        if any(recipe.method in REFERENCES and recipe.method not in tried for recipe in batch):
            return min(self.starts, default=0.0)
        times = [row["seconds"] for row in self.rows if row["state"] == "complete"]
        return max(0.5, 0.1 * min(times, default=0.0), *self.starts[-3:])

    def together(self) -> int:
        """Return how many recipes to train as one batch; on the CPU a batch is no faster than its recipes in turn."""
        if not self.is_gpu:
            return 1
        times = [row["seconds"] for row in self.rows if row["state"] == "complete"]
        return max(1, min(TOGETHER, int(EXPECTED_SHARE * self.left / max(np.median(times), 1e-3)))) if times else 1

    def batches(self, published: Recipe | None, suggested: Recipe) -> Iterator[list[Recipe]]:
        """Yield batches of recipes: baselines, portfolio, search.

        Every shape of the portfolio is tried with one or two rates first; the better half of them with all rates.
        """
        baselines = [self.baselines(method, suggested) for method in REFERENCES]
        yield [published or suggested]
        yield from ([recipes[0]] for recipes in baselines)
        yield baselines[0][1:FIRST_RATES]  # of the GCN, which often needs another decay and is fast
        groups = list(portfolio(self.data, published, suggested, self.settings, is_gpu=self.is_gpu))
        for group in groups:
            yield group[: min(FIRST_RATES, self.together())]
        groups.sort(key=self.best_validation, reverse=True)
        for group in groups[: -(-len(groups) // 2)]:
            is_slow = self.is_gpu and self.mean_seconds(group) > GPU_RECIPE_SHARE * self.time_limit
            while group and not is_slow:
                size = self.together()
                batch, group[:] = group[:size], group[size:]
                yield batch
        if self.is_gpu:
            yield from (batch for recipes in baselines for batch in group_into_batches(recipes))
        empty = 0  # rounds in a row
        for number in itertools.count():
            batch = self.propose_batch(number, self.together())
            empty = 0 if batch else empty + 1
            if empty > 2 * VARIED_SHAPES:  # all settings of all shapes were tried
                return
            if batch:
                yield batch

    def best_validation(self, group: Sequence[Recipe]) -> float:
        """Return the best mean validation score of the recipes of a group so far; minus infinity if there is none."""
        scores = [row["validation"] for row in self.rows if row["validation"] is not None and recipe_of(row) in group]
        return max(scores, default=-math.inf)

    def mean_seconds(self, group: Sequence[Recipe]) -> float:
        """Return the mean time of the recipes of a group that were trained; 0 if there is none."""
        times = [row["seconds"] for row in self.rows if recipe_of(row) in group]
        return float(np.mean(times)) if times else 0.0

    def baselines(self, method: str, suggested: Recipe) -> list[Recipe]:
        """Return the recipes of a baseline: its default, then its fallback grid, from the same learning rate on."""
        shared = {name: value for name, value in self.settings.items() if name in BASELINE_SETTINGS}
        settings = input_settings(self.data, suggested) | shared
        first = method_recipe(self.data, method, suggested, **settings)
        others = sorted(alternatives(method, None, **settings), key=lambda other: other.mlp_lr != first.mlp_lr)
        return list(dict.fromkeys([first, *others]))

    def train(self, batch: Sequence[Recipe]) -> None:
        """Train the recipes of a batch that were not tried before, for at most a share of the time left."""
        tried = {recipe_of(row) for row in self.rows}
        recipes = [recipe for recipe in batch if recipe not in tried]
        if not recipes:
            return
        left = self.left
        end = time.monotonic() + max(LARGEST_SHARE * left, min(left, SHORT))
        # From the first check on: kernels are compiled before.
        allowed = max(GPU_SHARE * self.time_limit, SHORT) if self.is_gpu and self.trained else math.inf
        what = f"{recipes[0].method}, {len(recipes)} recipes" if len(recipes) > 1 else recipes[0].method
        checked, was_ended = [(0, time.monotonic())], False  # epochs and times

        def check(state: TrainingState) -> bool:
            nonlocal was_ended
            self.report(what)
            checked.append((state.epoch, time.monotonic()))
            is_over = time.monotonic() > min(end, checked[1][1] + allowed)
            if is_over and state.epoch < state.epochs and bool(state.running.any()):
                was_ended = True
                self.add_needed(whole_time(checked, state.epochs), left)
            return is_over or self.should_stop()

        self.report(what)
        callbacks: list[Callback] = [check]
        most = self.fitting.get(recipes[0].method, len(recipes))
        for start in range(0, len(recipes), most):
            part = recipes[start : start + most]
            found = train_trials(self.data, part, self.splits, self.device, predict=True, callbacks=callbacks,
                                 on_divided=self.log_divided)  # fmt: skip
            smallest = min(trained.together for trained in found)
            if smallest < len(part):
                self.fitting[recipes[0].method] = smallest
            for trained in found:
                self.add(trained._replace(row=trained.row | {"is_whole": not was_ended}))
        if len(checked) > 1:
            self.starts.append(checked[1][1] - checked[0][1])

    def add_needed(self, seconds: float, left: float) -> None:
        """Record how long a batch would have taken that the time limit ended, and how much time was left for it."""
        if seconds < self.needed:
            enough = seconds if seconds <= SHORT else seconds / LARGEST_SHARE
            self.needed, self.missing = seconds, max(0.0, enough - left) / (1 - RESERVE)

    def log_divided(self, message: str) -> None:
        """Log that memory does not suffice for whole batches, but only once."""
        if not self.is_divided:
            self.is_divided = True
            log.info(message)

    def add(self, trained: TrainedTrial) -> None:
        """Record a trial; weights are kept for the best ones only."""
        row = {"trial": len(self.trained), "elapsed": self.elapsed, **trained.row}
        self.trained.append(TrainedTrial(row, trained.run))
        if self.journal:
            if trained.run is not None:
                save_trial(trained.run, self.trial_folder(row["trial"]))
            self.journal.add(str(row["trial"]), {name: value for name, value in row.items() if name != "trial"})
        self.on_trial(row)
        kept = [i for i, other in enumerate(self.trained) if other.run and other.row["method"] not in REFERENCES]
        if len(kept) > KEPT_TRIALS:
            kept.sort(key=lambda i: self.trained[i].row["validation"] or -1.0, reverse=True)
            ranks = ranks_of_equal([self.trained[i].row["method"] for i in kept])
            worst = [i for i, rank in zip(kept, ranks, strict=True) if rank >= min(KEPT_OF_METHOD, max(ranks))][-1]
            self.trained[worst] = TrainedTrial(self.trained[worst].row, None)
            if self.journal:
                shutil.rmtree(self.trial_folder(worst), ignore_errors=True)

    def report(self, what: str) -> None:
        """Report progress."""
        scores = [row["validation"] for row in self.rows if row["validation"] is not None]
        best = max(scores, default=None)
        self.on_progress(Progress(self.elapsed, self.time_limit, best, len(self.trained), what))

    def propose_batch(self, number: int, together: int) -> list[Recipe]:
        """Return recipes around the best ones: even rounds change rates only, odd rounds one more setting."""
        good = sorted(
            (row for row in self.rows if row["state"] == "complete" and row["method"] not in REFERENCES),
            key=lambda row: row["validation"],
            reverse=True,
        )
        if not good:
            return []
        best, near = good[0], good[0]["validation"] - CLOSE
        close = [row for row in good if row["validation"] >= near and row["seconds"] <= SLOW * best["seconds"]]
        shapes = [group[0] for group in group_into_batches(map(recipe_of, close))]
        ranks = ranks_of_equal([shape.method for shape in shapes])
        bases = [shapes[i] for i in np.argsort(ranks, stable=True)][:VARIED_SHAPES]  # the best of every method first
        base = bases[number % len(bases)]
        space = space_of(base, set(self.settings), self.data.graph.is_directed)
        seed = 1_000_003 * self.seed + number
        same = [(vars(recipe_of(row)), row["validation"]) for row in good if row["method"] == base.method]
        shape_names = sorted(name for name in space if name not in PER_MEMBER)
        if number % 2 and shape_names:
            one = shape_names[number // 2 % len(shape_names)]
            changed = (
                changed_recipe(self.data, base, new) for new in _first(self.proposals({one: space[one]}, same, seed), 5)
            )
            base = next((recipe for recipe in changed if recipe not in (None, base)), None) or base
        rates = around({name: kind for name, kind in space.items() if name in PER_MEMBER}, vars(base))
        tried = {recipe_of(row) for row in self.rows}
        batch = [base] if base not in tried else []
        for settings in _first(self.proposals(rates, same, seed), 20 * together):
            if len(batch) == together:
                break
            candidate = changed_recipe(self.data, base, settings)
            if candidate is not None and candidate not in tried and candidate not in batch:
                batch.append(candidate)
        return batch

    def proposals(self, space: Space, scored: list, seed: int) -> Iterator[dict[str, Any]]:
        """Return proposals of Optuna, or random ones on a machine without it."""
        return propose(space, scored, seed) if has_optuna() else draw_at_random(space, seed)

    def trial_folder(self, number: int) -> Path:
        """Return the folder of a trial."""
        assert self.journal is not None
        return self.journal.folder / WORK / str(number)

    def restore(self) -> None:
        """Load the trials of an interrupted search."""
        assert self.journal is not None
        for name, record in self.journal.done.items():
            folder = self.trial_folder(int(name))
            run = load_trial(folder) if (folder / "run.json").exists() else None
            self.trained.append(TrainedTrial({"trial": int(name), **record}, run))
            self.spent_before = max(self.spent_before, float(record["elapsed"]))
        if any(row["state"] == "complete" for row in self.rows) and not any(trained.run for trained in self.trained):
            raise ValueError(
                f"a search continues with its trainings; those of {self.journal.folder} are missing. Use another "
                f"output folder."
            )


def ranks_of_equal(names: Iterable[str]) -> list[int]:
    """Return how many equal names precede each name.

    >>> ranks_of_equal(["gcn", "sage", "gcn"])
    [0, 0, 1]
    """
    seen: Counter[str] = Counter()
    ranks = []
    for name in names:
        ranks.append(seen[name])
        seen[name] += 1
    return ranks


def search_settings(graph: Graph, device: str, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of all recipes: those of the user, and on the CPU settings that save time."""
    if device.startswith("cuda"):
        return dict(fixed)
    width = 0 if graph.features is None else graph.features.shape[1]
    is_wide = graph.nodes * width > WIDE_INPUT and width > REDUCED
    return CPU_SETTINGS | (reduced(graph) if is_wide else {}) | dict(fixed)


def whole_time(checked: Sequence[tuple[int, float]], epochs: int) -> float:
    """Estimate the seconds of a whole training from epochs and times: its beginning, and its checks so far.

    >>> whole_time([(0, 10.0), (20, 15.0), (40, 16.0)], epochs=100)
    9.0
    """
    (_, begin), (first, first_time), (last, last_time) = checked[0], checked[1], checked[-1]
    if last == first:  # one check: the time of the preparation is unknown
        return (last_time - begin) * epochs / last
    return first_time - begin + (epochs - first) * (last_time - first_time) / (last - first)


def _first(values: Iterable, count: int) -> Iterator:
    """Yield at most `count` values."""
    return (value for value, _ in zip(values, range(count), strict=False))


def save_trial(run: Run, folder: Path) -> None:
    """Write a trained trial with its predictions."""
    from safetensors.torch import save

    assert run.predicted is not None
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "predicted.safetensors", save({"predicted": run.predicted.contiguous()}))
    write_run(run, folder)  # last: run.json marks a complete trial


def load_trial(folder: Path) -> Run:
    """Read what `save_trial` wrote."""
    run = load_run(folder)
    predicted = load_tensors((folder / "predicted.safetensors").read_bytes()).get("predicted")
    shape = (len(run.results), run.info.nodes, run.classes)
    if not isinstance(run, Run) or predicted is None or predicted.shape != shape:
        raise ValueError(f"{folder} must be a trial that adaptkry wrote; its predictions are damaged. Search again.")
    run.predicted = predicted
    return run
