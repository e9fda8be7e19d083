"""Compare several methods on the same splits of one or several graphs, with intervals and paired differences."""

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
from adaptkry.graphs.load import NAMES
from adaptkry.graphs.splits import Splits
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import check_names, given_settings, recipe
from adaptkry.selection.comparison_table import Comparison, paired_differences
from adaptkry.selection.grid import choose, variations
from adaptkry.training.data import GraphData, check_trainable, open_graph, training_key
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
    splits: Splits | str | Sequence[Splits] | None = None,
    *,
    count: int | None = None,
    task: str | None = None,
    metrics: str | Sequence[str] | None = None,
    device: str | torch.device = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    baseline: str | None = None,
    callbacks: Iterable[Callback] = (),
    on_entry: Callable[[Entry], object] = lambda _: None,
    **settings,
) -> Comparison:
    """Train several methods on the same splits; return one entry per graph and method, best mean first.

    A method that cannot be trained has an entry with the reason. `compare(...).table()` is a table for a paper.

    Args:
        data: everything that `fit` accepts except basis folders; or a list of several of them, such as names and
            graphs. A list of paths is one graph in several files, unless each of them is a whole graph: a folder or
            an `.npz` file.
        methods: one or several names of methods, by default all. Each uses the settings published for the graph, or
            the best of its fallback grid on validation; the settings that do not vary are suggested ones (see
            `suggest`).
        splits: `Splits`, or the name of a scheme; None as in `fit`. All methods share them. For several graphs a list
            of `Splits`, one per graph.
        count: number of splits of the scheme, as in `fit`.
        task: "classification" or "multilabel"; None is that of the graph.
        metrics: as in `fit`; the first chooses the settings.
        device: "auto", "cpu" or "cuda".
        out: folder for `comparison.json` and `rows.jsonl`, and for the table as `table.md`, `table.tex` and
            `table.csv`; written after every method.
        resume: keep the finished methods in `out`; those that failed are trained again.
        baseline: the method with which the table in `out` compares all others; by default the best of each graph.
        callbacks: called with the training state every few epochs.
        on_entry: called with each new entry.
        settings: settings for all methods; None leaves the settings of each method.
    """
    check_names(settings, inspect.signature(compare).parameters)
    settings = given_settings(settings)
    check_resume(resume, out)
    callbacks = checked_callbacks(callbacks)
    checks.function(on_entry, "on_entry")
    methods = method_names(methods)
    check_for_any(methods, settings if task is None else settings | {"task": task})
    if baseline is not None:
        pick(dict.fromkeys(methods), baseline, "baseline among the methods of the comparison")
    device = str(choose_device(device))
    sources = open_graphs(data, metrics, task)
    of_graph = splits_of(sources, splits, count)
    for source, own in zip(sources, of_graph, strict=True):
        check_metrics(source.metrics, source.truth, own)
    with _journal(out, sources, of_graph, settings, resume) if out is not None else nullcontext() as journal:
        graphs = [
            {"graph": source.name, "metric": source.info.metric, "warnings": list(own.warnings)}
            for source, own in zip(sources, of_graph, strict=True)
        ]
        provenance = rows.provenance(choose_device(device)) | rows.origin()
        about = {"graphs": graphs, "baseline": baseline, "provenance": provenance}
        finished = journal.done if journal else {}
        entries = {name: entry for name, entry in finished.items() if not entry["failed"]}
        for source, own in zip(sources, of_graph, strict=True):
            for method in dict.fromkeys(methods):
                name = method if len(sources) == 1 else f"{method} on {source.name}"
                if name in entries:
                    continue
                entries[name] = compare_one(source, method, own, device, callbacks, settings)
                if journal:
                    journal.add(name, entries[name])
                    save(rank(list(entries.values())), journal.folder, **about)
                on_entry(entries[name])
        ranked = rank(list(entries.values()))
        if journal:
            save(ranked, journal.folder, **about)
    return ranked


def open_graphs(data: Any, metrics: Any = None, task: str | None = None) -> list[GraphData]:
    """Open one or several graphs, whose names must differ."""
    given = data if is_several(data) else [data]
    sources = [open_graph(one, "compare", metrics=metrics, task=task) for one in given]
    for source in sources:
        if source.task == "regression":
            raise ValueError(
                "compare ranks shares such as accuracy; got the task regression. Use fit or tune per method."
            )
        check_trainable(source)
    names = [source.name for source in sources]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"the graphs of a comparison must have different names; got {twice} {names.count(twice)} times. Leave one "
            f"out, or rename its file or folder."
        )
    return sources


def is_several(data: Any) -> bool:
    """Return whether data are several graphs: a list, unless it holds the paths of the files of one graph."""
    if not isinstance(data, list | tuple) or not data:
        return False
    if any(not isinstance(one, str | Path) or str(one).lower() in NAMES for one in data):
        return True
    return all(Path(one).is_dir() or Path(one).suffix.lower() == ".npz" for one in data)


