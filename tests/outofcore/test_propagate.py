import errno
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.outofcore import (
    BasisFolder,
    GraphFolder,
    block,
    feature_columns,
    finalise,
    npy_files,
    propagate,
    write_graph,
)
from adaptkry.outofcore.edge_runs import StoredAdjacency
from adaptkry.outofcore.feature_columns import MIN_BLOCKS, split_features
from adaptkry.outofcore.memory_plan import BUFFER_BYTES, MemoryPlan, ProblemSize, parse_bytes, plan_memory
from adaptkry.outofcore.npy_files import WRITE_BYTES, DirectWriter, NpyFile, NpyWriter
from adaptkry.outofcore.random_graph import generate
from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.propagation import Propagation
from contracts import assert_close, assert_same_bits, random_signal
from strategies import random_graph

TAUS = [0.5, 1.0, 1.4]
JOB = block.PropagationJob("b", "key", ("g",), "x.npy", (1.0,), 2, "float32", 10, MemoryPlan(4, None, 2, 100))


def small(seed=0, n=60, m=150, d=5, **options) -> Graph:
    """With isolated nodes, loops, unknown labels; float32 features."""
    graph = random_graph(seed, n, m, features=d, **options)
    graph.features = graph.features.float()
    return graph


def in_memory(graph, taus, directions, degree):
    """What training's terms hold: directions, taus, hops; [T, n, d]."""
    parts = [
        stack(krylov(Propagation(graph, tau, direction), graph.x, degree)).transpose(0, 1)
        for direction in directions
        for tau in taus
    ]
    return torch.cat(parts)


def same_bits_as_memory(made: BasisFolder, graph: Graph) -> None:
    wanted = in_memory(graph, made.taus, made.directions, made.degree)
    assert_same_bits(made.slab(0, made.count), wanted[:, made.rows])


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def log(caplog):
    """Messages of the library so far; calling it forgets them."""

    def messages() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.name.startswith("adaptkry.outofcore")]
        caplog.clear()
        return found

    with caplog.at_level("INFO", logger="adaptkry"):
        yield messages


@pytest.fixture
def made(tmp_path):
    graph = small()
    return propagate(write_graph(graph, tmp_path / "g"), tmp_path / "b", taus=TAUS, degree=3, columns=2)


# The numbers


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("columns", [1, 3, None])
def test_basis_on_disk_is_the_one_in_memory_to_the_bit(tmp_path, weighted, directed, columns):
    graph = small(weighted=weighted, directed=directed)
    assert graph.isolated().any()
    options = {"directions": ["both", "out", "in"], "taus": TAUS, "degree": 4}
    same_bits_as_memory(propagate(graph, tmp_path / "b", columns=columns, **options), graph)


def watch_passes(monkeypatch) -> list[list]:
    """The blocks of each pass over the features, as they are written."""
    passes, real = [], feature_columns._write_columns
    monkeypatch.setattr(feature_columns, "_write_columns", lambda *args: (passes.append(list(args[1])), real(*args)))
    return passes


def test_split_features_give_the_same_bytes_and_are_removed(tmp_path, monkeypatch):
    graph, passes = small(d=2 * MIN_BLOCKS), watch_passes(monkeypatch)
    whole = propagate(graph, tmp_path / "whole", taus=TAUS, degree=2, columns=12)
    assert passes == []
    made = propagate(graph, tmp_path / "split", taus=TAUS, degree=2, columns=2)
    assert [len(blocks) for blocks in passes] == [MIN_BLOCKS]
    assert_same_bits(made.slab(0, 60), whole.slab(0, 60))
    assert not list(tmp_path.glob("*.work/columns*"))


