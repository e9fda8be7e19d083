"""Auto: the best ensemble that can be trained on a graph in a given time, for users who do not want to choose settings.

First the suggested settings and the baselines (GCN and MLP) are trained, then the portfolio (`portfolio.toml`), then
settings around the best, proposed by Optuna. Greedy selection on validation nodes combines the trained members of every
split, and the ensemble is evaluated once on test nodes.
"""

import inspect
import itertools
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adaptkry.common import checks, timing
from adaptkry.common.files import write
from adaptkry.common.journal import Journal
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import PER_MEMBER, Recipe, check_names
from adaptkry.models.suggest import suggest
from adaptkry.selection.compare import half_width, summarise
from adaptkry.selection.ensemble_selection import greedy_shares, selection_seconds
from adaptkry.selection.grid import alternatives, group_into_batches
from adaptkry.selection.portfolio import method_recipe, portfolio
from adaptkry.selection.sampler import draw_at_random, has_optuna, propose
from adaptkry.selection.space import Space, around, space_of
from adaptkry.selection.trial import TRIALS, TrainedTrial, Trial, best_trial, recipe_of, train_trials
from adaptkry.training.data import GraphData, open_graph, training_key
from adaptkry.training.ensemble import Ensemble, combine_runs, score
from adaptkry.training.fit import choose_device, resolve_splits
from adaptkry.training.loop import Callback
from adaptkry.training.run import Run
from adaptkry.training.run_folder import load_run
from adaptkry.training.state import TrainingState

log = logging.getLogger("adaptkry")

SUMMARY = "auto.json"
WORK = "trials"  # folder of the trained trials while the search runs
REFERENCES = ("gcn", "mlp")  # always tried, so that the report can say what the edges contribute
TOGETHER = 8  # recipes trained as one batch on a GPU
FIRST_RATES = 2  # recipes of a shape that are tried at first
LARGEST_SHARE = 0.4  # of the remaining time, which one batch may take
EXPECTED_SHARE = 0.25  # of the remaining time, which a batch should take: it has fewer recipes if they are slow
RESERVE = 0.03  # share of the time that is kept for the test and the files of the ensemble
SELECTION_SHARE = 0.1  # the largest share of the time that is kept for the selection of the ensemble
SMALL_GRAPH = 500  # nodes, from which recipes have CPU_SETTINGS on the CPU
CPU_SETTINGS = {"hidden": 64, "filter_dropout": 0.0}  # dropout of all terms takes five times the rest of an epoch
KEPT_TRIALS = 64  # trials whose weights are kept: the best on validation
VARIED_SHAPES = 4  # the search changes the settings of this many best shapes in turn
FACTORS = ("method", "directions", "taus", "degree", "normalise", "standardise", "hop_norm", "combine_hops",
           "structure", "batch_norm", "layer_norm", "label_hops")  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """What `auto` is doing: for a progress line."""

    elapsed: float  # seconds
    time_limit: float  # seconds
    best: float | None  # best mean validation score so far
    trials: int  # finished trials
    what: str  # what is being trained


