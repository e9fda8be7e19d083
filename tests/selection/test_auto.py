"""The search of `auto`: what it trains, chooses, writes and resumes, and how it answers to bad input."""

import json
import logging
import shutil
from dataclasses import replace
from itertools import islice
from typing import Any, cast

import numpy as np
import pytest
import torch

import adaptkry as ak
from adaptkry.common.journal import Journal, signed_part
from adaptkry.graphs import splits as schemes
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.recipe import PER_MEMBER, recipe
from adaptkry.models.suggest import suggest
from adaptkry.report.stored import stored_facts
from adaptkry.selection import auto as auto_module
from adaptkry.selection import auto_search
from adaptkry.selection import trial as trial_module
from adaptkry.selection.auto import auto
from adaptkry.selection.auto_result import best_scores, effects_of, largest_class_scores
from adaptkry.selection.auto_search import AutoSearch
from adaptkry.selection.portfolio import portfolio, table
from adaptkry.selection.space import Choice, Range, space_of
from adaptkry.selection.trial import TrainedTrial, recipe_of
from adaptkry.training.data import GraphData
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.fit import common_recipe, fit
from adaptkry.training.run_folder import load_run
from refusals import assert_refusal

GRAPH = csbm(nodes=120, phi=-0.4, information=0.5, seed=0)
SPLITS = schemes.stratified(GRAPH.y, count=2)
QUICK = {"device": "cpu", "epochs": 8, "hidden": 8}
LONG = 3600.0  # seconds: the number of batches ends the search, not the time
ALL_BATCHES = AutoSearch.batches


class StopError(Exception):
    """Stands for a kill of the process."""


@pytest.fixture(autouse=True)
def few_batches(monkeypatch):
    """End every search after six batches."""
    monkeypatch.setattr(AutoSearch, "batches", lambda self, *recipes: islice(ALL_BATCHES(self, *recipes), 6))


