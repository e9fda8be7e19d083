import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from adaptkry.common.files import exclusive_lock
from adaptkry.common.journal import Journal
from adaptkry.graphs.graph import Graph
from adaptkry.outofcore import GraphFolder, write_graph
from adaptkry.outofcore.external_sort import buckets, even_starts
from adaptkry.outofcore.random_graph import GRAPH_PARTS, generate
from adaptkry.outofcore.transpose import oriented
from basis_on_disk import content
from strategies import random_graph

SMALL: dict[str, Any] = {"nodes": 5000, "entries": 60_000, "features": 8, "classes": 4}


def matrix_of(folder) -> sp.csr_array:
    indptr, indices = folder.array("indptr").read(), folder.array("indices").read()
    data = folder.array("weights").read() if folder.has("weights") else np.ones(len(indices))
    return sp.csr_array((data, indices, indptr), shape=(folder.nodes, folder.nodes))


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("homophily", [0.2, 0.8])
def test_edges_are_as_requested(tmp_path, directed, homophily):
    folder = generate(tmp_path / "g", **SMALL, homophily=homophily, directed=directed)
    A, labels = matrix_of(folder).tocoo(), folder.array("labels").read()
    assert A.nnz == folder.entries == pytest.approx(60_000, rel=0.08)
    assert (A.row != A.col).all()
    pairs = A.row.astype(np.int64) * 5000 + A.col
    assert (np.diff(pairs) > 0).all()  # sorted, and none twice
    assert folder.is_symmetric == (not directed) == ((A != A.T).nnz == 0)
    assert np.mean(labels[A.row] == labels[A.col]) == pytest.approx(homophily, abs=0.03)


def test_degrees_follow_a_power_law(tmp_path):
    folder = generate(tmp_path / "g", nodes=50_000, entries=500_000, features=1)
    degrees = np.sort(np.diff(folder.array("indptr").read()))[::-1].astype(float)
    assert degrees.mean() == pytest.approx(10, rel=0.03)
    assert degrees[0] == pytest.approx(np.sqrt(500_000), rel=0.25)
    top = degrees[100:2000]  # Hill's estimate; the first ones are limited by the shift
    assert 1 + 1 / np.mean(np.log(top / top[-1])) == pytest.approx(2.5, abs=0.4)
    where = np.argsort(-np.diff(folder.array("indptr").read()))[:100]
    assert 0.3 < where.mean() / 50_000 < 0.7  # nodes of large degree are anywhere


def test_classes_are_equal_in_size_and_determine_the_features(tmp_path):
    folder = generate(tmp_path / "g", **SMALL, labelled=1.0)
    x, y = folder.array("features").read(), folder.array("labels").read()
    assert np.bincount(y).tolist() == [1250] * 4
    assert x.dtype == np.float32
    centres = np.stack([x[y == c].mean(0) for c in range(4)])
    assert np.linalg.norm(centres, axis=1) == pytest.approx(1, abs=0.1)
    right = (np.linalg.norm(x[:, None] - centres, axis=2).argmin(1) == y).mean()
    assert 0.5 < right < 0.999


def test_a_share_of_labels_is_known(tmp_path):
    y = generate(tmp_path / "g", **SMALL, labelled=0.1).array("labels").read()
    assert (y >= 0).mean() == pytest.approx(0.1, abs=0.02)
    assert y.min() == -1


def test_the_seed_determines_every_byte(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / name, **SMALL, seed=seed)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    for file in ("indices.npy", "features.npy", "labels.npy"):
        assert content(tmp_path / "a")[file] != content(tmp_path / "c")[file]


def test_an_existing_graph_is_kept_and_other_settings_are_refused(tmp_path):
    folder = generate(tmp_path / "g", **SMALL)
    before = (folder.path / "indices.npy").stat().st_mtime_ns
    generate(tmp_path / "g", **SMALL)
    assert (folder.path / "indices.npy").stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="was started with other settings: seed was 0, now 7"):
        generate(tmp_path / "g", **SMALL, seed=7)


@pytest.mark.parametrize("name", ["features.npy", "labels.npy", "indptr.npy", "indices.npy", "notes.txt"])
def test_files_of_the_user_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(ValueError, match=f"must be empty or a graph folder; it holds {name}"):
        generate(tmp_path, **SMALL)
    assert content(tmp_path) == {name: b"mine"}


def test_a_graph_of_the_user_is_not_overwritten(tmp_path):
    folder = write_graph(random_graph(0), tmp_path / "g")
    before = content(folder.path)
    with pytest.raises(ValueError, match=r"already holds another graph \(graph\)"):
        generate(folder.path, **SMALL)
    assert content(folder.path) == before


