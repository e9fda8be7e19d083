import builtins
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import adaptkry
from adaptkry.graphs import splits
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models import recipe_text as settings
from adaptkry.models.methods import FALLBACK_GRID, METHODS, PUBLISHED
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.selection import grid as tuning
from adaptkry.selection import space as spaces
from adaptkry.selection import trial as trials
from adaptkry.selection import tune as search
from adaptkry.selection.sampler import proposals
from adaptkry.training import fit as fitting
from adaptkry.training import run as runs

GRAPH = csbm(nodes=120, phi=-0.4, information=0.5, seed=0)
SPLIT = splits.stratified(GRAPH.y, count=2)
HERE = str(Path(adaptkry.__file__).parents[1])  # the program under test, wherever a command is run
ENVIRONMENT = {**os.environ, "OMP_WAIT_POLICY": "passive", "PYTHONPATH": HERE}
QUICK = {"epochs": 15, "device": "cpu"}


def tune(out: Path | None = None, graph=GRAPH, split=SPLIT, number: Any = 8, together: Any = 4, **options: Any):
    return adaptkry.tune(graph, split=split, trials=number, together=together, out=out, **QUICK | options)


def told(rows, *less):
    """Rows without what a second run takes from the clock."""
    return [{name: value for name, value in row.items() if name not in ("seconds", *less)} for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tuned(folder):
    return tune(folder)


def test_the_best_trial_on_validation_is_the_one_that_is_trained(tuned):
    run, rows = tuned
    assert [row["trial"] for row in rows] == list(range(8))
    best = trials.best(rows)
    assert best["validation"] == max(row["validation"] for row in rows)
    assert set(run.recipes) == {trials.recipe_of(best)}
    assert [row["validation"] for row in run.rows] == pytest.approx(best["validations"], abs=1e-6)
    assert all(row["test"] is not None for row in run.rows)


def test_a_trials_row_says_everything_but_a_test_score(tuned, folder):
    rows = tuned[1]
    written = (folder / "trials.jsonl").read_text()
    assert sorted(map(json.loads, written.splitlines()), key=lambda row: row["trial"]) == json.loads(json.dumps(rows))
    assert "test" not in written
    wanted = {"settings", "validation", "validations", "seconds", "state", "seed", "scheme", "metric", "version"}
    assert all(wanted <= row.keys() for row in rows)
    assert rows[3]["validation"] == pytest.approx(np.mean(rows[3]["validations"]))


def test_labels_of_test_nodes_change_no_trial():
    alone = splits.Splits(*(getattr(SPLIT, part)[:1] for part in splits.PARTS))
    hidden = GRAPH.relabelled(torch.where(alone.test[0], 1 - GRAPH.y, GRAPH.y))
    ours, theirs = (tune(split=alone, graph=graph) for graph in (GRAPH, hidden))
    assert told(ours[1], "search") == told(theirs[1], "search")  # `search` is a digest of the graph, labels and all
    assert ours[0].rows[0]["test"] == pytest.approx(1 - theirs[0].rows[0]["test"])


def test_the_same_seed_gives_the_same_trials_and_another_one_others(tuned):
    assert told(tune()[1]) == told(tuned[1])
    other = tune(seed=1)[1]
    assert other[0]["settings"] == tuned[1][0]["settings"]  # the defaults
    assert all(a["settings"] != b["settings"] for a, b in zip(other[1:], tuned[1][1:], strict=True))


@pytest.mark.parametrize("after", [1, 4, 6, 8], ids=lambda n: f"{n}-trials")
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(tuned, tmp_path, after):
    seen = []

    def stop(row):
        seen.append(row)
        if len(seen) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, done=stop)
    run, rows = tune(tmp_path, resume=True)
    assert told(rows) == told(tuned[1])
    assert run.rows == tuned[0].rows


