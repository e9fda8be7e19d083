import os
import pickle
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from adaptkry.common.errors import is_declared
from adaptkry.outofcore import block, executors
from adaptkry.outofcore.propagate import propagate
from adaptkry.outofcore.random_graph import generate
from basis_on_disk import content, small_graph
from refusals import refused

OPTIONS: dict[str, Any] = {"taus": [0.5, 1.0], "degree": 3, "columns": 2}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A graph folder, and its basis computed in this process."""
    folder = tmp_path_factory.mktemp("executors")
    generate(folder / "g", nodes=3000, entries=30_000, features=12)
    propagate(folder / "g", folder / "inline", **OPTIONS)
    return folder


def test_inline_executor_calls_immediately_and_raises_errors_in_result():
    with executors.open_executor("inline") as pool:
        assert pool.submit(len, "abc").result() == 3
        failed = pool.submit(int, "three")
        with pytest.raises(ValueError, match="three"):
            failed.result()


def test_an_option_of_another_executor_is_refused():
    for name, options, message in (
        ("inline", (2, None), "--workers is for --executor processes or dask"),
        ("inline", (2, "tcp://x"), "--scheduler is for .* Use --executor dask"),
        ("processes", (None, "tcp://x"), "--scheduler is for --executor dask"),
        ("dask", (2, "tcp://x"), "--workers is for a new cluster"),
    ):
        with pytest.raises(ValueError, match=message), executors.open_executor(name, *options):
            pass


def test_without_dask_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'adaptkry\[scale\]'"), executors.open_executor("dask"):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{port}", "nonsense://x", "127.0.0.1:0"])
def test_a_scheduler_that_does_not_answer_is_refused(home, monkeypatch, command, address):
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and never answers
        address = address.format(port=server.getsockname()[1])
        monkeypatch.setattr(executors, "CONNECT_TIMEOUT", 1)
        words = ["propagate", str(home / "g"), "--taus", "1", "--degree", "1", "--out", str(home / "never")]
        printed = command(*words, "--executor", "dask", "--scheduler", address, code=2).err
    assert f"no Dask scheduler answered at {address} within 1 s" in printed


@pytest.mark.distributed
@pytest.mark.parametrize(("executor", "workers"), [("processes", 2), ("processes", 3), ("dask", 2), ("dask", 3)])
def test_every_executor_writes_the_same_bytes(home, executor, workers):
    out = home / f"{executor}-{workers}"
    propagate(home / "g", out, **OPTIONS, executor=executor, workers=workers)
    assert content(out) == content(home / "inline")


def generate_large_graph(folder):
    """Write a graph whose blocks take about a second each, and return the options of `propagate`."""
    generate(folder / "big", nodes=200_000, entries=2_000_000, features=32)
    return {"taus": [0.5, 1.0], "degree": 6, "columns": 4}


def kill_writers(out, count: int, killed: list[int]) -> None:
    """Kill `count` workers, one after another, each in the middle of a block and after another block has finished."""
    deadline = time.monotonic() + 90
    while len(killed) < count and time.monotonic() < deadline:
        finished = len(list(out.glob("block*.json")))
        writing = {int(part.name.split(".")[-2]) for part in out.glob(".block*.part")}
        ours = {child.pid for child in psutil.Process().children(recursive=True)}
        for pid in list(writing & ours - set(killed))[:1]:
            if finished > len(killed):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        time.sleep(0.05)


@pytest.mark.distributed
def test_blocks_of_killed_dask_workers_are_computed_again(home):
    options = generate_large_graph(home)
    propagate(home / "big", home / "big-inline", **options)
    out, killed = home / "big-dask", []
    out.mkdir()
    killer = threading.Thread(target=kill_writers, args=(out, 2, killed))
    killer.start()
    propagate(home / "big", out, **options, executor="dask", workers=2)
    killer.join()
    assert len(set(killed)) == 2
    assert content(out) == content(home / "big-inline")


@pytest.mark.distributed
def test_a_dead_process_of_a_pool_is_reported_and_the_same_call_continues(home, monkeypatch):
    class KillingPool(ProcessPoolExecutor):
        def submit(self, fn, /, *args, **kwargs):
            return super().submit(os._exit, 1) if args[1] == 4 else super().submit(fn, *args, **kwargs)

    monkeypatch.setattr(executors, "ProcessPoolExecutor", KillingPool)
    with pytest.raises(OSError, match=r"workers kept dying, possibly out of memory; .* same command to continue"):
        propagate(home / "g", home / "dead", **OPTIONS, executor="processes", workers=1)
    monkeypatch.undo()
    propagate(home / "g", home / "dead", **OPTIONS, executor="processes", workers=1)
    assert content(home / "dead") == content(home / "inline")


@pytest.mark.distributed
def test_a_running_cluster_is_used_by_its_address(home):
    local_cluster = pytest.importorskip("distributed").LocalCluster
    with local_cluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster:
        propagate(home / "g", home / "cluster", **OPTIONS, executor="dask", scheduler=cluster.scheduler_address)
    assert content(home / "cluster") == content(home / "inline")
    with local_cluster(n_workers=0, dashboard_address=None) as empty, pytest.raises(ValueError, match="has no workers"):
        propagate(home / "g", home / "none", **OPTIONS, executor="dask", scheduler=empty.scheduler_address)


class PicklingExecutor(Executor):
    """Runs calls in this process, but sends results and errors through pickle as worker processes do."""

    def submit(self, fn, /, *args, **kwargs) -> Future:
        future: Future = Future()
        try:
            future.set_result(pickle.loads(pickle.dumps(fn(*args, **kwargs))))
        except Exception as error:
            future.set_exception(pickle.loads(pickle.dumps(error)))
        return future


@pytest.fixture
def pickling(monkeypatch):
    monkeypatch.setitem(executors.EXECUTOR_FUNCTIONS, "processes", lambda *_: nullcontext(PicklingExecutor()))


@pytest.mark.usefixtures("pickling")
def test_bad_input_found_by_a_worker_is_not_taken_for_a_bug(tmp_path):
    np.save(tmp_path / "x.npy", np.full((60, 4), np.nan, dtype=np.float32))
    before = content(tmp_path)
    options: dict[str, Any] = {"taus": [1.0], "degree": 1, "features": tmp_path / "x.npy", "executor": "processes"}
    refused(lambda: propagate(small_graph(), tmp_path / "b", **options), "must be finite; node 0 has nan in column 0")
    assert content(tmp_path) == before
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "b.work").exists()


@pytest.mark.usefixtures("pickling")
def test_a_bug_in_a_worker_is_not_taken_for_bad_input(tmp_path, monkeypatch):
    monkeypatch.setattr(block, "hops", lambda *_: torch.ones(2).view(3))
    with pytest.raises(RuntimeError, match="shape") as caught:
        propagate(small_graph(), tmp_path / "b", taus=[1.0], degree=1, executor="processes")
    assert not is_declared(caught.value)
