"""Ids of nodes and names of classes travel through graph folders and basis folders into predictions."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adaptkry.graphs.graph import Graph, Info
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.outofcore import GraphFolder, finalise, propagate, write_graph
from adaptkry.outofcore.node_ids import MAX_ID_BYTES, as_ids, encoded
from adaptkry.outofcore.npy_files import file_checksum
from adaptkry.training.folder_recipe import FIXED, folder_recipe
from basis_on_disk import small_graph
from refusals import refused

IDS = [f"käse {i}" if i % 3 else f"{i:09d}" for i in range(60)]


def graph_with_ids() -> Graph:
    graph = small_graph()
    graph.info = Info("shop", class_names=["low", "mid", "high"], node_ids=IDS, feature_names=list("vwxyz"))
    return graph


@pytest.mark.parametrize("rows", ["all", "labelled", [5, 3, 59, 0]], ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_stored_rows_have_the_ids_of_their_nodes(tmp_path, rows, seed):
    graph = graph_with_ids()
    basis = propagate(graph, tmp_path / "b", taus=[1.0], degree=1, rows=rows, seed=seed)
    numbers = basis.rows.argsort()
    assert basis.node_ids(numbers) == [IDS[node] for node in sorted(basis.rows.tolist())]
    assert basis.class_names == ["low", "mid", "high"]
    assert basis.feature_names == list("vwxyz")
    basis.verify()


def test_other_features_have_no_names_and_change_the_digest(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((60, 5), dtype=np.float32))
    basis = propagate(graph_with_ids(), tmp_path / "b", taus=[1.0], degree=1, features=tmp_path / "x.npy")
    assert basis.feature_names is None


def test_a_folder_with_other_ids_or_class_names_is_another_request(tmp_path):
    graph = graph_with_ids()
    propagate(graph, tmp_path / "b", taus=[1.0], degree=1)
    graph.info = Info("shop", class_names=["low", "mid", "top"], node_ids=IDS, feature_names=list("vwxyz"))
    refused(lambda: propagate(graph, tmp_path / "b", taus=[1.0], degree=1), "the names of classes was .* now")
    graph.info = Info("shop", class_names=["low", "mid", "high"], node_ids=IDS[::-1], feature_names=list("vwxyz"))
    refused(lambda: propagate(graph, tmp_path / "b", taus=[1.0], degree=1), r"the graph \(its digest\) was")


@pytest.mark.parametrize("ids", [np.arange(60) * 7, np.array(IDS), np.char.encode(IDS, "utf-8")], ids=["int", "U", "S"])
def test_ids_of_a_folder_that_was_finalised_by_hand(tmp_path, ids):
    folder = write_graph(small_graph(), tmp_path / "g")
    np.save(folder.path / "node_ids.npy", ids)
    finalise(folder.path, symmetric=True, class_names=["a", "b", "c"])
    assert GraphFolder.open(folder.path).manifest["xxh128"]["node_ids"] == file_checksum(folder.path / "node_ids.npy")
    basis = propagate(folder.path, tmp_path / "b", taus=[1.0], degree=1)
    expected = ids.tolist() if ids.dtype.kind != "S" else IDS
    assert basis.node_ids(basis.rows.argsort()) == expected
    assert basis.class_names == ["a", "b", "c"]


@pytest.mark.parametrize("bad", ["x" * (MAX_ID_BYTES + 1), "null\0", "\udc80"], ids=["long", "null", "surrogate"])
def test_ids_that_cannot_be_stored_are_refused(tmp_path, bad):
    graph = graph_with_ids()
    graph.info = Info("shop", node_ids=[bad, *IDS[1:]])
    refused(lambda: write_graph(graph, tmp_path / "g"), "node ids on disk must be valid text")
    assert list(tmp_path.iterdir()) == []
    assert as_ids(encoded(["", "a", "ä\n"])) == ["", "a", "ä\n"]


def test_predictions_from_disk_have_the_ids_and_classes_of_the_files(tmp_path, command):
    random = np.random.default_rng(0)
    names = [f"user-{i:03d}" for i in random.permutation(80)]
    classes = ["no", "yes"]
    nodes = "".join(
        f"{name},{classes[i % 2]},{i % 2 + random.normal() / 9:.4f},{i % 5}\n" for i, name in enumerate(names)
    )
    edges = "".join(f"{names[i]},{names[(i + step) % 80]}\n" for i in range(80) for step in (2, 4))
    (tmp_path / "nodes.csv").write_text("id,label,a,b\n" + nodes)
    (tmp_path / "edges.csv").write_text("source,target\n" + edges)
    command("propagate", "edges.csv", "nodes.csv", "--taus", "1", "--degree", 2, "--out", "basis", cwd=tmp_path)
    command("fit", "basis", "--epochs", 60, "--splits", 1, "--out", "run", cwd=tmp_path)
    for words in (["basis"], [], ["edges.csv", "nodes.csv"]):
        command("predict", "run", *words, "--out", "p.csv", cwd=tmp_path)
        table = read(tmp_path / "p.csv")
        column = "id" if "nodes.csv" in words else "node"  # basis folders have ids, but not the name of their column
        assert sorted(row[column] for row in table) == sorted(names)
        assert {row["class"] for row in table} == {"no", "yes"}
        assert {"p(no)", "p(yes)"} <= table[0].keys()
        right = sum(row["class"] == classes[names.index(row[column]) % 2] for row in table)
        assert right >= 78  # a wrong order of ids would give about half
    (tmp_path / "swapped.csv").write_text("id,label,b,a\n" + nodes)
    command("propagate", "edges.csv", "swapped.csv", "--taus", "1", "--degree", 2, "--out", "other", cwd=tmp_path)
    shown = command("predict", "run", "other", "--out", "p.csv", cwd=tmp_path, code=2).err
    assert "this run was trained on the feature columns a, b; got a folder with b, a" in shown


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_name_of_a_graph_does_not_give_it_published_settings(tmp_path):
    graph = small_graph()
    graph.info = Info("squirrel")
    basis = propagate(graph, tmp_path / "b", taus=[0.8], degree=2)
    assert basis.known_as is None
    graph.info = Info("squirrel", known_as="squirrel")
    known = propagate(graph, tmp_path / "c", taus=[0.8], degree=2)
    assert folder_recipe(known) == recipe_of_squirrel(folder_recipe(basis))


def recipe_of_squirrel(default: Recipe) -> Recipe:
    """The settings published for Squirrel, except those that a folder determines."""
    published = recipe("adaptkry", "squirrel")
    kept = {name: getattr(default, name) for name in (*FIXED, "taus", "degree", "directions")}
    assert published != recipe("adaptkry")
    return replace(published, **kept)