def test_a_finished_search_is_not_trained_again_and_can_be_prolonged(tuned, tmp_path, monkeypatch):
    tune(tmp_path, number=6)
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "fit", None)
        assert told(tune(tmp_path, number=6, resume=True)[1]) == told(tuned[1][:6])
    run, rows = tune(tmp_path, resume=True)
    assert told(rows) == told(tuned[1])
    assert "best of 8 trials" in run.about["warnings"][-1]


def test_trials_of_one_batch_equal_the_same_settings_alone():
    made = [recipe("adaptkry", mlp_lr=lr, filter_dropout=p, epochs=15) for lr, p in ((0.01, 0.0), (0.05, 0.5))]
    assert len(tuning.batches(made)) == 1
    together = trials.train(GRAPH, made, SPLIT, "cpu")
    for one, row in zip(made, together, strict=True):
        alone = fitting.fit(GRAPH, one, SPLIT, device="cpu")
        assert row["validations"] == pytest.approx([r["validation"] for r in alone.rows], abs=1e-6)
        assert row["settings"] == asdict(one)


def test_trials_that_share_a_shape_train_as_one_batch(monkeypatch):
    sizes = []
    real = fitting.fit
    monkeypatch.setattr(fitting, "fit", lambda g, made, *a, **k: sizes.append(np.size(made)) or real(g, made, *a, **k))
    fixed = {"taus": (1.0,), "degree": 2, "hop_norm": False, "hidden": 16, "layers": 2}
    tune(**fixed)
    assert sizes == [4, 4, 1]  # two rounds, and the winner


def test_published_settings_and_defaults_are_tried_first():
    graph = csbm(nodes=80, seed=0)
    object.__setattr__(graph.info, "name", "squirrel")
    split = splits.stratified(graph.y, count=1)
    rows = tune(graph=graph, split=split, number=3, together=2, hidden=8)[1]
    assert [trials.recipe_of(row) for row in rows[:2]] == [
        recipe("adaptkry", "squirrel", hidden=8, epochs=15),
        recipe("adaptkry", None, hidden=8, epochs=15),
    ]
    assert rows[2]["settings"]["batch_norm"]  # what does not vary is as published
    assert {row["settings"]["hidden"] for row in rows} == {8}


def test_the_search_finds_the_direction_that_carries_the_classes():
    graph = directed_csbm(nodes=400, seed=0)
    free = {"directions", "taus", "degree"}
    fixed: dict[str, Any] = {name: getattr(recipe(), name) for name in spaces.SPACES["adaptkry"].keys() - free}
    split = splits.stratified(graph.y, count=2)
    rows = tune(graph=graph, split=split, number=12, together=6, epochs=40, **fixed)[1]
    best = trials.best(rows)
    assert "out" in best["settings"]["directions"]
    assert best["validation"] > rows[0]["validation"] + 0.05  # the defaults take both


def test_trials_that_fail_are_counted_and_the_search_goes_on(monkeypatch):
    real = fitting.fit

    def fit(graph, made, split, **options):
        if options.get("tested") is False and made[0].hidden == 256:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 1 GiB")
        run = real(graph, made, split, **options)
        for row in run.rows if made[0].hidden == 128 else ():  # type: ignore[index]
            row["validation"] = None
        return run

    monkeypatch.setattr(
        fitting, "fit", lambda g, made, s, **o: fit(g, made if isinstance(made, list) else [made], s, **o)
    )
    _, rows = tune(number=12)
    state = {row["settings"]["hidden"]: (row["state"], row["reason"]) for row in rows}
    assert state[256] == ("failed", "CUDA out of memory.")
    assert state[128] == ("failed", "the loss or the score was not finite on 2 of 2 splits")
    assert state[64] == ("complete", None)
    assert {row["validation"] is None for row in rows if row["state"] == "failed"} == {True}


def test_a_batch_that_does_not_fit_is_trained_one_by_one(monkeypatch):
    made = [recipe("adaptkry", mlp_lr=lr, epochs=3) for lr in (0.01, 0.05)]
    wanted = told(trials.train(GRAPH, made, SPLIT, "cpu"))
    real = fitting.fit

    def fit(graph, made, *rest, **options):
        if len(made) > 1:
            raise MemoryError
        return real(graph, made, *rest, **options)

    monkeypatch.setattr(fitting, "fit", fit)
    assert told(trials.train(GRAPH, made, SPLIT, "cpu")) == wanted


