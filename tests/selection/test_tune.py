import builtins
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import adaptkry
from adaptkry.graphs import splits as schemes
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models import recipe_text
from adaptkry.models.methods import METHODS, read_method
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.selection import trial as trial_module
from adaptkry.selection import tune as tune_module
from adaptkry.selection.grid import group_into_batches
from adaptkry.selection.sampler import propose
from adaptkry.selection.space import (
    DEFAULT_SPACE,
    Choice,
    parameters_of,
    parse_space,
    space_of,
    to_parameters,
    to_settings,
)
from adaptkry.selection.trial import best_trial, changed_recipe, recipe_of, train_trials, trial_row
from adaptkry.training.data import GraphData
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

GRAPH = csbm(nodes=120, phi=-0.4, information=0.5, seed=0)
DATA = GraphData(GRAPH)
SPLITS = schemes.stratified(GRAPH.y, count=2)
QUICK = {"epochs": 15, "device": "cpu"}
ADAPTKRY_SPACE = parse_space(METHODS["adaptkry"].search_space)


def tune(out: Path | None = None, graph=GRAPH, splits=SPLITS, trials: Any = 8, together: Any = 4, **options: Any):
    return adaptkry.tune(graph, splits=splits, trials=trials, together=together, out=out, **QUICK | options)


def without_times(trials):
    """Return trials as JSON gives them back, without their duration, which differs between runs."""
    plain = json.loads(json.dumps(trials))
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in plain]


def rows_of(run):
    return json.loads(json.dumps([result.to_row() for result in run.results]))


def count_fits(monkeypatch):
    """Return the list to which every later call of `fit` appends its number of recipes."""
    sizes = []

    def counting_fit(data, method, *rest, **options):
        sizes.append(1 if isinstance(method, Recipe) else len(method))
        return fit(data, method, *rest, **options)

    for module in (trial_module, tune_module):
        monkeypatch.setattr(module, "fit", counting_fit)
    return sizes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tuned(folder):
    return tune(folder)


def test_the_best_trial_on_validation_is_trained_and_tested(tuned):
    run, trials = tuned
    assert [trial["trial"] for trial in trials] == list(range(8))
    best = best_trial(trials)
    assert best["validation"] == max(trial["validation"] for trial in trials)
    assert set(run.recipes) == {recipe_of(best)}
    assert [result.validation for result in run.results] == pytest.approx(best["validations"], abs=1e-6)
    assert all(result.test is not None for result in run.results)


def test_a_trial_records_everything_except_a_test_score(tuned, folder):
    trials = tuned.trials
    written = (folder / "trials.jsonl").read_text()
    header, *lines = map(json.loads, written.splitlines())
    assert header["command"] == "tune"
    assert header["request"]["seed"] == 0
    found = [line["record"] | {"trial": int(line["name"])} for line in lines]
    assert sorted(found, key=lambda trial: trial["trial"]) == json.loads(json.dumps(trials))
    assert "test" not in written
    expected = {"settings", "validation", "validations", "seconds", "state", "seed", "scheme", "metric", "version"}
    assert all(expected <= trial.keys() for trial in trials)
    assert trials[3]["validation"] == pytest.approx(np.mean(trials[3]["validations"]))


def test_labels_of_test_nodes_change_no_trial():
    single = SPLITS.take(1)
    other = GRAPH.relabelled(torch.where(single.test[0], 1 - GRAPH.y, GRAPH.y))
    original, relabelled = (tune(splits=single, graph=graph) for graph in (GRAPH, other))
    assert without_times(original.trials) == without_times(relabelled.trials)
    assert original.run.test_scores[0] == pytest.approx(1 - relabelled.run.test_scores[0])


def test_the_same_seed_gives_the_same_trials_and_another_seed_gives_others(tuned):
    assert without_times(tune().trials) == without_times(tuned.trials)
    other = tune(seed=1).trials
    assert other[0]["settings"] == tuned.trials[0]["settings"]  # the suggested ones, before the defaults
    assert all(a["settings"] != b["settings"] for a, b in zip(other[2:], tuned.trials[2:], strict=True))


