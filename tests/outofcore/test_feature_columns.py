from dataclasses import replace

import numpy as np
import pytest
import torch

from adaptkry.outofcore import block, feature_columns, propagate
from adaptkry.outofcore.feature_columns import MIN_BLOCKS, split_features
from adaptkry.outofcore.memory_plan import MemoryPlan
from basis_on_disk import TAUS, assert_same_bits_as_in_memory, small_graph
from contracts import assert_same_bits, random_signal

JOB = block.PropagationJob("b", "key", ("g",), "x.npy", (1.0,), 2, "float32", 10, MemoryPlan(4, None, 2, 100))


def record_passes(monkeypatch) -> list[list]:
    """A list that receives the blocks of each pass over the features."""
    passes, real = [], feature_columns._write_columns
    monkeypatch.setattr(feature_columns, "_write_columns", lambda *args: (passes.append(list(args[1])), real(*args)))
    return passes


def test_split_features_give_the_same_bytes_and_are_removed(tmp_path, monkeypatch):
    graph, passes = small_graph(d=2 * MIN_BLOCKS), record_passes(monkeypatch)
    whole = propagate(graph, tmp_path / "whole", taus=TAUS, degree=2, columns=12)
    assert passes == []
    basis = propagate(graph, tmp_path / "split", taus=TAUS, degree=2, columns=2)
    assert [len(blocks) for blocks in passes] == [MIN_BLOCKS]
    assert_same_bits(basis.slab(0, 60), whole.slab(0, 60))
    assert not list(tmp_path.glob("*.work/columns*"))


def test_features_are_split_in_as_many_passes_as_files_at_once_allow(tmp_path, monkeypatch):
    x, passes, read = random_signal(60, 2 * MIN_BLOCKS, dtype=torch.float32).numpy(), record_passes(monkeypatch), []
    np.save(tmp_path / "x.npy", x)
    job = replace(JOB, features=str(tmp_path / "x.npy"))
    blocks = [(2 * i, 2 * i + 2) for i in range(MIN_BLOCKS)]
    total = feature_columns.bytes_to_split(job, blocks, tmp_path / "work" / "columns", 4)
    with split_features(job, blocks, tmp_path / "work" / "columns", files_at_once=4, on_bytes=read.append) as split:
        assert [len(some) for some in passes] == [4, 2]
        for start, stop in blocks:
            np.testing.assert_array_equal(np.load(f"{split.columns}/columns-{start}-{stop}.npy"), x[:, start:stop])
    assert sum(read) == total == 2 * x.nbytes
    assert not (tmp_path / "work" / "columns").exists()


def test_columns_of_an_interrupted_command_are_reused(tmp_path, monkeypatch):
    graph, passes = small_graph(d=2 * MIN_BLOCKS), record_passes(monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr(block, "hops", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            propagate(graph, tmp_path / "b", taus=TAUS, degree=2, columns=2)
    folder = next(tmp_path.glob("b.work/columns*"))
    (folder / "columns-4-6.npy").unlink()
    assert_same_bits_as_in_memory(propagate(graph, tmp_path / "b", taus=TAUS, degree=2, columns=2), graph)
    assert passes[1:] == [[(4, 6)]]
    assert not folder.exists()


def test_a_bad_value_in_split_features_is_reported_for_the_original_file(tmp_path):
    graph, x = small_graph(d=1), np.ones((60, 2 * MIN_BLOCKS), dtype=np.float32)
    x[7, 9] = np.nan
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(ValueError, match=r"x\.npy must be finite; node 7 has nan in column 9"):
        propagate(graph, tmp_path / "b", taus=[1.0], degree=1, columns=2, features=tmp_path / "x.npy")


def test_a_job_can_be_pickled():
    import pickle

    assert pickle.loads(pickle.dumps(JOB)) == JOB
    assert replace(JOB, dtype="bfloat16").bytes_of(4) == 3 * 10 * 4 * 2
