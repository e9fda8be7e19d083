import json
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from scipy import stats

from adaptkry.common import memory
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import PER_MEMBER, recipe
from adaptkry.selection import compare as comparison
from adaptkry.selection import grid
from adaptkry.selection.compare import compare, load_comparison
from adaptkry.selection.grid import alternatives, choose, group_into_batches
from adaptkry.training.fit import fit

GRAPH = csbm(nodes=150, phi=-0.4, information=0.5, seed=0)
SPLITS = splits.stratified(GRAPH.y, count=4)
NAMES = ["mlp", "adaptkry", "gcn"]
DIFFERENCES = ("difference", "difference_half_width")
QUICK = {"device": "cpu", "epochs": 30}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("comparison")


@pytest.fixture(scope="module")
def entries(folder):
    return compare(GRAPH, NAMES, SPLITS, out=folder, **QUICK)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a comparison that was stopped after two of three methods, and their entries."""
    folder, seen = tmp_path_factory.mktemp("stopped") / "out", []

    def stop(entry):
        seen.append(json.loads(json.dumps(entry)))
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(GRAPH, NAMES, SPLITS, out=folder, on_entry=stop, **QUICK)
    return folder, seen


@pytest.fixture
def copy(stopped, tmp_path):
    """A copy of that folder, in which to resume."""
    return shutil.copytree(stopped[0], tmp_path / "copy")


@pytest.fixture
def trained(monkeypatch):
    """The names of the methods that are trained during a test, in order."""
    compare_one, names = comparison.compare_one, []

    def recording_compare_one(data, method, *rest):
        names.append(method)
        return compare_one(data, method, *rest)

    monkeypatch.setattr(comparison, "compare_one", recording_compare_one)
    return names


def test_entries_are_ranked_and_have_costs(entries):
    means = [one["mean"] for one in entries]
    assert means == sorted(means, reverse=True)
    for one in entries:
        assert one["seconds"] > 0
        assert one["parameters"] > 0
        assert len(one["rows"]) == 4
    gcn = next(one for one in entries if one["method"] == "gcn")
    assert len(gcn["tried"]) == 6  # no settings are published for this graph
    assert max(gcn["tried"], key=lambda row: row["validation"])["settings"] == gcn["rows"][0]["settings"]


def test_intervals_follow_students_t_and_differences_are_paired(entries):
    best, other = entries[0], entries[-1]
    scores = comparison.test_scores(best["rows"])
    low, high = stats.t.interval(0.95, 3, scores.mean(), scores.std(ddof=1) / 2)
    assert (best["low"], best["high"]) == pytest.approx((max(0, low), min(1, high)))
    pairs = comparison.test_scores(other["rows"]) - scores
    assert best["difference"] == 0
    assert other["difference"] == pytest.approx(pairs.mean())
    assert other["difference_half_width"] == pytest.approx(
        stats.t.ppf(0.975, 3) * pairs.std(ddof=1) * np.sqrt(1 / 4 + 30 / 90)
    )  # corrected for splits that share nodes: 30 test nodes and 90 training nodes


def test_the_folder_holds_every_entry_and_every_row(entries, folder):
    document = json.loads((folder / "comparison.json").read_text())
    without_rows = [{name: value for name, value in one.items() if name != "rows"} for one in entries]
    assert document["methods"] == json.loads(json.dumps(without_rows))
    graph = {"graph": "csbm", "metric": "accuracy", "warnings": list(SPLITS.warnings)}
    assert document["graphs"] == [graph]
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert rows == json.loads(json.dumps([row for one in entries for row in one["rows"]]))
    again, about = load_comparison(folder)
    assert again == json.loads(json.dumps(entries))
    assert about == document
    assert (folder / "table.md").read_text() == entries.table().markdown()
    assert (folder / "table.tex").read_text() == entries.table().latex()
    assert (folder / "table.csv").read_text() == entries.table().csv()


def test_a_comparison_with_other_rows_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "rows.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match=r"rows\.jsonl must belong to comparison\.json; got other rows"):
        load_comparison(tmp_path / "copy")


def other_graph(name="other"):
    graph = csbm(nodes=80, phi=0.8, seed=3)
    graph.info = replace(graph.info, name=name, known_as=None)
    return graph


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A comparison of two methods on two graphs, and its folder."""
    folder = tmp_path_factory.mktemp("several")
    return compare([GRAPH, other_graph()], ["mlp", "sgc"], "stratified", count=2, out=folder, **QUICK), folder


