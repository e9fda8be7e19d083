"""Training from a basis folder gives the results of training in memory, also after it was killed."""

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from adaptkry.graphs.splits import Splits, from_masks
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import recipe
from adaptkry.models.stages import ModelShape
from adaptkry.outofcore import BasisFolder, basis_reader, propagate
from adaptkry.outofcore.basis_reader import BasisReader
from adaptkry.outofcore.read_process import ReadProcess
from adaptkry.report.html import read_facts
from adaptkry.report.run_report import write_pages
from adaptkry.training.adam import adam_step
from adaptkry.training.batches import FolderTerms, FullBatch, InMemoryTerms, SlabBatches, SlabPlan
from adaptkry.training.cuda_graph import RecordedCalls
from adaptkry.training.data import BatchOptions, FolderData, open_basis_folder
from adaptkry.training.fit import fit, make_members
from adaptkry.training.folder_recipe import folder_recipe, is_stored, stored_terms
from adaptkry.training.loop import GradientDescent
from adaptkry.training.losses import local_gradients
from adaptkry.training.predict import folder_probabilities, write_predictions
from adaptkry.training.process_group import SINGLE_PROCESS, ProcessGroup
from adaptkry.training.run_folder import load_run
from adaptkry.training.state import Member
from contracts import assert_same_bits

NODES = 300
QUICK: dict[str, Any] = dict(degree=2, hidden=12, epochs=6, filter_dropout=0.2, mlp_dropout=0.3)


def quick(**changes) -> dict[str, Any]:
    return QUICK | changes


ROOT = Path(__file__).resolve().parents[2]


def graph_of(unknown=0.0, **options):
    """Return a graph in which a share of the labels is unknown."""
    graph = csbm(nodes=NODES, phi=-0.6, information=0.7, classes=3, seed=0, **options)
    graph.y[torch.rand(NODES, generator=torch.Generator().manual_seed(1)) < unknown] = -1
    return graph


