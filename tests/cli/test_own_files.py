"""A user's own tables, end to end: names of columns, categories and gaps, graphs without features, data frames."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from adaptkry.graphs.load import load
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

NAMES: dict[str, Any] = {
    "source": "from", "target": "to", "weight_column": "kg", "id_column": "person", "label_column": "group"
}  # fmt: skip
OPTIONS = [word for name, column in NAMES.items() for word in (f"--{name.replace('_', '-')}", column)]
QUICK = ["--epochs", 20, "--splits", 2, "--degree", 2, "--no-report"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Tables with names of their own: edges.csv, nodes.csv with texts and gaps, plain.csv without features."""
    path, draw = tmp_path_factory.mktemp("own"), random.Random(0)
    people = [f"p{i}" for i in range(80)]
    group = {person: "left" if i < 40 else "right" for i, person in enumerate(people)}
    pairs = [(a, draw.choice([b for b in people if group[a] == group[b]])) for a in people for _ in range(4)]
    edges = pd.DataFrame(pairs, columns=["from", "to"])
    edges["kg"] = 1.5
    edges.to_csv(path / "edges.csv", index=False)
    nodes = pd.DataFrame({"person": people, "group": [group[p] if draw.random() < 0.8 else "" for p in people]})
    nodes.to_csv(path / "plain.csv", index=False)
    nodes["city"] = ["Rome" if (group[p] == "left") == (draw.random() < 0.9) else "Oslo" for p in people]
    nodes["age"] = ["" if draw.random() < 0.1 else str(draw.randint(20, 60)) for _ in people]
    nodes["note"] = "hello"
    nodes.to_csv(path / "nodes.csv", index=False)
    nodes["city"] = ["Nice", *nodes["city"][1:]]
    nodes.drop(columns="group").to_csv(path / "new.csv", index=False)
    return path


@pytest.fixture(scope="module")
def run(folder, command) -> Path:
    """A run on these tables."""
    words = ["fit", "edges.csv", "nodes.csv", *OPTIONS, "--features", "age,city", "--missing", "flag", "--directed"]
    printed = command(*words, *QUICK, "--out", "run", cwd=folder)
    assert "nodes.csv: these columns are not used: 'note'" in printed.err
    return folder / "run"


def predictions(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_predictions_need_no_options_and_are_those_of_the_training_graph(folder, run, command):
    found = load_run(run)
    assert found.info.feature_names == ["age", "age is missing", "city=Oslo", "city=Rome"]
    command("predict", "run", "edges.csv", "nodes.csv", "--out", "same.csv", cwd=folder)
    graph = load(
        [folder / "edges.csv", folder / "nodes.csv"], **NAMES, features=["age", "city"], missing="flag", directed=True
    )
    np.testing.assert_array_equal(
        found.probabilities(graph), found.probabilities([folder / "edges.csv", folder / "nodes.csv"])
    )
    rows = predictions(folder / "same.csv")[1:]
    assert len(rows) == 80
    assert [row[0] for row in rows] == [f"p{i}" for i in range(80)]
    printed = found.probabilities(graph).amax(1)
    assert all(any(f"{float(best):.6f}" == cell for cell in row) for best, row in zip(printed, rows, strict=True))


def test_other_files_may_have_other_names_unknown_categories_and_no_labels(folder, run, command):
    printed = command("predict", run, "edges.csv", "new.csv", "--out", "new-predictions.csv", cwd=folder).err
    assert "column 'city' has categories that the run was not trained on ('Nice'); they are 0 in all" in printed
    renamed = pd.read_csv(folder / "new.csv").rename(columns={"person": "who"})
    renamed.to_csv(folder / "renamed.csv", index=False)
    words = ["predict", "run", "edges.csv", "renamed.csv", "--id-column", "who", "--out", "renamed-predictions.csv"]
    command(*words, cwd=folder)
    first, second = (predictions(folder / f"{name}-predictions.csv") for name in ("new", "renamed"))
    assert [row[1:] for row in first[1:]] == [row[1:] for row in second[1:]]


def test_a_run_on_data_frames_predicts_for_data_frames(folder, tmp_path):
    edges, nodes = pd.read_csv(folder / "edges.csv"), pd.read_csv(folder / "nodes.csv").drop(columns="note")
    graph = load(edges=edges, nodes=nodes, missing="mean", **NAMES)
    run = fit(graph, splits="stratified", count=2, epochs=5, degree=2, device="cpu", out=tmp_path / "run")
    again = load_run(tmp_path / "run")
    np.testing.assert_array_equal(run.probabilities(graph), again.probabilities([edges, nodes]))
    assert again.info.layout is not None
    assert again.info.layout["columns"][0] == {
        "name": "city",
        "kind": "categories",
        "categories": ["Oslo", "Rome"],
        "means": pytest.approx([0.5, 0.5], abs=0.2),
    }


def test_graphs_without_features_are_trained_searched_and_predicted(folder, command):
    words = ["edges.csv", "plain.csv", *OPTIONS]
    printed = command("fit", *words, *QUICK, "--out", "bare", cwd=folder).err
    assert "has no features: degrees and 64 columns of its edges are used instead" in printed
    command("predict", "bare", "edges.csv", "plain.csv", "--out", "bare.csv", cwd=folder)
    rows = predictions(folder / "bare.csv")[1:]
    truth = {row[0]: row[1] for row in predictions(folder / "plain.csv")[1:]}
    known = [row[1] == truth[row[0]] for row in rows if truth[row[0]]]
    assert np.mean(known) > 0.8
    assert "degrees and columns of the edges" in command("inspect", *words, cwd=folder).out
    shown = command(
        "auto",
        *words,
        "--time",
        "4s",
        "--epochs",
        5,
        "--splits",
        2,
        "--no-report",
        "--out",
        "search",
        "--json",
        cwd=folder,
    )
    assert json.loads(shown.out)["rows"]
    command("predict", "search", "edges.csv", "plain.csv", "--out", "search.csv", cwd=folder)
    assert len(predictions(folder / "search.csv")) == 81


def test_bases_are_propagated_from_tables_with_other_names(folder, command):
    names = [*OPTIONS, "--missing", "mean", "--ignore", "note"]
    words = ["propagate", "edges.csv", "nodes.csv", *names, "--taus", 1, "--degree", 1, "--out", "basis"]
    command(*words, cwd=folder)
    command("fit", "basis", *QUICK[:4], "--no-report", "--out", "basis-run", cwd=folder)
    assert load_run(folder / "basis-run").info.feature_names == ["city=Oslo", "city=Rome", "age"]
