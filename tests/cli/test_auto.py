"""`adaptkry auto`: one command from files to an ensemble, its predictions and a report."""

import csv
import json
import re
import signal
from itertools import islice

import pytest

from adaptkry.cli.progress import search_progress
from adaptkry.selection.auto_search import AutoSearch, Progress
from background import start_command

QUICK = ("--epochs", 5, "--splits", 2, "--set", "hidden=8")


@pytest.fixture(scope="module")
def found(ring, command, tmp_path_factory):
    """The output folder of a search of five trials on the small graph, and the JSON that it printed."""
    folder, batches = tmp_path_factory.mktemp("search") / "found", AutoSearch.batches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoSearch, "batches", lambda self, *recipes: islice(batches(self, *recipes), 5))
        words = ["auto", ring / "edges.csv", ring / "nodes.csv", "--time", "1h", *QUICK, "--out", folder, "--json"]
        printed = command(*words)
    return folder, json.loads(printed.out)


def test_auto_writes_an_ensemble_predictions_and_a_report(found):
    folder, printed = found
    assert [row["settings"]["method"] for row in printed["rows"]] == ["ensemble"] * 2
    names = [entry["name"] for entry in printed["comparison"]]
    assert names == ["largest class", "mlp", "gcn", "best single training", "ensemble"]
    assert {"gcn", "mlp", "adaptkry"} <= {trial["method"] for trial in printed["trials"]}
    assert "test" not in printed["trials"][0]
    lines = (folder / "predictions.csv").read_text().splitlines()
    assert lines[0] == "id,class,probability,p(<b>odd</b>),p(even),label,agreement"
    assert len(lines) == 61


def test_predictions_in_the_folder_are_those_of_predict(found, command, ring, tmp_path):
    folder, _ = found
    command("predict", folder, ring / "edges.csv", ring / "nodes.csv", "--out", tmp_path / "p.csv")
    ours, others = (
        list(csv.reader(path.read_text().splitlines())) for path in (folder / "predictions.csv", tmp_path / "p.csv")
    )
    assert [row[0] for row in ours] == [row[0] for row in others]
    assert [float(row[2]) for row in ours[1:]] == pytest.approx([float(row[2]) for row in others[1:]], abs=1e-4)


def test_the_report_compares_and_can_be_written_again(found, command, tmp_path):
    folder, printed = found
    facts = json.loads((folder / "facts.json").read_text())
    tables = {table["title"]: table["rows"] for table in facts["tables"]}
    assert [row[0] for row in tables["Compared with"]][1] == "features alone (mlp)"
    assert len(tables["Trials"]) == len(printed["trials"])
    assert {row[0] for row in tables["Differences"]} >= {"method"}
    assert {"Splits", "Trainings", "Scores by class", "Settings that differ from the defaults"} <= set(tables)
    command("report", folder, "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (folder / "report.html").read_bytes()


def test_a_complete_search_is_shown_again_in_words(found, command, ring):
    folder, _ = found
    words = ["auto", ring / "edges.csv", ring / "nodes.csv", *QUICK, "--out", folder]
    assert "Add --resume, or use another output folder" in command(*words, code=2).err
    printed = command(*words, "--resume")
    assert "already complete" in printed.err
    for text in ("ensemble of", "features alone (mlp)", "edges add", "what mattered", "predictions: ", "report: "):
        assert text in printed.out


def test_a_time_limit_that_is_too_short_trains_one_recipe_and_states_the_minimum(command, tmp_path):
    words = ["auto", "csbm", "--time", "0.01s", "--splits", 1, "--set", "patience=500", "--out", tmp_path / "short"]
    printed = command(*words, "--json")
    assert len(json.loads(printed.out)["trials"]) == 1
    assert "too short for one whole training" in printed.err
    assert "which needs up to" in printed.err
    assert re.search(r"Use a time limit that is at least \d+ s longer", " ".join(printed.err.split()))


def test_the_suggested_settings_that_are_shown_are_those_of_the_search(command, tmp_path):
    words = ["auto", "csbm", "--time", "0.01s", "--splits", 1, "--epochs", 2, "--device", "cpu", "--no-report"]
    printed = command(*words, "--out", tmp_path / "found").err
    assert "settings suggested for this graph" in printed
    assert "hidden" not in printed  # 256 units are suggested, but on the CPU the search uses 64, the default


def test_progress_shows_time_left_best_score_and_what_is_trained(capsys):
    with search_progress(5.0, every=0) as on_progress:
        on_progress(Progress(10.0, 95.0, None, 0, "gcn"))
        on_progress(Progress(40.0, 95.0, 0.8125, 3, "adaptkry, 8 recipes"))
    assert capsys.readouterr().err.splitlines() == [
        "0:01:30 left, 0 trials, training gcn",
        "0:01:00 left, best validation 81.2%, 3 trials, training adaptkry, 8 recipes",
    ]


def start_search(folder, trials, *words):
    """Start a search that runs until it is interrupted; returns when it has recorded so many trials."""
    journal = folder / "stopped" / "trials.jsonl"
    words = ["auto", "csbm", "--time", "1h", "--splits", "1", "--epochs", "40", "--out", "stopped", *words]
    return start_command(folder, words, lambda: journal.exists() and len(journal.read_text().splitlines()) > trials)


def test_sigterm_can_be_resumed_and_ctrl_c_ends_with_the_best_so_far(tmp_path):
    process = start_search(tmp_path, 1)
    process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "--resume continues in stopped" in printed
    before = len((tmp_path / "stopped" / "trials.jsonl").read_text().splitlines()) - 1
    process = start_search(tmp_path, before + 1, "--resume")
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 0, printed
    assert "ending with the best so far" in printed
    assert "Traceback" not in printed
    assert (tmp_path / "stopped" / "predictions.csv").exists()
    assert len((tmp_path / "stopped" / "trials.jsonl").read_text().splitlines()) - 1 > before