@pytest.mark.parametrize("after", [1, 4, 6, 8], ids=lambda n: f"{n}-trials")
def test_a_stopped_search_continues_as_if_it_had_not_been_stopped(tuned, tmp_path, after):
    seen = []

    def stop(trial):
        seen.append(trial)
        if len(seen) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, on_trial=stop)
    run, trials = tune(tmp_path, resume=True)
    assert without_times(trials) == without_times(tuned.trials)
    assert rows_of(run) == rows_of(tuned.run)


def test_a_finished_search_is_not_trained_again_and_can_be_extended(tuned, tmp_path, monkeypatch):
    tune(tmp_path, trials=6)
    sizes = count_fits(monkeypatch)
    assert without_times(tune(tmp_path, trials=6, resume=True).trials) == without_times(tuned.trials[:6])
    assert sizes == []
    run, trials = tune(tmp_path, resume=True)
    assert without_times(trials) == without_times(tuned.trials)
    assert "best of 8 trials" in run.info.warnings[-1]


def test_trials_of_one_batch_equal_separate_trainings():
    recipes = [recipe("adaptkry", mlp_lr=lr, filter_dropout=p, epochs=15) for lr, p in ((0.01, 0.0), (0.05, 0.5))]
    assert len(group_into_batches(recipes)) == 1
    trials = [trained.row for trained in train_trials(DATA, recipes, SPLITS, "cpu")]
    for one, trial in zip(recipes, trials, strict=True):
        separate = fit(GRAPH, one, SPLITS, device="cpu")
        assert trial["validations"] == pytest.approx([result.validation for result in separate.results], abs=1e-6)
        assert trial["settings"] == one.to_dict()


def test_trials_of_one_shape_train_as_one_batch(monkeypatch):
    sizes = count_fits(monkeypatch)
    fixed = {"layer_norm": False, "combine_hops": "sum", "tied": True, "structure_layer": False}
    tune(taus=(1.0,), degree=2, hop_norm=False, hidden=16, layers=2, **fixed)
    assert sizes == [4, 4, 1]  # two rounds, and the best settings


def test_published_settings_and_defaults_are_tried_first():
    graph = csbm(nodes=80, seed=0)
    object.__setattr__(graph.info, "known_as", "squirrel")
    splits = schemes.stratified(graph.y, count=1)
    trials = tune(graph=graph, splits=splits, trials=3, together=2, hidden=8).trials
    assert [recipe_of(trial) for trial in trials[:2]] == [
        recipe("adaptkry", "squirrel", hidden=8, epochs=15),
        recipe("adaptkry", None, hidden=8, epochs=15),
    ]
    assert trials[2]["settings"]["batch_norm"]  # what does not vary is as published
    assert {trial["settings"]["hidden"] for trial in trials} == {8}


def test_the_search_finds_the_direction_that_predicts_the_classes():
    graph = directed_csbm(nodes=400, seed=0)
    varied = {"directions", "taus", "degree"}
    fixed: dict[str, Any] = {name: getattr(recipe(), name) for name in ADAPTKRY_SPACE.keys() - varied}
    splits = schemes.stratified(graph.y, count=2)
    trials = tune(graph=graph, splits=splits, trials=12, together=6, epochs=40, **fixed).trials
    best = best_trial(trials)
    assert "out" in best["settings"]["directions"]
    assert "out" in trials[0]["settings"]["directions"]  # as suggested for a directed graph
    assert best["validation"] > trials[1]["validation"] + 0.05  # the defaults use both


def test_failed_trials_have_a_reason_and_the_search_continues(monkeypatch):
    def failing_fit(data, recipes, splits, **options):
        assert options["test"] is False
        if recipes[0].hidden == 256:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 1 GiB")
        run = fit(data, recipes, splits, **options)
        for result in run.results if recipes[0].hidden == 128 else ():
            result.validation = None
        return run

    monkeypatch.setattr(trial_module, "fit", failing_fit)
    trials = tune(trials=12).trials
    state = {trial["settings"]["hidden"]: (trial["state"], trial["reason"]) for trial in trials}
    assert state[256] == ("failed", "there is not enough memory (CUDA out of memory)")
    assert state[128] == ("failed", "the loss or the score was not finite on 2 of 2 splits")
    assert state[64] == ("complete", None)
    assert {trial["validation"] is None for trial in trials if trial["state"] == "failed"} == {True}