def test_several_graphs_are_compared_as_each_alone(several):
    found, _ = several
    assert [one["graph"] for one in found] == ["csbm", "csbm", "other", "other"]
    for graph, group in ((GRAPH, found[:2]), (other_graph(), found[2:])):
        alone = compare(graph, ["mlp", "sgc"], "stratified", count=2, **QUICK)
        for name in ("method", "mean", "difference", "difference_half_width"):
            assert [one[name] for one in group] == [one[name] for one in alone]


def test_a_comparison_of_several_graphs_is_loaded_and_resumed(several, tmp_path, trained):
    found, folder = several
    copied = shutil.copytree(folder, tmp_path / "copy")
    again, document = load_comparison(copied)
    assert again == json.loads(json.dumps(found))
    assert [one["graph"] for one in document["graphs"]] == ["csbm", "other"]
    journal = copied / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"sgc on other"' not in line))  # interrupted before it
    request = {"methods": ["mlp", "sgc"], "splits": "stratified", "count": 2, "out": copied, "resume": True} | QUICK
    resumed = compare([GRAPH, other_graph()], baseline="mlp", **request)
    assert trained == ["sgc"]
    assert [(one["graph"], one["method"], one["mean"]) for one in resumed] == [
        (one["graph"], one["method"], one["mean"]) for one in found
    ]
    assert "better than mlp" in (copied / "table.md").read_text()
    with pytest.raises(ValueError, match="was started with other settings: graph was"):
        compare([GRAPH], **request)
    with pytest.raises(ValueError, match="was started with other settings: graph was"):
        compare([GRAPH, other_graph("third")], **request)


def test_each_graph_can_have_splits_of_its_own():
    other = other_graph()
    own = [SPLITS.take(2), splits.stratified(other.y, count=3)]
    found = compare([GRAPH, other], "mlp", own, **QUICK)
    assert [len(one["rows"]) for one in found] == [2, 3]


def test_paths_are_one_graph_and_names_graphs_and_whole_files_are_several(tmp_path):
    (tmp_path / "folder").mkdir()
    both = [tmp_path / "folder", tmp_path / "b.npz"]
    several = [["csbm", "csbm-directed"], ["csbm", GRAPH], [["edges.csv", "nodes.csv"], "csbm"], both]
    assert [comparison.is_several(data) for data in several] == [True] * 4
    one = ["csbm", GRAPH, ["edges.csv", "nodes.csv"], ("edges.csv",), [], None, tmp_path / "folder"]
    assert [comparison.is_several(data) for data in one] == [False] * 7