def search(data: Any = GRAPH, splits: Any = SPLITS, **options: Any):
    return auto(data, splits, **{"time_limit": LONG, **QUICK, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("auto") / "found"


@pytest.fixture(scope="module")
def found(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoSearch, "batches", lambda self, *recipes: islice(ALL_BATCHES(self, *recipes), 6))
        return search(out=folder)


def without_times(trials):
    plain = json.loads(json.dumps(trials))
    return [{name: value for name, value in trial.items() if name not in ("seconds", "elapsed")} for trial in plain]


def test_the_suggested_settings_and_baselines_are_tried_first(found):
    methods = [trial["method"] for trial in found.trials]
    assert methods[:3] == ["adaptkry", "gcn", "mlp"]
    assert recipe_of(found.trials[0]) == suggest(GRAPH, train=SPLITS.train[0], epochs=8, hidden=8)
    recipes = [recipe_of(trial) for trial in found.trials]
    assert len(set(recipes)) == len(recipes)
    assert {one.epochs for one in recipes} == {8}


def test_the_ensemble_is_tested_once_and_compared_over_the_same_splits(found):
    comparison = {entry["name"]: entry for entry in found.comparison()}
    assert list(comparison) == ["largest class", "mlp", "gcn", "best single training", "ensemble"]
    assert comparison["ensemble"]["mean"] == pytest.approx(found.ensemble.test_scores.mean())
    difference = np.array(comparison["mlp"]["scores"]) - found.ensemble.test_scores
    assert comparison["mlp"]["difference"] == pytest.approx(difference.mean())
    sizes = [torch.bincount(GRAPH.y[mask]).argmax() for mask in SPLITS.train]
    shares = [(GRAPH.y[mask] == size).float().mean() for mask, size in zip(SPLITS.test, sizes, strict=True)]
    assert comparison["largest class"]["scores"] == pytest.approx([float(share) for share in shares])
    assert found.summary().startswith(found.ensemble.summary(warnings=False))
    assert not any("test" in trial for trial in found.trials)


def test_scores_that_are_missing_are_none_in_a_comparison(found):
    found = replace(found, baselines={"mlp": [None, None]})
    (mlp, ensemble) = json.loads(json.dumps(found.comparison(), allow_nan=False))
    assert (mlp["scores"], mlp["mean"], mlp["difference"]) == ([None, None], None, None)
    assert ensemble["scores"] == found.ensemble.test_scores.tolist()


def test_the_baselines_are_those_of_fit(found):
    run = fit(GRAPH, recipe_of(found.trials[1]), SPLITS, device="cpu")
    gcn = next(entry for entry in found.comparison() if entry["name"] == "gcn")
    assert gcn["scores"] == pytest.approx(run.test_scores.tolist())


def test_labels_of_test_nodes_change_neither_trials_nor_shares(found):
    single = SPLITS.take(1)
    other = GRAPH.relabelled(torch.where(single.test[0], 1 - GRAPH.y, GRAPH.y))
    original, relabelled = (search(graph, single) for graph in (GRAPH, other))
    assert without_times(original.trials) == without_times(relabelled.trials)
    assert original.ensemble.shares == relabelled.ensemble.shares
    assert original.ensemble.test_scores[0] == pytest.approx(1 - relabelled.ensemble.test_scores[0])
    assert found.ensemble.shares is not original.ensemble.shares


def test_without_test_nothing_is_tested():
    hidden = GRAPH.relabelled(torch.where(SPLITS.test[0], -1, GRAPH.y))
    result = search(hidden, SPLITS.take(1), test=False)
    assert result.baselines == {}
    assert [one.test for one in result.ensemble.results] == [None]
    assert result.ensemble.info.confusion is None
    assert len(result.comparison()) == 1
    assert result.predict(GRAPH).shape == (120,)


def test_the_folder_holds_the_ensemble_and_kept_predictions_are_its_own(found, folder):
    loaded = load_run(folder)
    assert isinstance(loaded, Ensemble)
    assert loaded.results == found.ensemble.results
    mean = found.ensemble.predicted.mean(0)  # type: ignore[union-attr]
    torch.testing.assert_close(mean, loaded.probabilities(GRAPH, calibrated=False), atol=1e-5, rtol=0)
    assert not (folder / "trials").exists()
    header = json.loads((folder / "trials.jsonl").read_text().splitlines()[0])
    assert header["command"] == "auto"


def test_a_finished_search_is_loaded_and_never_overwritten(found, folder):
    again = search(out=folder, resume=True)
    assert (again.baselines, again.effects) == (found.baselines, found.effects)
    assert again.trials == json.loads(json.dumps(found.trials))
    with pytest.raises(ValueError, match="already holds an automatic search"):
        search(out=folder)


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("damage", ["half", "empty", "junk", "gone"])
@pytest.mark.parametrize("name", ["auto.json", "trials.jsonl", "run.json"])
def test_a_damaged_search_is_refused_with_a_sentence_or_read_as_it_was(folder, tmp_path, name, damage):
    copied = shutil.copytree(folder, tmp_path / "copied")
    content = (copied / name).read_bytes()
    (copied / name).unlink()
    if damage != "gone":
        (copied / name).write_bytes({"half": content[: len(content) // 2], "empty": b"", "junk": b"{}\n"}[damage])
    refusals = 0
    for read in (lambda: search(out=copied, resume=True).baselines, lambda: stored_facts(copied)):
        try:
            assert read()
        except (ValueError, OSError) as error:
            assert_refusal(error)
            refusals += 1
    assert refusals or (name, damage) == ("trials.jsonl", "half")  # that leaves out the last trial, with a warning


@pytest.mark.parametrize("after", [1, 3])
def test_a_search_that_was_killed_continues_with_its_trials(found, tmp_path, after):
    done = []

    def kill(_) -> None:
        done.append(1)
        if len(done) == after:
            raise StopError

    with pytest.raises(StopError):
        search(out=tmp_path / "killed", on_trial=kill)
    assert not (tmp_path / "killed" / "run.json").exists()
    resumed = search(out=tmp_path / "killed", resume=True)
    assert without_times(resumed.trials) == without_times(found.trials)
    assert resumed.ensemble.shares == found.ensemble.shares
    assert resumed.ensemble.results == found.ensemble.results


def test_the_time_that_was_spent_before_counts(tmp_path):
    with pytest.raises(StopError):
        search(out=tmp_path / "killed", on_trial=lambda _: (_ for _ in ()).throw(StopError))
    journal = tmp_path / "killed" / "trials.jsonl"
    header, line = map(json.loads, journal.read_text().splitlines())
    line = signed_part(line["name"], line["record"] | {"elapsed": 2 * LONG})
    journal.write_text(json.dumps(header) + "\n" + json.dumps(line) + "\n")
    assert len(search(out=tmp_path / "killed", resume=True).trials) == 1


def test_a_search_is_not_resumed_on_other_data_splits_seeds_or_settings(tmp_path):
    out = tmp_path / "killed"
    with pytest.raises(StopError):
        search(out=out, on_trial=lambda _: (_ for _ in ()).throw(StopError))
    other = csbm(nodes=120, phi=-0.4, information=0.5, seed=1)
    for options, message in (
        ({"data": other}, r"the data \(its digest\) was"),
        ({"splits": schemes.uniform(GRAPH.y, count=2)}, "scheme was stratified, now uniform"),
        ({"seed": 1}, "seed was 0, now 1"),
        ({"hidden": 9}, "hidden was 8, now 9"),
    ):
        with pytest.raises(ValueError, match=message):
            search(**options, out=out, resume=True)


def test_two_processes_cannot_write_to_one_folder(tmp_path):
    first = Journal(tmp_path, "key", command="auto", file="trials.jsonl")  # its lock also holds within one process
    with first, pytest.raises(ValueError, match="another command is writing to"):
        search(out=tmp_path)


def test_ctrl_c_and_should_stop_end_with_the_best_so_far(caplog):
    def interrupt(trial) -> None:
        if trial["trial"] == 1:
            raise KeyboardInterrupt

    result = search(on_trial=interrupt)
    assert len(result.trials) == 2
    assert "interrupted; the best so far is used" in caplog.text
    assert len(search(should_stop=lambda: True).trials) == 1

    class Terminated(KeyboardInterrupt):
        pass

    def terminate(_) -> None:
        raise Terminated

    with pytest.raises(Terminated):  # such as SIGTERM
        search(on_trial=terminate)


def test_progress_is_reported_while_it_trains():
    seen = []
    search(on_progress=seen.append)
    assert seen[0].best is None
    assert seen[-1].trials >= 3
    assert {"gcn", "mlp", "adaptkry"} <= {one.what for one in seen}
    assert all(one.time_limit == LONG for one in seen)


def test_a_time_limit_that_is_too_short_trains_one_recipe_and_states_the_minimum(caplog):
    result = search(time_limit=1e-3, epochs=100, patience=100)
    assert len(result.trials) == 1
    assert result.ensemble.chosen == [0, 1]
    assert "too short for one whole training, which needs up to" in caplog.text


def test_baselines_are_tried_even_if_the_first_training_began_slowly():
    search = AutoSearch(GraphData(GRAPH), SPLITS, "cpu", 0, {}, start=0.0, time_limit=10.0)
    search.starts = [8.0, 1.0]  # such as a truncated SVD of the features, and a GCN
    search.trained = [
        TrainedTrial({"method": name, "seconds": 9.0, "state": "complete"}, None) for name in ("adaptkry", "gcn")
    ]
    assert search.shortest([recipe("mlp")]) == 1.0
    assert search.shortest([recipe("gcn")]) == search.shortest([recipe("adaptkry")]) == 8.0


def test_the_minimum_that_is_stated_lets_the_first_training_end():
    search = AutoSearch(GraphData(GRAPH), SPLITS, "cpu", 0, {}, start=0.0, time_limit=10.0)
    search.add_needed(8.0, left=6.0)  # 0.4 of 20 seconds would have been enough
    search.add_needed(9.0, left=1.0)  # a slower one
    assert (search.needed, search.missing) == (8.0, pytest.approx(14.0 / 0.97))
    search.add_needed(1.5, left=0.5)  # trainings of less than 2 s may take all the time that is left
    assert (search.needed, search.missing) == (1.5, pytest.approx(1.0 / 0.97))


def test_a_resumed_search_with_a_whole_training_has_no_warning_about_the_time(tmp_path, monkeypatch, caplog):
    def kill(_) -> None:
        raise StopError

    with pytest.raises(StopError):
        search(out=tmp_path / "killed", on_trial=kill)
    monkeypatch.setattr(AutoSearch, "train", lambda self, _: self.add_needed(5.0, left=1.0))  # all others are ended
    assert [trial["is_whole"] for trial in search(out=tmp_path / "killed", resume=True).trials] == [True]
    assert "too short" not in caplog.text


def test_if_all_trials_fail_the_reason_is_given(monkeypatch):
    def fail(*_, **__):
        raise MemoryError("the features are too large")

    monkeypatch.setattr(trial_module, "fit", fail)
    with pytest.raises(ValueError, match=r"all \d+ failed, the first because: .* \(the features are too large\)\."):
        search()


def test_a_batch_that_does_not_fit_in_memory_is_divided_and_logged_once(monkeypatch, caplog):
    sizes = []

    def limited_fit(data, recipes, *rest, **options):
        sizes.append(len(recipes))
        if len(recipes) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 1 GiB")
        return fit(data, recipes, *rest, **options)

    batch = [recipe("adaptkry", degree=2, epochs=2, hidden=8, mlp_lr=rate) for rate in np.linspace(0.01, 0.02, 16)]
    monkeypatch.setattr(AutoSearch, "batches", lambda *_: iter([batch[:8], batch[8:]]))
    monkeypatch.setattr(trial_module, "fit", limited_fit)
    with caplog.at_level(logging.INFO, "adaptkry"):
        result = search()
    assert len(result.trials) == 16
    assert all(trial["state"] == "complete" for trial in result.trials)
    assert sizes == [8, 4, 2, 2, 4, 2, 2, *[2] * 4]
    assert caplog.text.count("do not fit in memory") == 1


def test_a_recipe_that_does_not_fit_in_memory_is_trained_on_some_splits_at_a_time(monkeypatch, caplog):
    sizes = []

    def limited_fit(data, recipes, splits, **options):
        sizes.append(len(splits))
        if len(splits) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 1 GiB")
        return fit(data, recipes, splits, **options)

    batch = [recipe("adaptkry", degree=2, epochs=30, hidden=8, mlp_lr=rate) for rate in (0.01, 0.02)]
    monkeypatch.setattr(AutoSearch, "batches", lambda *_: iter([batch[:1], batch[1:]]))
    monkeypatch.setattr(trial_module, "fit", limited_fit)
    five = schemes.stratified(GRAPH.y, count=5)
    with caplog.at_level(logging.INFO, "adaptkry"):
        result = search(splits=five)
    assert sizes == [5, 2, 3, 1, 2] * 2
    assert caplog.text.count("do not fit in memory") == 1
    part = result.ensemble.parts[0]
    assert part.predicted is not None
    assert [member.split for member in part.members] == [one.split for one in part.results] == list(range(5))
    torch.testing.assert_close(part.predicted, part.member_probabilities(GRAPH), atol=1e-5, rtol=0)
    for split in range(5):  # every member was trained and validated on its own split
        mask = five.validation[split]
        right = (part.predicted[split].argmax(1) == GRAPH.y)[mask].float().mean()
        assert part.results[split].validation == pytest.approx(float(right), abs=1e-6)


def test_only_the_best_trials_are_kept_and_baselines_always(monkeypatch, tmp_path):
    monkeypatch.setattr(auto_search, "KEPT_TRIALS", 2)
    monkeypatch.setattr(auto_search, "KEPT_OF_METHOD", 0)
    searches: list[AutoSearch] = []
    monkeypatch.setattr(auto_module, "finish", searches.append)
    search(out=tmp_path / "kept")
    trained = searches[0].trained
    kept = [t.row["trial"] for t in trained if t.run]
    assert {1, 2, 3} <= set(kept)  # the baselines
    assert len(kept) == 5
    others = {t.row["trial"]: t.row["validation"] for t in trained if t.row["method"] not in ("gcn", "mlp")}
    dropped = [score for number, score in others.items() if number not in kept]
    assert max(dropped) <= min(score for number, score in others.items() if number in kept)
    assert min(dropped) < max(others.values())
    assert sorted(int(path.name) for path in (tmp_path / "kept" / "trials").iterdir()) == sorted(kept)


def searched(*trials):
    """Return a search that has tried recipes with these validation scores."""
    tried = AutoSearch(GraphData(GRAPH), SPLITS, "cpu", 0, {}, 0.0, LONG)
    for one, validation in trials:
        row = {"method": one.method, "settings": one.to_dict(), "validation": validation, "seconds": 1.0}
        tried.add(TrainedTrial(row | {"state": "complete"}, cast(Any, object())))
    return tried


def test_the_best_trials_of_every_method_are_kept(monkeypatch):
    monkeypatch.setattr(auto_search, "KEPT_TRIALS", 4)
    monkeypatch.setattr(auto_search, "KEPT_OF_METHOD", 2)
    krylov = [(recipe("adaptkry", hidden=n), 0.8 + n / 100) for n in range(1, 5)]
    sage = [(recipe("sage", hidden=n), 0.5 + n / 100) for n in range(1, 4)]
    tried = searched(*sage, (recipe("mlp"), 0.1), *krylov)
    kept = [(t.row["method"], t.row["settings"]["hidden"]) for t in tried.trained if t.run]
    assert kept == [("sage", 2), ("sage", 3), ("mlp", 64), ("adaptkry", 3), ("adaptkry", 4)]


def test_the_search_varies_the_best_shape_of_every_method_that_is_close():
    krylov = [(recipe("adaptkry", layers=n), 0.8) for n in range(1, 6)]
    tried = searched(*krylov, (recipe("sage"), 0.795), (recipe("gat"), 0.6))
    methods = [{one.method for one in tried.propose_batch(number, 2)} for number in range(8)]
    assert methods == [{"adaptkry"}, {"sage"}, {"adaptkry"}, {"adaptkry"}] * 2


def labelled(labels, nodes=40):
    ring = np.stack([np.arange(nodes), np.roll(np.arange(nodes), 1)])
    return Graph(ring, np.random.default_rng(0).normal(size=(nodes, 3)), labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0] * 40, "training needs at least 2 classes; the 40 labelled nodes"),
        ([-1] * 40, "none of 40 nodes has a label"),
        ([0, 1, *[-1] * 38], "every split needs validation nodes"),
    ],
)
def test_graphs_without_enough_labels_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        search(labelled(labels), None)


def test_a_class_with_one_member_is_trained_with_a_warning():
    result = search(labelled([0] * 20 + [1] * 19 + [2]), None, count=2)
    assert result.ensemble.classes == 3
    assert any("lacks class 2" in text for text in result.ensemble.info.warnings)


@pytest.mark.parametrize(
    "limit", ["1e9h", "999999h", 0, -1.0, float("nan"), float("inf"), True, None, "", "5 parsecs", "-3s"]
)
def test_time_limits_must_be_positive(limit):
    with pytest.raises(ValueError, match="a time limit must be a positive number"):
        search(time_limit=limit)


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match="unknown setting 'hiden'"):
        search(hiden=3)


def test_the_portfolio_fits_the_graph_and_the_settings_of_the_user():
    for graph in (GRAPH, directed_csbm(nodes=60, seed=0)):
        data = GraphData(graph)
        published, suggested = recipe("adaptkry", "squirrel"), data.recipe("adaptkry")
        for group in portfolio(data, published, suggested, {"epochs": 7}, is_gpu=True):
            assert {one.epochs for one in group} == {7}
            common_recipe(group)  # raises an error if they cannot train as one batch
            assert len(set(group)) == len(group)
            assert group[0].method in ("adaptkry", "sage")  # no settings are published for this graph
            if not graph.is_directed:
                assert all(one.directions == ("both",) for one in group)


def test_labels_of_similar_nodes_come_early_where_many_nodes_share_their_neighbours():
    pairs = Graph([[0, 1, 2, 3, 4, 5] * 2, [6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11]], torch.ones(12, 2), [0, 1] * 6)
    for graph in (pairs, csbm(60, seed=0)):
        data = GraphData(graph)
        groups = portfolio(data, recipe("adaptkry", "cora"), data.recipe("adaptkry"), {}, is_gpu=False)
        counts = [group[0].similar_nodes for group in groups]
        assert set(counts) == {0, 16}
        early = sum(count > 0 for count in counts[:4])
        assert early == (2 if graph is pairs else 0)


def test_other_methods_are_tried_with_the_settings_published_for_the_graph():
    graph = csbm(60, seed=0)
    graph.info = replace(graph.info, known_as="actor")
    data = GraphData(graph)
    groups = list(portfolio(data, recipe("adaptkry", "actor"), recipe("adaptkry"), {}, is_gpu=False))
    found = {group[0].method: group[0] for group in groups}
    assert found["optbasis"] == recipe("optbasis", "actor")
    assert found["jacobiconv"] == recipe("jacobiconv", "actor")


def test_many_layers_are_tried_on_gpus_only():
    data = GraphData(GRAPH)
    layers = {
        is_gpu: max(group[0].layers for group in portfolio(data, None, data.recipe("adaptkry"), {}, is_gpu=is_gpu))
        for is_gpu in (False, True)
    }
    assert layers == {False: 3, True: 12}


def test_effects_compare_the_best_trials_of_two_values():
    def trial(taus, validations, method="adaptkry"):
        settings, mean = recipe(method, taus=taus).to_dict(), float(np.mean(validations))
        return {"state": "complete", "settings": settings, "method": method, "validation": mean,
                "validations": validations}  # fmt: skip

    trials = [trial((1.0,), [0.5, 0.6]), trial((0.5,), [0.8, 0.9]), trial((1.0,), [0.7, 0.7])]
    assert effects_of(trials[:1]) == []
    with_gcn = [*trials, trial((0.5,), [0.9, 0.9], "gcn")]  # has another degree, but was tried with one only
    assert [effect["factor"] for effect in effects_of(with_gcn)] == ["method", "method", "taus", "taus"]
    effects = effects_of(trials)
    assert effects == effects_of(with_gcn)[2:]
    other, best = effects
    assert (best["value"], best["trials"], best["difference"]) == ("0.5", 1, 0.0)
    assert (other["value"], other["trials"]) == ("1.0", 2)
    assert other["difference"] == pytest.approx(-0.15)
    assert other["half_width"] == pytest.approx(
        12.7062 * np.std([-0.1, -0.2], ddof=1) * np.sqrt(1 / 2 + 1 / 3), rel=1e-4
    )


def test_auto_is_public_and_takes_texts_as_time_limits():
    result = ak.auto(GRAPH, SPLITS, time_limit="1h", **QUICK)
    assert isinstance(result, ak.AutoResult)
    assert repr(result).startswith("AutoResult(")


def test_a_graph_without_features_has_structure_columns():
    bare = Graph(np.stack(GRAPH.adjacency.nonzero()), labels=GRAPH.y)
    found = ak.auto(bare, SPLITS, time_limit=5, device="cpu", epochs=3)
    methods = {trial["method"]: trial for trial in found.trials}
    assert {"adaptkry", "gcn", "mlp"} <= methods.keys()
    assert all(methods[name]["state"] == "complete" for name in ("adaptkry", "gcn", "mlp"))
    assert all(methods[name]["settings"]["structure"] for name in ("adaptkry", "gcn", "mlp"))


def test_settings_that_do_not_fit_the_graph_are_refused():
    with pytest.raises(ValueError, match="structure must be at most the number of nodes"):
        search(structure=10_000)


def test_trainings_that_the_time_limit_ended_are_no_evidence():
    def trial(taus, validation, **more):
        settings = recipe("adaptkry", taus=taus).to_dict()
        return {
            "state": "complete",
            "settings": settings,
            "validation": validation,
            "validations": [validation] * 2,
        } | more

    trials = [trial((0.5,), 0.8), trial((1.0,), 0.7, is_whole=False)]
    assert effects_of(trials) == []
    assert effects_of([trials[0], trial((1.0,), 0.7)])
    better = effects_of([trials[0], trial((1.0,), 0.9, is_whole=False)])  # already above all others
    assert [(one["value"], one["difference"]) for one in better if one["factor"] == "taus"][1] == ("1.0", 0.0)


def test_baselines_are_chosen_on_validation_nodes_and_scored_on_test_nodes():
    data, run = GraphData(GRAPH), fit(GRAPH, "mlp", SPLITS, seeds=4, predict=True, device="cpu", epochs=6)
    for i, result in enumerate(run.results):
        result.validation = 0.5 + 0.1 * (i // 2)  # the last training of each split is the best
    predicted = run.member_probabilities(GRAPH).argmax(-1)
    expected = [float((predicted[6 + s] == GRAPH.y)[SPLITS.test[s]].float().mean()) for s in range(2)]
    assert best_scores([run], data, SPLITS) == pytest.approx(expected)
    first = [float((predicted[s] == GRAPH.y)[SPLITS.test[s]].float().mean()) for s in range(2)]
    assert expected != pytest.approx(first)


def test_the_largest_class_is_that_of_training_nodes():
    nodes = torch.arange(30)
    labels = torch.where(nodes < 10, nodes < 6, torch.where(nodes < 20, nodes < 15, nodes < 22)).long()
    split = schemes.from_masks(nodes < 10, (nodes >= 10) & (nodes < 20), nodes >= 20)  # class 1: 6, 5 and 2 of 10
    assert largest_class_scores(GraphData(labelled(labels.numpy(), 30)), split) == pytest.approx([0.2])


def test_the_better_half_of_the_shapes_is_tried_with_all_rates(monkeypatch):
    """Shapes are scored by a made-up rule: those with more hidden units are better."""
    groups = [[recipe("adaptkry", hidden=8 * k, mlp_lr=lr) for lr in (0.01, 0.02, 0.03)] for k in (2, 4, 1, 3)]
    monkeypatch.setattr(auto_search, "portfolio", lambda *_, **__: [list(group) for group in groups])
    tried = AutoSearch(GraphData(GRAPH), SPLITS, "cpu", 0, {}, 0.0, LONG)
    monkeypatch.setattr(tried, "best_validation", lambda group: group[0].hidden)
    batches = list(islice(ALL_BATCHES(tried, None, recipe("adaptkry")), 4, 4 + 4 + 6))
    assert [[one.hidden for one in batch] for batch in batches[:4]] == [[16], [32], [8], [24]]
    assert {one.hidden for batch in batches[4:] for one in batch} == {32, 24}


@pytest.mark.parametrize(("proposed", "rounds"), [({3, 9}, [3, 9]), ({8, 18}, [8]), (set(), [])])
def test_the_search_goes_on_if_a_shape_has_nothing_left_to_try(monkeypatch, proposed, rounds):
    """Rounds 0, 1, 2, ... belong to shapes in turn; nine without a recipe end the search."""
    monkeypatch.setattr(auto_search, "portfolio", lambda *_, **__: [])
    tried = AutoSearch(GraphData(GRAPH), SPLITS, "cpu", 0, {}, 0.0, LONG)
    batch = [recipe("adaptkry", hidden=7)]
    asked = []

    def propose(number, _):
        asked.append(number)
        return [replace(batch[0], layers=number)] if number in proposed else []

    monkeypatch.setattr(tried, "propose_batch", propose)
    found = [one.layers for batch in ALL_BATCHES(tried, None, recipe("adaptkry")) for one in batch if one.hidden == 7]
    assert found == rounds
    assert asked == list(range(max(rounds, default=-1) + 10))


def test_the_search_varies_settings_of_all_methods_of_the_portfolio_around_their_values():
    """A setting with a single option, such as those of some grids, would only lead back to it."""
    for method in {shape["base"] for shape in table()["shapes"]} - {"published", "suggested"}:
        space = space_of(recipe(method), set(), False)
        assert {"mlp_lr", "mlp_decay"} <= set(space)
        assert all(len(kind.options) > 1 for kind in space.values() if isinstance(kind, Choice))
        assert all(isinstance(space[name], Range) for name in space if name in PER_MEMBER)