def test_features_are_split_in_as_many_passes_as_files_at_once_allow(tmp_path, monkeypatch):
    x, passes, read = random_signal(60, 2 * MIN_BLOCKS, dtype=torch.float32).numpy(), watch_passes(monkeypatch), []
    np.save(tmp_path / "x.npy", x)
    job = replace(JOB, features=str(tmp_path / "x.npy"))
    blocks = [(2 * i, 2 * i + 2) for i in range(MIN_BLOCKS)]
    total = feature_columns.bytes_to_split(job, blocks, tmp_path / "columns", 4)
    with split_features(job, blocks, tmp_path / "columns", files_at_once=4, on_bytes=read.append) as split:
        assert [len(some) for some in passes] == [4, 2]
        for start, stop in blocks:
            np.testing.assert_array_equal(np.load(f"{split.columns}/columns-{start}-{stop}.npy"), x[:, start:stop])
    assert sum(read) == total == 2 * x.nbytes
    assert not (tmp_path / "columns").exists()


def test_columns_of_an_interrupted_command_are_used(tmp_path, monkeypatch):
    graph, passes = small(d=2 * MIN_BLOCKS), watch_passes(monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr(block, "hops", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            propagate(graph, tmp_path / "b", taus=TAUS, degree=2, columns=2)
    place = next(tmp_path.glob("b.work/columns*"))
    (place / "columns-4-6.npy").unlink()
    same_bits_as_memory(propagate(graph, tmp_path / "b", taus=TAUS, degree=2, columns=2), graph)
    assert passes[1:] == [[(4, 6)]]
    assert not place.exists()


def test_a_bad_value_in_split_features_is_reported_for_the_original_file(tmp_path):
    graph, x = small(d=1), np.ones((60, 2 * MIN_BLOCKS), dtype=np.float32)
    x[7, 9] = np.nan
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(ValueError, match=r"x\.npy must be finite; node 7 has nan in column 9"):
        propagate(graph, tmp_path / "b", taus=[1.0], degree=1, columns=2, features=tmp_path / "x.npy")


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_heavy_rows_have_the_bits_of_memory_too(tmp_path, weighted, directed):
    """SciPy sums long rows pairwise; the scalings must follow it there."""
    graph = small(3, 300, 20_000, d=17, weighted=weighted, directed=directed)
    same_bits_as_memory(propagate(graph, tmp_path / "b", taus=[0.7], degree=2, directions=["out", "both"]), graph)


@pytest.mark.parametrize("width", [1, 5, 16, 33])
@pytest.mark.parametrize("held", [1, 50, 400, None])
def test_runs_of_rows_have_the_bits_of_the_whole_product(tmp_path, held, width):
    graph = small(1, 200, 900, weighted=True, d=width)
    stored = StoredAdjacency(write_graph(graph, tmp_path), held)
    assert (stored.loaded is None) == (held is not None)
    x = random_signal(200, width, dtype=torch.float32)
    out = torch.empty_like(x)
    stored.propagate(x.clone(), stored.factors(0.8), out, run_bytes=4 * width * 7)  # seven rows per run
    assert_same_bits(out, Propagation(graph, 0.8) @ x)


def test_basis_equals_the_dense_matrix_in_float64(tmp_path):
    graph = small(2, weighted=True)
    made = propagate(graph, tmp_path / "b", taus=[0.6], degree=3)
    P, x = Propagation(graph, 0.6).to_dense(), graph.x.double()
    wanted = torch.stack([x, P @ x, P @ P @ x, P @ P @ P @ x])
    assert_close(made.slab(0, 60).double(), wanted[:, made.rows], rtol=0, atol=1e-5)


def test_bfloat16_is_rounded_as_torch_rounds(tmp_path):
    graph = small()
    made = propagate(graph, tmp_path / "b", taus=TAUS, degree=2, dtype="bfloat16", columns=2)
    slab = made.slab(0, 60)
    assert slab.dtype == torch.bfloat16
    assert_same_bits(slab, in_memory(graph, TAUS, ["both"], 2)[:, made.rows].to(torch.bfloat16))
    assert np.load(tmp_path / "b" / "block-0-2.npy").dtype == np.uint16


def test_a_graph_of_one_node_without_edges_works(tmp_path):
    graph = Graph([[], []], torch.ones(1, 3), nodes=1)
    same_bits_as_memory(propagate(graph, tmp_path / "b", taus=[1.0], degree=2), graph)


# Rows and slabs


def test_stored_rows_are_a_permutation_that_the_seed_decides(made, tmp_path):
    assert sorted(made.rows.tolist()) == list(range(60))
    assert made.rows.tolist() != sorted(made.rows.tolist())
    other = propagate(tmp_path / "g", tmp_path / "c", taus=TAUS, degree=3, columns=2, seed=1)
    assert made.rows.tolist() != other.rows.tolist()


def test_a_slab_is_a_part_of_the_terms(made):
    whole = made.slab(0, 60)
    assert whole.shape == (made.terms, 60, 5) == (3 * 4, 60, 5)
    for start, stop in ((0, 1), (7, 13), (59, 60), (30, 30)):
        assert_same_bits(made.slab(start, stop), whole[:, start:stop])
    with pytest.raises(ValueError, match=r"rows must be within 0 \.\. 60; got 50 \.\. 61"):
        made.slab(50, 61)


def test_only_labelled_or_listed_rows_are_stored(tmp_path):
    graph = small()
    labelled = propagate(graph, tmp_path / "b", taus=[1.0], degree=2, rows="labelled")
    assert sorted(labelled.rows.tolist()) == (graph.y >= 0).nonzero()[:, 0].tolist()
    assert_same_bits(labelled.labels, graph.y[labelled.rows])
    same_bits_as_memory(labelled, graph)
    (tmp_path / "some.txt").write_text("5\n3\n5\n")
    np.save(tmp_path / "some.npy", np.array([3, 5]))
    for name, rows in (("c", str(tmp_path / "some.txt")), ("d", str(tmp_path / "some.npy")), ("e", [5, 3])):
        some = propagate(graph, tmp_path / name, taus=[1.0], degree=2, rows=rows)
        assert sorted(some.rows.tolist()) == [3, 5]
        same_bits_as_memory(some, graph)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("labeled", "no such file"),
        ([60], r"0 \.\. 59; got 60"),
        ([-1], "got -1"),
        ([], "list of node numbers"),
    ],
)
def test_bad_rows_are_refused(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        propagate(small(), tmp_path / "b", taus=[1.0], degree=2, rows=rows)


# Graph folders


def test_a_graph_folder_can_be_finalised_by_hand_and_features_may_be_parquet(tmp_path):
    import pyarrow
    from pyarrow import parquet

    graph = small()
    write_graph(graph, tmp_path / "g")
    same = propagate(tmp_path / "g", tmp_path / "b", taus=[1.0], degree=2)
    for name in ("manifest.json", "features.npy"):
        (tmp_path / "g" / name).unlink()
    table = {f"f{i}": column.numpy() for i, column in enumerate(graph.x.T)}
    parquet.write_table(pyarrow.table(table), tmp_path / "g" / "features.parquet")
    with pytest.raises(ValueError, match=r"must have a manifest.*finalise"):
        propagate(tmp_path / "g", tmp_path / "c", taus=[1.0], degree=2)
    finalise(tmp_path / "g", symmetric=True, name="graph")
    assert GraphFolder.open(tmp_path / "g").manifest["features"] == 5
    assert content(propagate(tmp_path / "g", tmp_path / "c", taus=[1.0], degree=2).path) == content(same.path)
    other = propagate(graph, tmp_path / "d", taus=[1.0], degree=2, features=tmp_path / "g" / "features.parquet")
    assert_same_bits(other.slab(0, 60), same.slab(0, 60))


def test_float64_features_are_stored_as_float32_with_a_message(tmp_path, log):
    graph = random_graph(0, features=4)
    made = propagate(graph, tmp_path / "b", taus=[1.0], degree=1)
    assert "features are float64, stored as float32" in log()
    assert_same_bits(made.slab(0, 20)[0], graph.x.float()[made.rows])


def test_features_of_another_file_replace_those_of_the_graph(tmp_path):
    graph, other = small(), random_signal(60, 7, dtype=torch.float32)
    np.save(tmp_path / "x.npy", other.numpy())
    made = propagate(graph, tmp_path / "b", taus=[1.0], degree=2, features=tmp_path / "x.npy")
    graph.features = other
    same_bits_as_memory(made, graph)
    np.save(tmp_path / "x.npy", other.numpy()[:5])
    with pytest.raises(ValueError, match=r"shape \[60, d\].*got float32 \[5, 7\]"):
        propagate(graph, tmp_path / "b", taus=[1.0], degree=2, features=tmp_path / "x.npy")


def test_bad_graph_folders_are_refused(tmp_path):
    graph = small()
    write_graph(graph, tmp_path)
    features = graph.x.clone()
    features[7, 3] = torch.nan
    np.save(tmp_path / "features.npy", features.numpy())
    with pytest.raises(ValueError, match="node 7 has nan in column 3"):
        propagate(finalise(tmp_path, symmetric=True), tmp_path / "b", taus=[1.0], degree=2)
    GraphFolder.open(tmp_path).verify()
    np.save(tmp_path / "features.npy", features.numpy() + 1)
    with pytest.raises(ValueError, match="damaged"):
        GraphFolder.open(tmp_path).verify()
    indices = graph.indices.numpy().copy()
    indices[3] = 60
    np.save(tmp_path / "indices.npy", indices)
    with pytest.raises(ValueError, match=r"node numbers 0 \.\. 59; got 60"):
        StoredAdjacency(finalise(tmp_path, symmetric=True))
    np.save(tmp_path / "indices.npy", indices[:-1])
    with pytest.raises(ValueError, match="must have shape"):
        GraphFolder.open(tmp_path)
    with pytest.raises(ValueError, match="must rise from 0 to the number of entries"):
        finalise(tmp_path, symmetric=True)
    np.save(tmp_path / "indices.npy", indices.astype(np.int64))
    with pytest.raises(TypeError, match="must be int32; got int64"):
        finalise(tmp_path, symmetric=True)
    np.save(tmp_path / "indices.npy", np.asfortranarray(np.ones((3, 2))))
    with pytest.raises(ValueError, match="C order"):
        NpyFile.open(tmp_path / "indices.npy")


# Continuing, and refusing to


def test_the_same_call_again_keeps_every_block(made, tmp_path, log):
    before = content(made.path)
    propagate(tmp_path / "g", made.path, taus=TAUS, degree=3, columns=2)
    assert log() == ["3 of 3 blocks kept"]
    assert content(made.path) == before


def test_a_damaged_block_is_found_and_computed_again(made, tmp_path, log):
    before = content(made.path)
    with (made.path / "block-2-4.npy").open("r+b") as file:
        file.seek(500)
        file.write(b"x")
    with pytest.raises(ValueError, match=r"damaged: block-2-4\.npy\. Repair it with: adaptkry propagate"):
        made.verify()
    (made.path / "block-4-5.json").unlink()
    (made.path / ".block-4-5.npy.elsewhere.1.part").touch()
    propagate(tmp_path / "g", made.path, taus=TAUS, degree=3, columns=2)
    assert log() == ["1 of 3 blocks kept, 2 damaged and computed again"]
    assert content(made.path) == before


def test_missing_blocks_are_named_with_the_command_that_computes_them(made):
    (made.path / "block-2-4.npy").unlink()
    command = r"adaptkry propagate GRAPH --taus 0\.5,1,1\.4 --degree 3 .*\(GRAPH: the path or name of graph"
    message = rf"Missing columns: 2\.\.3\. Continue with: {command}"
    with pytest.raises(ValueError, match=message):
        BasisFolder.open(made.path)


def test_a_damaged_graph_folder_is_refused_and_named(tmp_path):
    folder = write_graph(small(), tmp_path / "g")
    with (folder.path / "features.npy").open("r+b") as file:
        file.seek(-40, os.SEEK_END)
        file.write(b"\x01")
    with pytest.raises(ValueError, match=r"features\.npy must have the checksum in the manifest; it is damaged"):
        propagate(tmp_path / "g", tmp_path / "b", taus=[1.0], degree=1)


def test_a_graph_is_not_generated_into_a_basis_folder(made):
    with pytest.raises(ValueError, match=r"holds a basis, not a graph\. Use another --out"):
        generate(made.path, nodes=100, entries=200)


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
def test_a_folder_of_other_settings_is_refused(made, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        propagate(tmp_path / "g", made.path, **({"taus": TAUS, "degree": 3, "columns": 2} | change))


def test_a_folder_of_another_graph_version_or_kind_is_refused(made, tmp_path):
    with pytest.raises(ValueError, match=r"the graph \(its digest\) was \w{12}\.\.\., now .* Use another --out"):
        propagate(small(5), made.path, taus=TAUS, degree=3, columns=2)
    with pytest.raises(ValueError, match=r"must be a basis folder; got kind 'graph'"):
        BasisFolder.open(tmp_path / "g")
    (tmp_path / "g" / "manifest.json").rename(tmp_path / "m.json")
    with pytest.raises(ValueError, match=r"must be empty or a basis folder; it holds features\.npy"):
        propagate(small(), tmp_path / "g", taus=TAUS, degree=3)
    told = json.loads((made.path / "manifest.json").read_text())
    (made.path / "manifest.json").write_text(json.dumps({**told, "version": "0.0.1"}))
    with pytest.raises(ValueError, match=r"the version of adaptkry was 0\.0\.1, now"):
        propagate(small(), made.path, taus=TAUS, degree=3, columns=2)
    (made.path / "manifest.json").write_text(json.dumps({**told, "format": 99}))
    with pytest.raises(ValueError, match=r"must have format 2; got 99, .*Make it again with: adaptkry propagate"):
        BasisFolder.open(made.path)


def test_a_folder_without_a_block_can_be_started_again_with_other_settings(tmp_path):
    graph = Graph([[20], [30]], torch.ones(40, 2), nodes=40, weights=[0.3])
    with pytest.raises(ValueError, match=r"got tau = 5\.0 and node 20") as refused:
        Propagation(graph, 5.0)
    message = str(refused.value).split(" with")[0]
    with pytest.raises(ValueError, match=message):  # also where nodes are processed some at a time
        StoredAdjacency(write_graph(graph, tmp_path / "g"), nodes_at_once=16).factors(5.0)
    with pytest.raises(ValueError, match=message):
        propagate(graph, tmp_path / "b", taus=[5.0], degree=1)
    same_bits_as_memory(propagate(graph, tmp_path / "b", taus=[0.5], degree=1), graph)


def test_two_commands_do_not_write_to_one_folder(made, tmp_path):
    from adaptkry.common.files import exclusive_lock

    with exclusive_lock(made.path), pytest.raises(ValueError, match="another command is writing to"):
        propagate(tmp_path / "g", made.path, taus=TAUS, degree=3, columns=2)


# Memory and disk


def test_a_limit_too_small_for_a_column_says_the_least_that_is_needed(tmp_path):
    with pytest.raises(
        ValueError, match=r"one column of 60 nodes .* needs \d+\.\d+ MiB of memory.*Use --memory (\d+)MiB"
    ):
        propagate(small(), tmp_path / "b", taus=[1.0], degree=2, memory="10MiB")
    size = ProblemSize(10**7, 10**8, 10**4, 64, 10**5, False, False)
    with pytest.raises(ValueError, match=r"--memory (\d+)MiB") as refused:
        plan_memory(size, 2**20)
    least = parse_bytes(str(refused.value).split("--memory ")[1].split(" ")[0])
    assert plan_memory(size, least).width == 1
    with pytest.raises(ValueError, match="one column"):
        plan_memory(size, least - 2**20)


@pytest.mark.parametrize("gib", [1, 1.5, 2.5, 3, 4, 8, 64])
@pytest.mark.parametrize("rows", [10**5, 10**7])
def test_a_plan_stays_within_its_limit(gib, rows):
    made = plan_memory(ProblemSize(10**7, 10**8, 10**4, 64, rows, False, False), int(gib * 2**30))
    assert made.peak_bytes <= gib * 2**30
    assert made.width >= (1 if gib < 1.5 else 8 if gib < 2.5 else 16)
    assert (made.entries_in_memory is None) == (gib >= 2.5)


def test_if_all_rows_are_stored_a_whole_hop_can_be_queued_for_writing():
    some, everything = (
        plan_memory(ProblemSize(10**7, 10**8, 10**4, 64, rows, False, False), 4 * 2**30) for rows in (10**5, 10**7)
    )
    assert (some.width, everything.width) == (32, 16)  # memory of a panel is used for rows that are queued
    assert everything.buffers * BUFFER_BYTES >= 4 * 16 * 10**7


@pytest.mark.parametrize("is_refused", [False, True], ids=["direct", "cached"])
def test_a_stream_of_odd_pieces_is_the_array_with_its_checksum(tmp_path, monkeypatch, is_refused):
    real = os.open

    def refusing(path, flags, mode=0o777, **options):
        if flags & getattr(os, "O_DIRECT", 0):  # as file systems without it answer
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, mode, **options)

    if is_refused:
        monkeypatch.setattr(os, "open", refusing)
    wanted = np.random.default_rng(0).integers(0, 256, 2 * WRITE_BYTES + 777, dtype=np.uint8)
    path = tmp_path / "whole.npy"
    with npy_files.npy_writer(path, wanted.shape, wanted.dtype) as stream:
        for piece in np.split(wanted, [0, 1, 4096, WRITE_BYTES + 5, WRITE_BYTES + 6]):
            stream.write(piece)
    np.testing.assert_array_equal(np.load(path), wanted)
    assert stream.checksum == npy_files.file_checksum(path) == npy_files.array_checksum(wanted)


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system has no files past the cache")
def test_a_disk_that_refuses_to_write_past_the_cache_is_written_through_it(tmp_path):
    class Refusing(io.FileIO):
        def write(self, content):
            if fcntl.fcntl(self.fileno(), fcntl.F_GETFL) & os.O_DIRECT:
                raise OSError(errno.EINVAL, "Invalid argument")
            return super().write(content)

    wanted = os.urandom(WRITE_BYTES + 5)
    with Refusing(tmp_path / "file", "wb", opener=npy_files.open_direct) as file:
        straight = DirectWriter(file)
        straight.write(wanted)
        straight.finish()
    assert (tmp_path / "file").read_bytes() == wanted


@pytest.mark.parametrize("text", ["4 apples", "", "GiB", "1.2.3GB", "."])
def test_text_that_is_not_a_size_is_refused(text):
    with pytest.raises(ValueError, match="must be a size with a unit"):
        parse_bytes(text)


def test_a_disk_too_small_is_seen_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 10**6 - 1000, 1000))  # type: ignore[attr-defined]
    with pytest.raises(OSError, match=r"1 blocks of this basis need 7\.52 KiB on disk; .* has 1000 bytes free"):
        propagate(small(), tmp_path / "b", taus=[1.0], degree=2)
    assert not list((tmp_path / "b").glob("block*"))


