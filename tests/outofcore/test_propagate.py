import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from adaptkry.common.files import exclusive_lock
from adaptkry.common.memory import parse_bytes
from adaptkry.graphs.graph import Graph
from adaptkry.outofcore import BasisFolder, propagate, write_graph
from adaptkry.outofcore.edge_runs import StoredAdjacency
from adaptkry.outofcore.npy_files import NpyWriter
from adaptkry.outofcore.random_graph import generate
from adaptkry.spectral.propagation_matrix import Propagation
from basis_on_disk import TAUS, assert_same_bits_as_in_memory, content, small_graph, terms_in_memory
from contracts import assert_close, assert_same_bits

propagate_module = sys.modules["adaptkry.outofcore.propagate"]  # the package has a function of the same name


def interrupt(*_, **__):
    raise KeyboardInterrupt


# Numbers


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("columns", [1, 3, None])
def test_basis_on_disk_has_the_bits_of_the_basis_in_memory(tmp_path, weighted, directed, columns):
    graph = small_graph(weighted=weighted, directed=directed)
    assert graph.isolated().any()
    options = {"directions": ["both", "out", "in"], "taus": TAUS, "degree": 4}
    assert_same_bits_as_in_memory(propagate(graph, tmp_path / "b", columns=columns, **options), graph)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_long_rows_have_the_bits_of_the_basis_in_memory(tmp_path, weighted, directed):
    """SciPy sums long rows pairwise; the scalings must do the same."""
    graph = small_graph(3, 300, 20_000, d=17, weighted=weighted, directed=directed)
    assert_same_bits_as_in_memory(
        propagate(graph, tmp_path / "b", taus=[0.7], degree=2, directions=["out", "both"]), graph
    )


def test_basis_equals_the_dense_matrix_in_float64(tmp_path):
    graph = small_graph(2, weighted=True)
    basis = propagate(graph, tmp_path / "b", taus=[0.6], degree=3)
    P, x = Propagation(graph, 0.6).to_dense(), graph.x.double()
    expected = torch.stack([x, P @ x, P @ P @ x, P @ P @ P @ x])
    assert_close(basis.slab(0, 60).double(), expected[:, basis.rows], rtol=0, atol=1e-5)


def test_bfloat16_is_rounded_as_torch_rounds(tmp_path):
    graph = small_graph()
    basis = propagate(graph, tmp_path / "b", taus=TAUS, degree=2, dtype="bfloat16", columns=2)
    slab = basis.slab(0, 60)
    assert slab.dtype == torch.bfloat16
    assert_same_bits(slab, terms_in_memory(graph, TAUS, ["both"], 2)[:, basis.rows].to(torch.bfloat16))
    assert np.load(tmp_path / "b" / "block-0-2.npy").dtype == np.uint16


def test_a_graph_of_one_node_without_edges_works(tmp_path):
    graph = Graph([[], []], torch.ones(1, 3), nodes=1)
    assert_same_bits_as_in_memory(propagate(graph, tmp_path / "b", taus=[1.0], degree=2), graph)


# Continue after an interruption, and refuse other folders


def test_the_same_call_again_keeps_every_block(basis, tmp_path, log):
    before = content(basis.path)
    propagate(tmp_path / "g", basis.path, taus=TAUS, degree=3, columns=2)
    assert log() == ["3 of 3 blocks kept"]
    assert content(basis.path) == before


def test_a_damaged_block_is_found_and_computed_again(basis, tmp_path, log):
    before = content(basis.path)
    with (basis.path / "block-2-4.npy").open("r+b") as file:
        file.seek(500)
        file.write(b"x")
    with pytest.raises(ValueError, match=r"damaged: block-2-4\.npy\. Repair it with: adaptkry propagate"):
        basis.verify()
    (basis.path / "block-4-5.json").unlink()
    (basis.path / ".block-4-5.npy.elsewhere.1.part").touch()
    propagate(tmp_path / "g", basis.path, taus=TAUS, degree=3, columns=2)
    assert log() == ["1 of 3 blocks kept, 2 damaged and computed again"]
    assert content(basis.path) == before


