"""Compare several methods on the same graph and splits, with confidence intervals and paired differences."""

import inspect
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adaptkry.common import checks, errors, memory, rows
from adaptkry.common.files import digest_of, read_signed, signed, write
from adaptkry.common.intervals import corrected_half_width, half_width, nodes_ratio
from adaptkry.common.journal import Journal
from adaptkry.common.lookup import pick
from adaptkry.graphs.splits import Splits
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import check_names, given_settings, recipe
from adaptkry.selection.grid import choose, variations
from adaptkry.training.data import GraphData, open_graph, training_key
from adaptkry.training.fit import check_resume, checked_callbacks, choose_device, resolve_splits
from adaptkry.training.loop import Callback
from adaptkry.training.metrics import check_metrics
from adaptkry.training.run import Run

COMPARISON = "comparison.json"
COMPARISON_ROWS = "rows.jsonl"
Entry = dict[str, Any]


def compare(
    data: Any,
    methods: Sequence[str] | str | None = None,
    splits: Splits | str | None = None,
    *,
    count: int | None = None,
    metrics: str | Sequence[str] | None = None,
    device: str | torch.device = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
    on_entry: Callable[[Entry], object] = lambda _: None,
    **settings,
) -> list[Entry]:
    """Train several methods on the same splits; return one entry per method, best mean first.

    A method that cannot be trained has an entry with the reason.

    Args:
        data: everything that `fit` accepts except basis folders.
        methods: one or several names of methods, by default all. Each uses the settings published for this graph, or
            the best of its fallback grid on validation; the settings that do not vary are suggested ones (see
            `suggest`).
        splits: `Splits`, or the name of a scheme; None as in `fit`. All methods share them.
        count: number of splits of the scheme, as in `fit`.
        metrics: as in `fit`; the first chooses the settings.
        device: "auto", "cpu" or "cuda".
        out: folder for `comparison.json` and `rows.jsonl`, written after every method.
        resume: keep the finished methods in `out`; those that failed are trained again.
        callbacks: called with the training state every few epochs.
        on_entry: called with each new entry.
        settings: settings for all methods; None leaves the settings of each method.
    """
    check_names(settings, inspect.signature(compare).parameters)
    settings = given_settings(settings)
    check_resume(resume, out)
    callbacks = checked_callbacks(callbacks)
    methods = method_names(methods)
    check_for_any(methods, settings)
    device = str(choose_device(device))
    source = open_graph(data, "compare", metrics=metrics)
    checks.classes(source.labels, source.info.class_names)
    splits = resolve_splits(source, splits, count)
    check_metrics(source.metrics, source.labels, splits)
    with _journal(out, source, splits, settings, resume) if out is not None else nullcontext() as journal:
        about = {"warnings": list(splits.warnings), "graph": source.name, "metric": source.info.metric}
        about |= {"provenance": rows.provenance(choose_device(device))}
        finished = journal.done if journal else {}
        entries = {method: entry for method, entry in finished.items() if not entry["failed"]}
        for method in dict.fromkeys(methods):
            if method in entries:
                continue
            entries[method] = compare_one(source, method, splits, device, callbacks, settings)
            if journal:
                journal.add(method, entries[method])
                save(rank(list(entries.values())), journal.folder, **about)
            on_entry(entries[method])
        ranked = rank(list(entries.values()))
        if journal:
            save(ranked, journal.folder, **about)
    return ranked


def method_names(methods: Any) -> list[str]:
    """Return the names of methods; None and "all" are all of them."""
    if methods is None or methods == "all":
        return list(METHODS)
    names = [methods] if isinstance(methods, str) else list(methods) if isinstance(methods, Iterable) else []
    if not names:
        raise ValueError(f"methods must be a list of names; got {methods!r}. Use for example ['adaptkry', 'gcn'].")
    for name in names:
        pick(METHODS, name, "method")
    return names


def check_for_any(methods: Sequence[str], settings: dict[str, Any]) -> None:
    """Refuse settings that fit none of the methods; those that do not fit some of them are reasons in their entries."""
    found = []
    for method in methods:
        try:
            recipe(method, **settings)
        except (ValueError, TypeError) as error:
            found.append(error)
    if len(found) == len(methods):
        raise found[0]


def _journal(out: Path | str, source: GraphData, splits: Splits, settings: Mapping[str, Any], resume: bool) -> Journal:
    """Return the journal of the output folder, which records finished methods."""
    texts = {name: repr(value) for name, value in settings.items()}
    metrics = list(source.metrics)
    key = training_key([], data=source.digest(splits), settings=texts, metrics=metrics)
    request = {"metrics": metrics, "graph": source.name, "scheme": splits.scheme, "splits": len(splits), **texts}
    return Journal(out, key, command="compare", request=request, resume=resume)