def test_a_disk_that_becomes_full_keeps_what_is_finished(tmp_path, monkeypatch, log):
    graph, written, real = small(), [], NpyWriter.write

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
    made = propagate(tmp_path / "g", tmp_path / "b", taus=[1.0], degree=2, columns=2)
    assert log() == ["1 of 3 blocks kept"]
    same_bits_as_memory(made, graph)


# The command


def program(*words) -> list[str]:
    return [sys.executable, "-m", "adaptkry", "propagate", *map(str, words)]


def test_the_command_makes_a_folder_and_names_it(tmp_path, command):
    words = ["propagate", "csbm", "--taus", "0.5, 1", "--degree", 2, "--out", "b"]
    said = command(*words, cwd=tmp_path)
    assert "basis folder: b" in said.out
    assert "peak memory" in said.out
    assert "b.work" in said.out
    told = json.loads(command(*words, "--json", cwd=tmp_path).out)
    assert (told["terms"], told["rows"], told["features"]) == (6, 1000, 16)
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
        (["--workers", "2"], "Add --executor processes"),
        (["--scheduler", "tcp://x"], "Add --executor dask"),
        (["--executor", "processes", "--scheduler", "tcp://x"], "Use --executor dask"),
        (["--degree", "-1"], "degree must be 0 or more"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_sentence(tmp_path, command, words, message):
    given = dict(zip(words[::2], words[1::2], strict=True))
    given = {"--taus": "1", "--degree": "2", "--out": "b", **given}
    words = ["propagate", "csbm", *(word for pair in given.items() for word in pair)]
    assert message in command(*words, code=2, cwd=tmp_path).err


def kill_once_at(words, hop: int, cwd) -> None:
    """Run the command and kill -9 it when it is about to store that hop."""
    script = (
        "import os, signal, sys\n"
        "from adaptkry import cli\n"
        "from adaptkry.outofcore import block\n"
        "store, left = block.BackgroundWriter.store, [int(sys.argv.pop())]\n"
        "def deadly(self, *things):\n"
        "    left[0] -= 1\n"
        "    if left[0] < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    store(self, *things)\n"
        "block.BackgroundWriter.store = deadly\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *map(str, words), str(hop)], cwd=cwd, capture_output=True)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_command_continues_and_leaves_the_same_bytes(tmp_path, log):
    write_graph(small(d=6), tmp_path / "g")
    wanted = propagate(tmp_path / "g", tmp_path / "b", taus=TAUS, degree=3, columns=2)
    words = ["propagate", "g", "--taus", "0.5,1,1.4", "--degree", 3, "--columns", 2, "--out", "c"]
    kill_once_at(words, 18, tmp_path)  # in the second of three blocks
    assert (tmp_path / "c" / "block-0-2.json").exists()
    assert not (tmp_path / "c" / "block-2-4.npy").exists()
    made = propagate(tmp_path / "g", tmp_path / "c", taus=TAUS, degree=3, columns=2)
    assert log() == ["1 of 3 blocks kept"]
    assert content(made.path) == content(wanted.path)


@pytest.mark.slow
def test_five_kills_at_random_moments_leave_the_same_bytes(tmp_path):
    generate(tmp_path / "g", nodes=200_000, entries=2_000_000, features=24)
    words = [tmp_path / "g", "--taus", "0.5,1", "--degree", 6, "--columns", 4]
    begun = time.monotonic()
    subprocess.run(program(*words, "--out", tmp_path / "whole"), check=True)
    whole, random = time.monotonic() - begun, np.random.default_rng(0)
    for _ in range(5):
        process = subprocess.Popen(program(*words, "--out", tmp_path / "killed"))
        time.sleep(random.uniform(0.1, 0.9) * whole)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(program(*words, "--out", tmp_path / "killed"), check=True)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "rows"), [("760MiB", "all"), ("680MiB", "labelled"), ("1100MiB", "all")])
def test_memory_held_stays_below_the_limit(tmp_path, memory, rows):
    generate(tmp_path / "g", nodes=1_000_000, entries=10_000_000, features=24, labelled=0.1)
    words = [tmp_path / "g", "--taus", "0.5,1", "--degree", 2, "--memory", memory, "--rows", rows]
    told = subprocess.run(
        program(*words, "--out", tmp_path / "b", "--json"), check=True, capture_output=True, text=True
    )
    assert json.loads(told.stdout)["peak_bytes"] < parse_bytes(memory)


def test_a_job_is_plain_values():
    import pickle

    assert pickle.loads(pickle.dumps(JOB)) == JOB
    assert replace(JOB, dtype="bfloat16").bytes_of(4) == 3 * 10 * 4 * 2