GRAPH = graph_of()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A basis folder with two taus and three hops, in blocks of six columns."""
    return propagate(GRAPH, tmp_path_factory.mktemp("disk") / "basis", taus=[0.5, 1.0], degree=3, columns=6)


@pytest.fixture
def small_slabs(monkeypatch):
    """Use slabs of about 40 rows, so that a small folder has several."""
    slab_bytes = 40 * 3 * 16 * 4
    monkeypatch.setattr(SlabPlan, "for_rows", staticmethod(partial(SlabPlan.for_rows, slab_bytes=slab_bytes)))


def fit_folder(
    folder,
    recipes=None,
    splits: Splits | str = "stratified",
    *,
    memory: int | str = 0,
    batch_size=17,
    count=2,
    **options: Any,
):
    recipes = folder_recipe(folder, **quick()) if recipes is None else recipes
    options = {"device": "cpu"} | options
    count = None if isinstance(splits, Splits) else count
    return fit(folder, recipes, splits, count=count, memory=memory, batch_size=batch_size, **options)


def prepare(folder, used, splits, batch_size, memory, group=SINGLE_PROCESS):
    """The shape and the batches that `fit` would use on the CPU."""
    options = BatchOptions(torch.device("cpu"), batch_size, memory, group)
    return FolderData(folder).prepare(used, make_members([used], splits, 1), splits, options)


def assert_same_run(one, other, rtol=1e-5, atol=1e-6):
    assert [result.epoch for result in one.results] == [result.epoch for result in other.results]
    np.testing.assert_allclose([r.test for r in one.results], [r.test for r in other.results], atol=1e-6)
    assert one.weights.keys() == other.weights.keys()
    for name, w in one.weights.items():
        torch.testing.assert_close(w, other.weights[name], rtol=rtol, atol=atol)
    assert one.curves.keys() == other.curves.keys()
    for name, curve in one.curves.items():
        np.testing.assert_allclose(curve, other.curves[name], rtol=1e-4)


@pytest.mark.usefixtures("small_slabs")
def test_validation_rows_that_fit_in_memory_are_read_once(folder, monkeypatch):
    read, passes = FolderTerms.ranges, []

    def counted(self, bounds, device):
        passes.append(len(bounds))
        return read(self, bounds, device)

    monkeypatch.setattr(FolderTerms, "ranges", counted)
    used = folder_recipe(folder, **quick())
    terms = BasisReader(folder, stored_terms(folder, used))
    row = len(terms.means) * folder.features * 4
    runs, counts = [], []
    for memory in (0, row * folder.count - 1):
        passes.clear()
        runs.append(fit_folder(folder, used, memory=memory))
        counts.append(len(passes))
    assert counts[0] - counts[1] == len(runs[0].curves["loss"]) - 1  # all validation passes but the first
    assert_same_run(*runs)


@pytest.mark.usefixtures("small_slabs")
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"batch_norm": True, "layers": 3},
        {"layer_norm": True, "layers": 3, "label_smoothing": 0.1},
        {"tied": False},
        {"combine_hops": "gate"},
        {"combine_hops": "maps", "layer_norm": True},
        {"per_channel": True, "tied": False},
        {"method": "sign"},
    ],
    ids=str,
)
def test_training_from_disk_equals_training_in_memory_for_several_splits_and_settings(folder, shape):
    used = folder_recipe(folder, **quick(**shape))
    pair = [used, replace(used, mlp_lr=0.05, filter_decay=1e-3)]
    disk, memory = (fit_folder(folder, pair, memory=memory) for memory in (0, "1GiB"))
    assert len(disk.results) == 4
    assert_same_run(disk, memory)


@pytest.mark.usefixtures("small_slabs")
def test_batches_from_disk_and_from_memory_are_the_same(folder):
    used, splits = folder_recipe(folder, **quick()), FolderData(folder).splits("stratified", 2)
    on_disk, in_memory = (prepare(folder, used, splits, 17, memory).batches for memory in (0, "1GiB"))
    assert isinstance(on_disk, SlabBatches)
    assert isinstance(in_memory, SlabBatches)
    assert isinstance(on_disk.source, FolderTerms)
    assert isinstance(in_memory.source, InMemoryTerms)
    assert on_disk.plan.slabs == in_memory.plan.slabs > 3
    all_rows = torch.ones(NODES, dtype=torch.bool)
    for epoch in range(2):
        pairs = zip(on_disk.training_chunks(epoch, all_rows), in_memory.training_chunks(epoch, all_rows), strict=True)
        for (terms, rows), (expected_terms, expected_rows) in pairs:
            assert_same_bits(terms, expected_terms)
            assert_same_bits(rows, expected_rows)


@pytest.mark.usefixtures("small_slabs")
def test_a_member_trained_separately_equals_the_same_member_in_a_batch(folder):
    used = folder_recipe(folder, **quick())
    pair = [used, replace(used, mlp_lr=0.05, mlp_dropout=0.0)]
    batch = fit_folder(folder, pair, count=3)
    separate = fit_folder(folder, pair[1], count=3)
    for name, w in separate.weights.items():
        torch.testing.assert_close(batch.weights[name][3:], w, rtol=1e-4, atol=1e-5)
    first = FolderData(folder).splits("stratified", 3).take(1)
    only = fit_folder(folder, used, first)
    for name, w in only.weights.items():
        torch.testing.assert_close(batch.weights[name][:1], w, rtol=1e-4, atol=1e-5)


def test_recipes_with_other_taus_share_the_batches(folder):
    no_dropout = quick(filter_dropout=0.0)  # a batch draws dropout for the terms of all taus
    trio = [folder_recipe(folder, taus=taus, **no_dropout) for taus in ((0.5, 1.0), (1.0,), (0.5,))]
    batch = fit_folder(folder, trio)
    separate = fit_folder(folder, trio[1])
    for name, w in separate.weights.items():
        torch.testing.assert_close(batch.weights[name][2:4], w, rtol=1e-4, atol=1e-5)


def test_one_batch_of_all_rows_equals_the_full_batch_of_the_graph(folder):
    """The results of `fit` on the graph itself: the same splits, no dropout, all rows in one step."""
    used = folder_recipe(folder, **quick(filter_dropout=0.0, mlp_dropout=0.0))
    splits = FolderData(folder).splits("stratified", 2)
    run = fit_folder(folder, used, splits, batch_size=NODES)
    row_of_node = torch.empty_like(folder.rows)
    row_of_node[folder.rows] = torch.arange(NODES)
    masks = {name: getattr(splits, name)[:, row_of_node] for name in ("train", "validation")}
    full_batch = FullBatch(model_inputs(GRAPH, used).terms, GRAPH.y, masks, torch.arange(2))
    training = GradientDescent(ModelShape(used, 3, 16, 3), full_batch, [Member(s, s, used) for s in range(2)])
    training.run()
    for name, w in run.weights.items():
        torch.testing.assert_close(w, training.state.group("best")[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize(("rows", "batch_size"), [(300, 17), (64, 64), (7, 2)])
def test_every_epoch_has_every_labelled_row_once_and_equally_many_steps_per_process(rows, batch_size, processes):
    known = torch.rand(rows, generator=torch.Generator().manual_seed(0)) < 0.7
    plan = SlabPlan.for_rows(known, 2**20, batch_size, processes)
    source, labels = InMemoryTerms(torch.zeros(1, rows, 1)), torch.zeros(rows, dtype=torch.long)
    no_masks, one_member = {}, torch.zeros(1, dtype=torch.long)
    orders = []
    for epoch in range(3):
        seen = []
        for rank in range(processes):
            group = ProcessGroup(rank, processes)
            batches = SlabBatches(source, plan, labels, no_masks, one_member, group=group)
            steps = [numbers for _, numbers in batches.training_chunks(epoch, known)]
            assert len(steps) == plan.steps * plan.slabs // processes
            assert all(len(step) <= batch_size for step in steps)
            seen += [row for step in steps for row in step.tolist()]
        assert sorted(seen) == known.nonzero()[:, 0].tolist()
        orders.append(seen)
    assert orders[0] != orders[1] or rows < 10  # a different order in every epoch


def test_readers_return_the_mean_of_terms_and_lower_degrees(folder):
    stored = folder.slab(10, 60)  # [2 taus x 4 hops, ...]
    reader = BasisReader(folder, stored_terms(folder, folder_recipe(folder, degree=2)))
    found = reader.read(10, 60, reader.buffer(70))
    torch.testing.assert_close(found, (stored[:3] + stored[4:7]) / 2)
    last = stored_terms(folder, folder_recipe(folder, "lowpass", taus=(1.0,), degree=3))
    assert last == [[7]]
    assert stored_terms(folder, folder_recipe(folder, "mlp")) == [[0]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("taus", [(0.3, 0.5, 1.0), (1.0,)])
@pytest.mark.parametrize("degree", [2, 3])
def test_terms_arranged_as_on_a_gpu_are_those_that_the_cpu_reads(tmp_path, dtype, taus, degree):
    basis = propagate(graph_of(), tmp_path / "b", taus=[0.3, 0.5, 1.0], degree=3, columns=7, dtype=dtype)
    assert len(basis.blocks) > 1
    reader = BasisReader(basis, stored_terms(basis, folder_recipe(basis, taus=taus, degree=degree)))
    process = ReadProcess(50 * reader.stored_row_bytes)
    process.request(reader.parts_as_stored(10, 60))
    process.wait()
    found = reader.arranged(torch.frombuffer(process.memory, dtype=reader.stored_dtype), 50)
    process.close()
    assert torch.equal(found, reader.read(10, 60, reader.buffer(50)))
    assert found.dtype == reader.dtype


def test_a_process_that_reads_reports_what_fails_goes_on_and_ends(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    process = ReadProcess(20)
    short, missing = (str(path), 90, 0, 20), (str(tmp_path / "no"), 0, 0, 1)
    for part, reason in ((short, "must hold 110 bytes; the file is shorter"), (missing, "No such file")):
        process.request([part])
        with pytest.raises(ValueError, match=reason):
            process.wait()
    process.request([(str(path), 5, 2, 3), (str(path), 50, 10, 2)])
    process.wait()
    assert process.memory[:12] == bytes([90, 91, 5, 6, 7, 95, 96, 97, 98, 99, 50, 51])
    process.process.kill()
    process.process.wait()
    with pytest.raises(OSError, match="must run until the training ends"):
        process.wait()
    process.close()
    process.close()


def test_ranges_for_a_gpu_are_those_that_the_cpu_reads_also_after_an_abandoned_pass(folder, monkeypatch):
    """The order of requests and answers, without a GPU: copies and streams do nothing here."""
    for name in ("Stream", "Event", "stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, mock.MagicMock())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    monkeypatch.setattr(basis_reader, "pin", lambda _: None)
    monkeypatch.setattr(basis_reader, "release", lambda process, _: process.close())
    reader = BasisReader(folder)
    gpu = basis_reader.GpuReader(60, reader.stored_row_bytes, reader.stored_dtype, torch.device("cpu"))
    bounds = [(0, 60), (60, 100), (100, 101), (200, 260), (10, 30)]
    for _ in gpu.ranges(reader, bounds):
        break
    for passed in (bounds, bounds[::-1], bounds[:1]):
        found = gpu.ranges(reader, passed)
        for (start, stop), terms in zip(passed, found, strict=True):
            assert torch.equal(terms, reader.read(start, stop, reader.buffer(60)))
    process = gpu.process.process
    del gpu, found
    assert process.poll() is not None


def test_a_reader_that_fails_raises_an_error_and_one_that_is_abandoned_ends(folder, tmp_path):
    reader = BasisReader(folder)
    for _ in reader.ranges([(0, 10), (10, 20), (20, 30)]):
        break  # the reading thread must not block the program
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.path.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    damaged = BasisReader(BasisFolder.open(copy))
    path = damaged.blocks[-1][2].path
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="the file is shorter"):
        list(damaged.ranges([(0, 10), (290, 300)]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("taus", [(0.5, 1.0), (1.0,)])
def test_folders_of_both_dtypes_with_labelled_rows_only(tmp_path, dtype, taus):
    graph = graph_of(unknown=0.4)
    known = int((graph.y >= 0).sum())
    basis = propagate(graph, tmp_path / "b", taus=[0.5, 1.0], degree=2, rows="labelled", dtype=dtype)
    assert basis.count == known < NODES
    used = folder_recipe(basis, taus=taus, **quick(epochs=25))
    disk, memory = (fit_folder(basis, used, memory=memory, batch_size=64) for memory in (0, "1GiB"))
    assert_same_run(disk, memory)
    assert disk.test_scores.mean() > 0.6  # a random prediction scores 1/3
    streamed = torch.cat([models.mean(0) for _, models in folder_probabilities(disk, basis)])
    exact = disk.probabilities(graph, calibrated=False)[basis.rows]
    torch.testing.assert_close(streamed, exact, rtol=0, atol=2e-2 if dtype == "bfloat16" else 1e-5)


@pytest.mark.usefixtures("small_slabs")
def test_unlabelled_rows_do_not_train_but_are_predicted(tmp_path):
    graph = graph_of(unknown=0.5)
    basis = propagate(graph, tmp_path / "b", taus=[1.0], degree=2)
    run = fit_folder(basis)
    known = int((graph.y >= 0).sum())
    assert sum(map(sum, run.info.confusion or ())) == pytest.approx(2 * 0.2 * known, abs=4)
    assert write_predictions(tmp_path / "p.csv", run, basis) == NODES


@pytest.mark.usefixtures("small_slabs")
def test_predictions_from_disk_equal_those_in_memory(folder, tmp_path):
    run = fit_folder(folder)
    expected = run.probabilities(GRAPH, calibrated=False)
    parts = list(folder_probabilities(run, folder))
    assert len(parts) > 3
    nodes = folder.rows[torch.cat([numbers for numbers, _ in parts])]
    found = torch.cat([models.mean(0) for _, models in parts])
    assert sorted(nodes.tolist()) == list(range(NODES))
    torch.testing.assert_close(found, expected[nodes], rtol=1e-4, atol=1e-5)
    assert write_predictions(tmp_path / "new" / "p.csv", run, folder) == NODES
    with (tmp_path / "new" / "p.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [int(line["node"]) for line in table] == nodes.tolist()
    assert [int(line["class"]) for line in table] == run.probabilities(GRAPH)[nodes].argmax(1).tolist()
    assert {line["label"] for line in table} == {"known"}


def test_scores_and_confusion_are_those_of_the_best_weights_on_test_rows(folder):
    splits = FolderData(folder).splits("uniform", 3)
    run = fit_folder(folder, splits=splits)
    predicted = run.member_probabilities(GRAPH).argmax(-1)[:, folder.rows]
    for i, result in enumerate(run.results):
        correct = (predicted[i] == folder.labels)[splits.test[result.split]]
        assert result.test == pytest.approx(float(correct.float().mean()), abs=1e-6)
    confusion = np.array(run.info.confusion)
    assert confusion.sum() == int(splits.test.sum())
    assert np.trace(confusion) == sum(int((predicted[i] == folder.labels)[splits.test[i]].sum()) for i in range(3))


def test_roc_auc_from_disk_equals_roc_auc_in_memory(tmp_path):
    graph = csbm(nodes=NODES, phi=-0.6, classes=2, seed=0)
    graph.info = replace(graph.info, metric="roc_auc")
    basis = propagate(graph, tmp_path / "b", taus=[1.0], degree=2)
    disk, memory = (fit_folder(basis, memory=memory, batch_size=64) for memory in (0, "1GiB"))
    assert_same_run(disk, memory)
    assert disk.test_scores.min() > 0.6
    assert disk.results[0].metric == "roc_auc"


def test_the_run_folder_is_complete_without_a_graph(folder, tmp_path):
    splits = FolderData(folder).splits("stratified", 2)
    run = fit_folder(folder, splits=splits, out=tmp_path)
    loaded = load_run(tmp_path)
    assert loaded.info.basis_folder == str(folder.path)
    assert not (tmp_path / "checkpoint.safetensors").exists()
    files = write_pages(loaded, None, tmp_path, splits)
    assert all(Path(files[name]).stat().st_size > 10_000 for name in ("picture", "report"))
    found = read_facts(tmp_path)
    assert "Spectrum by tau" not in [one["title"] for one in found["charts"]]
    assert "Homophily" not in [table["title"] for table in found["tables"]]
    assert "Angle between consecutive hops" not in [chart["title"] for chart in found["charts"]]
    assert next(chart for chart in found["charts"] if chart["title"] == "Learned filter")["series"]
    assert found["overview"]["trainings"] == len(run.chosen) == 2


@pytest.mark.usefixtures("small_slabs")
def test_a_training_stopped_in_the_middle_ends_with_the_same_bits(folder, tmp_path):
    whole = fit_folder(folder, memory=0)
    with pytest.raises(KeyboardInterrupt):
        fit_folder(folder, out=tmp_path, callbacks=[lambda state: stop_at(state, 3)])
    with pytest.raises(ValueError, match=r"other settings: batch_size was 17, now 18\."):
        fit_folder(folder, out=tmp_path, resume=True, batch_size=18)
    epochs = []
    resumed = fit_folder(  # where the rows are stored does not matter
        folder, out=tmp_path, resume=True, memory="1GiB", callbacks=[lambda state: epochs.append(state.epoch)]
    )
    assert epochs == [4, 5, 6]
    for name, w in whole.weights.items():
        assert_same_bits(w, resumed.weights[name])


def stop_at(state, epoch):
    if state.epoch == epoch:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gcn"}, "got gcn, which propagates while it trains"),
        ({"method": "orthkry"}, "needs the orthonormal basis"),
        ({"method": "asgc"}, "solves for all nodes at once"),
        ({"taus": (0.7,)}, r"taus must be among 0\.5, 1, which .* holds; got 0\.7\. Choose from those"),
        ({"directions": ("out",)}, r"directions must be among both, which .* holds; got out\."),
        ({"degree": 4}, r"degree must be at most 3, the hops in .*; got 4\. Use --degree 3 or less"),
        ({"standardise": True}, "standardise must be False with a basis folder; got True"),
        ({"normalise": True}, "normalise must be False with a basis folder; got True"),
        ({"hop_norm": True}, "hop_norm must be False with a basis folder; got True"),
        ({"self_loops": "add"}, "self_loops must be keep with a basis folder; got add"),
        ({"similar_nodes": 1}, "similar_nodes must be 0 with a basis folder; got 1"),
    ],
    ids=str,
)
def test_recipes_that_need_more_than_the_folder_are_refused(folder, options, message):
    with pytest.raises(ValueError, match=message):
        folder_recipe(folder, **options)
    if "method" not in options:
        with pytest.raises(ValueError, match=message):
            fit(folder, replace(folder_recipe(folder), **options))


def test_bad_folders_splits_and_runs_are_refused(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a basis folder"):
        open_basis_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"a folder must hold edges\.csv"):
        fit(tmp_path)
    with pytest.raises(ValueError, match="has no fixed splits"):
        fit(folder, splits="fixed")
    other = propagate(csbm(nodes=60, features=5, classes=3, seed=0), tmp_path / "b", taus=[0.5, 1.0], degree=3)
    run = fit_folder(folder)
    with pytest.raises(ValueError, match="16 features; got a folder with 5"):
        next(folder_probabilities(run, other))
    unlabelled = graph_of(unknown=2.0)
    with pytest.raises(ValueError, match="classes"):
        fit(propagate(unlabelled, tmp_path / "c", taus=[1.0], degree=1))
    with pytest.raises(ValueError, match=r"4 processes need at least 4 stored rows; got 3\."):
        SlabPlan.for_rows(torch.ones(3, dtype=torch.bool), 8, None, processes=4)
    masks = torch.eye(3, 10, dtype=torch.bool)
    with pytest.raises(ValueError, match="splits must cover all 300 rows; got splits of 10"):
        fit_folder(folder, splits=from_masks(masks[0], masks[1], masks[2]))


def test_the_commands_fit_resume_and_predict(folder, tmp_path, monkeypatch, command):
    def call(*arguments, code=0):
        return "".join(command(*arguments, code=code, cwd=tmp_path))

    same = ("fit", folder.path, "--epochs", 4, "--splits", 2, "--device", "cpu", "--out", "run")
    assert "report:" in call(*same, "--memory", "0B", "--batch-size", 100)
    assert "already complete" in call(
        *same, "--batch-size", 100, "--resume"
    )  # where the rows are stored does not matter
    assert "batch_size was 100, now 50" in call(*same, "--batch-size", 50, "--resume", code=2)
    assert f"{NODES} predictions" in call("predict", "run", "--out", "p.csv")
    assert f"{NODES} predictions" in call("predict", "run", folder.path, "--out", "q.csv")
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()
    assert "must fit in memory: about" in call("fit", "csbm", "--memory", "1KiB", code=2)
    assert "got gcn, which propagates" in call("fit", folder.path, "--method", "gcn", code=2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert "several processes can train on basis folders only" in call("fit", "csbm", code=2)


def fit_arguments(folder, out, *more, epochs=12, device="cpu"):
    arguments = [
        "-m",
        "adaptkry",
        "fit",
        folder.path,
        "--out",
        out,
        "--epochs",
        epochs,
        "--splits",
        2,
        "--device",
        device,
    ]
    arguments += ["--split", "stratified", "--batch-size", 20, "--memory", "0B", "--degree", 2, "--set", "hidden=12"]
    return [str(argument) for argument in (*arguments, "--set", "patience=1000", *more)]


ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "src"),
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    "NVIDIA_TF32_OVERRIDE": "0",  # on a GPU, so that it can be compared with a CPU
}


def start(arguments, launcher=()):
    return subprocess.Popen(
        [sys.executable, *launcher, *arguments],
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
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, output
    return output


@pytest.mark.slow
def test_a_killed_training_resumes_to_the_same_results(folder, tmp_path):
    killed = start(fit_arguments(folder, tmp_path / "killed", epochs=200))
    wait_for(tmp_path / "killed" / "checkpoint.safetensors", killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "killed" / "run.json").exists()
    finish(start(fit_arguments(folder, tmp_path / "killed", "--resume", epochs=200)))
    finish(start(fit_arguments(folder, tmp_path / "whole", epochs=200)))
    one, other = (load_run(tmp_path / name) for name in ("whole", "killed"))
    assert [result.test for result in one.results] == [result.test for result in other.results]
    for name, w in one.weights.items():  # type: ignore[attr-defined]
        assert_same_bits(w, other.weights[name])  # type: ignore[attr-defined]


TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "--max-restarts", "3")


@pytest.mark.distributed
def test_two_processes_average_their_gradients(folder, tmp_path):
    finish(start(fit_arguments(folder, tmp_path, "--set", "select=last", epochs=3), TORCHRUN))
    run = load_run(tmp_path)
    weights, losses = expected_of_two_processes(folder, run)
    for name, w in weights.items():
        torch.testing.assert_close(run.weights[name], w, rtol=1e-5, atol=1e-5)  # type: ignore[attr-defined]
    np.testing.assert_allclose(run.curves["loss"], losses, rtol=1e-5)  # type: ignore[attr-defined]


@pytest.mark.gpu
def test_gpu_two_processes_that_share_a_gpu_average_their_gradients(folder, tmp_path):
    plain = ("--set", "select=last", "--set", "mlp_dropout=0")  # a GPU draws different random numbers
    finish(start(fit_arguments(folder, tmp_path, *plain, epochs=3, device="cuda:0"), TORCHRUN))
    run = load_run(tmp_path)
    assert run.results[0].device == torch.cuda.get_device_name(0)
    # Losses instead of weights: Adam amplifies rounding errors of small gradients.
    _, losses = expected_of_two_processes(folder, run)
    np.testing.assert_allclose(run.curves["loss"], losses, rtol=1e-3)  # type: ignore[attr-defined]


def expected_of_two_processes(folder, run, epochs=3):
    """Weights and losses [epochs, b] of two processes, computed by this one."""
    used, splits = run.recipes[0], FolderData(folder).splits("stratified", 2)
    pair = []
    for rank in range(2):
        batches = prepare(folder, used, splits, 20, 0, ProcessGroup(rank, 2)).batches
        pair.append(GradientDescent(run.shape, batches, run.members))
    state, losses = pair[0].state, []
    weights, moments = state.group("weights"), (state.group("first"), state.group("second"))
    loss_and_gradients = local_gradients(run.shape, weights, state.group("statistics"), None)
    for epoch in range(epochs):
        for training in pair:
            training._reseed(epoch)
        steps = []
        for both in zip(*(training.batches.train(epoch) for training in pair), strict=True):
            found = [loss_and_gradients(batch, one._dropout(batch)) for one, batch in zip(pair, both, strict=True)]
            gradients = {name: (found[0][1][name] + found[1][1][name]) / 2 for name in found[0][1]}
            is_adamw = used.optimiser == "adamw"
            adam_step(weights, gradients, *moments, state["steps"], pair[0].rates, decoupled=is_adamw)
            steps.append((found[0][0] + found[1][0]) / 2)
        losses.append(torch.stack(steps).mean(0))
    assert int(state["steps"]) > epochs
    return weights, torch.stack(losses).numpy()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def uninterrupted(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("uninterrupted")
    finish(start(fit_arguments(folder, path, epochs=120), TORCHRUN))
    return load_run(path)


@pytest.mark.distributed
@pytest.mark.parametrize("rank", [0, 1])
def test_a_group_that_loses_a_process_ends_with_the_same_results(folder, uninterrupted, tmp_path, rank):
    killed = start(fit_arguments(folder, tmp_path / "killed", epochs=120), TORCHRUN)
    wait_for(tmp_path / "killed" / "checkpoint.safetensors", killed)
    workers = children(killed.pid)
    assert len(workers) == 2
    os.kill(workers[rank], signal.SIGKILL)
    time.sleep(0.2)
    assert not (tmp_path / "killed" / "run.json").exists()
    finish(killed)
    found = load_run(tmp_path / "killed")
    assert [result.test for result in found.results] == [result.test for result in uninterrupted.results]
    for name, w in uninterrupted.weights.items():
        assert_same_bits(w, found.weights[name])  # type: ignore[attr-defined]


@pytest.mark.gpu
@pytest.mark.usefixtures("small_slabs")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gpu_training_from_disk_equals_training_in_gpu_memory(tmp_path, dtype, monkeypatch):
    basis = propagate(GRAPH, tmp_path / "b", taus=[0.5, 1.0], degree=3, dtype=dtype)
    used = folder_recipe(basis, **quick(epochs=20))
    disk, in_memory = (fit_folder(basis, used, count=3, memory=memory, device="cuda") for memory in (0, "1GiB"))
    assert_same_run(disk, in_memory, rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(
        torch, "set_float32_matmul_precision", lambda _: None
    )  # the error of TF32 would hide all others
    plain = replace(used, mlp_dropout=0.0, filter_dropout=0.0)  # a GPU draws different random numbers
    cpu, gpu = (fit_folder(basis, plain, count=3, memory=0, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(cpu.curves["loss"], gpu.curves["loss"], rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.usefixtures("small_slabs")
def test_gpu_recorded_steps_equal_steps_that_are_called(folder, monkeypatch):
    record, recorded = RecordedCalls._record, []

    def counted(calls, shape, batch):
        record(calls, shape, batch)
        recorded.append(shape in calls.recorded)

    used = folder_recipe(folder, **quick(epochs=8, batch_norm=True))
    monkeypatch.setattr(RecordedCalls, "_record", counted)
    fast = fit_folder(folder, used, count=3, memory=0, device="cuda")
    assert recorded
    assert all(recorded)
    monkeypatch.setattr(RecordedCalls, "_record", lambda *_: None)
    assert_same_run(fast, fit_folder(folder, used, count=3, memory=0, device="cuda"), rtol=1e-4, atol=1e-5)


def test_methods_that_a_folder_supports_can_be_trained(folder):
    methods = [name for name in ("adaptkry", "mlp", "lowpass", "sgc", "sign") if is_stored(recipe(name))]
    assert methods == ["adaptkry", "mlp", "lowpass", "sgc", "sign"]
    for name in methods:
        run = fit_folder(folder, folder_recipe(folder, name, epochs=2, hidden=8), count=1)
        assert run.results[0].test is not None


@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_of_two_directions_and_two_taus_holds_the_terms_of_the_graph(tmp_path, tied):
    graph = directed_csbm(nodes=80, phi=0.6, seed=0)
    basis = propagate(graph, tmp_path / "b", taus=[0.5, 1.0], directions=["out", "in"], degree=2)
    used = folder_recipe(basis, **quick(tied=tied, filter_dropout=0.0, mlp_dropout=0.0))
    assert (used.directions, used.taus) == (("out", "in"), (0.5, 1.0))
    read = BasisReader(basis, stored_terms(basis, used)).whole()
    expected = model_inputs(graph, used).terms
    torch.testing.assert_close(read, expected[:, basis.rows], rtol=1e-5, atol=1e-6)
    # the same nodes in the same order: both trainings take the same steps
    splits = FolderData(basis).splits("stratified", 2)
    by_node = {part: torch.empty_like(getattr(splits, part)) for part in ("train", "validation", "test")}
    for part, mask in by_node.items():
        mask[:, basis.rows] = getattr(splits, part)
    disk = fit_folder(basis, used, splits, batch_size=80)
    memory = fit(graph, used, from_masks(by_node["train"], by_node["validation"], by_node["test"]), device="cpu")
    assert [result.epoch for result in disk.results] == [result.epoch for result in memory.results]
    np.testing.assert_allclose(disk.curves["loss"], memory.curves["loss"], rtol=1e-4)
    assert disk.test_scores.tolist() == memory.test_scores.tolist()


def test_labels_of_test_rows_change_no_training_from_disk(folder):
    single = FolderData(folder).splits("stratified", 1)
    runs = []
    for shift in (0, 1):
        data = FolderData(folder)
        data.labels = data.truth = torch.where(single.test[0], (folder.labels + shift) % 3, folder.labels)
        runs.append(fit(data, folder_recipe(folder, **quick()), single, memory=0, batch_size=17, device="cpu"))
    one, other = runs
    assert one.results[0].test != other.results[0].test
    for name in ("epoch", "validation"):
        assert getattr(one.results[0], name) == getattr(other.results[0], name)
    for name, w in one.weights.items():
        assert_same_bits(w, other.weights[name])


def test_slabs_and_their_rows_are_shuffled_anew_in_every_epoch():
    plan = SlabPlan(torch.ones(240, dtype=torch.bool), slabs=6, batch_size=17)
    orders = [plan.order(epoch) for epoch in range(4)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len(set(map(tuple, orders))) > 2
    rows = [torch.cat(plan.training_steps(epoch, slab)).tolist() for epoch in range(2) for slab in range(2)]
    assert all(sorted(order) == list(range(40)) != order for order in rows)
    assert len(set(map(tuple, rows))) == 4
