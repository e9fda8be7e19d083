"""The page of runs with several labels per node, and with numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, precision_recall_fscore_support, r2_score

from adaptkry.graphs import splits as schemes
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.synthetic import csbm
from adaptkry.report import task_report
from adaptkry.report.html import read_facts
from adaptkry.report.page_html import best_run, page
from adaptkry.report.run_report import run_report, write_pages
from adaptkry.training.fit import fit

CLASSES = csbm(nodes=160, phi=0.6, classes=3, seed=0)
EDGES = torch.from_numpy(np.stack(CLASSES.adjacency.nonzero())).long()
UNKNOWN = torch.arange(160) < 4
PRICES = torch.where(UNKNOWN, torch.nan, 5000 + 100 * CLASSES.x[:, 0].double() + 80 * CLASSES.y)
LABELS = torch.where(UNKNOWN[:, None], -1, (CLASSES.x[:, :2] > 0).long())
SPLITS = schemes.uniform(Graph(EDGES, CLASSES.x, PRICES, task="regression"), count=2)


@pytest.fixture(scope="module")
def regression():
    ids = tuple(f"house {i}" for i in range(160))
    graph = Graph(EDGES, CLASSES.x, PRICES, task="regression", info=Info("homes", node_ids=ids))
    return graph, fit(graph, splits=SPLITS, epochs=40, device="cpu", degree=3)


@pytest.fixture(scope="module")
def multilabel():
    graph = Graph(EDGES, CLASSES.x, LABELS, task="multilabel", info=Info("two", class_names=("warm", "new")))
    return graph, fit(graph, splits=SPLITS, epochs=40, device="cpu", degree=3)


def table(facts, title):
    return next(one for one in facts["tables"] if one["title"] == title)


def test_errors_of_targets_are_those_of_scikit_learn_and_of_predicting_the_mean(regression):
    graph, run = regression
    values, errors = run.member_probabilities(graph)[..., 0].numpy(), []
    for v, member in enumerate(run.members):
        test, train = SPLITS.test[member.split].numpy(), SPLITS.train[member.split].numpy()
        true = PRICES.numpy()[test]
        guess = np.full(len(true), PRICES.numpy()[train].mean())
        mse = np.mean((true - values[v, test]) ** 2)
        errors.append([mean_absolute_error(true, values[v, test]), mean_absolute_error(true, guess), mse**0.5,
                       r2_score(true, values[v, test])])  # fmt: skip
    facts = run_report(run, graph, SPLITS)
    (row,) = table(facts, "Errors by target")["rows"]
    mae, guess, *_ = wanted = np.mean(errors, 0)
    assert row[1:] == pytest.approx(list(wanted), rel=1e-5)
    assert facts["lead"] == (
        f"Predictions are off by {mae:.4g} on average; always predicting the mean is off by {guess:.4g}."
    )


def test_large_numbers_have_all_their_digits(regression, tmp_path):
    graph, _ = regression
    dear = Graph(EDGES, CLASSES.x, 1000 * PRICES, task="regression", info=graph.info)
    run = fit(dear, splits=SPLITS, epochs=2, device="cpu", degree=3, metrics=["rmse"])
    files = write_pages(run, dear, tmp_path, SPLITS)
    text = (tmp_path / "report.html").read_text()
    row = table(read_facts(tmp_path), "Largest errors")["rows"][0]
    assert f">{row[1]:,.0f}</td>" in text
    assert re.search(r"off by \d{2,3},\d{3} on average", read_facts(tmp_path)["lead"])
    assert re.search(r"test rmse \d{2,3},\d{3} ± ", run.summary())
    assert not re.search(r">-?\d\.\d+e[+]0[4-6]<", text), files


def test_the_largest_errors_are_of_test_nodes_by_the_models_that_tested_them(regression):
    graph, run = regression
    values = run.member_probabilities(graph)[..., 0]
    errors = {}
    for node in range(160):
        tested = [v for v, member in enumerate(run.members) if SPLITS.test[member.split, node]]
        if tested:
            errors[f"house {node}"] = float(values[tested, node].mean() - PRICES[node])
    shown = table(run_report(run, graph, SPLITS), "Largest errors")["rows"]
    wanted = sorted(errors, key=lambda name: -abs(errors[name]))[: task_report.SHOWN_ERRORS]
    assert [row[0] for row in shown] == wanted
    assert [row[3] for row in shown] == pytest.approx([errors[name] for name in wanted], rel=1e-5)


def test_groups_of_nodes_show_the_mean_and_range_of_true_values():
    predicted = torch.arange(100, dtype=torch.float64).flip(0)
    true = 2 * predicted
    line, diagonal = task_report.groups_chart("price", predicted, true)["series"]
    assert line["x"] == pytest.approx([4.5 + 10 * k for k in range(10)])
    assert line["y"] == pytest.approx([9 + 20 * k for k in range(10)])
    assert line["low"][0] == pytest.approx(1.8)
    assert line["high"][0] == pytest.approx(16.2)
    assert diagonal["x"] == diagonal["y"] == [4.5, 94.5]


def test_scores_of_labels_are_those_of_scikit_learn(multilabel):
    graph, run = multilabel
    chances = run.member_probabilities(graph)
    pairs = [(LABELS[mask], chances[v, mask] > 0.5) for v, mask in enumerate(SPLITS.test[m.split] for m in run.members)]
    true, predicted = (torch.cat(part).numpy() for part in zip(*pairs, strict=True))
    wanted: tuple = precision_recall_fscore_support(true, predicted, zero_division=0)  # type: ignore[arg-type]
    facts = run_report(run, graph, SPLITS)
    for k, row in enumerate(table(facts, "Scores by label")["rows"]):
        assert row[:2] == [("warm", "new")[k], len(true)]
        assert row[2]["sort"] == pytest.approx(100 * true[:, k].mean())
        assert [one["sort"] for one in row[3:]] == pytest.approx([100 * score[k] for score in wanted[:3]])
    found, right = (100 * (true & predicted).sum() / one.sum() for one in (true, predicted))
    assert facts["lead"] == (
        f"Of 100 labels that test nodes have, {found:.0f} are found; of 100 that are predicted, {right:.0f} are right."
    )
    distances = [abs(row[2]["sort"] - 50) for row in table(facts, "Least certain nodes")["rows"]]
    assert distances == sorted(distances)


@pytest.mark.parametrize("name", ["regression", "multilabel"])
def test_a_page_is_made_and_without_splits_it_has_the_score(name, request, tmp_path):
    graph, run = request.getfixturevalue(name)
    files = write_pages(run, graph, tmp_path, SPLITS)
    assert "Least certain" in (text := (tmp_path / "report.html").read_text()) or "Largest errors" in text
    assert set(files) == {"folder", "picture", "report"}
    short = run_report(run, None)
    assert run.info.metric in short["lead"]
    assert not [one for one in short["tables"] if one["section"] in ("Predictions", "Labels")]
    trainings = table(read_facts(tmp_path), "Trainings")
    assert ("test" if name == "regression" else "test %") in trainings["columns"]


def test_errors_are_not_shown_as_per_cent_and_the_best_run_has_the_smallest(regression):
    graph, run = regression
    small = fit(graph, splits=SPLITS, epochs=40, device="cpu", degree=3, metrics=["mae"])
    facts = run_report(small, graph, SPLITS)
    assert "%" not in facts["score"]
    assert facts["scores"]["low"] < facts["scores"]["mean"] < facts["scores"]["high"]  # above 1, in units of the user
    worse = facts | {"scores": facts["scores"] | {"mean": 2 * facts["scores"]["mean"]}}
    assert best_run([worse, facts]) == 1
    assert best_run([facts, worse, run_report(run, graph, SPLITS)]) == 0  # other metrics are not compared
    assert "test mae (%)" not in page([facts, worse])


def test_a_graph_without_known_ids_has_numbers_of_nodes(regression):
    graph, run = regression
    bare = Graph(EDGES, CLASSES.x, PRICES, task="regression", info=replace(graph.info, node_ids=None))
    shown = table(run_report(run, bare, SPLITS), "Largest errors")["rows"]
    assert all(isinstance(row[0], int) for row in shown)
