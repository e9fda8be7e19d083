"""Training from a basis folder: the figures of memory, whatever is killed on the way."""

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adaptkry.graphs.splits import Splits, from_masks
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import inputs_of, recipe
from adaptkry.models.stages import ModelShape
from adaptkry.outofcore import BasisFolder, propagate
from adaptkry.outofcore.basis_reader import BasisReader
from adaptkry.report.html import read_facts
from adaptkry.report.run_report import write_pages
from adaptkry.training import folder_fit as from_disk
from adaptkry.training import folder_recipe as matching
from adaptkry.training import predict as predictions
from adaptkry.training import run as runs
from adaptkry.training.batches import FolderTerms, InMemoryTerms, Plan, Stream
from adaptkry.training.loop import Member, Training
from adaptkry.training.process_group import Group
from contracts import assert_same_bits

NODES = 300
QUICK: dict[str, Any] = dict(degree=2, hidden=12, epochs=6, filter_dropout=0.2, mlp_dropout=0.3)


def quick(**changes) -> dict[str, Any]:
    return QUICK | changes


ROOT = Path(__file__).resolve().parents[2]


def graph_of(unknown=0.0, **options):
    """A graph of which a share of the labels is not known."""
    graph = csbm(nodes=NODES, phi=-0.6, information=0.7, classes=3, seed=0, **options)
    graph.y[torch.rand(NODES, generator=torch.Generator().manual_seed(1)) < unknown] = -1
    return graph