def test_a_graph_is_not_generated_into_a_basis_folder(basis):
    with pytest.raises(ValueError, match=r"holds a basis, not a graph\. Use another output folder"):
        generate(basis.path, nodes=100, entries=200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree": 4}, "degree was 3, now 4"),
        ({"taus": [0.5]}, "taus was"),
        ({"dtype": "bfloat16"}, "dtype was float32, now bfloat16"),
        ({"rows": "labelled"}, "rows was all, now labelled"),
        ({"seed": 3}, "seed was 0, now 3"),
        ({"columns": 1}, "blocks of 2 columns; this memory limit allows 1"),
    ],
    ids=str,
)
def test_a_folder_of_other_settings_is_refused(basis, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        propagate(tmp_path / "g", basis.path, **({"taus": TAUS, "degree": 3, "columns": 2} | change))


def test_a_folder_of_another_graph_version_or_kind_is_refused(basis, tmp_path):
    with pytest.raises(
        ValueError, match=r"the graph \(its digest\) was \w{12}\.\.\., now .* Use another output folder"
    ):
        propagate(small_graph(5), basis.path, taus=TAUS, degree=3, columns=2)
    with pytest.raises(ValueError, match=r"must be a basis folder; got kind 'graph'"):
        BasisFolder.open(tmp_path / "g")
    (tmp_path / "g" / "manifest.json").rename(tmp_path / "m.json")
    with pytest.raises(ValueError, match=r"must be empty or a basis folder; it holds features\.npy"):
        propagate(small_graph(), tmp_path / "g", taus=TAUS, degree=3)
    summary = json.loads((basis.path / "manifest.json").read_text())
    (basis.path / "manifest.json").write_text(json.dumps({**summary, "version": "0.0.1"}))
    with pytest.raises(ValueError, match=r"the version of adaptkry was 0\.0\.1, now"):
        propagate(small_graph(), basis.path, taus=TAUS, degree=3, columns=2)
    (basis.path / "manifest.json").write_text(json.dumps({**summary, "format": 99}))
    with pytest.raises(ValueError, match=r"must have format 2; got 99, .*Create it again with: adaptkry propagate"):
        BasisFolder.open(basis.path)


def test_a_folder_without_a_block_can_be_started_again_with_other_settings(tmp_path):
    graph = Graph([[20], [30]], torch.ones(40, 2), nodes=40, weights=[0.3])
    with pytest.raises(ValueError, match=r"got tau = 5\.0 and node 20") as refused:
        Propagation(graph, 5.0)
    message = str(refused.value).split(" with")[0]
    with pytest.raises(ValueError, match=message):  # also if nodes are processed in chunks
        StoredAdjacency(write_graph(graph, tmp_path / "g"), nodes_at_once=16).factors(5.0)
    with pytest.raises(ValueError, match=message):
        propagate(graph, tmp_path / "b", taus=[5.0], degree=1)
    assert_same_bits_as_in_memory(propagate(graph, tmp_path / "b", taus=[0.5], degree=1), graph)


def test_two_commands_do_not_write_to_one_folder(basis, tmp_path):
    with exclusive_lock(basis.path), pytest.raises(ValueError, match="another command is writing to"):
        propagate(tmp_path / "g", basis.path, taus=TAUS, degree=3, columns=2)


def test_the_folder_is_locked_before_intermediate_files_are_changed(tmp_path):
    """A second command with another graph of the same size once replaced the graph that the first one was reading."""
    propagate(small_graph(), tmp_path / "b", taus=TAUS, degree=3, columns=2)
    work = tmp_path / "b.work" / "graph"
    before = content(work), content(tmp_path / "b")
    with exclusive_lock(tmp_path / "b"), pytest.raises(ValueError, match="another command is writing to"):
        propagate(small_graph(5), tmp_path / "b", taus=TAUS, degree=3, columns=2)
    assert (content(work), content(tmp_path / "b")) == before
    (tmp_path / "c").mkdir()
    with exclusive_lock(tmp_path / "c"), pytest.raises(ValueError, match="another command is writing to"):
        propagate(small_graph(), tmp_path / "c", taus=TAUS, degree=3)
    assert not (tmp_path / "c.work").exists()


@pytest.mark.slow
def test_a_second_process_is_refused_and_changes_nothing(tmp_path):
    write_graph(small_graph(5), tmp_path / "other")
    shown = []

    def on_progress(_done, _total):
        if not shown:  # in the middle of the first command
            words = ["other", "--taus", "0.5,1,1.4", "--degree", 3, "--columns", 2, "--out", "b"]
            shown.append(subprocess.run(program(*words), cwd=tmp_path, capture_output=True, text=True))

    graph = small_graph()
    basis = propagate(graph, tmp_path / "b", taus=TAUS, degree=3, columns=2, on_progress=on_progress)
    assert shown[0].returncode == 2
    assert "another command is writing to b. Wait for it to finish, or use another output folder." in shown[0].stderr
    assert_same_bits_as_in_memory(basis, graph)


def test_a_block_of_another_request_is_computed_again(basis, tmp_path, log):
    before = content(basis.path)
    record = json.loads((basis.path / "block-0-2.json").read_text())
    assert len(record["key"]) == 64
    (basis.path / "block-0-2.json").write_text(json.dumps({**record, "key": "f" * 64}))
    propagate(tmp_path / "g", basis.path, taus=TAUS, degree=3, columns=2)
    assert log() == ["2 of 3 blocks kept, 1 damaged and computed again"]
    assert content(basis.path) == before


@pytest.mark.parametrize(
    "change",
    [{"memory": "10MiB"}, {"rows": [60]}, {"features": "nowhere.npy"}, {"workers": 2}, {"executor": "spark"}],
    ids=str,
)
def test_a_refused_command_leaves_no_files(tmp_path, change):
    with pytest.raises((ValueError, FileNotFoundError)):
        propagate(small_graph(), tmp_path / "b", taus=[1.0], degree=2, **change)
    assert list(tmp_path.iterdir()) == []


def test_sorted_edges_of_an_interrupted_command_are_reused(tmp_path, log, monkeypatch):
    graph, options = small_graph(directed=True), {"taus": [1.0], "degree": 2, "directions": ["in"]}
    with monkeypatch.context() as broken:
        broken.setattr(propagate_module, "compute_blocks", interrupt)
        with pytest.raises(KeyboardInterrupt):
            propagate(graph, tmp_path / "b", **options)
    assert any("sorting its edges" in message for message in log())
    assert not (tmp_path / "b").exists()
    assert_same_bits_as_in_memory(propagate(graph, tmp_path / "b", **options), graph)
    assert not any("sorting its edges" in message for message in log())


def test_damaged_sorted_edges_are_sorted_again(tmp_path, log):
    graph, options = small_graph(directed=True), {"taus": [1.0], "degree": 2, "directions": ["in"]}
    propagate(graph, tmp_path / "b", **options)
    shutil.rmtree(tmp_path / "b")
    with (tmp_path / "b.work" / "in" / "indices.npy").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\x01")
    log()
    assert_same_bits_as_in_memory(propagate(graph, tmp_path / "b", **options), graph)
    assert any("sorting its edges" in message for message in log())


@pytest.mark.parametrize("columns", [1, 12])
def test_progress_increases_to_the_total(tmp_path, columns):
    seen = []
    basis = propagate(
        small_graph(d=12), tmp_path / "b", taus=TAUS, degree=2, columns=columns,
        on_progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    done, totals = zip(*seen, strict=True)
    written = 4 * basis.terms * 60 * 12
    assert set(totals) == {written + (4 * 60 * 12 if columns == 1 else 0)}  # features are read once to be split
    assert list(done) == sorted(done)
    assert done[-1] == totals[0]


def test_a_disk_too_small_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 10**6 - 1000, 1000))  # type: ignore[attr-defined]
    with pytest.raises(OSError, match=r"missing blocks of this basis need 3\.52 KiB on disk; .* has 1000 bytes free"):
        propagate(small_graph(), tmp_path / "b", taus=[1.0], degree=2)
    assert list(tmp_path.iterdir()) == []