def test_a_method_that_fails_has_a_reason_and_is_trained_again_on_resuming(monkeypatch, tmp_path, trained):
    original, request = comparison.choose, {"device": "cpu", "epochs": 5, "out": tmp_path}

    def choose(data, recipes, *rest, **options):
        if recipes[0].method == "asgc":
            raise MemoryError("the dense solve does not fit")
        return original(data, recipes, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(comparison, "choose", choose)
        found = compare(GRAPH, ["asgc", "mlp"], SPLITS, **request)
    assert [one["method"] for one in found] == ["mlp", "asgc"]
    assert found[1]["failed"] == "there is not enough memory (the dense solve does not fit)"
    document = json.loads((tmp_path / "comparison.json").read_text())
    assert document["methods"][1]["mean"] is None
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 4
    trained.clear()
    resumed = {one["method"]: one for one in compare(GRAPH, ["asgc", "mlp"], SPLITS, resume=True, **request)}
    assert trained == ["asgc"]
    assert resumed["asgc"]["failed"] is None
    assert resumed["mlp"]["mean"] == found[0]["mean"]
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 8


@pytest.mark.parametrize(
    "bug", [ValueError("zip() argument 2 is longer"), RuntimeError("shapes differ"), KeyError("x")]
)
def test_a_bug_is_not_taken_for_a_method_that_fails(monkeypatch, bug):
    monkeypatch.setattr(comparison, "choose", mock.Mock(side_effect=bug))
    with pytest.raises(type(bug)):
        compare(GRAPH, ["mlp"], SPLITS, device="cpu", epochs=2)


def test_settings_that_do_not_fit_one_method_are_its_reason_and_the_others_are_trained():
    found = compare(GRAPH, ["mlp", "sgc"], SPLITS, device="cpu", epochs=2, degree=2)
    assert {one["method"]: one["failed"] for one in found} == {
        "sgc": None,
        "mlp": "mlp uses no edges, so its degree must be 0; got 2. Leave it out.",
    }


def test_a_stopped_comparison_continues_with_the_methods_that_are_missing(entries, copy, trained):
    resumed = compare(GRAPH, NAMES, SPLITS, out=copy, resume=True, **QUICK)
    assert trained == ["gcn"]
    for name in ("method", "mean", "low", "high", *DIFFERENCES):
        assert [one[name] for one in resumed] == [one[name] for one in entries]


def test_resuming_with_fewer_methods_keeps_all_finished_ones(stopped, copy, trained):
    for name in ("comparison.json", "rows.jsonl"):  # both are rewritten from the journal
        (copy / name).unlink()
    kept = compare(GRAPH, ["mlp"], SPLITS, out=copy, resume=True, **QUICK)
    assert trained == []
    first = sorted(stopped[1], key=lambda one: one["mean"], reverse=True)
    plain, expected = (
        [{name: value for name, value in one.items() if name not in DIFFERENCES} for one in entries]
        for entries in (kept, first)
    )
    assert plain == expected
    assert len(json.loads((copy / "comparison.json").read_text())["methods"]) == 2
    assert len((copy / "rows.jsonl").read_text().splitlines()) == 8


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"epochs": 31}, "epochs was 30, now 31"),
        ({"hidden": 8}, "hidden was not set, now 8"),
        ({"splits": splits.stratified(GRAPH.y, count=3)}, "splits was 4, now 3"),
        ({"splits": splits.stratified(GRAPH.y, count=4, seed=9)}, "the data .* was"),
        ({"data": csbm(nodes=150, phi=-0.4, information=0.5, seed=1)}, "the data .* was"),
    ],
    ids=["epochs", "hidden", "fewer-splits", "other-splits", "other-graph"],
)
def test_resuming_another_comparison_is_refused(copy, trained, other, named):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    request = {"data": GRAPH, "methods": NAMES, "splits": SPLITS, "out": copy, "resume": True} | QUICK | other
    with pytest.raises(ValueError, match=f"was started with other settings: {named}"):
        compare(**request)
    assert trained == []
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_a_damaged_entry_is_refused_and_an_incomplete_last_one_is_trained_again(copy, trained):
    journal = copy / "journal.jsonl"
    header, first, second = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(header + first[:100] + b"\n" + second)
    with pytest.raises(ValueError, match=r"line 2 of .* is damaged"):
        compare(GRAPH, NAMES, SPLITS, out=copy, resume=True, **QUICK)
    assert trained == []
    journal.write_bytes(header + first + second[:100])
    found = compare(GRAPH, NAMES[:2], SPLITS, out=copy, resume=True, **QUICK)
    assert trained == ["adaptkry"]
    assert {one["method"] for one in found} == {"mlp", "adaptkry"}


def test_a_method_whose_trainings_all_fail_has_a_reason():
    huge = Graph.from_scipy(GRAPH.adjacency, 3e38 * torch.ones(150, 50), GRAPH.y)
    found = compare(huge, ["mlp"], SPLITS, device="cpu", epochs=5)[0]
    assert found["mean"] is None
    assert "finite" in found["failed"]