def test_recipes_that_do_not_fit_as_one_batch_are_trained_one_after_the_other(monkeypatch):
    recipes = [recipe("adaptkry", mlp_lr=lr, epochs=3) for lr in (0.01, 0.05)]

    def rows():
        return without_times([trained.row for trained in train_trials(DATA, recipes, SPLITS, "cpu")])

    expected = rows()

    def small_fit(data, recipes, *rest, **options):
        if len(recipes) > 1:
            raise MemoryError
        return fit(data, recipes, *rest, **options)

    monkeypatch.setattr(trial_module, "fit", small_fit)
    assert rows() == expected


def test_if_every_trial_fails_the_error_has_the_first_reason(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("out of memory\nwith a long explanation")

    monkeypatch.setattr("adaptkry.selection.trial.fit", fail)
    with pytest.raises(
        ValueError, match=r"at least one trial must be trained; all 4 failed, the first because: .*out of memory"
    ):
        tune(trials=4)
    with pytest.raises(ValueError, match="is undirected, so directions must be both; got out"):
        tune(trials=4, directions=("out",))


@pytest.mark.parametrize(
    "bug", [ValueError("zip() argument 2 is longer"), RuntimeError("shapes differ"), KeyError("x")]
)
def test_a_bug_is_not_taken_for_a_trial_that_fails(monkeypatch, bug):
    monkeypatch.setattr("adaptkry.selection.trial.fit", mock.Mock(side_effect=bug))
    with pytest.raises(type(bug)):
        tune(trials=2)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_space_whose_settings_are_valid_recipes(method):
    base = recipe(method)
    space = space_of(base, (), True)
    assert space
    data = GraphData(directed_csbm(nodes=20, seed=0))
    proposals = [settings for settings, _ in zip(propose(space, [], 0), range(10), strict=False)]
    valid = [settings for settings in proposals if changed_recipe(data, base, settings) is not None]
    assert len(valid) >= 5
    for found in valid:
        one = replace(base, **found)
        parameters = to_parameters(space, vars(one))
        unused = {name: 0 for name in parameters_of(space).keys() - parameters.keys()}
        assert to_settings(space, parameters | unused) == found


@pytest.mark.parametrize("method", ["adaptkry", "orthkry", "asgc", "unifilter", "gprgnn", "gcn", "mlp"])
def test_tune_works_for_methods_of_every_kind(method, tmp_path):
    run, trials = tune(tmp_path, method=method, trials=3, together=3, epochs=3)
    assert [trial["state"] for trial in trials] == ["complete"] * 3
    written = recipe_text.from_toml(tmp_path / "tuned.toml")
    assert recipe(written.pop("method"), "csbm", **written) == run.recipes[0]


def test_settings_without_effect_or_fixed_ones_are_not_varied(monkeypatch):
    undirected = space_of(recipe("adaptkry"), {"hidden"}, False)
    assert not undirected.keys() & {"directions", "hidden"}
    concatenated = space_of(recipe("adaptkry", "genius"), {"combine_hops"}, True)
    assert not concatenated.keys() & {"filter_lr", "filter_decay", "filter_dropout"}
    assert "filter_lr" in space_of(recipe("adaptkry", "genius"), (), True)  # other trials have weighted hops
    assert "combine_hops" not in space_of(recipe("adaptkry", per_channel=True), (), True)
    assert not concatenated.keys() & {"layer_norm", "label_smoothing"}  # it has batch norm and the binary loss
    assert space_of(recipe("gcn"), (), True) == {
        name: Choice(options) for name, options in METHODS["gcn"].fallback_grid.items()
    }
    text = 'title = "New"\ndescription = ""\nsource = "none"\n[settings]\n'
    monkeypatch.setitem(METHODS, "new", read_method("new", text))
    assert space_of(recipe("new"), (), True) == DEFAULT_SPACE


def test_parameters_outside_the_space_are_left_out():
    for name in METHODS["adaptkry"].published:
        parameters = to_parameters(ADAPTKRY_SPACE, vars(recipe("adaptkry", name)))
        assert {"taus_1", "degree", "hidden", "layers"} <= parameters.keys()
    assert "mlp_decay" not in to_parameters(ADAPTKRY_SPACE, vars(recipe("adaptkry", mlp_decay=0.0)))
    assert "taus_1" not in to_parameters(ADAPTKRY_SPACE, vars(recipe("adaptkry", taus=(0.55,))))


def test_the_search_ends_when_a_small_space_is_exhausted():
    trials = tune(method="gcn", trials=40, together=8, epochs=2).trials
    assert len({recipe_of(trial) for trial in trials}) == len(trials) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials must be 1 or more; got 0"),
        ({"together": -1}, "together must be 1 or more; got -1"),
        ({"method": "adaptcry"}, "Did you mean 'adaptkry'"),
        ({"hiden": 3}, "Did you mean 'hidden'"),
        ({"stages": ({"stage": "CombineHops"}, {"stage": "Foo"})}, "unknown stage 'Foo'"),
        ({"graph": GRAPH.relabelled(torch.zeros(120, dtype=torch.long))}, "2 classes"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tune(**options)


@pytest.mark.usefixtures("tuned")
def test_trials_are_neither_overwritten_nor_mixed_with_those_of_another_search(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"already holds a search \(8 finished\). Add --resume"):
        tune(folder)
    others: list[tuple[dict[str, Any], str]] = [
        ({"seed": 1}, "seed was 0, now 1"),
        ({"hidden": 8}, "hidden was not set, now 8"),
        ({"graph": csbm(nodes=120, seed=1)}, "the data .* was"),
        ({"together": 2}, "together was 4, now 2"),
    ]
    for other, named in others:
        with pytest.raises(ValueError, match=f"was started with other settings: .*{named}"):
            tune(folder, resume=True, **other)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_without_optuna_the_error_says_what_to_install(monkeypatch):
    original_import = builtins.__import__

    def import_without_optuna(name, *rest):
        if name.partition(".")[0] == "optuna":
            raise ImportError(name)
        return original_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", import_without_optuna)
    with pytest.raises(ImportError, match=r"pip install 'adaptkry\[tune\]'"):
        tune(trials=1)


def test_settings_written_to_a_file_are_read_back(tmp_path):
    for name, method in METHODS.items():
        for graph in (None, *method.published):
            used = recipe(name, graph)
            path = tmp_path / "settings.toml"
            path.write_text(recipe_text.to_toml(used, "two\nlines"))
            assert Recipe(**recipe_text.from_toml(path)) == used


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hiden = 3", "settings.toml: unknown setting 'hiden'. Did you mean 'hidden'"),
        ("hidden = 3.5", "the setting hidden must be a whole number; got 3.5"),
        ("hidden = true", "the setting hidden must be a whole number; got True"),
        ("mlp_lr = nan", "the setting mlp_lr must be a number; got nan"),
        ("taus = 0.5", "the setting taus must be a number or several in a list; got 0.5"),
        ("basis_options = 1", "the setting basis_options must be a table such as"),
        ("hidden 3", "must hold settings in TOML"),
    ],
)
def test_a_file_without_valid_settings_is_refused(text, message, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        recipe_text.from_toml(path)


def test_a_tuned_run_is_a_run_folder_and_fit_gives_the_same_rows_again(tmp_path, command):
    arguments = ["csbm-directed", "--splits", 2, "--split", "stratified"]
    options = ["--epochs", 10, "--trials", 4, "--together", 2]
    printed = command("tune", *arguments, *options, "--out", "tuned", cwd=tmp_path).out
    for part in ("best of 4 trials", "validation accuracy", "test accuracy", "optimistic", "tuned/report.html"):
        assert part in printed
    files = {path.name for path in (tmp_path / "tuned").iterdir()}
    assert {"run.json", "rows.jsonl", "picture.png", "facts.json", "report.html", "trials.jsonl", "tuned.toml"} <= files
    printed = command("fit", *arguments, "--settings", "tuned/tuned.toml", "--out", "again", "--json", cwd=tmp_path)
    found = json.loads(printed.out)
    assert found["rows"] == [json.loads(line) for line in (tmp_path / "tuned" / "rows.jsonl").read_text().splitlines()]


def test_an_interrupted_search_prints_what_is_kept_and_how_to_resume(tmp_path, command, monkeypatch):
    """Ctrl-C in this process, in the third trial."""
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return train_trials(*arguments)

    monkeypatch.setattr(tune_module, "train_trials", interrupted)
    arguments = ["--trials", 1000, "--together", 1, "--splits", 2, "--epochs", 5, "--out", "long"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    try:
        printed = command("tune", "csbm", *arguments, code=130, cwd=tmp_path).err
    finally:
        signal.signal(signal.SIGINT, before)
    assert len((tmp_path / "long" / "trials.jsonl").read_text().splitlines()) == 1 + 2  # a header, two trials
    assert "interrupted; 2 trials are saved; the same command with --resume continues in long" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune", "csbm", "--method", "adaptcry"], "Did you mean 'adaptkry'"),
        (["tune", "csbm", "--trials", "0"], "trials must be 1 or more; got 0"),
        (["tune", "csbm", "--set", "hiden=3"], "Did you mean 'hidden'"),
        (["fit", "csbm", "--settings", "missing.toml"], "missing.toml"),
        (
            ["fit", "csbm", "--settings", "mlp.toml", "--method", "gcn"],
            "must be mlp, whose settings are in mlp.toml; got gcn",
        ),
    ],
    ids=lambda value: "-".join(value[2:]) if isinstance(value, list) else "",
)
def test_invalid_arguments_give_one_message(arguments, message, tmp_path, command):
    (tmp_path / "mlp.toml").write_text('method = "mlp"\n')
    assert message in " ".join(command(*arguments, code=2, cwd=tmp_path).err.split())


