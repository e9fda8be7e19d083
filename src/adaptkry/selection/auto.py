"""Auto: the best ensemble that can be trained on a graph in a given time, for users who do not want to choose settings.

First the suggested settings and the baselines (GCN and MLP) are trained, then the portfolio (`portfolio.toml`), then
settings around the best, proposed by Optuna. Greedy selection on validation nodes combines the trained members of every
split, and the ensemble is evaluated once on test nodes.
"""

import inspect
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from adaptkry.common import checks, timing
from adaptkry.common.files import read_signed, signed, write
from adaptkry.common.journal import Journal, finished_parts
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import check_names, given_settings
from adaptkry.selection.auto_result import AutoResult, baseline_scores, effects_of
from adaptkry.selection.auto_search import RESERVE, WORK, AutoSearch, Progress
from adaptkry.selection.ensemble_selection import greedy_shares
from adaptkry.selection.trial import TRIALS, Trial, best_trial
from adaptkry.training.data import GraphData, check_trainable, open_graph, training_key
from adaptkry.training.ensemble import Ensemble, combine_runs
from adaptkry.training.fit import check_resume, choose_device, resolve_splits
from adaptkry.training.metrics import check_metrics
from adaptkry.training.run_folder import load_run, run_digest, write_ensemble

log = logging.getLogger("adaptkry")

SUMMARY = "auto.json"
SLOWER = 3  # times as long as estimated that a selection may take if no time is left


def auto(
    data: Any,
    splits: Splits | str | None = None,
    *,
    count: int | None = None,
    time_limit: float | str = 300.0,
    task: str | None = None,
    metrics: str | Sequence[str] | None = None,
    device: str | torch.device = "auto",
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
        task: "classification", or None; `fit` and `tune` have other tasks.
        metrics: as in `fit`; the first chooses the settings.
        device: "auto", "cpu" or "cuda".
        out: folder for the trials, the ensemble and `auto.json`.
        resume: continue the search in `out`; time that was spent before counts.
        seed: seed of the search.
        test: whether to evaluate on test nodes; if False, there are no baselines.
        should_stop: called every few epochs; if it returns True, the search ends with the best so far.
        on_progress: called every few epochs.
        on_trial: called with each trial.
        settings: settings that do not vary, such as `epochs=200`. The baselines take `epochs`, `patience` and `reduce`.

    Ctrl-C ends the search with the best so far.

    >>> import adaptkry as ak
    >>> result = ak.auto(ak.csbm(nodes=200, seed=0), count=2, time_limit=2, device="cpu", epochs=10)
    >>> len(result.ensemble.results)
    2
    """
    start = time.monotonic()
    check_names(settings, inspect.signature(auto).parameters)
    check_resume(resume, out)
    test = checks.flag(test, "test")
    for name, given in (("should_stop", should_stop), ("on_progress", on_progress), ("on_trial", on_trial)):
        checks.function(given, name)
    seconds = timing.time_limit(time_limit)
    source = open_graph(data, "auto", metrics=metrics, task=task)
    if source.task != "classification":
        raise ValueError(
            f"auto combines probabilities of classes; got the task {source.task}. Use tune, or fit with restarts and "
            "combine='mean'."
        )
    check_trainable(source)
    splits = resolve_splits(source, splits, count, test=test)
    check_metrics(source.metrics, source.truth, splits, test=test)
    device = str(choose_device(device))
    fixed = given_settings(settings)
    with _journal(out, source, splits, seed, test, fixed, resume) if out is not None else nullcontext() as journal:
        search = AutoSearch(source, splits, device, checks.count(seed, "seed"), fixed, start, seconds, test)
        search.on_progress, search.on_trial, search.should_stop = on_progress, on_trial, should_stop
        search.journal = journal
        if journal:
            if (journal.folder / SUMMARY).exists():
                shutil.rmtree(journal.folder / WORK, ignore_errors=True)  # left by a kill after the summary was written
                return finished_search(journal.folder)
            search.restore()
        try:
            search.run()
        except KeyboardInterrupt as error:  # other subclasses, such as one for SIGTERM, end the program
            if type(error) is not KeyboardInterrupt or not any(trained.run for trained in search.trained):
                raise
            log.warning("interrupted; the best so far is used")
        return finish(search)


def _journal(
    out: Path | str, source: GraphData, splits: Splits, seed: int, test: bool, fixed: dict[str, Any], resume: bool
) -> Journal:
    """Return the journal of the output folder, which records finished trials."""
    texts = {name: repr(value) for name, value in fixed.items()}
    metrics = list(source.metrics)
    key = training_key([], data=source.digest(splits), seed=seed, test=test, settings=texts, metrics=metrics)
    request = {"graph": source.name, "scheme": splits.scheme, "splits": len(splits), "seed": seed, "metrics": metrics}
    return Journal(out, key, command="auto", request=request | texts, resume=resume, file=TRIALS, overwrite=False)


def finished_search(folder: Path) -> AutoResult:
    """Return the result of a finished search; one whose parts do not belong together is refused."""
    path, remedy = folder / SUMMARY, "Restore it, or use another output folder."
    document, ensemble = read_signed(path, remedy), load_run(folder)
    if document.get("run") != run_digest(folder) or not isinstance(ensemble, Ensemble):
        raise ValueError(f"{path} must belong to the ensemble beside it; got the summary of another one. {remedy}")
    trials = [record | {"trial": int(name)} for name, record in finished_parts(folder / TRIALS)[0].items()]
    return AutoResult(ensemble, trials, document["baselines"], document["effects"], document["seconds"])


def finish(search: AutoSearch) -> AutoResult:
    """Select the ensemble on validation nodes, evaluate it once on test nodes, and write it to the folder."""
    best_trial(search.rows)  # raises an error with the reason if all failed
    if math.isfinite(search.needed) and not any(row["is_whole"] for row in search.rows):
        log.warning(
            f"the time limit is too short for one whole training, which needs up to {search.needed:.1f} s; the best "
            f"epochs so far are used. Use a time limit that is at least {math.ceil(search.missing)} s longer, in "
            "a new folder"
        )
    parts = [trained.run for trained in search.trained if trained.run is not None]
    metric = search.data.info.metric
    left = (1 - RESERVE) * search.time_limit - search.elapsed
    seconds = max(left, SLOWER * search.selection_time)  # a training that ended late must not cost the selection
    shares = greedy_shares(parts, search.data.labels, search.splits, metric, device=search.device, seconds=seconds)
    ensemble = combine_runs(parts, shares, search.data, search.splits, combine="greedy", test=search.test)
    baselines = baseline_scores(parts, search.data, search.splits) if search.test else {}
    result = AutoResult(ensemble, search.rows, baselines, effects_of(search.rows), search.elapsed)
    if search.journal:
        write_ensemble(ensemble, search.journal.folder)
        document = {"baselines": baselines, "effects": result.effects, "seconds": result.seconds}
        document |= {"time_limit": search.time_limit, "run": run_digest(search.journal.folder)}
        write(search.journal.folder / SUMMARY, json.dumps(signed(document), indent=1))
        shutil.rmtree(search.journal.folder / WORK, ignore_errors=True)
    return result