def test_a_search_in_which_everything_fails_says_why():
    with pytest.raises(ValueError, match=r"none of 4 trials could be trained. The first one: .*unknown stage"):
        tune(number=4, stages=("combine", "foo"))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_something_to_search_and_recipes_that_can_be_made_of_it(method):
    made = recipe(method)
    space = spaces.space_of(made, (), True)
    assert space
    for found, _ in zip(proposals(space, [], 0), range(5), strict=False):
        one = replace(made, **found)
        dials = spaces.dials_at(space, vars(one))
        assert spaces.settings_at(space, dials | {k: 0 for k in spaces.dials_of(space).keys() - dials.keys()}) == found


@pytest.mark.parametrize("method", ["adaptkry", "orthkry", "asgc", "unifilter", "gprgnn", "gcn", "mlp"])
def test_a_search_runs_for_methods_of_every_make(method, tmp_path):
    run, rows = tune(tmp_path, method=method, number=3, together=3, epochs=3)
    assert [row["state"] for row in rows] == ["complete"] * 3
    written = settings.from_toml(tmp_path / "tuned.toml")
    assert recipe(written.pop("method"), "csbm", **written) == run.recipes[0]


def test_settings_that_change_nothing_or_are_fixed_are_not_searched():
    undirected = spaces.space_of(recipe("adaptkry"), {"hidden"}, False)
    assert not undirected.keys() & {"directions", "hidden"}
    beside = spaces.space_of(recipe("adaptkry", "genius"), (), True)
    assert not beside.keys() & {"filter_lr", "filter_decay", "filter_dropout"}
    assert spaces.space_of(recipe("gcn"), (), True) == {
        name: spaces.Choice(options) for name, options in FALLBACK_GRID["gcn"].items()
    }
    assert spaces.space_of(Recipe(method="of one's own"), (), True) == spaces.RATES


def test_dials_cannot_reach_what_lies_outside_of_the_space():
    space = spaces.SPACES["adaptkry"]
    for name in PUBLISHED["adaptkry"]:
        dials = spaces.dials_at(space, vars(recipe("adaptkry", name)))
        assert {"taus_1", "degree", "hidden", "layers"} <= dials.keys()
    assert "mlp_decay" not in spaces.dials_at(space, vars(recipe("adaptkry", mlp_decay=0.0)))
    assert "taus_1" not in spaces.dials_at(space, vars(recipe("adaptkry", taus=(0.55,))))