@dataclass(repr=False)
class AutoResult:
    """The result of `auto`.

    Args:
        ensemble: the ensemble; it predicts, is saved and is reported like a run.
        trials: one row per recipe tried, with validation scores only.
        baselines: test scores of each split [s] by name: largest class, mlp, gcn, and the best single training.
        effects: what mattered, as differences of validation scores; see `effects_of`.
        seconds: wall time.
    """

    ensemble: Ensemble
    trials: list[Trial]
    baselines: dict[str, list[float | None]]
    effects: list[dict[str, Any]]
    seconds: float

    def predict(self, data: Any) -> torch.Tensor:
        """Predict the most probable class of every node: [n]."""
        return self.ensemble.predict(data)

    def probabilities(self, data: Any) -> torch.Tensor:
        """Predict class probabilities: [n, c]."""
        return self.ensemble.probabilities(data)

    def comparison(self) -> list[dict[str, Any]]:
        """Return the test scores of the baselines and of the ensemble, which is the last entry.

        Each entry has `name`, `scores` per split [s] (None if not tested), `mean`, `std`, `low` and `high` (the 95 %
        interval of the mean), and the mean difference to the ensemble over the same splits, `difference`, with its
        `half_width`.
        """
        scores = {name: np.array(values, dtype=float) for name, values in self.baselines.items()}
        scores["ensemble"] = self.ensemble.test_scores
        found = []
        for name, of_splits in scores.items():  # [s]; NaN where nothing was tested
            differences = of_splits - scores["ensemble"]
            known = differences[~np.isnan(differences)]
            plain = [None if np.isnan(score) else float(score) for score in of_splits]  # NaN is not valid JSON
            entry = {"name": name, "scores": plain, **summarise(of_splits)}
            entry["difference"] = float(known.mean()) if len(known) else None
            found.append(entry | {"half_width": half_width(known)})
        return found

    def summary(self) -> str:
        """Return the score of the ensemble, and what it is compared with."""
        lines = [self.ensemble.summary(warnings=False)]
        lines += [
            f"  {entry['name']}: {100 * entry['mean']:.2f} %" for entry in self.comparison()[:-1] if entry["mean"]
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"AutoResult({len(self.trials)} trials, {self.seconds:.0f} s)\n{self.summary()}"


def auto(
    data: Any,
    splits: Splits | str | None = None,
    *,
    count: int | None = None,
    time_limit: float | str = 300.0,
    device: str = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    seed: int = 0,
    test: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Progress], object] = lambda _: None,
    on_trial: Callable[[Trial], object] = lambda _: None,
    **settings,
) -> AutoResult:
    """Train the best ensemble that the time allows; every choice is made on validation nodes.

    Args:
        data: everything that `fit` accepts except basis folders.
        splits: `Splits`, or the name of a scheme; None chooses as `fit` does.
        count: number of splits that a scheme draws.
        time_limit: from this call to its return, in seconds or as a text such as "5min". At least one recipe is
            trained, however short it is.
        device: "auto", "cpu" or "cuda".
        out: folder for the trials, the ensemble and `auto.json`.
        resume: continue the search in `out`; time that was spent before counts.
        seed: seed of the search.
        test: whether to evaluate on test nodes; if False, there are no baselines.
        should_stop: called every few epochs; if it returns True, the search ends with the best so far.
        on_progress: called every few epochs.
        on_trial: called with each trial.
        settings: settings that all recipes have, such as `epochs=200`.

    Ctrl-C ends the search with the best so far.

    >>> import adaptkry as ak
    >>> result = ak.auto(ak.csbm(nodes=200, seed=0), count=2, time_limit=2, device="cpu", epochs=10)
    >>> len(result.ensemble.results)
    2
    """
    start = time.monotonic()
    check_names(settings, inspect.signature(auto).parameters)
    seconds = timing.time_limit(time_limit)
    source = open_graph(data, "auto")
    checks.classes(source.labels, source.info.class_names)
    splits = resolve_splits(source, splits, count, test=test)
    device = str(choose_device(device))
    fixed = {name: value for name, value in settings.items() if value is not None}
    with _journal(out, source, splits, seed, test, fixed, resume) if out is not None else nullcontext() as journal:
        search = AutoSearch(source, splits, device, checks.count(seed, "seed"), fixed, start, seconds, test)
        search.on_progress, search.on_trial, search.should_stop = on_progress, on_trial, should_stop
        search.journal = journal
        if journal:
            if (journal.folder / SUMMARY).exists():
                return _finished(journal)
            search.restore()
        try:
            search.run()
        except KeyboardInterrupt as error:  # other subclasses, such as one for SIGTERM, end the program
            if type(error) is not KeyboardInterrupt or not any(trained.run for trained in search.trained):
                raise
            log.warning("interrupted; the best so far is used")
        return search.finish()


def _journal(
    out: Path | str, source: GraphData, splits: Splits, seed: int, test: bool, fixed: dict[str, Any], resume: bool
) -> Journal:
    """Return the journal of the output folder, which records finished trials."""
    texts = {name: repr(value) for name, value in fixed.items()}
    key = training_key([], data=source.digest(splits), seed=seed, test=test, settings=texts)
    request = {"graph": source.name, "scheme": splits.scheme, "splits": len(splits), "seed": seed, **texts}
    return Journal(out, key, command="auto", request=request, resume=resume, file=TRIALS, overwrite=False)