@pytest.mark.parametrize("part", GRAPH_PARTS)
def test_an_interrupted_command_keeps_the_finished_parts(tmp_path, monkeypatch, part):
    expected = generate(tmp_path / "whole", **SMALL)
    written, add = [], Journal.add

    def stop(journal, name, record):
        add(journal, name, record)
        written.append(name)
        if name == part:
            raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Journal, "add", stop)
        with pytest.raises(KeyboardInterrupt):
            generate(tmp_path / "g", **SMALL)
    with pytest.raises(FileNotFoundError, match="must be a graph folder; it has no manifest"):
        GraphFolder.open(tmp_path / "g")
    seen = []
    generate(tmp_path / "g", **SMALL, on_progress=lambda done, total: seen.append((done, total)))
    assert written == list(GRAPH_PARTS[: GRAPH_PARTS.index(part) + 1])
    assert not seen or seen[-1][0] == seen[-1][1]
    assert content(tmp_path / "g") == content(expected.path)


def test_a_part_whose_file_is_missing_is_written_again(tmp_path):
    folder = generate(tmp_path / "g", **SMALL)
    before = content(folder.path)
    (folder.path / "features.npy").unlink()
    generate(tmp_path / "g", **SMALL)
    assert content(folder.path) | {"journal.jsonl": b""} == before | {"journal.jsonl": b""}


def test_two_commands_do_not_generate_into_one_folder(tmp_path):
    with exclusive_lock(tmp_path), pytest.raises(ValueError, match="another command is writing to"):
        generate(tmp_path, **SMALL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": 3}, "got 4 classes and 3 nodes"),
        ({"entries": 10**9}, "entries must be at most"),
        ({"homophily": 1.5}, "must be between 0 and 1; got 1.5"),
        ({"features": 0}, "features must be at least 1"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        generate(tmp_path / "g", **SMALL | change)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_transposing_on_disk_equals_transposing_in_memory(tmp_path, weighted):
    graph = random_graph(4, 200, 1500, directed=True, weighted=weighted)
    folder = write_graph(graph, tmp_path / "g")
    for direction, expected in (("both", graph.undirected()), ("in", graph.transposed()), ("out", graph)):
        found = oriented(folder, direction, tmp_path / "work")
        assert found.array("indptr").read().tolist() == expected.indptr.tolist()
        assert found.array("indices").read().tolist() == expected.indices.tolist()
        if weighted and expected.weights is not None:
            assert found.array("weights").read().tolist() == expected.weights.tolist()
        assert oriented(folder, direction, tmp_path / "work") == found
    assert not (tmp_path / "work" / "both" / "buckets").exists()
    other = write_graph(random_graph(5, 200, 1500, directed=True), tmp_path / "other")
    assert oriented(other, "in", tmp_path / "work").entries == other.entries  # written again for another graph


def test_many_buckets_give_the_same_files_as_one(tmp_path):
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, 50, (2, 3000))
    counts = np.bincount(rows, minlength=50)
    assert even_starts(counts, 100)[0] == 0
    for name, size in (("one", 10**6), ("many", 100)):
        (tmp_path / name).mkdir()
        with buckets(tmp_path / name / "b", 50, even_starts(counts, size)) as sorter:
            for part in range(0, 3000, 700):
                sorter.add(rows[part : part + 700], columns[part : part + 700])
            sorter.write(tmp_path / name)
    assert content(tmp_path / "one") == content(tmp_path / "many")
    expected = Graph(np.stack([rows, columns]), nodes=50, directed=True)
    assert np.load(tmp_path / "many" / "indices.npy").tolist() == expected.indices.tolist()


@pytest.mark.slow
def test_memory_of_the_generator_grows_with_nodes_and_not_with_entries(tmp_path):
    peaks = []
    for entries in (9_000_000, 24_000_000):  # both fill a bucket
        script = (
            "import sys\n"
            "from adaptkry.common import memory\n"
            "from adaptkry.outofcore import generate\n"
            "with memory.peak() as peak:\n"
            "    generate(sys.argv[1], nodes=500_000, entries=int(sys.argv[2]), features=8)\n"
            "print(peak.bytes)\n"
        )
        words = [sys.executable, "-c", script, str(tmp_path / str(entries)), str(entries)]
        peaks.append(int(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] - peaks[0] < 100 * 2**20  # the keys of 15 million entries more would be 114 MiB, once
    assert peaks[1] < 800 * 2**20


def test_the_command_writes_a_graph_folder(tmp_path, command):
    words = ["generate", str(tmp_path / "g"), "--nodes", "1e3", "--entries", "5000", "--features", "3", "--json"]
    summary = json.loads(command(*words).out)
    assert summary["nodes"] == 1000
    assert summary["entries"] == pytest.approx(5000, rel=0.1)