def splits_of(sources: Sequence[GraphData], splits: Any, count: int | None) -> list[Splits]:
    """Return the splits of each graph, checked against its labels."""
    is_list = isinstance(splits, list | tuple) and all(isinstance(own, Splits) for own in splits)
    given: list[Any] = [*splits] if is_list else [splits] * len(sources)
    if len(given) != len(sources) or (isinstance(splits, Splits) and len(sources) > 1):
        raise ValueError(
            f"splits of {len(sources)} graphs must be the name of a scheme or a list with one Splits per graph; got "
            f"{f'a list of {len(given)}' if is_list else 'one Splits'}. Use for example splits='stratified'."
        )
    return [resolve_splits(source, own, count) for source, own in zip(sources, given, strict=True)]


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


def _journal(
    out: Path | str,
    sources: Sequence[GraphData],
    splits: Sequence[Splits],
    settings: Mapping[str, Any],
    resume: bool,
) -> Journal:
    """Return the journal of the output folder, which records finished methods."""
    texts = {name: repr(value) for name, value in settings.items()}
    pairs = list(zip(sources, splits, strict=True))
    digests = [source.digest(own) for source, own in pairs]
    named = {one.name: digest for (one, _), digest in zip(pairs, digests, strict=True)}
    metrics = [list(one.metrics) for one in sources]
    data = digests[0] if len(digests) == 1 else named
    key = training_key([], data=data, settings=texts, metrics=metrics[0] if len(metrics) == 1 else metrics)
    parts: dict[str, list] = {"graph": [one.name for one, _ in pairs], "scheme": [own.scheme for _, own in pairs]}
    parts |= {"splits": [len(own) for _, own in pairs], "metrics": metrics}
    request = {name: part[0] if len(part) == 1 else part for name, part in parts.items()}
    return Journal(out, key, command="compare", request=request | texts, resume=resume)


def compare_one(
    source: GraphData, method: str, splits: Splits, device: str, callbacks: Iterable[Callback], settings: dict
) -> Entry:
    """Train one method; if it cannot be trained, the entry has the reason."""
    start = time.perf_counter()
    about = {"method": method, "graph": source.name, "metric": source.info.metric}
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
        return about | {"failed": failed, "mean": None, "rows": [], "tried": []}
    of_splits = [result.to_row() for result in run.results]
    statistics = summarise(run.test_scores)
    reason = None
    if statistics["mean"] is None:
        reason = next((result.failed for result in run.results if result.failed), "no training could be tested")
    return about | {
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


def rank(entries: Sequence[Entry]) -> Comparison:
    """Sort the entries of each graph by mean, best first; add paired differences to the best of the same graph."""
    graphs = dict.fromkeys(entry["graph"] for entry in entries)
    return Comparison(
        entry for graph in graphs for entry in _rank([entry for entry in entries if entry["graph"] == graph])
    )


def _rank(entries: list[Entry]) -> list[Entry]:
    """Rank the entries of one graph; add the paired difference to the best, with its corrected interval."""
    good = [entry for entry in entries if entry["mean"] is not None]
    best = max(good, key=lambda entry: entry["mean"], default=None)
    for entry in good:
        differences = paired_differences(entry, best)  # type: ignore[arg-type]  # there is a best if one is good
        ratio = nodes_ratio(entry["rows"])
        entry["difference"] = float(np.mean(differences)) if len(differences) else None
        entry["difference_half_width"] = corrected_half_width(differences, ratio) if len(differences) else None
    return sorted(entries, key=lambda entry: -np.inf if entry["mean"] is None else entry["mean"], reverse=True)


def save(entries: Comparison, folder: Path, *, baseline: str | None, **about: Any) -> Path:
    """Write the table, `rows.jsonl`, one row per training, and `comparison.json`, the entries and what they share."""
    table = entries.table(baseline if any(entry["method"] == baseline for entry in entries) else None)
    for suffix, text in (("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv())):
        write(folder / f"table.{suffix}", text)
    lines = "".join(json.dumps(row, sort_keys=True) + "\n" for entry in entries for row in entry["rows"])
    write(folder / COMPARISON_ROWS, lines)
    methods = [{name: value for name, value in entry.items() if name != "rows"} for entry in entries]
    document = signed({**about, "baseline": baseline, "rows": digest_of(lines), "methods": methods})
    write(folder / COMPARISON, json.dumps(document, indent=1))
    return folder / COMPARISON


def load_comparison(folder: Path) -> tuple[Comparison, dict[str, Any]]:
    """Read what `save` wrote: the entries, and what they share."""
    remedy = "Repeat the comparison with --resume."
    document = read_signed(folder / COMPARISON, remedy)
    content = (folder / COMPARISON_ROWS).read_bytes() if (folder / COMPARISON_ROWS).is_file() else b""
    if digest_of(content) != document.get("rows"):
        raise ValueError(f"{folder / COMPARISON_ROWS} must belong to {COMPARISON}; got other rows, or none. {remedy}")
    if "graphs" not in document:
        raise ValueError(f"{folder / COMPARISON} must name its graphs; it is from an older version. {remedy}")
    found = rows.read(folder / COMPARISON_ROWS)
    methods = Comparison(
        entry | {"rows": [row for row in found if (row["graph"], row["settings"]["method"]) == named]}
        for entry in document["methods"]
        for named in [(entry["graph"], entry["method"])]
    )
    return methods, document