def test_a_small_space_ends_the_search_when_all_of_it_was_tried():
    rows = tune(method="gcn", number=40, together=8, epochs=2)[1]
    assert len({trials.recipe_of(row) for row in rows}) == len(rows) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": 0}, "number of trials must be 1 or more, but 0 came"),
        ({"together": -1}, "trials together must be 1 or more, but -1 came"),
        ({"method": "adaptcry"}, "Did you mean 'adaptkry'"),
        ({"hiden": 3}, "Did you mean 'hidden'"),
        ({"graph": GRAPH.relabelled(torch.zeros(120, dtype=torch.long))}, "2 classes"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input_is_one_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        tune(**options)


@pytest.mark.usefixtures("tuned")
def test_trials_are_neither_overwritten_nor_mixed_with_those_of_another_search(folder):
    with pytest.raises(ValueError, match="holds 8 trials already: go on with --resume"):
        tune(folder)
    others: list[dict[str, Any]] = [{"seed": 1}, {"hidden": 8}, {"graph": csbm(nodes=120, seed=1)}, {"together": 2}]
    for other in others:
        with pytest.raises(ValueError, match="of another search"):
            tune(folder, resume=True, **other)


def test_without_optuna_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "optuna":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'adaptkry\[tune\]'"):
        tune(number=1)


def test_every_setting_survives_a_file(tmp_path):
    for method in METHODS:
        for graph in (None, *PUBLISHED.get(method, ())):
            made = recipe(method, graph)
            path = tmp_path / "settings.toml"
            path.write_text(settings.as_toml(made, "two\nlines"))
            assert Recipe(**settings.from_toml(path)) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hiden = 3", "settings.toml: unknown setting 'hiden'. Did you mean 'hidden'"),
        ("hidden = 3.5", "hidden wants a whole number, but 3.5 came"),
        ("hidden = true", "hidden wants a whole number, but True came"),
        ("mlp_lr = nan", "mlp_lr wants a number, but nan came"),
        ("taus = 0.5", "taus wants a number or more in a list, but 0.5 came"),
        ("basis_options = 1", "wants a table such as"),
        ("hidden 3", "holds no settings in TOML"),
    ],
)
def test_a_file_that_holds_no_settings_is_refused(text, message, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        settings.from_toml(path)


def start(*words, cwd):
    return subprocess.Popen(
        [sys.executable, "-m", "adaptkry", *map(str, words)], cwd=cwd, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )  # fmt: skip


def test_a_tuned_run_is_a_run_folder_and_fit_gives_the_same_rows_again(tmp_path, command):
    words = ["csbm-directed", "--splits", 2, "--split", "stratified"]
    options = ["--epochs", 10, "--trials", 4, "--together", 2]
    said = command("tune", *words, *options, "--out", "tuned", cwd=tmp_path).out
    for part in ("best of 4 trials", "validation accuracy", "test accuracy", "optimistic", "tuned/report.html"):
        assert part in said
    files = {path.name for path in (tmp_path / "tuned").iterdir()}
    assert {"run.json", "rows.jsonl", "picture.png", "facts.json", "report.html", "trials.jsonl", "tuned.toml"} <= files
    again = command("fit", *words, "--settings", "tuned/tuned.toml", "--out", "again", "--json", cwd=tmp_path)
    found = json.loads(again.out)
    assert found["rows"] == [json.loads(line) for line in (tmp_path / "tuned" / "rows.jsonl").read_text().splitlines()]


def test_a_stopped_search_tells_what_is_kept_and_how_to_go_on(tmp_path):
    process = start("tune", "csbm", "--trials", 1000, "--together", 1, "--splits", 2, "--out", "long", cwd=tmp_path)
    deadline = time.time() + 60
    while not (tmp_path / "long" / "trials.jsonl").exists() and time.time() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    kept = len((tmp_path / "long" / "trials.jsonl").read_text().splitlines())
    assert f"interrupted; {kept} trials are kept; the same command with --resume continues in long" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune", "csbm", "--method", "adaptcry"], "Did you mean 'adaptkry'"),
        (["tune", "csbm", "--trials", "0"], "number of trials must be 1 or more, but 0 came"),
        (["tune", "csbm", "--set", "hiden=3"], "Did you mean 'hidden'"),
        (["fit", "csbm", "--settings", "missing.toml"], "missing.toml"),
        (
            ["fit", "csbm", "--settings", "mlp.toml", "--method", "gcn"],
            "must be mlp, whose settings are in mlp.toml; got gcn",
        ),
    ],
    ids=lambda value: "-".join(value[2:]) if isinstance(value, list) else "",
)
def test_a_users_mistake_is_one_sentence(words, message, tmp_path, command):
    (tmp_path / "mlp.toml").write_text('method = "mlp"\n')
    assert message in " ".join(command(*words, code=2, cwd=tmp_path).err.split())


def test_help_has_examples_and_tells_what_is_tried_first(command):
    said = command("tune", "--help").out
    assert "Examples:" in said
    assert "The published settings and the defaults are tried first" in said


def test_a_run_that_was_being_written_when_the_search_was_killed_is_trained_again(tmp_path):
    run, _ = tune(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"half")
    assert tune(tmp_path, resume=True)[0].rows == run.rows
    assert runs.load_run(tmp_path).recipes == run.recipes
    assert search.NOTE.format(8) in run.about["warnings"]
