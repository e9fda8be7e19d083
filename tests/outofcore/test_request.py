import numpy as np
import pytest
import torch

from adaptkry.outofcore import propagate
from basis_on_disk import TAUS, assert_same_bits_as_in_memory, small_graph
from contracts import assert_same_bits, random_signal
from strategies import random_graph


def test_stored_rows_are_a_permutation_determined_by_the_seed(basis, tmp_path):
    assert sorted(basis.rows.tolist()) == list(range(60))
    assert basis.rows.tolist() != sorted(basis.rows.tolist())
    other = propagate(tmp_path / "g", tmp_path / "c", taus=TAUS, degree=3, columns=2, seed=1)
    assert basis.rows.tolist() != other.rows.tolist()


def test_only_labelled_or_listed_rows_are_stored(tmp_path):
    graph = small_graph()
    labelled = propagate(graph, tmp_path / "b", taus=[1.0], degree=2, rows="labelled")
    assert sorted(labelled.rows.tolist()) == (graph.y >= 0).nonzero()[:, 0].tolist()
    assert_same_bits(labelled.labels, graph.y[labelled.rows])
    assert_same_bits_as_in_memory(labelled, graph)
    (tmp_path / "some.txt").write_text("5\n3\n5\n")
    np.save(tmp_path / "some.npy", np.array([3, 5]))
    for name, rows in (("c", str(tmp_path / "some.txt")), ("d", str(tmp_path / "some.npy")), ("e", [5, 3])):
        some = propagate(graph, tmp_path / name, taus=[1.0], degree=2, rows=rows)
        assert sorted(some.rows.tolist()) == [3, 5]
        assert_same_bits_as_in_memory(some, graph)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("labeled", "does not exist"),
        ([60], r"0 \.\. 59; got 60"),
        ([-1], "got -1"),
        ([], "list of node numbers"),
    ],
)
def test_bad_rows_are_refused(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        propagate(small_graph(), tmp_path / "b", taus=[1.0], degree=2, rows=rows)


def test_float64_features_are_stored_as_float32_with_a_message(tmp_path, log):
    graph = random_graph(0, features=4)
    basis = propagate(graph, tmp_path / "b", taus=[1.0], degree=1)
    assert "features are float64, stored as float32" in log()
    assert_same_bits(basis.slab(0, 20)[0], graph.x.float()[basis.rows])


def test_features_of_another_file_replace_those_of_the_graph(tmp_path):
    graph, other = small_graph(), random_signal(60, 7, dtype=torch.float32)
    np.save(tmp_path / "x.npy", other.numpy())
    basis = propagate(graph, tmp_path / "b", taus=[1.0], degree=2, features=tmp_path / "x.npy")
    graph.features = other
    assert_same_bits_as_in_memory(basis, graph)
    np.save(tmp_path / "x.npy", other.numpy()[:5])
    with pytest.raises(ValueError, match=r"shape \[60, d\].*got float32 \[5, 7\]"):
        propagate(graph, tmp_path / "b", taus=[1.0], degree=2, features=tmp_path / "x.npy")