def compare_one(
    source: GraphData, method: str, splits: Splits, device: str, callbacks: Iterable[Callback], settings: dict
) -> Entry:
    """Train one method; if it cannot be trained, the entry has the reason."""
    start = time.perf_counter()
    try:
        base = source.recipe(method, splits.train[0], **settings)
        fixed = [*settings, *source.input_settings(base)]
        recipes = [base] if source.has_published(method) else variations(base, fixed)
        with memory.peak(choose_device(device)) as peak:
            run, tried = choose(source, recipes, splits, device=device, callbacks=callbacks)
    except Exception as error:
        failed = errors.reason(error)
        if failed is None:  # a bug
            raise
        return {"method": method, "failed": failed, "mean": None, "rows": [], "tried": []}
    of_splits = [result.to_row() for result in run.results]
    statistics = summarise(run.test_scores)
    reason = None
    if statistics["mean"] is None:
        reason = next((result.failed for result in run.results if result.failed), "no training could be tested")
    return {
        "method": method,
        "failed": reason,
        **statistics,
        "scores": mean_scores(run),
        "seconds": time.perf_counter() - start,
        "parameters": run.parameters,
        "peak_bytes": peak.bytes,
        "tried": tried,
        "rows": of_splits,
    }


def mean_scores(run: Run) -> dict[str, dict[str, float | None]]:
    """Return mean, standard deviation and interval of every metric on test nodes, by name."""
    tested = [result.test_scores for result in run.results if result.test_scores]
    return {name: summarise(np.array([one[name] for one in tested])) for name in run.info.metrics or () if tested}


def test_scores(rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return the test score of each row; NaN if its training failed."""
    return np.array([np.nan if row["test"] is None else row["test"] for row in rows])


def summarise(scores: np.ndarray) -> dict[str, float | None]:
    """Return mean, standard deviation and 95 % confidence interval of the mean (Student's t over splits)."""
    good = scores[~np.isnan(scores)]
    if not len(good):
        return {"mean": None, "std": None, "low": None, "high": None}
    mean = float(good.mean())
    if len(good) == 1:
        return {"mean": mean, "std": None, "low": None, "high": None}
    half = half_width(good)
    return {"mean": mean, "std": float(good.std(ddof=1)), "low": max(0.0, mean - half), "high": min(1.0, mean + half)}


def rank(entries: list[Entry]) -> list[Entry]:
    """Sort by mean, best first; add to each entry its paired difference to the best, with its corrected interval."""
    good = [entry for entry in entries if entry["mean"] is not None]
    best = max(good, key=lambda entry: entry["mean"], default=None)
    for entry in good:
        differences = [
            row["test"] - best_row["test"]
            for row, best_row in zip(entry["rows"], best["rows"], strict=True)  # type: ignore[index]
            if row["test"] is not None and best_row["test"] is not None
        ]
        entry["difference"] = float(np.mean(differences)) if differences else None
        ratio = nodes_ratio(entry["rows"])
        entry["difference_half_width"] = corrected_half_width(np.array(differences), ratio) if differences else None
    return sorted(entries, key=lambda entry: -np.inf if entry["mean"] is None else entry["mean"], reverse=True)


def save(entries: Sequence[Entry], folder: Path, **about: Any) -> Path:
    """Write `rows.jsonl`, one row per training, and `comparison.json`, one entry per method and what they share."""
    lines = "".join(json.dumps(row, sort_keys=True) + "\n" for entry in entries for row in entry["rows"])
    write(folder / COMPARISON_ROWS, lines)
    methods = [{name: value for name, value in entry.items() if name != "rows"} for entry in entries]
    document = signed({**about, "rows": digest_of(lines), "methods": methods})
    write(folder / COMPARISON, json.dumps(document, indent=1))
    return folder / COMPARISON


def load_comparison(folder: Path) -> tuple[list[Entry], dict[str, Any]]:
    """Read what `save` wrote: the entries, and what they share."""
    remedy = "Repeat the comparison with --resume."
    document = read_signed(folder / COMPARISON, remedy)
    content = (folder / COMPARISON_ROWS).read_bytes() if (folder / COMPARISON_ROWS).is_file() else b""
    if digest_of(content) != document.get("rows"):
        raise ValueError(f"{folder / COMPARISON_ROWS} must belong to {COMPARISON}; got other rows, or none. {remedy}")
    found = rows.read(folder / COMPARISON_ROWS)
    methods = [entry | {"rows": [row for row in found if row["settings"]["method"] == entry["method"]]}
               for entry in document["methods"]]  # fmt: skip
    return methods, document
