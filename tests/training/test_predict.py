"""Tables of predictions: columns, formats, and which nodes."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.load import load
from adaptkry.graphs.readers.layout import Layout
from adaptkry.graphs.splits import stratified
from adaptkry.graphs.synthetic import csbm
from adaptkry.training.fit import fit
from adaptkry.training.predict import is_predictions, predict_frame, read_node_ids, write_predictions

QUICK = {"degree": 2, "hidden": 8, "epochs": 8, "device": "cpu"}


def labelled_graph(count=120):
    """A graph with ids, names of classes, and every third label unknown."""
    graph = csbm(nodes=count, phi=-0.5, information=0.8, seed=1)
    labels = torch.where(torch.arange(count) % 3 == 0, -1, graph.y)
    info = Info(
        "mine",
        class_names=("no", "yes"),
        node_ids=[f"user {i}" for i in range(count)],
        layout=Layout(id_column="user_id"),
    )
    rows = torch.repeat_interleave(torch.arange(count), graph.indptr.diff())
    return Graph(torch.stack([rows, graph.indices.long()]), graph.x, labels, info=info)


GRAPH = labelled_graph()


@pytest.fixture(scope="module")
def run():
    return fit(GRAPH, "adaptkry", stratified(GRAPH.y, count=3), **QUICK)


def test_a_frame_has_every_column(run):
    frame = predict_frame(run, GRAPH, sets=0.9)
    assert isinstance(frame, pd.DataFrame)
    expected = ["user_id", "class", "probability", "p(no)", "p(yes)", "label", "agreement", "set"]
    assert list(frame) == expected
    p = run.probabilities(GRAPH)
    np.testing.assert_allclose(frame[["p(no)", "p(yes)"]], p)
    np.testing.assert_allclose(frame["probability"], p.max(1).values)
    assert list(frame["class"]) == [("no", "yes")[c] for c in run.predict(GRAPH).tolist()]
    assert list(frame["user_id"]) == list(GRAPH.info.node_ids or ())
    assert list(frame["label"]) == ["known" if y >= 0 else "predicted" for y in GRAPH.y.tolist()]
    votes = run.member_probabilities(GRAPH).argmax(-1) == run.predict(GRAPH)
    np.testing.assert_allclose(frame["agreement"], votes.double().mean(0))
    sets = run.prediction_sets(GRAPH, 0.9)
    assert list(frame["set"]) == [" | ".join(np.array(["no", "yes"])[row]) for row in sets.numpy()]


def test_csv_and_parquet_hold_the_same_table_and_can_be_written_again(run, tmp_path):
    frame = predict_frame(run, GRAPH, sets=0.8)
    for name, read in (("p.csv", pd.read_csv), ("p.parquet", pd.read_parquet)):
        for _ in range(2):  # the second time over the first
            assert write_predictions(tmp_path / name, run, GRAPH, sets=0.8) == 120
        found = read(tmp_path / name)
        found["set"] = found["set"].fillna("")
        pd.testing.assert_frame_equal(found, frame, atol=1e-6, check_dtype=False)


def test_foreign_files_and_formats_are_refused(run, tmp_path):
    pd.DataFrame({"id": [1], "class": [2]}).to_parquet(tmp_path / "mine.parquet")
    (tmp_path / "odd.parquet").write_bytes(b"PAR1 something")
    for name in ("mine.parquet", "odd.parquet"):
        with pytest.raises(ValueError, match="no earlier output of this kind"):
            write_predictions(tmp_path / name, run, GRAPH)
    with pytest.raises(ValueError, match=r"written as CSV or Parquet; got .*x\.json"):
        write_predictions(tmp_path / "x.json", run, GRAPH)
    assert not (tmp_path / "x.json").exists()


def test_headers_of_all_versions_are_recognised(run, tmp_path):
    write_predictions(tmp_path / "p.csv", run, GRAPH)
    assert is_predictions((tmp_path / "p.csv").read_bytes()[:4096])
    assert is_predictions(b"node,class,p(0),p(1)\n1,0,0.5,0.5\n")
    assert not is_predictions(b"id,class,probability\n")


def test_some_nodes_have_the_rows_of_all(run):
    every = predict_frame(run, GRAPH, sets=0.9, kind="randomised").set_index("user_id")
    some = predict_frame(run, GRAPH, nodes=["user 7", "user 3"], sets=0.9, kind="randomised").set_index("user_id")
    assert list(some.index) == ["user 7", "user 3"]
    pd.testing.assert_frame_equal(some, every.loc[["user 7", "user 3"]], atol=1e-6)
    plain = replace(GRAPH.info, node_ids=None)
    numbered = Graph([[0], [1]], GRAPH.x, GRAPH.y, info=plain)
    assert list(predict_frame(run, numbered, nodes=[5, 2])["user_id"]) == [5, 2]


def test_unlabelled_nodes_only(run):
    frame = predict_frame(run, GRAPH, unlabelled_only=True)
    assert list(frame["user_id"]) == [f"user {i}" for i in range(0, 120, 3)]
    assert set(frame["label"]) == {"predicted"}


def test_uncalibrated_probabilities(run):
    frame = predict_frame(run, GRAPH, calibrated=False)
    np.testing.assert_allclose(frame["p(no)"], run.probabilities(GRAPH, calibrated=False)[:, 0])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"nodes": ["user 1", "nobody"]}, ValueError, "ids of mine, such as 'user 0', .*; got 'nobody'"),
        ({"nodes": []}, ValueError, "at least one node; got none"),
        ({"nodes": "user 1"}, TypeError, "must be a list of ids; got 'user 1'"),
        ({"sets": 1.5}, ValueError, "between 0 and 1; got 1.5"),
        ({"sets": 0.9, "kind": "adaptiv"}, ValueError, "Did you mean 'adaptive'"),
        ({"nodes": ["user 1"], "unlabelled_only": True}, ValueError, "at least one node"),
    ],
)
def test_wrong_options_are_refused_before_a_file_exists(run, tmp_path, options, error, words):
    with pytest.raises(error, match=words):
        write_predictions(tmp_path / "p.csv", run, GRAPH, **options)
    assert not (tmp_path / "p.csv").exists()


def test_a_graph_without_unlabelled_nodes_is_refused(run):
    full = GRAPH.relabelled(GRAPH.y.clamp(min=0))
    with pytest.raises(ValueError, match="all of mine have one"):
        predict_frame(run, full, unlabelled_only=True)
    numbered = Graph([[0], [1]], GRAPH.x)
    with pytest.raises(ValueError, match="numbers from 0 to 119, since graph has no node ids; got '120'"):
        predict_frame(run, numbered, nodes=[120])


def test_ids_are_read_from_text_and_from_tables(tmp_path):
    info = Info(layout=Layout(id_column="user_id"))
    (tmp_path / "a.txt").write_text("x y\n\n z \n")
    assert read_node_ids(tmp_path / "a.txt", info) == ["x y", "z"]
    (tmp_path / "a.csv").write_text("name,user_id\nb,7\na,08\n")
    assert read_node_ids(tmp_path / "a.csv", info) == ["7", "08"]
    (tmp_path / "b.csv").write_text("name,id\nb,7\n")
    with pytest.raises(ValueError, match=r"must have the column 'user_id' .* got 'name', 'id'"):
        read_node_ids(tmp_path / "b.csv", info)
    assert read_node_ids(tmp_path / "b.csv", Info()) == ["7"]
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ValueError, match="one per line; got none"):
        read_node_ids(tmp_path / "empty.txt", info)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="got other bytes"):
        read_node_ids(tmp_path / "bytes.txt", info)


def test_the_id_column_has_the_name_of_the_users_file(tmp_path):
    rows = [f"n{i},{'even' if i % 2 == 0 else 'odd'},{i % 2},{i}" for i in range(60)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(f"n{i},n{(i + 2) % 60}" for i in range(60)))
    (tmp_path / "nodes.csv").write_text("person,label,x,y\n" + "\n".join(rows) + "\n")
    graph = load([tmp_path / "edges.csv", tmp_path / "nodes.csv"], id_column="person")
    found = fit(graph, "adaptkry", stratified(graph.y, count=1), **QUICK)
    assert list(predict_frame(found, graph))[:2] == ["person", "class"]
    assert list(predict_frame(found, graph, nodes=["n3"])["person"]) == ["n3"]


def test_ids_in_two_folders_with_the_same_bits(run, tmp_path):
    write_predictions(tmp_path / "a.csv", run, GRAPH)
    write_predictions(tmp_path / "b.csv", run, GRAPH)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    with (tmp_path / "a.csv").open() as file:
        assert next(csv.DictReader(file))["user_id"] == "user 0"
