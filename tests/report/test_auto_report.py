"""What the report of `auto` adds: comparisons, what mattered, and the trials."""

from typing import Any

import numpy as np
import pytest

from adaptkry.models.recipe import recipe
from adaptkry.report.auto_report import about_edges, auto_charts, auto_facts, auto_tables, trial_rows, what_mattered
from adaptkry.selection.auto_result import AutoResult, effects_of
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.fit import fit


def trial(number, method, validations, reason=None, **settings):
    return {
        "trial": number, "method": method, "settings": recipe(method, **settings).to_dict(), "reason": reason,
        "state": "failed" if reason else "complete", "validations": validations, "seconds": 1.25,
        "elapsed": 2.0 * number, "validation": None if reason else float(np.mean(validations)),
    }  # fmt: skip


@pytest.fixture(scope="module")
def trials():
    return [
        trial(0, "gcn", [0.7, 0.8, 0.7]),
        trial(1, "mlp", [0.6, 0.6, 0.5]),
        trial(2, "adaptkry", [0.8, 0.9, 0.8]),
        trial(3, "adaptkry", [0.8, 0.8, 0.8], taus=(1.0,), mlp_lr=0.05),
        trial(4, "adaptkry", [None] * 3, "CUDA out of memory.", degree=3),
    ]


@pytest.fixture(scope="module")
def ensemble(graph, three_splits) -> Ensemble:
    settings = {"epochs": 5, "degree": 2, "hidden": 8, "device": "cpu", "restarts": 2}
    return fit(graph, "adaptkry", three_splits, combine="mean", **settings)


@pytest.fixture
def result(ensemble, trials):
    high = ensemble.test_scores.tolist()
    single = [score - shift for score, shift in zip(high, (0.1, 0.12, 0.08), strict=True)]
    baselines = {"largest class": [0.5] * 3, "mlp": [score - 0.2 for score in high], "gcn": [None] * 3}
    baselines["best single training"] = single
    return AutoResult(ensemble, trials, baselines, effects_of(trials), 10.0)


def test_tables_compare_with_the_ensemble_and_list_every_trial(result):
    compared, mattered, tried = auto_tables(result)
    rows = {row[0]: row[1:] for row in compared["rows"]}
    assert rows["features alone (mlp)"][2]["text"].startswith("-20.00")
    assert rows["gcn"] == [None, None, None]
    assert rows["ensemble"][2] is None
    assert [row[0] for row in mattered["rows"]] == ["method"] * 3 + ["taus"] * 2
    assert mattered["rows"][0][1:] == ["adaptkry", 2, {"text": "best", "sort": 0.0, "verdict": ""}]
    assert len(tried["rows"]) == 5


def test_rows_of_trials_show_settings_that_differ_and_the_reason_of_a_failure(trials):
    rows: list[list[Any]] = trial_rows(trials)
    assert [row[2] for row in rows] == ["", "", "", "taus=1.0, mlp_lr=0.05", "degree=3 failed: CUDA out of memory."]
    assert rows[2][3]["sort"] == pytest.approx(250 / 3)
    assert rows[4][3] is None


def test_charts_show_scores_by_name_and_the_best_trial_so_far(result):
    scores, best = auto_charts(result)
    assert scores["series"][0]["x"] == ["largest class", "features alone (mlp)", "best single training", "ensemble"]
    assert best["series"][0]["x"] == [0.0, 2.0, 4.0, 6.0]
    assert best["series"][0]["y"] == pytest.approx([220 / 3, 220 / 3, 250 / 3, 250 / 3])


def test_the_sentence_about_edges_compares_the_best_single_training_with_features_alone(result):
    text = about_edges(result)
    assert "features alone (mlp)" in text
    assert "The edges add 10.00 ± 7.03 points to features alone" in text
    result.baselines["best single training"] = result.baselines["mlp"]
    assert "It is uncertain what the edges add to features alone: +0.00 points" in about_edges(result)
    result.baselines = {}
    assert about_edges(result) == ""


def test_the_opening_of_the_page_says_what_the_edges_are_worth(result):
    mean = float(np.mean(result.ensemble.test_scores))
    facts = {"lead": "-", "scores": {"metric": "accuracy", "mean": mean}, "tables": [], "charts": []}
    found = auto_facts(result, facts)
    assert found["lead"] == (
        f"{100 * mean:.0f} of 100 test nodes are right; guessing the largest class gets 50, features alone "
        f"{100 * mean - 20:.0f}: the edges are worth 10 points (+10.0 ± 7.0 points, best single training)."
    )
    assert [one["title"] for one in found["tables"]] == ["Compared with", "Differences", "Trials"]
    assert [one.get("section") for one in found["charts"]] == [None, "Trainings"]
    result.baselines["best single training"] = result.baselines["mlp"]
    assert "it is uncertain what the edges add." in auto_facts(result, facts)["lead"]
    result.baselines = {"largest class": [0.5] * 3}
    assert auto_facts(result, facts)["lead"].endswith("; guessing the largest class gets 50.")


def test_without_features_nothing_is_said_about_what_the_edges_add(result, monkeypatch):
    monkeypatch.setattr(Ensemble, "features", 0)
    sentence = about_edges(result)
    assert "columns of the edges alone (mlp)" in sentence
    assert "features alone" not in sentence
    facts = {"lead": "-", "scores": {"metric": "accuracy", "mean": 0.5}, "tables": [], "charts": []}
    found = auto_facts(result, facts)
    assert "features" not in found["lead"]
    assert "edges" not in found["lead"]
    assert [row[0] for row in found["tables"][0]["rows"]][1] == "columns of the edges alone (mlp)"


def test_one_line_per_setting_that_was_varied(trials):
    lines = what_mattered(effects_of(trials))
    assert lines[0].startswith("method: adaptkry; with gcn -10.00")
    assert lines[1].startswith("taus: 0.5; with 1.0 -3.33 ± ")
    assert what_mattered(effects_of(trials[:1])) == []


def test_splits_that_were_not_tested_are_left_out_of_what_the_edges_add(result):
    whole = about_edges(result)
    result.baselines["mlp"][2] = None
    sentence = about_edges(result)
    assert sentence != whole
    assert "+9.00 ± 16.40 points" in sentence  # the mean of 0.2 - 0.1 and 0.2 - 0.12