def test_help_has_examples_and_says_what_is_tried_first(command):
    printed = command("tune", "--help").out
    assert "Examples:" in printed
    assert "The published or suggested settings and the defaults are tried first" in printed


def test_a_run_that_was_only_partly_written_is_trained_again(tmp_path, tuned, folder):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "weights.safetensors").write_bytes(b"half")
    assert rows_of(tune(tmp_path, resume=True).run) == rows_of(tuned.run)
    assert load_run(tmp_path).main.recipes == tuned.run.recipes
    assert tune_module.NOTE.format(8) in tuned.run.info.warnings


def test_no_recipe_is_tried_twice_and_rounds_draw_different_numbers(tuned):
    recipes = [recipe_of(trial) for trial in tuned.trials]
    assert len(set(recipes)) == len(recipes)
    search = tune_module.make_search(DATA, "adaptkry", SPLITS, 0, 4, "cpu", {"epochs": 15})
    first, second = (search.propose_round(start, []) for start in (4, 8))
    assert not set(first) & set(second)
    again = search.propose_round(
        8, [{"settings": one.to_dict(), "metric": "accuracy", "validation": 0.5} for one in first]
    )
    assert not set(again) & set(first)


def test_recipes_that_were_tried_are_not_proposed_again(monkeypatch):
    search = tune_module.make_search(DATA, "adaptkry", SPLITS, 0, 2, "cpu", {"epochs": 15})
    proposed = [{"hidden": hidden} for hidden in (8, 16, 8, 32, 16)]
    monkeypatch.setattr(tune_module, "propose", lambda *_: iter(proposed))
    tried = [{"settings": replace(search.first[0], hidden=8).to_dict(), "metric": "accuracy", "validation": 0.5}]
    assert [one.hidden for one in search.propose_round(2, tried)] == [16, 32]


def test_a_trial_without_a_score_on_every_split_has_failed():
    row = trial_row(recipe("adaptkry"), [0.9, None, 0.8], "")
    assert (row["state"], row["validation"]) == ("failed", None)
    assert row["reason"] == "the loss or the score was not finite on 1 of 3 splits"
    complete = trial_row(recipe("adaptkry"), [0.9, 0.7], "")
    assert (complete["state"], complete["validation"]) == ("complete", pytest.approx(0.8))


def test_proposals_are_near_the_settings_with_the_highest_scores():
    space = parse_space({"mlp_dropout": {"low": 0.0, "high": 0.9}})
    trials = [({"mlp_dropout": k / 40}, k / 40) for k in range(37)]
    proposed = [next(propose(space, trials, seed))["mlp_dropout"] for seed in range(8)]
    assert np.mean(proposed) > 0.6
