"""A leaderboard: several methods on the same graph and the same splits, with intervals and paired differences."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy import special

from adaptkry.common import files as storage
from adaptkry.common import memory
from adaptkry.common import rows as results
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.selection import grid as tuning
from adaptkry.training import fit as fitting
from adaptkry.training.run import Run


def compare(
    graph: Graph,
    methods: Sequence[str],
    split: Splits,
    changes: dict | None = None,
    *,
    device: str = "auto",
    kept: Sequence[dict] = (),
    look: Callable[..., object] = lambda _: None,
    done: Callable[[dict], object] = lambda _: None,
) -> list[dict]:
    """One entry a method, best mean first; a method that cannot run here is an entry with a reason.

    Args:
        graph: the graph.
        methods: names; each uses the settings published for this graph, or chooses among `methods.FALLBACK_GRID`.
        split: the splits all of them share.
        changes: settings that all methods get; None leaves a method's own.
        device: "auto", "cpu", "cuda".
        kept: entries of a comparison that was stopped; they are not trained again, and none is left out.
        look: called with the training every few epochs.
        done: called with each new entry as soon as it is there.
    """
    entries, there = list(kept), {one["method"] for one in kept}
    for method in dict.fromkeys(methods):
        if method not in there:
            entries.append(entry(graph, method, split, device, look, changes or {}))
            done(entries[-1])
    ranked(entries)
    return sorted(entries, key=lambda one: -np.inf if one["mean"] is None else one["mean"], reverse=True)


def entry(graph: Graph, method: str, split: Splits, device: str, look, changes: dict) -> dict:
    """Train one method, or say why it cannot be."""
    made = tuning.alternatives(method, graph.info.name, **changes)
    where = fitting.choose_device(device)
    start = time.perf_counter()
    try:
        with memory.peak(where) as peak:
            run, tried = tuning.choose(graph, made, split, device=device, look=look)
    except (ValueError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
        return {
            "method": method,
            "failed": str(error).splitlines()[0],
            "mean": None,
            "trainings": 0,
            "rows": [],
            "tried": [],
        }
    found = summary(test_scores(run.rows))
    why = next((row["failed"] for row in run.rows if row["failed"]), None) if found["mean"] is None else None
    return {
        "method": method, "failed": why, **found, "seconds": time.perf_counter() - start,
        "parameters": parameters(run), "peak_bytes": peak.bytes, "tried": tried,
        "trainings": len(run.rows), "rows": run.rows,
    }  # fmt: skip


def test_scores(rows: Sequence[dict]) -> np.ndarray:
    """Test scores split by split; NaN where a member failed."""
    return np.array([np.nan if row["test"] is None else row["test"] for row in rows])


def parameters(run: Run) -> int:
    """Learned numbers of one member."""
    fixed = ("mean", "variance", "mix")
    return sum(w[0].numel() for name, w in run.weights.items() if not name.startswith(fixed))


def summary(found: np.ndarray) -> dict:
    """Mean, standard deviation and 95 % interval of the mean (Student's t over splits)."""
    good = found[~np.isnan(found)]
    if not len(good):
        return {"mean": None, "std": None, "low": None, "high": None}
    mean = float(good.mean())
    if len(good) == 1:
        return {"mean": mean, "std": None, "low": None, "high": None}
    half = interval(good)
    return {"mean": mean, "std": float(good.std(ddof=1)), "low": max(0.0, mean - half), "high": min(1.0, mean + half)}


def interval(numbers: np.ndarray) -> float:
    """Half the width of the 95 % interval of their mean; 0 for a single one."""
    if len(numbers) < 2:
        return 0.0
    return float(special.stdtrit(len(numbers) - 1, 0.975) * numbers.std(ddof=1) / np.sqrt(len(numbers)))


def ranked(entries: list[dict]) -> None:
    """Add to each entry its paired difference to the best, split by split, and the interval of that."""
    good = [one for one in entries if one["mean"] is not None]
    best = max(good, key=lambda one: one["mean"], default=None)
    for one in good:
        pairs = [
            ours["test"] - theirs["test"]
            for ours, theirs in zip(one["rows"], best["rows"], strict=True)  # type: ignore[index]
            if ours["test"] is not None and theirs["test"] is not None
        ]
        one["behind"] = float(np.mean(pairs)) if pairs else None
        one["behind_half"] = interval(np.array(pairs)) if pairs else None


def key_of(graph: Graph, split: Splits, changes: dict) -> str:
    """What decides the entries of a comparison: the graph, the splits, and the settings that all methods get."""
    return f"{fitting.data_of(graph, split)} {json.dumps(changes, sort_keys=True)}"


def save(entries: list[dict], split: Splits, folder: Path, key: str = "") -> Path:
    """Write `rows.jsonl`, one row a training, and `comparison.json`, one entry a method."""
    rows = [row for one in entries for row in one["rows"]]
    storage.write(folder / "rows.jsonl", "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))
    page = {
        "key": key,
        "warnings": list(split.warnings),
        "methods": [{k: v for k, v in one.items() if k != "rows"} for one in entries],
    }
    storage.write(folder / "comparison.json", json.dumps(page, indent=1))
    return folder / "comparison.json"


def load(folder: Path, key: str) -> list[dict]:
    """The entries that a comparison left in a folder; those that failed or have lost rows are left out."""
    if not (folder / "comparison.json").exists():
        return []
    try:
        page = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{folder / 'comparison.json'} is damaged ({error}). Leave --resume out to start anew."
        ) from None
    if page.get("key") != key:
        raise ValueError(
            f"the comparison in {folder} is of another graph, other splits or other settings: use another --out, or no "
            "--resume."
        )
    rows = results.read(folder / "rows.jsonl")
    entries = [
        one | {"rows": [row for row in rows if row["config"]["method"] == one["method"]]} for one in page["methods"]
    ]
    return [one for one in entries if not one["failed"] and len(one["rows"]) == one["trainings"]]
