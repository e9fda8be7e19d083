"""The facts of a run, and the files that are written from them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.report import class_report, html, learned_filter, run_report
from adaptkry.report.html import read_facts
from adaptkry.spectral import density
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.spectrum import eigenvalues
from adaptkry.training.calibration import tempered
from adaptkry.training.fit import fit
from adaptkry.training.run import Run


@pytest.fixture(scope="module")
def facts(run_folder):
    return read_facts(run_folder)


def chart(facts, title):
    return next(one for one in facts["charts"] if one["title"] == title)


def test_the_spectrum_chart_shows_quantiles_of_the_frequencies_and_marks_the_trained_tau(facts, graph):
    drawn = chart(facts, "Spectrum by tau")
    (line,) = drawn["series"]
    for k in range(4, len(line["x"]), 5):
        frequencies = 1 - eigenvalues(Propagation(graph, line["x"][k])).numpy()
        wanted = np.quantile(frequencies, (0.05, 0.5, 0.95))
        assert np.abs(wanted - np.array([line[part][k] for part in ("low", "y", "high")])).max() < 0.08
    assert drawn["marks"] == [{"name": "trained tau 0.5", "x": 0.5}]


def test_confusion_counts_every_tested_node_once(facts, run, three_splits):
    counts = np.array(chart(facts, "Confusion matrix")["counts"])
    assert counts.sum() == int(three_splits.test.sum())
    accuracy = np.trace(counts) / counts.sum()
    assert accuracy == pytest.approx(np.mean([result.test for result in run.results]), abs=1e-6)


def test_the_mean_of_the_filter_chart_is_that_of_the_trainings(facts, run, graph):
    drawn = chart(facts, "Learned filter")
    grid = 1 - torch.tensor(drawn["series"][0]["x"][::-1], dtype=torch.float64)
    found = learned_filter.learned_response(run, graph, grid)
    assert found is not None
    response = found.T.numpy()
    assert drawn["series"][0]["y"][::-1] == pytest.approx(response.mean(0))
    assert drawn["series"][0]["low"][::-1] == pytest.approx(response.min(0))
    assert drawn["behind"]["edges"] == sorted(drawn["behind"]["edges"])


def test_each_fact_is_computed_once_and_the_density_of_the_trained_tau_too(monkeypatch, run, graph, three_splits):
    calls = []

    def counting(function, name):
        return lambda *args, **options: calls.append((name, args)) or function(*args, **options)

    monkeypatch.setattr(density, "density_of_states", counting(density.density_of_states, "density"))
    graph.edge_results.clear()
    monkeypatch.setattr(run_report, "learned_response", counting(learned_filter.learned_response, "response"))
    monkeypatch.setattr(Run, "member_probabilities", counting(Run.member_probabilities, "probabilities"))
    found = run_report.run_report(run, graph, three_splits)
    names = [name for name, _ in calls]
    assert names.count("response") == 1
    assert names.count("probabilities") == 1  # for the least certain nodes
    taus = chart(found, "Spectrum by tau")["series"][0]["x"]
    assert names.count("density") == len(taus)
    assert run.recipes[0].taus[0] in taus
    again = run_report.run_report(run, graph, three_splits)
    assert chart(again, "Spectrum by tau") == chart(found, "Spectrum by tau")
    assert [name for name, _ in calls].count("density") == names.count("density")  # not computed again


def test_scores_of_classes_are_those_of_scikit_learn():
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    random = np.random.default_rng(0)
    true, predicted = random.integers(0, 3, 60), random.integers(0, 4, 60)  # class 3 is never tested
    options = {"labels": range(4), "zero_division": 0}
    wanted: tuple = precision_recall_fscore_support(true, predicted, **options)  # type: ignore[arg-type]
    *rows, untested = class_report.class_scores("abcd", confusion_matrix(true, predicted, labels=range(4)))
    for k, row in enumerate(rows):
        assert row[:2] == ["abcd"[k], wanted[3][k]]
        assert [one["sort"] for one in row[2:]] == pytest.approx([100 * score[k] for score in wanted[:3]])
    assert untested[:2] == ["d", 0]
    assert {one["text"] for one in untested[2:]} == {"not tested"}


def test_calibration_shows_the_bins_and_errors_that_were_measured(facts, run):
    measured = run.calibration.facts
    for when, line in zip(("before", "after"), chart(facts, "Reliability")["series"][1:], strict=True):
        bins = [one for one in measured[f"reliability_{when}"] if one["count"]]
        assert line["x"] == pytest.approx([100 * one["confidence"] for one in bins], rel=1e-5)
        assert line["y"] == pytest.approx([100 * one["accuracy"] for one in bins], rel=1e-5)
    (errors,) = (one for one in facts["tables"] if one.get("title") == "Calibration error")
    wanted = [100 * measured["error_before"], 100 * measured["error_after"]]
    assert [row[1]["sort"] for row in errors["rows"]] == pytest.approx(wanted)
    (sets,) = (one for one in facts["tables"] if one.get("title") == "Prediction sets")
    coverage = [100 * one["coverage"] for one in measured["sets"]]
    assert [row[2]["sort"] for row in sets["rows"]] == pytest.approx(coverage)
    assert class_report.calibration_elements(run.only([0])) == []


def test_the_least_certain_nodes_have_the_smallest_margins_among_test_nodes(run, graph, three_splits):
    models = tempered(run.member_probabilities(graph), run.calibration.temperatures).double()
    (shown,) = class_report.least_certain(run, graph, three_splits, ["a", "b"], 60.0)
    margins = {}
    for node in range(graph.nodes):
        tested = [i for i, member in enumerate(run.members) if three_splits.test[member.split, node]]
        if tested:
            p = models[tested, node].mean(0)
            margins[node] = float((p[0] - p[1]).abs())
    wanted = sorted(margins, key=lambda node: margins[node])[: class_report.SHOWN_NODES]
    assert [row[0] for row in shown["rows"]] == wanted
    node, first, second, known = shown["rows"][0]
    p = models[[i for i, member in enumerate(run.members) if three_splits.test[member.split, node]], node].mean(0)
    assert known == "ab"[graph.y[node]]
    assert first["text"] == f"{'ab'[int(p.argmax())]} {100 * float(p.max()):.1f}\u00a0%"
    assert first["sort"] + second["sort"] == pytest.approx(1)
    assert class_report.least_certain(run, graph, three_splits, ["a", "b"], 0.0) == []
    assert class_report.least_certain(run, graph, None, ["a", "b"], 60.0) == []  # no node is known to be untrained


def test_the_opening_says_how_many_of_100_are_right_and_what_guessing_gives(facts, run):
    mean = np.mean([result.test for result in run.results])
    counts = np.array(chart(facts, "Confusion matrix")["counts"]).sum(1)
    guess = 100 * counts.max() / counts.sum()
    assert (
        facts["lead"] == f"{100 * mean:.0f} of 100 test nodes are right; guessing the largest class gets {guess:.0f}."
    )
    assert facts["scores"]["low"] < mean < facts["scores"]["high"]
    assert run_report.in_words({"metric": "accuracy", "mean": None}) == "Nothing was tested."


def test_the_picture_shows_the_charts_of_the_page(monkeypatch, run, graph, three_splits, tmp_path):
    drawn = []
    monkeypatch.setattr(html, "write_charts", lambda path, shown, *_, title, **__: drawn.append((shown, title)) or path)
    files = run_report.write_pages(run, graph, tmp_path, three_splits)
    ((shown, title),) = drawn
    assert [one["title"] for one in shown] == [one["title"] for one in read_facts(tmp_path)["charts"]]
    assert title.startswith("adaptkry on csbm: test accuracy")
    assert Path(files["report"]).exists()


def test_settings_that_differ_from_the_defaults_are_listed_and_readable(facts):
    shown = next(table for table in facts["tables"] if table["title"].startswith("Settings"))
    assert shown["rows"] == [["degree", 4, 10], ["epochs", 30, 1000]]
    assert "other settings have the default of adaptkry" in shown["note"]
    assert run_report.plain([{"stage": "Linear", "name": "hidden"}, 0.5]) == "Linear(name=hidden), 0.5"


def test_the_picture_is_a_png(run_folder):
    assert (run_folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_spectra_and_angles_that_would_take_too_long_are_omitted(monkeypatch, run, graph, three_splits):
    short = run_report.run_report(run, graph, three_splits, seconds=0.0)
    titles = [one["title"] for one in short["charts"]]
    assert "Spectrum by tau" not in titles
    assert "Least certain nodes" not in [one.get("section") for one in short["tables"]]
    assert "Angle between consecutive hops" not in titles
    assert chart(short, "Learned filter")["behind"] is None
    clock = iter([0.0, 1.0])  # one density of states takes a second
    monkeypatch.setattr(run_report.time, "monotonic", lambda: next(clock))
    found = run_report.spectra(graph, 0.5, seconds=5.5)
    assert list(found) == sorted(found)
    assert 2 <= len(found) <= 5
    assert 0.5 in found


def test_each_tau_with_weights_of_its_own_has_a_line():
    weights = [[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.0]]  # [members, taus x hops]
    used = recipe("adaptkry", taus=(0.5, 1.0), tied=False, degree=1)
    lines = run_report.hop_lines(weights, used)
    assert [line["name"] for line in lines] == ["tau 0.5", "tau 1"]
    assert [list(line["x"]) for line in lines] == [[0, 1], [0, 1]]
    np.testing.assert_allclose([line["y"] for line in lines], [[0.2, 0.2], [0.2, 0.2]])
    assert len(run_report.hop_lines(weights, recipe("adaptkry", degree=3))) == 1


def test_fit_computes_the_basis_once_and_the_report_only_spectra_and_angles(monkeypatch):
    graph, products = csbm(nodes=120, seed=4), []
    multiply = Propagation.__matmul__
    monkeypatch.setattr(Propagation, "__matmul__", lambda P, x: products.append(x.shape[-1]) or multiply(P, x))
    run = fit(graph, "adaptkry", "stratified", count=2, epochs=3, taus=(0.5,), degree=4, structure=0, device="cpu")
    assert products == [16] * 4  # one per hop, none per epoch, split or evaluation
    run_report.run_report(run, graph)
    later = products[4:]
    assert later.count(16) == 8  # the angles between hops, and the probabilities of the least certain nodes
    assert set(later) <= {8, 16}  # and the random vectors of the densities of states


def test_concatenated_hops_show_the_size_of_their_weights_in_the_first_layer(graph, three_splits):
    options = {"epochs": 2, "degree": 2, "taus": (0.5,), "combine_hops": "concat", "device": "cpu"}
    run = fit(graph, "adaptkry", three_splits, hop_norm=True, **options)
    (weights,) = (w for name, w in run.weights.items() if name.endswith("/layer0"))  # [members, terms * d, h]
    columns = graph.x.shape[1]
    wanted = [[float(w[k * columns : (k + 1) * columns].norm()) for k in range(3)] for w in weights]
    np.testing.assert_allclose(run_report.hop_norms(run) or [], wanted, rtol=1e-6)
    drawn = chart(run_report.run_report(run, graph, three_splits), "Weight of each hop")
    np.testing.assert_allclose(drawn["series"][0]["y"], np.mean(wanted, 0), rtol=1e-5)
    plain = fit(
        graph, "adaptkry", three_splits, epochs=2, degree=2, combine_hops="concat", hop_norm=False, device="cpu"
    )
    assert run_report.hop_norms(plain) is None  # hops have different sizes, so that weights cannot be compared


def test_the_first_chart_compares_with_guessing_the_largest_class_and_edges_are_counted_once(facts, graph):
    first = facts["charts"][0]
    assert first["title"] == "Test accuracy"
    assert first["series"][0]["x"] == ["guessing the largest class", "adaptkry"]
    assert first["series"][0]["y"][1] == pytest.approx(100 * facts["scores"]["mean"])
    rows, columns = graph.adjacency.nonzero()
    assert f"{int((rows <= columns).sum()):,} edges" in facts["about"]
    looped = Graph([[0, 1, 2], [1, 2, 2]], torch.eye(3), [0, 1, 0])
    assert run_report.edge_count(looped) == 3
    assert run_report.edge_count(Graph([[0, 1], [1, 0]], torch.eye(3), [0, 1, 0], directed=True)) == 2
