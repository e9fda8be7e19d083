"""What the report of `adaptkry auto` shows besides that of its ensemble: comparisons, what mattered, and the trials."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adaptkry.common.intervals import corrected_half_width
from adaptkry.report.class_report import percent
from adaptkry.report.elements import TableCell, cell, chart, series, table, under
from adaptkry.report.run_report import in_words, of_100, plain
from adaptkry.selection.auto_result import AutoResult
from adaptkry.selection.trial import Trial

COMPARED_NOTE = (
    "95 % interval: confidence interval of the mean over splits (Student's t), as if they were independent; they share "
    "nodes. To the ensemble: mean difference over the same splits, in percentage points, with its 95 % interval, which "
    "is corrected for shared nodes (Nadeau and Bengio). Every training was chosen on validation nodes."
)
MATTERED_NOTE = (
    "Mean difference of validation scores over the same splits, in percentage points, with its 95 % interval "
    "(corrected for splits that share nodes): the best trial with a value, compared with the best trial of all. More "
    "trials have the values that looked best, and nothing is corrected for the number of trials."
)
TRIALS_NOTE = (
    "Settings: those that differ from the first trial of the method, which has the suggested or published settings."
)


def auto_facts(result: AutoResult, facts: dict) -> dict:
    """Add to the facts of the ensemble what it is compared with, what mattered and the trials."""
    rest = [chart for chart in facts["charts"] if chart.get("section")]  # a chart of more methods is the first
    tables, charts = [*auto_tables(result), *facts["tables"]], [*auto_charts(result), *rest]
    return facts | {"lead": in_words_with_edges(result, facts), "tables": tables, "charts": charts}


def in_words_with_edges(result: AutoResult, facts: dict) -> str:
    """Return the result in plain words; also what features alone give and what the edges add, if that was tested."""
    means = {entry["name"]: entry["mean"] for entry in result.comparison()}
    scores, largest, alone = facts["scores"], means.get("largest class"), means.get("mlp")
    gain = edges_gain(result)
    if alone is None or gain is None or scores["metric"] != "accuracy":
        return facts["lead"] if scores["metric"] != "accuracy" else in_words(scores, largest)
    points, half = (100 * value for value in gain)
    worth = f"the edges are worth {points:.0f} points" if gain[0] > gain[1] else "it is uncertain what the edges add"
    spread = f" ({points:+.1f} ± {half:.1f} points, best single training)" if half else ""
    return in_words(scores, largest, f"features alone {of_100(alone)}: {worth}{spread}")


def auto_tables(result: AutoResult) -> list[dict]:
    """Return the tables "Compared with", "What mattered" and "Trials"."""
    metric = result.ensemble.info.metric
    compared = [comparison_row(entry, long_name(result, entry["name"])) for entry in result.comparison()]
    columns = ["", f"test {metric} %", "95 % interval", "to the ensemble"]
    effects, rows = ["setting", "value", "trials", "difference"], effect_rows(result.effects)
    trials = ["trial", "method", "settings", "validation %", "seconds"]
    return [
        table("Compared with", columns, compared, COMPARED_NOTE),
        *under("What mattered", *([table("Differences", effects, rows, MATTERED_NOTE)] if rows else [])),
        *under("Trainings", table("Trials", trials, trial_rows(result.trials), TRIALS_NOTE)),
    ]


def auto_charts(result: AutoResult) -> list[dict]:
    """Return the chart of the test scores, and that of the best validation score by time."""
    metric = result.ensemble.info.metric
    entries = [entry for entry in result.comparison() if entry["mean"] is not None]
    names = [long_name(result, entry["name"]) for entry in entries]
    ends = [
        [100 * (entry[end] if entry[end] is not None else entry["mean"]) for entry in entries]
        for end in ("low", "high")
    ]
    scores = series("mean and 95 % interval", names, [100 * entry["mean"] for entry in entries], ends[0], ends[1])
    good = [trial for trial in result.trials if trial["validation"] is not None]
    times, best = [trial["elapsed"] for trial in good], []
    for trial in good:
        best.append(max([*best[-1:], 100 * trial["validation"]]))
    line = series("best trial so far", times, best)
    return [
        chart(f"Test {metric}", [scores], y=f"test {metric} (%)"),
        *under("Trainings", chart("Best trial so far", [line], x="seconds", y=f"validation {metric} (%)")),
    ]


def long_name(result: AutoResult, name: str) -> str:
    """Return the name of a baseline in tables and sentences; without features, the MLP has columns of the edges."""
    return (
        f"{'features' if result.ensemble.features else 'columns of the edges'} alone (mlp)" if name == "mlp" else name
    )


def comparison_row(entry: dict[str, Any], name: str) -> list[TableCell]:
    """Return the cells of one row of the table "Compared with"."""
    has_spread = entry["low"] is not None  # a single split has no interval
    interval = cell(f"{100 * entry['low']:.2f} .. {100 * entry['high']:.2f}", entry["low"]) if has_spread else None
    difference = None if entry["name"] == "ensemble" else points(entry["difference"], entry["half_width"])
    return [name, percent(entry["mean"]), interval, difference]


def points(difference: float | None, half_width: float) -> dict | None:
    """Return a difference in percentage points with its interval as a cell."""
    if difference is None:
        return None
    spread = f" ± {100 * half_width:.2f}" if half_width else ""
    return cell(f"{100 * difference:+.2f}{spread}", 100 * difference)


def effect_rows(effects: Sequence[dict[str, Any]]) -> list[list[TableCell]]:
    """Return one row per value of a setting, best value first."""
    rows = []
    for factor in dict.fromkeys(effect["factor"] for effect in effects):
        for effect in values_of(effects, factor):
            difference = (
                points(effect["difference"], effect["half_width"]) if effect["difference"] else cell("best", 0.0)
            )
            rows.append([factor, effect["value"], effect["trials"], difference])
    return rows


def values_of(effects: Sequence[dict[str, Any]], factor: str) -> list[dict[str, Any]]:
    """Return the effects of one setting, best value first."""
    found = [effect for effect in effects if effect["factor"] == factor]
    return sorted(found, key=lambda effect: effect["difference"], reverse=True)


def what_mattered(effects: Sequence[dict[str, Any]]) -> list[str]:
    """Return one line per setting that was varied: its best value, and the difference of the runner-up.

    >>> better = {"factor": "taus", "value": "0.5", "trials": 3, "difference": 0.0, "half_width": 0.0}
    >>> what_mattered([better, better | {"value": "1.0", "difference": -0.012, "half_width": 0.004}])
    ['taus: 0.5; with 1.0 -1.20 ± 0.40']
    """
    lines = []
    for factor in dict.fromkeys(effect["factor"] for effect in effects):
        best, *others = values_of(effects, factor)
        if others:
            difference = points(others[0]["difference"], others[0]["half_width"])
            assert difference is not None
            lines.append(f"{factor}: {best['value']}; with {others[0]['value']} {difference['text']}")
    return lines


def about_edges(result: AutoResult) -> str:
    """Return a sentence that compares the scores, and one about what the edges contribute; "" if nothing was tested."""
    entries = {entry["name"]: entry for entry in result.comparison() if entry["mean"] is not None}
    if len(entries) < 2:
        return ""
    scores = ", ".join(f"{long_name(result, name)} {100 * entry['mean']:.2f} %" for name, entry in entries.items())
    sentence = f"Test {result.ensemble.info.metric}: {scores}."
    found = edges_gain(result)
    if found is None:
        return sentence
    gain, half = found
    spread = f" ± {100 * half:.2f}" if half else ""
    if gain > half:
        return f"{sentence} The edges add {100 * gain:.2f}{spread} points to features alone (best single training)."
    uncertain = f"{sentence} It is uncertain what the edges add to features alone: {100 * gain:+.2f}{spread} points"
    return f"{uncertain} (best single training). More time or more splits would tell."


def edges_gain(result: AutoResult) -> tuple[float, float] | None:
    """Return how much better the best single training is than features alone, with half the width of its interval.

    None if one of them was not tested, or if there are no features.
    """
    if not {"mlp", "best single training"} <= result.baselines.keys() or not result.ensemble.features:
        return None
    single, mlp = (np.array(result.baselines[name], dtype=float) for name in ("best single training", "mlp"))  # [s]
    differences = single - mlp  # NaN where one of them was not tested
    differences = differences[~np.isnan(differences)]
    if not len(differences):
        return None
    return float(differences.mean()), corrected_half_width(differences, result.test_ratio)


def trial_rows(trials: Sequence[Trial]) -> list[list[TableCell]]:
    """Return one row per trial, with the settings that differ from the first trial of the same method."""
    first: dict[str, dict[str, Any]] = {}
    rows: list[list[TableCell]] = []
    for trial in trials:
        reference = first.setdefault(trial["method"], trial["settings"])
        changed = {name: value for name, value in trial["settings"].items() if value != reference.get(name)}
        text = ", ".join(f"{name}={plain(value)}" for name, value in changed.items())
        settings = text if trial["reason"] is None else f"{text} failed: {trial['reason']}".strip()
        seconds = cell(f"{trial['seconds']:.1f}", trial["seconds"])
        rows.append([trial["trial"], trial["method"], settings, percent(trial["validation"]), seconds])
    return rows
