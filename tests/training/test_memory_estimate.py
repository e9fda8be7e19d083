"""Estimates of memory, compared with real peaks, and what happens if memory does not suffice."""

import json
import subprocess
import sys
from statistics import median

import pytest
import torch

from adaptkry.common.memory import LIMIT_VARIABLE, NotEnoughMemoryError, available_bytes, machine_bytes
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.training import memory_estimate
from adaptkry.training.fit import fit
from adaptkry.training.memory_estimate import batch_size_that_fits, estimate, graph_workload

CPU = torch.device("cpu")
PEAK = """
import json, sys
import torch
import adaptkry as ak
from adaptkry.common import memory
from adaptkry.training.memory_estimate import estimate, graph_workload

torch.set_num_threads(1)
case = json.loads(sys.argv[1])
graph = ak.csbm(nodes=case["nodes"], features=case["features"], degree=6, seed=0)
ak.fit(ak.csbm(nodes=100), "adaptkry", "stratified", count=1, epochs=1, device="cpu")  # imports everything
with memory.peak() as before:
    pass
with memory.peak() as peak:
    run = ak.fit(graph, "adaptkry", "stratified", count=case["splits"], device="cpu", **case["settings"])
rows = int(ak.stratified(graph, count=1).train.sum())
work = graph_workload(graph, run.shape.recipe, case["splits"], rows, torch.device("cpu"))
print(json.dumps([estimate(work).total, peak.bytes - before.bytes]))
"""
PLAIN = {"taus": [0.5], "layers": 2, "batch_norm": False, "combine_hops": "sum", "epochs": 2}
SHAPES = {
    "many hops": {"nodes": 30_000, "features": 64, "splits": 2, "settings": PLAIN | {"degree": 30, "hidden": 32}},
    "wide": {"nodes": 6000, "features": 2000, "splits": 3, "settings": PLAIN | {"degree": 4, "hidden": 64}},
    "many members": {"nodes": 8000, "features": 128, "splits": 100, "settings": PLAIN | {"degree": 4, "hidden": 256}},
    "similar nodes": {
        "nodes": 30_000,
        "features": 16,
        "splits": 40,
        "settings": PLAIN | {"degree": 1, "hidden": 8, "similar_nodes": 16},
    },
    "many rows": {"nodes": 20_000, "features": 16, "splits": 100, "settings": PLAIN | {"degree": 2, "hidden": 16}},
    "many weights": {"nodes": 1000, "features": 1000, "splits": 100, "settings": PLAIN | {"degree": 2, "hidden": 64}},
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is reported by /proc")
@pytest.mark.parametrize("name", SHAPES)
def test_the_estimate_is_within_a_quarter_of_the_real_peak(name):
    estimated, peaks = 0.0, []
    for _ in range(3):  # the same work has other peaks in other processes: the heap is divided in other ways
        done = subprocess.run([sys.executable, "-c", PEAK, json.dumps(SHAPES[name])], capture_output=True, text=True)
        assert not done.returncode, done.stderr
        estimated, peak = json.loads(done.stdout)
        peaks.append(peak)
    assert estimated == pytest.approx(median(peaks), rel=0.25)


def limit(monkeypatch, size: float) -> None:
    """Let so many bytes be available."""
    monkeypatch.setattr(memory_estimate, "available_bytes", lambda *_: size)


def test_mini_batches_are_used_if_all_rows_at_once_do_not_fit(monkeypatch, caplog):
    graph, used = csbm(nodes=2000, features=16, seed=0), recipe("adaptkry", hidden=256, layers=3, degree=2, epochs=4)
    work = graph_workload(graph, used, 2, 1200, CPU)
    assert batch_size_that_fits(work, CPU) is None
    needs = estimate(work)
    limit(monkeypatch, needs.terms + needs.weights + needs.activations / 2)
    with caplog.at_level("INFO", "adaptkry"):
        rows = batch_size_that_fits(work, CPU)
        automatic = fit(graph, used, "stratified", count=2, device="cpu")
    assert rows is not None
    assert "nodes: all at once would need about" in caplog.text
    explicit = fit(graph, used, "stratified", count=2, device="cpu", batch_size=rows)
    assert [result.test for result in automatic.results] == [result.test for result in explicit.results]


@pytest.mark.parametrize("method", ["adaptkry", "bernnet"])
def test_a_limit_that_nobody_can_meet_is_refused_with_the_figures_and_leaves_nothing(method, tmp_path):
    graph = csbm(nodes=200, seed=0)
    with pytest.raises(NotEnoughMemoryError, match=r"must fit in memory: about .* are needed .*terms.* 1000 bytes are"):
        fit(graph, method, "stratified", count=2, epochs=2, device="cpu", memory="1000", out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_prediction_that_does_not_fit_is_refused(monkeypatch):
    graph = csbm(nodes=200, seed=0)
    run = fit(graph, "adaptkry", "stratified", count=1, epochs=2, device="cpu")
    limit(monkeypatch, 1000.0)
    with pytest.raises(NotEnoughMemoryError, match=r"predictions of 1 trainings for 200 nodes must fit in memory"):
        run.predict(graph)
    with pytest.raises(NotEnoughMemoryError, match=r"predictions of 1 trainings for 200 nodes must fit in memory"):
        run.predictor(graph)


def test_the_environment_limits_the_memory(monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "64MiB")
    assert machine_bytes() == 64 * 2**20
    assert available_bytes() == 0  # this process uses more
    monkeypatch.setenv(LIMIT_VARIABLE, "much")
    with pytest.raises(ValueError, match="memory must be a size with a unit; got 'much'"):
        machine_bytes()