def test_published_settings_are_the_only_alternative_and_others_form_a_grid():
    assert alternatives("bernnet", "cora") == [recipe("bernnet", "cora")]
    tried = alternatives("gcn", "cora")
    assert {(one.mlp_lr, one.mlp_decay) for one in tried} == {(a, b) for a in (0.002, 0.01, 0.05) for b in (0.0, 5e-4)}
    assert len(alternatives("gcn", "cora", mlp_lr=0.3)) == 2


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.fallback_grid])
def test_recipes_of_one_batch_differ_in_settings_per_member_only(method):
    recipes = alternatives(method, None)
    groups = group_into_batches(recipes)
    assert sorted(map(repr, recipes)) == sorted(repr(one) for group in groups for one in group)
    for group in groups:
        assert group[0].per_member <= PER_MEMBER
        shared = {replace(one, **{name: getattr(group[0], name) for name in one.per_member}) for one in group}
        assert shared == {group[0]}


def test_peak_memory_includes_what_was_allocated_and_freed():
    with memory.peak() as before:
        pass
    if before.bytes is None:
        pytest.skip("this system does not report it")
    with memory.peak() as after:
        np.ones(2**25).sum()  # 256 MiB
    assert after.bytes is not None
    assert 200 * 2**20 < after.bytes - before.bytes < 400 * 2**20


def test_freed_memory_that_is_kept_is_not_part_of_the_next_measurement():
    script = """
import numpy as np
from adaptkry.common import memory
assert memory.keep_freed_memory()
[np.ones(2**22) for _ in range(8)]  # 256 MiB, freed and kept
with memory.peak() as found:
    np.ones(2**22)
print(found.bytes / 2**20)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if "AssertionError" in done.stderr:
        pytest.skip("this C library cannot keep freed memory")
    assert float(done.stdout) < 400  # Python and torch take about 260


def flipped_test_labels():
    """One split, and the graph with the other label at its test nodes."""
    single = SPLITS.take(1)
    return single, GRAPH.relabelled(torch.where(single.test[0], 1 - GRAPH.y, GRAPH.y))


def test_labels_of_test_nodes_change_neither_the_chosen_settings_nor_validation_scores():
    single, other = flipped_test_labels()
    for method in ("gcn", "mlp", "sgc"):
        (one,), (flipped,) = (compare(graph, [method], single, **QUICK) for graph in (GRAPH, other))
        assert len(one["tried"]) > 1
        assert one["tried"] == flipped["tried"]
        for name in ("settings", "epoch", "validation"):
            assert one["rows"][0][name] == flipped["rows"][0][name]
        assert one["mean"] == pytest.approx(1 - flipped["mean"])


def test_settings_are_chosen_by_validation_scores_even_if_others_are_better_on_test_nodes(monkeypatch):
    recipes = alternatives("gcn", None, epochs=2)
    run = fit(GRAPH, recipes, SPLITS, device="cpu")
    for i, result in enumerate(run.results):  # the third recipe is best on validation, the first on test nodes
        result.validation, result.test = (0.9 if i // 4 == 2 else 0.5), (0.9 if i // 4 == 0 else 0.5)
    monkeypatch.setattr(grid, "fit", lambda *_, **__: run)
    chosen, tried = choose(GRAPH, recipes, SPLITS, device="cpu")
    assert set(chosen.recipes) == {recipes[2]}
    assert [row["validation"] for row in tried] == pytest.approx([0.5, 0.5, 0.9, 0.5, 0.5, 0.5])


def test_statistics_of_scores_are_those_of_a_sample():
    found: Any = comparison.summarise(np.array([0.5, np.nan, 0.55, 0.6]))
    assert found["mean"] == pytest.approx(0.55, abs=1e-6)
    assert found["std"] == pytest.approx(0.05, abs=1e-6)
    assert found["high"] - found["mean"] == pytest.approx(4.302653 * 0.05 / 3**0.5, abs=1e-6)
    assert comparison.summarise(np.array([0.5]))["std"] is None