def test_finished_blocks_are_kept_if_the_disk_becomes_full(tmp_path, monkeypatch, log):
    graph, written, real = small_graph(), [], NpyWriter.write

    def full(self, content):
        written.append(content)
        if len(written) > 4 + 1 + 3 + 2:  # rows and labels with their headers, the first block, the second's header
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, content)

    write_graph(graph, tmp_path / "g")
    with monkeypatch.context() as patched:
        patched.setattr(NpyWriter, "write", full)
        with pytest.raises(OSError, match=r"is full; 1 of 3 blocks are finished and kept\. Free .* same command"):
            propagate(tmp_path / "g", tmp_path / "b", taus=[1.0], degree=2, columns=2)
    basis = propagate(tmp_path / "g", tmp_path / "b", taus=[1.0], degree=2, columns=2)
    assert log() == ["1 of 3 blocks kept"]
    assert_same_bits_as_in_memory(basis, graph)


# The command


def program(*words) -> list[str]:
    return [sys.executable, "-m", "adaptkry", "propagate", *map(str, words)]


def test_the_command_writes_a_basis_folder_and_prints_its_path(tmp_path, command):
    words = ["propagate", "csbm", "--taus", "0.5, 1", "--degree", 2, "--out", "b"]
    printed = command(*words, cwd=tmp_path)
    assert "basis folder: b" in printed.out
    assert "peak memory" in printed.out
    assert "b.work" in printed.out
    summary = json.loads(command(*words, "--json", cwd=tmp_path).out)
    assert (summary["terms"], summary["rows"], summary["features"]) == (6, 1000, 16)
    assert "Examples:" in command("propagate", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--taus", "a"], "--taus must be comma-separated positive numbers; got 'a'"),
        (["--taus", "0"], "tau must be positive and finite"),
        (["--taus", "1,1"], "taus must be distinct"),
        (["--directions", "up"], "unknown direction 'up'"),
        (["--dtype", "float16"], "unknown dtype 'float16'. Did you mean 'bfloat16'"),
        (["--memory", "4 apples"], "must be a size with a unit"),
        (["--memory", "1MiB"], "Use --memory"),
        (["--executor", "spark"], "unknown executor 'spark'"),
        (["--workers", "2"], "Use --executor processes"),
        (["--scheduler", "tcp://x"], "Use --executor dask"),
        (["--executor", "processes", "--scheduler", "tcp://x"], "Use --executor dask"),
        (["--degree", "-1"], "degree must be 0 or more"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_invalid_options_are_reported_without_a_traceback(tmp_path, command, words, message):
    given = dict(zip(words[::2], words[1::2], strict=True))
    given = {"--taus": "1", "--degree": "2", "--out": "b", **given}
    words = ["propagate", "csbm", *(word for pair in given.items() for word in pair)]
    assert message in command(*words, code=2, cwd=tmp_path).err


def run_and_kill(words, hop: int, cwd) -> None:
    """Run the command and kill it (SIGKILL) when it is about to store this hop."""
    script = (
        "import os, signal, sys\n"
        "from adaptkry import cli\n"
        "from adaptkry.outofcore import block\n"
        "store, left = block.BackgroundWriter.store, [int(sys.argv.pop())]\n"
        "def kill(self, *arguments):\n"
        "    left[0] -= 1\n"
        "    if left[0] < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    store(self, *arguments)\n"
        "block.BackgroundWriter.store = kill\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *map(str, words), str(hop)], cwd=cwd, capture_output=True)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_command_can_be_continued_with_the_same_bytes(tmp_path, log):
    write_graph(small_graph(d=6), tmp_path / "g")
    expected = propagate(tmp_path / "g", tmp_path / "b", taus=TAUS, degree=3, columns=2)
    words = ["propagate", "g", "--taus", "0.5,1,1.4", "--degree", 3, "--columns", 2, "--out", "c"]
    run_and_kill(words, 18, tmp_path)  # in the second of three blocks
    assert (tmp_path / "c" / "block-0-2.json").exists()
    assert not (tmp_path / "c" / "block-2-4.npy").exists()
    basis = propagate(tmp_path / "g", tmp_path / "c", taus=TAUS, degree=3, columns=2)
    assert log() == ["1 of 3 blocks kept"]
    assert content(basis.path) == content(expected.path)


@pytest.mark.slow
def test_a_command_killed_five_times_at_random_writes_the_same_bytes(tmp_path):
    generate(tmp_path / "g", nodes=200_000, entries=2_000_000, features=24)
    words = [tmp_path / "g", "--taus", "0.5,1", "--degree", 6, "--columns", 4]
    start = time.monotonic()
    subprocess.run(program(*words, "--out", tmp_path / "whole"), check=True)
    whole, random = time.monotonic() - start, np.random.default_rng(0)
    for _ in range(5):
        process = subprocess.Popen(program(*words, "--out", tmp_path / "killed"))
        time.sleep(random.uniform(0.1, 0.9) * whole)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(program(*words, "--out", tmp_path / "killed"), check=True)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "rows"), [("760MiB", "all"), ("680MiB", "labelled"), ("1100MiB", "all")])
def test_peak_memory_stays_below_the_limit(tmp_path, memory, rows):
    generate(tmp_path / "g", nodes=1_000_000, entries=10_000_000, features=24, labelled=0.1)
    words = [tmp_path / "g", "--taus", "0.5,1", "--degree", 2, "--memory", memory, "--rows", rows]
    summary = subprocess.run(
        program(*words, "--out", tmp_path / "b", "--json"), check=True, capture_output=True, text=True
    )
    assert json.loads(summary.stdout)["peak_bytes"] < parse_bytes(memory)