GRAPH = graph_of()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two taus, three hops, in blocks of a few columns."""
    return propagate(GRAPH, tmp_path_factory.mktemp("disk") / "basis", taus=[0.5, 1.0], degree=3, columns=6)


@pytest.fixture
def small(monkeypatch):
    """Slabs of some 40 rows, so that a small folder has several."""
    monkeypatch.setattr("adaptkry.training.batches.SLAB", 40 * 3 * 16 * 4)


def fit(
    folder, made=None, *, memory: int | str = 0, batch=17, split: Splits | str = "stratified", count=2, **options: Any
):
    made = matching.recipe_for(folder, **quick()) if made is None else made
    return from_disk.fit(folder, made, split, count=count, memory=memory, batch=batch, device="cpu", **options)


def assert_same_run(one, other, rtol=1e-5, atol=1e-6):
    assert [row["epoch"] for row in one.rows] == [row["epoch"] for row in other.rows]
    np.testing.assert_allclose([r["test"] for r in one.rows], [r["test"] for r in other.rows], atol=1e-6)
    for name, w in one.weights.items():
        torch.testing.assert_close(w, other.weights[name], rtol=rtol, atol=atol)
    for name, curve in one.curves.items():
        np.testing.assert_allclose(curve, other.curves[name], rtol=1e-4)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("shape", [{}, {"batch_norm": True, "layers": 3}, {"tied": False}, {"method": "sign"}], ids=str)
def test_training_from_disk_is_training_in_memory_for_several_splits_and_settings(folder, shape):
    made = matching.recipe_for(folder, **quick(**shape))
    pair = [made, replace(made, mlp_lr=0.05, filter_decay=1e-3)]
    disk, memory = (fit(folder, pair, memory=memory) for memory in (0, "1GiB"))
    assert len(disk.rows) == 4
    assert_same_run(disk, memory)


@pytest.mark.usefixtures("small")
def test_the_streams_are_what_they_are_said_to_be(folder):
    made = matching.recipe_for(folder, **quick())
    on_disk, held = (from_disk.stream_of(folder, made, 17, memory, "cpu") for memory in (0, "1GiB"))
    assert isinstance(on_disk.source, FolderTerms)
    assert isinstance(held.source, InMemoryTerms)
    assert on_disk.plan.slabs == held.plan.slabs > 3
    everyone = torch.ones(NODES, dtype=torch.bool)
    for epoch in range(2):
        pairs = zip(on_disk.training(epoch, everyone), held.training(epoch, everyone), strict=True)
        for (ours, rows), (theirs, others) in pairs:
            assert_same_bits(ours, theirs)
            assert_same_bits(rows, others)


@pytest.mark.usefixtures("small")
def test_members_alone_are_themselves_in_company(folder):
    made = matching.recipe_for(folder, **quick())
    pair = [made, replace(made, mlp_lr=0.05, mlp_dropout=0.0)]
    together = fit(folder, pair, count=3)
    alone = fit(folder, pair[1], count=3)
    for name, w in alone.weights.items():
        torch.testing.assert_close(together.weights[name][3:], w, rtol=1e-4, atol=1e-5)
    first = from_disk.split_of(folder, "stratified", 3).take(1)
    only = fit(folder, made, split=first)
    for name, w in only.weights.items():
        torch.testing.assert_close(together.weights[name][:1], w, rtol=1e-4, atol=1e-5)


def test_recipes_with_other_taus_share_the_stream(folder):
    quiet = quick(filter_dropout=0.0)  # which would be thrown for more terms
    trio = [matching.recipe_for(folder, taus=taus, **quiet) for taus in ((0.5, 1.0), (1.0,), (0.5,))]
    together = fit(folder, trio)
    alone = fit(folder, trio[1])
    for name, w in alone.weights.items():
        torch.testing.assert_close(together.weights[name][2:4], w, rtol=1e-4, atol=1e-5)


def test_one_batch_of_all_rows_is_the_full_batch_of_the_graph(folder):
    """The figures of `fit` on the graph itself: the same splits, no dropout, all rows in one step."""
    made = matching.recipe_for(folder, **quick(filter_dropout=0.0, mlp_dropout=0.0))
    split = from_disk.split_of(folder, "stratified", 2)
    run = fit(folder, made, split=split, batch=NODES)
    back = torch.empty_like(folder.rows)
    back[folder.rows] = torch.arange(NODES)
    masks = {name: getattr(split, name)[:, back] for name in ("train", "validation")}
    terms = inputs_of(GRAPH, made).terms
    training = Training(ModelShape(made, 3, 16, 3), terms, GRAPH.y, masks, [Member(s, s, made) for s in range(2)])
    training.run()
    for name, w in run.weights.items():
        torch.testing.assert_close(w, training.state.group("best")[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize(("rows", "batch"), [(300, 17), (64, 64), (7, 2)])
def test_every_labelled_row_is_seen_once_an_epoch_in_as_many_steps_by_every_process(rows, batch, world):
    known = torch.rand(rows, generator=torch.Generator().manual_seed(0)) < 0.7
    plan = Plan.of(known, 2**20, batch, world)
    everyone = torch.ones(rows, dtype=torch.bool)
    orders = []
    for epoch in range(3):
        seen = []
        for rank in range(world):
            stream = Stream(InMemoryTerms(torch.zeros(1, rows, 1)), plan, Group(rank, world))
            steps = [numbers for _, numbers in stream.training(epoch, everyone & known)]
            assert len(steps) == plan.steps * plan.slabs // world
            assert all(len(step) <= batch for step in steps)
            seen += [row for step in steps for row in step.tolist()]
        assert sorted(seen) == known.nonzero()[:, 0].tolist()
        orders.append(seen)
    assert orders[0] != orders[1] or rows < 10  # another order every epoch


def test_readers_give_the_mean_of_terms_and_degrees_that_are_a_prefix(folder):
    stored = folder.slab(10, 60)  # [2 taus x 4 hops, ...]
    made = matching.recipe_for(folder, degree=2)
    reader = BasisReader(folder, matching.wanted_terms(folder, made))
    found = reader.read(10, 60, reader.buffer(70))
    torch.testing.assert_close(found, (stored[:3] + stored[4:7]) / 2)
    last = matching.wanted_terms(folder, matching.recipe_for(folder, "lowpass", taus=(1.0,), degree=3))
    assert last == [[7]]
    assert matching.wanted_terms(folder, matching.recipe_for(folder, "mlp")) == [[0]]


def test_a_reader_that_fails_says_so_and_one_that_is_left_alone_ends(folder, tmp_path):
    reader = BasisReader(folder)
    for _ in reader.ranges([(0, 10), (10, 20), (20, 30)]):
        break  # the thread must not keep the program waiting
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.path.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    torn = BasisReader(BasisFolder.open(copy))
    path = torn.blocks[-1][2].path
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="the file is shorter"):
        list(torn.ranges([(0, 10), (290, 300)]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("taus", [(0.5, 1.0), (1.0,)])
def test_folders_of_either_precision_with_labelled_rows_only(tmp_path, dtype, taus):
    graph = graph_of(unknown=0.4)
    known = int((graph.y >= 0).sum())
    made = propagate(graph, tmp_path / "b", taus=[0.5, 1.0], degree=2, rows="labelled", dtype=dtype)
    assert made.count == known < NODES
    one = matching.recipe_for(made, taus=taus, **quick(epochs=25))
    disk, memory = (fit(made, one, memory=memory, batch=64) for memory in (0, "1GiB"))
    assert_same_run(disk, memory)
    assert np.mean([row["test"] for row in disk.rows]) > 0.6  # chance is a third
    whole = torch.cat([chances for _, chances in from_disk.probabilities(disk, made)])
    exact = disk.probabilities(graph)[made.rows]
    torch.testing.assert_close(whole, exact, rtol=0, atol=2e-2 if dtype == "bfloat16" else 1e-5)


@pytest.mark.usefixtures("small")
def test_unlabelled_rows_do_not_train_but_are_predicted(tmp_path):
    graph = graph_of(unknown=0.5)
    made = propagate(graph, tmp_path / "b", taus=[1.0], degree=2)
    run = fit(made)
    known = int((graph.y >= 0).sum())
    assert sum(map(sum, run.about["confusion"])) == pytest.approx(2 * 0.2 * known, abs=4)
    assert predictions.write_csv(tmp_path / "p.csv", run, made) == NODES


@pytest.mark.usefixtures("small")
def test_predictions_are_those_of_memory_row_by_row(folder, tmp_path):
    run = fit(folder)
    wanted = run.probabilities(GRAPH)
    nodes = torch.cat([nodes for nodes, _ in from_disk.probabilities(run, folder)])
    found = torch.cat([chances for _, chances in from_disk.probabilities(run, folder)])
    assert sorted(nodes.tolist()) == list(range(NODES))
    torch.testing.assert_close(found, wanted[nodes], rtol=1e-4, atol=1e-5)
    assert predictions.write_csv(tmp_path / "new" / "p.csv", run, folder) == NODES
    with (tmp_path / "new" / "p.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [int(line["node"]) for line in table] == nodes.tolist()
    assert [int(line["class"]) for line in table] == found.argmax(1).tolist()


def test_test_scores_and_confusion_are_those_of_the_kept_weights_on_own_test_rows(folder):
    split = from_disk.split_of(folder, "uniform", 3)
    run = fit(folder, split=split)
    guess = run.each_probability(GRAPH).argmax(-1)[:, folder.rows]
    for i, row in enumerate(run.rows):
        right = (guess[i] == folder.labels)[split.test[row["split"]]]
        assert row["test"] == pytest.approx(float(right.float().mean()), abs=1e-6)
    confusion = np.array(run.about["confusion"])
    assert confusion.sum() == int(split.test.sum())
    assert np.trace(confusion) == sum(
        int((guess[i] == folder.labels)[split.test[i]].sum()) for i in range(3)
    )  # fmt: skip


def test_roc_auc_streams_too(tmp_path):
    graph = csbm(nodes=NODES, phi=-0.6, classes=2, seed=0)
    graph.info = replace(graph.info, metric="roc_auc")
    made = propagate(graph, tmp_path / "b", taus=[1.0], degree=2)
    disk, memory = (fit(made, memory=memory, batch=64) for memory in (0, "1GiB"))
    assert_same_run(disk, memory)
    assert min(row["test"] for row in disk.rows) > 0.6
    assert disk.rows[0]["metric"] == "roc_auc"


def test_the_run_folder_is_complete_without_a_graph(folder, tmp_path):
    split = from_disk.split_of(folder, "stratified", 2)
    run = fit(folder, split=split, out=tmp_path)
    back = runs.load_run(tmp_path)
    assert back.about["basis"] == str(folder.path)
    assert not (tmp_path / "checkpoint.safetensors").exists()
    files = write_pages(back, None, tmp_path, split)
    assert all(Path(files[name]).stat().st_size > 10_000 for name in ("picture", "report"))
    found = read_facts(tmp_path)
    assert found["explorer"] is None
    assert "Homophily" not in [table["title"] for table in found["tables"]]
    assert "Angle between consecutive hops" not in [chart["title"] for chart in found["charts"]]
    assert found["charts"][0]["series"]
    assert found["overview"]["trainings"] == len(run.chosen) == 2


@pytest.mark.usefixtures("small")
def test_a_training_stopped_in_the_middle_ends_with_the_same_bits(folder, tmp_path):
    whole = fit(folder, memory=0)
    with pytest.raises(KeyboardInterrupt):
        fit(folder, out=tmp_path, look=lambda now: stop_at(now, 3))
    with pytest.raises(ValueError, match="other settings"):
        fit(folder, out=tmp_path, resume=True, batch=18)
    again = fit(folder, out=tmp_path, resume=True, memory="1GiB")  # where the rows lie does not matter
    for name, w in whole.weights.items():
        assert_same_bits(w, again.weights[name])


def stop_at(now, epoch):
    if now.state.epoch == epoch:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gcn"}, "gcn propagates while it trains"),
        ({"method": "orthkry"}, "needs the orthonormal basis"),
        ({"method": "asgc"}, "solves for all nodes at once"),
        ({"taus": (0.7,)}, r"tau 0\.7 was asked for, but .* holds 0\.5, 1\."),
        ({"directions": ("out",)}, "direction out was asked for, but .* holds both"),
        ({"degree": 4}, r"degree 4 was asked for, but .* holds hops 0 \.\. 3"),
        ({"standardise": True}, "standardise must be False with a basis folder"),
        ({"normalise": True}, "normalise must be False with a basis folder"),
        ({"hop_norm": True}, "hop_norm must be False with a basis folder"),
        ({"loops": "add"}, "loops must be keep with a basis folder"),
    ],
    ids=str,
)
def test_what_a_folder_does_not_hold_is_refused(folder, options, message):
    with pytest.raises(ValueError, match=message):
        matching.recipe_for(folder, **options)
    if "method" not in options:
        with pytest.raises(ValueError, match=message):
            from_disk.fit(folder, replace(matching.recipe_for(folder), **options))


def test_bad_folders_splits_and_runs_are_refused(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a basis folder"):
        from_disk.fit(tmp_path)
    with pytest.raises(ValueError, match="has no fixed splits"):
        from_disk.fit(folder, split="fixed")
    other = propagate(
        csbm(nodes=60, features=5, classes=3, seed=0), tmp_path / "b", taus=[0.5, 1.0], degree=3
    )  # fmt: skip
    run = fit(folder)
    with pytest.raises(ValueError, match="16 features, but the folder has 5"):
        next(from_disk.probabilities(run, other))
    bare = graph_of(unknown=2.0)
    with pytest.raises(ValueError, match="classes"):
        from_disk.fit(propagate(bare, tmp_path / "c", taus=[1.0], degree=1))
    with pytest.raises(ValueError, match="4 processes need"):
        Plan.of(torch.ones(3, dtype=torch.bool), 8, None, world=4)
    masks = torch.eye(3, 10, dtype=torch.bool)
    with pytest.raises(ValueError, match="300 stored rows is wanted, but one of 10"):
        fit(folder, split=from_masks(masks[0], masks[1], masks[2]))


def test_the_commands_fit_resume_and_predict(folder, tmp_path, monkeypatch, command):
    def call(*words, code=0):
        return "".join(command(*words, code=code, cwd=tmp_path))

    wanted = ("fit", folder.path, "--epochs", 4, "--splits", 2, "--device", "cpu", "--out", "run")
    assert "report:" in call(*wanted, "--memory", "0B", "--batch-size", 100)
    assert "already complete" in call(*wanted, "--resume")
    assert f"{NODES} predictions" in call("predict", "run", "--out", "p.csv")
    assert f"{NODES} predictions" in call("predict", "run", folder.path, "--out", "q.csv")
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()
    assert "--memory is for basis folders" in call("fit", "csbm", "--memory", "1GiB", code=2)
    assert "gcn propagates" in call("fit", folder.path, "--method", "gcn", code=2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "can share a basis folder only" in call("fit", "csbm", code=2)


def fit_words(folder, out, *more, epochs=12, device="cpu"):
    words = ["-m", "adaptkry", "fit", folder.path, "--out", out, "--epochs", epochs, "--splits", 2, "--device", device]
    words += ["--split", "stratified", "--batch-size", 20, "--memory", "0B", "--degree", 2, "--set", "hidden=12"]
    return [str(word) for word in (*words, "--set", "patience=1000", *more)]


ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    "NVIDIA_TF32_OVERRIDE": "0",  # on a GPU, so that it can be compared with a CPU
}


def start(words, launcher=()):
    return subprocess.Popen(
        [sys.executable, *launcher, *words],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(path: Path, process, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)


def finish(process, seconds=120):
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said
    return said


@pytest.mark.slow
def test_a_training_killed_with_minus_nine_resumes_to_the_same_figures(folder, tmp_path):
    killed = start(fit_words(folder, tmp_path / "killed", epochs=200))
    wait_for(tmp_path / "killed" / "checkpoint.safetensors", killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "killed" / "run.json").exists()
    finish(start(fit_words(folder, tmp_path / "killed", "--resume", epochs=200)))
    finish(start(fit_words(folder, tmp_path / "whole", epochs=200)))
    one, other = (runs.load_run(tmp_path / name) for name in ("whole", "killed"))
    assert [row["test"] for row in one.rows] == [row["test"] for row in other.rows]
    for name, w in one.weights.items():
        assert_same_bits(w, other.weights[name])


TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "--max-restarts", "3")


@pytest.mark.distributed
def test_two_processes_step_as_one_with_their_gradients_averaged(folder, tmp_path):
    finish(start(fit_words(folder, tmp_path, "--set", "select=last", epochs=3), TORCHRUN))
    run = runs.load_run(tmp_path)
    weights, losses = averaged_by_hand(folder, run)
    for name, w in weights.items():
        torch.testing.assert_close(run.weights[name], w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(run.curves["loss"], losses, rtol=1e-5)


@pytest.mark.gpu
def test_gpu_two_processes_that_share_a_gpu_step_as_one(folder, tmp_path):
    plain = ("--set", "select=last", "--set", "mlp_dropout=0")  # a GPU throws other dice
    finish(start(fit_words(folder, tmp_path, *plain, epochs=3, device="cuda:0"), TORCHRUN))
    run = runs.load_run(tmp_path)
    assert run.rows[0]["device"] == torch.cuda.get_device_name(0)
    _, losses = averaged_by_hand(
        folder, run
    )  # and not the weights: Adam enlarges what rounding does to small gradients
    np.testing.assert_allclose(run.curves["loss"], losses, rtol=1e-3)


def averaged_by_hand(folder, run, epochs=3):
    """Weights and losses [epochs, b] of two processes, played by this one."""
    made, split = run.recipes[0], from_disk.split_of(folder, "stratified", 2)
    masks = {"train": split.train, "validation": split.validation}
    pair = []
    for rank in range(2):
        stream = from_disk.stream_of(folder, made, 20, 0, "cpu", Group(rank, 2))
        pair.append(Training(run.layout, stream, folder.labels, masks, run.members))
    first, second = pair
    second.state, losses = first.state, []
    for epoch in range(epochs):
        for training in pair:
            training._throw_anew(epoch)
        steps = []
        for batches in zip(*(training._batches("train", epoch) for training in pair), strict=True):
            found = [training._gradients(batch) for training, batch in zip(pair, batches, strict=True)]
            first._step({name: (found[0][1][name] + found[1][1][name]) / 2 for name in found[0][1]})
            steps.append((found[0][0] + found[1][0]) / 2)
        losses.append(torch.stack(steps).mean(0))
    assert int(first.state.tensors["steps"]) > epochs
    return first.state.group("weights"), torch.stack(losses).numpy()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("undisturbed")
    finish(start(fit_words(folder, place, epochs=120), TORCHRUN))
    return runs.load_run(place)


@pytest.mark.distributed
@pytest.mark.parametrize("rank", [0, 1])
def test_a_group_that_loses_a_process_ends_with_the_same_figures(folder, undisturbed, tmp_path, rank):
    killed = start(fit_words(folder, tmp_path / "killed", epochs=120), TORCHRUN)
    wait_for(tmp_path / "killed" / "checkpoint.safetensors", killed)
    workers = children(killed.pid)
    assert len(workers) == 2
    os.kill(workers[rank], signal.SIGKILL)
    time.sleep(0.2)
    assert not (tmp_path / "killed" / "run.json").exists()
    finish(killed)
    found = runs.load_run(tmp_path / "killed")
    assert [row["test"] for row in found.rows] == [row["test"] for row in undisturbed.rows]
    for name, w in undisturbed.weights.items():
        assert_same_bits(w, found.weights[name])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gpu_training_from_disk_is_training_held_on_the_gpu(tmp_path, dtype, monkeypatch):
    monkeypatch.setattr("adaptkry.training.batches.SLAB", 40 * 3 * 16 * 4)
    made = propagate(GRAPH, tmp_path / "b", taus=[0.5, 1.0], degree=3, dtype=dtype)
    one = matching.recipe_for(made, **quick(epochs=20))
    disk, held = (
        from_disk.fit(made, one, "stratified", count=3, memory=memory, batch=17, device="cuda")
        for memory in (0, "1GiB")
    )
    assert_same_run(disk, held, rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)  # TF32 would be all that is seen
    plain = replace(one, mlp_dropout=0.0, filter_dropout=0.0)  # a GPU throws other dice
    cpu, gpu = (
        from_disk.fit(made, plain, "stratified", count=3, memory=0, batch=17, device=device)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(cpu.curves["loss"], gpu.curves["loss"], rtol=1e-3)


def test_methods_that_a_folder_serves_are_those_that_train_from_it(folder):
    served = [name for name in ("adaptkry", "mlp", "lowpass", "sgc", "sign") if matching.from_folder(recipe(name))]
    assert served == ["adaptkry", "mlp", "lowpass", "sgc", "sign"]
    for name in served:
        run = fit(folder, matching.recipe_for(folder, name, epochs=2, hidden=8), count=1)
        assert run.rows[0]["test"] is not None