def _finished(journal: Journal) -> AutoResult:
    """Return the result of a finished search."""
    path = journal.folder / SUMMARY
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON; got a damaged file ({error}). Use another output folder.") from None
    ensemble = load_run(journal.folder)
    assert isinstance(ensemble, Ensemble)
    trials = [record | {"trial": int(name)} for name, record in journal.done.items()]
    return AutoResult(ensemble, trials, document["baselines"], document["effects"], document["seconds"])


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
    whole_trainings: int = 0  # batches that the time limit did not end
    needed: float = math.inf  # seconds that the fastest batch that it ended would have taken
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
    def rows(self) -> list[Trial]:
        """The rows of all trials."""
        return [trained.row for trained in self.trained]

    def run(self) -> None:
        """Train batch after batch until the time is over or nothing is left to try."""
        suggested = suggest(self.data.graph, train=self.splits.train[0], **self.settings)
        is_published = not self.data.has_suggested("adaptkry")
        published = self.data.recipe("adaptkry", **self.settings) if is_published else None
        for batch in self.batches(published, suggested):
            if self.trained and (self.left < self.shortest() or self.should_stop()):
                return
            self.train(batch)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of all recipes: those of the user, and on the CPU settings that save time."""
        is_slow = not self.device.startswith("cuda") and self.data.graph.nodes > SMALL_GRAPH
        return (CPU_SETTINGS if is_slow else {}) | self.fixed

    def shortest(self) -> float:
        """Seconds below which it is not worth to begin another batch.

        That is a tenth of the fastest training so far, or the time to the first check of one of the last batches.
        """
        times = [row["seconds"] for row in self.rows if row["state"] == "complete"]
        return max(0.5, 0.1 * min(times, default=0.0), *self.starts[-3:])

    def together(self) -> int:
        """Return how many recipes to train as one batch; on the CPU a batch is no faster than its recipes in turn."""
        if not self.device.startswith("cuda"):
            return 1
        times = [row["seconds"] for row in self.rows if row["state"] == "complete"]
        return max(1, min(TOGETHER, int(EXPECTED_SHARE * self.left / max(np.median(times), 1e-3)))) if times else 1

    def batches(self, published: Recipe | None, suggested: Recipe) -> Iterator[list[Recipe]]:
        """Yield batches of recipes: baselines, portfolio, search.

        Every shape of the portfolio is tried with one or two rates first; the better half of them with all rates.
        """
        baselines = [self.baselines(method, suggested) for method in REFERENCES]
        yield [published or suggested]
        yield from ([recipes[0]] for recipes in baselines)  # one of each first, since time may be short
        groups = list(portfolio(self.data, published, suggested, self.settings))
        for group in groups:
            yield group[: min(FIRST_RATES, self.together())]
        groups.sort(key=self.best_validation, reverse=True)
        for group in groups[: -(-len(groups) // 2)]:
            while group:
                size = self.together()
                batch, group[:] = group[:size], group[size:]
                yield batch
        if self.device.startswith("cuda"):
            yield from (batch for recipes in baselines for batch in group_into_batches(recipes))
        for number in itertools.count():
            batch = self.propose_batch(number, self.together())
            if not batch:
                return
            yield batch

    def best_validation(self, group: Sequence[Recipe]) -> float:
        """Return the best mean validation score of the recipes of a group so far; minus infinity if there is none."""
        scores = [row["validation"] for row in self.rows if row["validation"] is not None and recipe_of(row) in group]
        return max(scores, default=-math.inf)

    def baselines(self, method: str, suggested: Recipe) -> list[Recipe]:
        """Return the recipes of a baseline: its default first, then its fallback grid."""
        scaling = {"normalise": suggested.normalise, "standardise": suggested.standardise}
        settings = scaling | {name: value for name, value in self.fixed.items() if name in ("epochs", "patience")}
        return list(dict.fromkeys([method_recipe(method, suggested, **settings),
                                   *alternatives(method, None, **settings)]))  # fmt: skip

    def train(self, batch: Sequence[Recipe]) -> None:
        """Train the recipes of a batch that were not tried before, for at most a share of the time left."""
        tried = {recipe_of(row) for row in self.rows}
        recipes = [recipe for recipe in batch if recipe not in tried]
        if not recipes:
            return
        end = time.monotonic() + max(LARGEST_SHARE * self.left, min(self.left, 2.0))
        what = f"{recipes[0].method}, {len(recipes)} recipes" if len(recipes) > 1 else recipes[0].method
        checked, was_ended = [(0, time.monotonic())], False  # epochs and times

        def check(state: TrainingState) -> bool:
            nonlocal was_ended
            self.report(what)
            checked.append((state.epoch, time.monotonic()))
            is_over = time.monotonic() > end
            if is_over and state.epoch < state.epochs and bool(state.running.any()):
                was_ended, self.needed = True, min(self.needed, whole_time(checked, state.epochs))
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
                self.add(trained)
        self.whole_trainings += not was_ended
        if len(checked) > 1:
            self.starts.append(checked[1][1] - checked[0][1])

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
            worst = min(kept, key=lambda i: self.trained[i].row["validation"] or -1.0)
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
        bases = [group[0] for group in group_into_batches(map(recipe_of, good))][:VARIED_SHAPES]
        base = bases[number % len(bases)]
        space = space_of(base, set(self.settings), self.data.graph.is_directed)
        seed = 1_000_003 * self.seed + number
        same = [(vars(recipe_of(row)), row["validation"]) for row in good if row["method"] == base.method]
        shape_names = sorted(name for name in space if name not in PER_MEMBER)
        if number % 2 and shape_names:
            one = shape_names[number // 2 % len(shape_names)]
            changed = (self.valid(base, new) for new in _first(self.proposals({one: space[one]}, same, seed), 5))
            base = next((recipe for recipe in changed if recipe not in (None, base)), None) or base
        rates = around({name: kind for name, kind in space.items() if name in PER_MEMBER}, vars(base))
        tried = {recipe_of(row) for row in self.rows}
        batch = [base] if base not in tried else []
        for settings in _first(self.proposals(rates, same, seed), 20 * together):
            if len(batch) == together:
                break
            candidate = self.valid(base, settings)
            if candidate is not None and candidate not in tried and candidate not in batch:
                batch.append(candidate)
        return batch

    def proposals(self, space: Space, scored: list, seed: int) -> Iterator[dict[str, Any]]:
        """Return proposals of Optuna, or random ones on a machine without it."""
        return propose(space, scored, seed) if has_optuna() else draw_at_random(space, seed)

    def valid(self, base: Recipe, settings: dict[str, Any]) -> Recipe | None:
        """Return the recipe with these settings; None if they do not fit together."""
        try:
            candidate = replace(base, **settings)
            self.data.check_recipe(candidate)
        except ValueError:
            return None
        return candidate

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

    def finish(self) -> AutoResult:
        """Select the ensemble on validation nodes, evaluate it once on test nodes, and write it to the folder."""
        best_trial(self.rows)  # raises an error with the reason if all failed
        if not self.whole_trainings and math.isfinite(self.needed):
            log.warning(
                f"the time limit is too short for one whole training, which needs up to {self.needed:.0f} s; "
                "the best epochs so far are used"
            )
        parts = [trained.run for trained in self.trained if trained.run is not None]
        metric = self.data.info.metric
        seconds = max((1 - RESERVE) * self.time_limit - self.elapsed, self.selection_time)
        shares = greedy_shares(parts, self.data.labels, self.splits, metric, device=self.device, seconds=seconds)
        ensemble = combine_runs(parts, shares, self.data, self.splits, combine="greedy", test=self.test)
        baselines = self.baseline_scores(parts) if self.test else {}
        result = AutoResult(ensemble, self.rows, baselines, effects_of(self.rows), self.elapsed)
        if self.journal:
            ensemble.save(self.journal.folder)
            document = {"baselines": baselines, "effects": result.effects, "seconds": result.seconds}
            write(self.journal.folder / SUMMARY, json.dumps(document | {"time_limit": self.time_limit}, indent=1))
            shutil.rmtree(self.journal.folder / WORK, ignore_errors=True)
        return result

    def baseline_scores(self, parts: Sequence[Run]) -> dict[str, list[float | None]]:
        """Return test scores per split [s]: the largest class, each baseline and the best training on validation."""
        found: dict[str, list[float | None]] = {"largest class": list(self.largest_class())}
        for name in (*reversed(REFERENCES), "best single training"):
            of_method = [part for part in parts if name not in REFERENCES or part.recipes[0].method == name]
            found[name] = self.best_scores(of_method)
        return found

    def best_scores(self, parts: Sequence[Run]) -> list[float | None]:
        """Return the test score of the best member on validation of each split [s]."""
        scores: list[float | None] = []
        for split in range(len(self.splits)):
            candidates = [
                (result.validation, part, i)
                for part in parts
                for i, (member, result) in enumerate(zip(part.members, part.results, strict=True))
                if member.split == split and result.validation is not None
            ]
            if not candidates:
                scores.append(None)
                continue
            _, part, i = max(candidates, key=lambda candidate: candidate[0])
            assert part.predicted is not None
            mask = self.splits.test[split : split + 1]
            scores += score(self.data.info.metric, part.predicted[i : i + 1], self.data.labels, mask)
        return scores

    def largest_class(self) -> list[float]:
        """Return the test score per split [s] of always predicting the largest class of the training nodes."""
        labels, c = self.data.labels, self.data.graph.classes
        sizes = torch.stack([torch.bincount(labels[mask], minlength=c) for mask in self.splits.train])  # [s, c]
        constant = torch.nn.functional.one_hot(sizes.argmax(1), c).float()[:, None].expand(-1, len(labels), -1)
        return score(self.data.info.metric, constant, labels, self.splits.test)


def whole_time(checked: Sequence[tuple[int, float]], epochs: int) -> float:
    """Estimate the seconds of a whole training from epochs and times: its beginning, and its checks so far.

    >>> whole_time([(0, 10.0), (20, 15.0), (40, 16.0)], epochs=100)
    9.0
    """
    (_, begin), (first, first_time), (last, last_time) = checked[0], checked[1], checked[-1]
    if last == first:  # one check: the time of the preparation is unknown
        return (last_time - begin) * epochs / last
    return first_time - begin + (epochs - first) * (last_time - first_time) / (last - first)


def effects_of(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Compare the values of each factor that was varied: the best trial of a value with the best trial of all.

    Factors other than the method are compared among trials of adaptkry. Each entry has the factor, the value, the
    number of trials with it, and the mean difference of the validation scores over the splits with half the width of
    its 95 % interval; the best trial itself has difference 0.
    """
    good = [trial for trial in trials if trial["state"] == "complete"]
    found = []
    for factor in FACTORS:
        # The other methods have no such settings, or do not vary them.
        compared = good if factor == "method" else [one for one in good if one["settings"]["method"] == "adaptkry"]
        values: dict[str, list[Trial]] = {}
        for trial in compared:
            values.setdefault(_text(trial["settings"][factor]), []).append(trial)
        if len(values) < 2:
            continue
        best = max(compared, key=lambda trial: trial["validation"])
        for value, having in values.items():
            top = max(having, key=lambda trial: trial["validation"])
            differences = np.array(top["validations"]) - np.array(best["validations"])
            found.append(
                {"factor": factor, "value": value, "trials": len(having), "difference": float(differences.mean()),
                 "half_width": half_width(differences)}
            )  # fmt: skip
    return found


def _text(value: Any) -> str:
    """Return a setting as text."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _first(values: Iterable, count: int) -> Iterator:
    """Yield at most `count` values."""
    return (value for value, _ in zip(values, range(count), strict=False))


def save_trial(run: Run, folder: Path) -> None:
    """Write a trained trial with its predictions."""
    from safetensors.torch import save

    assert run.predicted is not None
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "predicted.safetensors", save({"predicted": run.predicted.contiguous()}))
    run.save(folder)  # last: run.json marks a complete trial


def load_trial(folder: Path) -> Run:
    """Read what `save_trial` wrote."""
    from safetensors.torch import load_file

    run = load_run(folder)
    assert isinstance(run, Run)
    run.predicted = load_file(folder / "predicted.safetensors")["predicted"]
    return run
