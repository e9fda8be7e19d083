import csv
import inspect
import os
import pickle
import sys
import tempfile
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from hypothesis import given
from torch_geometric.data import Data

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.load import load
from adaptkry.graphs.readers import LOAD_OPTIONS, read
from adaptkry.graphs.readers.arrays import read_matrix, read_matrix_market, read_npz, write_npz
from adaptkry.graphs.readers.matlab import read_matlab
from adaptkry.graphs.readers.objects import from_networkx
from adaptkry.graphs.readers.tables import read_tables
from adaptkry.graphs.readers.texts import encode, texts
from benchmark_graphs import benchmark_graph
from strategies import graphs, random_graph

NODES = {
    "id": ["ann", "bob", "cy", "dee"],
    "age": ["1.5", "2", "-3e0", "4"],
    "label": ["spam", "", "ham", "spam"],
    "tall": ["0", "1", "1", "0"],
}
EDGES = {"source": ["ann", "bob", "dee"], "target": ["bob", "cy", "ann"], "weight": ["1", "2.5", "1"]}
EDGE = {"edges": np.array([[0], [1]])}
READ = Graph(
    [[0, 1, 3], [1, 2, 0]],
    np.array([[1.5, 0], [2, 1], [-3, 1], [4, 0]]),
    [1, -1, 0, 1],
    weights=[1, 2.5, 1],
)


def same(one: Graph, other: Graph) -> None:
    """Assert that two graphs are equal except for names."""
    assert one.is_directed == other.is_directed
    for part in ("indptr", "indices", "y"):
        assert getattr(one, part).equal(getattr(other, part))
    assert (one.weights is None) == (other.weights is None)
    if one.weights is not None:
        torch.testing.assert_close(one.weights, other.weights)
    assert (one.features is None) == (other.features is None)
    if one.features is not None:
        assert one.x.equal(other.x)


def table(path: Path, content: dict[str, list], **typed) -> Path:
    """Write columns as CSV, TSV or Parquet; `typed` converts the values of Parquet columns."""
    if path.suffix == ".parquet":
        columns = {name: typed.get(name, lambda values: values)(values) for name, values in content.items()}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        return path
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(content)
        writer.writerows(zip(*content.values(), strict=True))
    return path


NAN = float("nan")


def numbers(values: list[str]) -> list[float]:
    return [float(value) for value in values]


def blanks(values: list[str]) -> list[str | None]:
    return [value or None for value in values]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_tables_give_ids_classes_features_and_weights(tmp_path, ending):
    edges = table(tmp_path / f"edges{ending}", EDGES, weight=numbers)
    nodes = table(
        tmp_path / f"nodes{ending}", NODES, age=numbers, tall=lambda values: [v == "1" for v in values], label=blanks
    )
    for graph in (
        read([edges, nodes]),
        read(str(edges), nodes=nodes),
        read(tmp_path),
        load([edges, nodes]),
        load(str(tmp_path)),
    ):
        same(graph, READ)
        names = ("ham", "spam"), ("ann", "bob", "cy", "dee"), ["age", "tall"]
        assert graph.info == Info(tmp_path.name, "accuracy", None, *names, dtype=torch.float32)


def test_another_separator_is_refused(tmp_path):
    (tmp_path / "e.csv").write_text("source;target\na;b\n")
    with pytest.raises(ValueError, match="looks separated by ';'"):
        read(tmp_path / "e.csv")


def test_ids_and_labels_are_the_same_as_int_float_or_text(tmp_path):
    edges = table(tmp_path / "e.csv", {"source": ["10", "9"], "target": ["9", "8"]})
    content = {"id": [8, 9, 10], "label": [2.0, None, 10.0], "f": [1, 2, 3]}
    graph = read([edges, table(tmp_path / "n.parquet", content)])
    assert graph.y.tolist() == [0, -1, 1]
    assert (graph.info.class_names, graph.info.node_ids) == (("2", "10"), ("8", "9", "10"))
    assert graph.adjacency.toarray()[2].tolist() == [0, 1, 0]


def test_columns_may_have_other_names_and_be_left_out(tmp_path):
    edges = table(tmp_path / "e.csv", {"from": ["a", "a"], "to": ["b", "b"], "w": ["1", "2"], "when": ["x", "y"]})
    nodes = table(tmp_path / "n.csv", {"name": ["a", "b"], "class": ["1", ""], "note": ["hi", "ho"], "f": ["1", "2"]})
    options: dict = {
        "source": "from",
        "target": "to",
        "weight_column": "w",
        "id_column": "name",
        "label_column": "class",
    }
    options |= {"ignore": ["note"], "directed": True, "name": "mine", "metric": "roc_auc"}
    graph = read([edges, nodes], **options)
    same(graph, Graph([[0, 0], [1, 1]], np.array([[1.0], [2]]), [0, -1], weights=[1, 2], directed=True))
    assert (graph.info.name, graph.info.metric) == ("mine", "roc_auc")


def test_without_a_nodes_file_nodes_are_those_of_the_edges(tmp_path):
    graph = read(table(tmp_path / "e.csv", {"source": ["10", "9"], "target": ["9", "100"]}))
    assert graph.info.node_ids == ("9", "10", "100")
    assert (graph.features, graph.classes, graph.entries) == (None, 0, 4)


@given(graphs())
def test_npz_written_is_the_graph_read(graph):
    with tempfile.TemporaryDirectory() as folder:
        path = write_npz(graph, Path(folder) / "graph.npz")
        same(read(path), graph)
        assert list(Path(folder).iterdir()) == [path]


def test_npz_keeps_names_and_masks(tmp_path):
    masks = {part: torch.eye(4, dtype=torch.bool)[[i, i + 1]] for i, part in enumerate(splits.PARTS)}
    info = Info("toy", "roc_auc", masks, ("a", "b"), ("k", "l", "m", "n"))
    graph = Graph([[0, 1], [1, 1]], labels=[0, 1, 0, 1], directed=True, info=info)
    found = read(write_npz(graph, tmp_path / "g.npz"))
    assert (found.info.name, found.info.metric, found.info.class_names) == ("toy", "roc_auc", ("a", "b"))
    assert found.info.node_ids == info.node_ids
    assert found.is_directed
    assert all((found.info.masks or {})[part].equal(mask) for part, mask in masks.items())


@pytest.mark.parametrize("names", [("edges", "features", "labels"), ("edge_index", "x", "y")])
@pytest.mark.parametrize("shape", [(4,), (2, 4), (4, 2)])
def test_npz_may_use_either_name_and_any_layout_of_masks(tmp_path, names, shape):
    rows = {part: np.eye(4, dtype=bool)[i] for i, part in enumerate(("train", "val", "test"))}
    layout = {1: lambda m: m, 2: lambda m: np.stack([m, m], axis=shape.index(2))}[len(shape)]
    arrays = dict(zip(names, ([[0, 1], [1, 2]], np.ones((4, 2)), ["b", "a", "", "b"]), strict=True))
    np.savez(tmp_path / "g.npz", **arrays, **{f"{part}_mask": layout(mask) for part, mask in rows.items()}, extra=[1])
    graph = read(tmp_path / "g.npz", directed=True)
    same(graph, Graph([[0, 1], [1, 2]], np.ones((4, 2)), [1, 0, -1, 1], directed=True))
    assert (graph.info.class_names, graph.info.name) == (("a", "b"), "g")
    assert {part: mask[0].tolist() for part, mask in (graph.info.masks or {}).items()} == {
        part: row.tolist() for part, row in zip(splits.PARTS, rows.values(), strict=True)
    }


def test_npz_may_have_edges_as_pairs(tmp_path):
    pairs = np.array([[0, 1], [1, 2], [3, 0]])
    np.savez(tmp_path / "g.npz", edges=pairs, edge_weight=[1.0, 2.0, 3.0])
    same(read(tmp_path / "g.npz", directed=True), Graph(pairs.T, weights=[1.0, 2.0, 3.0], directed=True))
    np.savez(tmp_path / "two.npz", edges=pairs[:2])  # ambiguous: sources 0 and 1, targets 1 and 2
    same(read(tmp_path / "two.npz", directed=True), Graph(pairs[:2], directed=True))


@pytest.mark.parametrize("with_values", [False, True])
def test_npz_may_have_sparse_features_which_stay_sparse(tmp_path, with_values):
    features = sp.csr_array(np.array([[0, 2, 0], [1, 0, 0]], dtype=np.float32))
    parts = {f"attr_{part}": getattr(features, part) for part in ("indptr", "indices", "shape")}
    values = {"attr_data": features.data} if with_values else {}
    np.savez(tmp_path / "g.npz", **EDGE, **parts, **values)  # type: ignore[arg-type]
    graph = read(tmp_path / "g.npz")
    assert sp.issparse(graph.features)
    assert graph.x.tolist() == [[0, 2 if with_values else 1, 0], [1, 0, 0]]
    assert sp.issparse(read(write_npz(graph, tmp_path / "again.npz")).features)
    same(read(tmp_path / "again.npz"), graph)


@pytest.mark.data
def test_facebook_graphs_are_read_as_by_pyg():
    expected = benchmark_graph("johnshopkins55")
    path = Path(os.environ["ADAPTKRY_DATA"]) / "johnshopkins55" / "raw" / "data.mat"
    graph = read(path, name="johnshopkins55")
    same(graph, expected)
    assert sp.issparse(graph.features)
    assert len(graph.info.feature_names or ()) == 2406


def test_facebook_graphs_have_a_column_per_value_and_the_gender_as_label(tmp_path):
    info = np.array([[1, 2, 10, 0, 5, 2008, 7], [1, 0, 11, 0, 5, 2009, 7], [2, 1, 10, 0, 6, 2008, 8]], np.uint16)
    A = sp.csc_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    scipy.io.savemat(tmp_path / "Small.mat", {"A": A, "local_info": info})
    graph = read(tmp_path / "Small.mat")
    x = [[1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0], [0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1]]
    same(graph, Graph([[0, 1], [1, 2]], np.array(x, np.float32), [1, -1, 0]))
    assert (graph.info.feature_names or ())[:3] == ["status=1", "status=2", "major=10"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "u1", "i8"])
def test_matlab_files_are_read_as_by_scipy(tmp_path, compressed, dtype):
    dense, sparse = np.arange(15).reshape(3, 5).astype(dtype), sp.random(7, 9, 0.3, format="csc", rng=0)
    variables = {"dense": dense, "a_longer_name": sparse, "b": np.ones((1, 1), dtype), "text": "text", "none": {"x": 1}}
    scipy.io.savemat(tmp_path / "a.mat", variables, do_compression=compressed)
    found = read_matlab(tmp_path / "a.mat")
    expected = scipy.io.loadmat(tmp_path / "a.mat")
    for name in ("dense", "b"):
        np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(found["a_longer_name"].toarray(), expected["a_longer_name"].toarray())
    assert (found["text"], found["none"], len(found)) == (None, None, 5)


@pytest.mark.parametrize("edges", [[[0, 1], [2, 3]], [[0, 1], [2, 3], [1, 2]]])
def test_npz_of_heterophilous_graphs_have_edges_as_pairs(tmp_path, edges):
    np.savez(tmp_path / "g.npz", edges=np.array(edges), node_features=np.ones((4, 1)), node_labels=[0, 1, 0, 1])
    same(read(tmp_path / "g.npz"), Graph(np.array(edges).T, np.ones((4, 1)), [0, 1, 0, 1]))


def test_npz_may_have_the_older_names_of_gnn_benchmark(tmp_path):
    A, x = sp.csr_array(np.array([[0, 1], [1, 0]])), sp.csr_array(np.array([[0, 2.0], [1, 0]]))
    adjacency = {f"adj_matrix.{part}": getattr(A, part) for part in ("data", "indices", "indptr", "shape")}
    attributes = {f"attr_matrix.{part}": getattr(x, part) for part in ("data", "indices", "indptr", "shape")}
    expected = Graph([[0], [1]], x.toarray(), [0, 1], weights=[1])
    np.savez(tmp_path / "sparse.npz", labels=[0, 1], **adjacency, **attributes)
    same(read(tmp_path / "sparse.npz"), expected)
    np.savez(tmp_path / "dense.npz", labels=[0, 1], **adjacency, attr_matrix=x.toarray())
    same(read(tmp_path / "dense.npz"), expected)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "entries", "features", "classes", "fixed_splits"),
    [
        ("texas", 183, 558, 1703, 5, 10),
        ("wisconsin", 251, 900, 1703, 5, 10),
        ("cornell", 183, 554, 1703, 5, 10),
        ("coauthor_cs", 18333, 163788, 6805, 15, 0),
    ],
)
def test_development_graphs_load(name, nodes, entries, features, classes, fixed_splits):
    path = Path(os.environ.get("ADAPTKRY_DATA", "")) / "own" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    graph = read(path)
    assert (graph.nodes, graph.entries, graph.classes) == (nodes, entries, classes)
    assert graph.features.shape == (nodes, features)
    assert sp.issparse(graph.features) == (name == "coauthor_cs")
    assert (0 if graph.info.masks is None else len(splits.fixed(graph))) == fixed_splits


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ending", [".mtx", ".npz"])
def test_matrices_keep_direction_and_weights(tmp_path, directed, weighted, ending):
    graph = random_graph(3, directed=directed, weighted=weighted)
    path = tmp_path / f"a{ending}"
    if ending == ".mtx":
        scipy.io.mmwrite(path, graph.adjacency, precision=17)
    else:
        sp.save_npz(path, graph.adjacency)
    np.save(tmp_path / "x.npy", graph.x.numpy())
    np.save(tmp_path / "y.npy", graph.y.numpy())
    same(read(path, features=tmp_path / "x.npy", labels=tmp_path / "y.npy"), graph)
    same(read([path, tmp_path / "y.npy", tmp_path / "x.npy"]), graph)


SQUARE = np.array([[0, 1.5, 0], [-2, 3, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("kind", "field", "symmetry"),
    [
        *((kind, field, symmetry) for kind in (np.asarray, sp.coo_array) for field in ("real", "integer")
          for symmetry in ("general", "symmetric", "skew-symmetric")),
        *((sp.coo_array, "pattern", symmetry) for symmetry in ("general", "symmetric")),
    ],
)  # fmt: skip
def test_matrix_market_files_are_read_as_by_scipy(tmp_path, kind, field, symmetry):
    matrix = {"general": SQUARE, "symmetric": SQUARE + SQUARE.T, "skew-symmetric": SQUARE - SQUARE.T}[symmetry]
    matrix = np.rint(matrix).astype(int) if field == "integer" else matrix
    scipy.io.mmwrite(tmp_path / "a.mtx", kind(matrix), comment="\n made here", field=field, symmetry=symmetry)
    expected = scipy.io.mmread(tmp_path / "a.mtx")
    found = read_matrix_market(tmp_path / "a.mtx").toarray()
    np.testing.assert_array_equal(found, expected if isinstance(expected, np.ndarray) else expected.toarray())


def test_sparse_features_may_be_matrix_market_too(tmp_path):
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.csr_array(np.eye(3)[[1, 0, 2]]))
    scipy.io.mmwrite(tmp_path / "x.mtx", sp.csr_array(np.arange(6.0).reshape(3, 2)))
    graph = read(tmp_path / "a.mtx", features=tmp_path / "x.mtx")
    assert graph.x.tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("with_ids", [False, True])
def test_a_matrix_may_have_sparse_features_and_a_table_of_labels(tmp_path, with_ids):
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.csr_array(np.eye(3)[[1, 0, 2]]))
    features = sp.csr_array(np.array([[0, 2.5, 0], [0, 0, 0], [1, 0, 0]]))
    scipy.io.mmwrite(tmp_path / "x.mtx", features)
    rows = ("id,label\nu,cat\nv,\nw,ant\n" if with_ids else 'label\ncat\n""\nant\n').encode()
    (tmp_path / "y.csv").write_bytes(rows)
    paths = [tmp_path / name for name in ("a.mtx", "y.csv", "x.mtx")]
    for graph in (read(paths), read(paths[0], labels=paths[1], features=paths[2])):
        assert sp.issparse(graph.features)
        assert graph.features.nnz == 2
        assert graph.x.tolist() == features.toarray().tolist()
        assert graph.y.tolist() == [1, -1, 0]
        assert graph.info.class_names == ("ant", "cat")
        assert graph.info.node_ids == (("u", "v", "w") if with_ids else None)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
@pytest.mark.filterwarnings("ignore:Sparse C:UserWarning")
def test_sparse_features_of_pyg_data_stay_sparse(layout, dtype):
    x = torch.tensor([[0, 3], [0, 0], [1, 0]], dtype=dtype)
    data = Data(x=x.to_sparse(layout=layout), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1]))
    graph = read(data)
    assert sp.issparse(graph.features)
    assert graph.features.nnz == 2
    same(graph, read(Data(x=x, edge_index=data.edge_index, y=data.y)))


def test_repeated_entries_of_sparse_tensors_are_added():
    x = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.ones(2), (2, 3), check_invariants=False)
    assert Graph([[0], [1]], x).x.tolist() == [[0, 2, 0], [0, 0, 0]]


def test_masks_of_pyg_data_become_fixed_splits():
    mask = torch.eye(3, dtype=torch.bool)
    data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1]))
    data.train_mask, data.val_mask = mask[0], mask[1]
    with pytest.raises(ValueError, match="masks must all be present; got only train, validation"):
        read(data)
    data.test_mask = mask[2]
    graph = read(data, name="mine")
    assert (graph.is_directed, graph.info.name) == (True, "mine")
    assert splits.fixed(load(data)).test.tolist() == [[False, False, True]]
    data.train_mask, data.val_mask, data.test_mask = (m[:, None].expand(-1, 5) for m in mask)
    assert len(splits.fixed(read(data))) == 5


def changed(which: str, **columns) -> tuple[dict, dict]:
    """The tables EDGES and NODES with some columns of one of them replaced."""
    edges, nodes = ({name: list(values) for name, values in content.items()} for content in (EDGES, NODES))
    (edges if which == "edges" else nodes).update(columns)
    return edges, nodes


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        (
            changed("nodes", age=["1", "", "3", "4"]),
            {},
            "must have a value in every feature column; missing are 1 in column 'age'",
        ),
        (changed("nodes", age=["1", "2", "nan", "4"]), {}, "missing are 1 in column 'age'"),
        (changed("nodes", age=["1", "2", "3", "1e999"]), {}, "column 'age' .* node 'dee' has inf"),
        (
            changed("nodes", age=["1", "old", "3", "4"]),
            {},
            "column 'age' must hold numbers only, or texts only; 3 of 4 values are numbers, and node 'bob' has 'old'",
        ),
        (changed("nodes", id=["ann", "bob", "ann", "dee"]), {}, "node ids must differ; 'ann' occurs 2 times"),
        (
            changed("nodes", id=["ann", "", "cy", "dee"]),
            {},
            "column 'id' must have a node id in every row; row 2 is blank",
        ),
        (
            changed("nodes", id=["ann", "bob", "cy", "eve"]),
            {},
            "column 'source' must hold ids of the nodes file .*; got 'dee'",
        ),
        (
            changed("edges", target=["a", "b", "c"]),
            {},
            r"column 'target' must hold ids of the nodes file \('ann', 'bob', 'cy' and 1 more\); got 'a', 'b', 'c'",
        ),
        (changed("edges", source=["ann", "", "dee"]), {}, "column 'source' must have a node id in every row; row 2"),
        (changed("edges", weight=["1", "", "1"]), {}, "column 'weight' must hold finite numbers; the edge in row 2"),
        (changed("edges", weight=["1", "-2", "1"]), {}, "weights must not be negative; edge 1 has -2"),
        (
            changed("nodes"),
            {"label_column": "kind"},
            "no column 'kind' for labels. .*Its columns are 'id', 'age', 'label', 'tall'",
        ),
        (changed("nodes"), {"id_column": "name"}, "no column 'name' for node ids. .*Its columns are 'id'"),
        (
            changed("nodes"),
            {"source": "from"},
            "no column 'from' for the ends of edges .*Its columns are 'source', 'target'",
        ),
        (
            changed("nodes"),
            {"weight_column": "w"},
            "no column 'w' for edge weights. Its columns are 'source', 'target', 'weight'",
        ),
        (changed("nodes"), {"ignore": ["w"]}, "no column 'w' for ignore. Its columns are .*'tall'"),
        (changed("nodes", y=["1", "2", "1", "2"]), {"ignore": ["label"]}, None),
    ],
)
def test_bad_tables_are_refused_with_file_and_place(tmp_path, ending, tables, options, message):
    paths = [table(tmp_path / f"{name}{ending}", content) for name, content in zip("en", tables, strict=True)]
    if message is None:  # if there is a column "label", other columns that look like labels are features
        assert read(paths, **options).x.shape == (4, 3)
        return
    with pytest.raises(ValueError, match=message) as caught:
        read(paths, **options)
    assert str(caught.value).startswith(tuple(map(str, paths)))
    assert str(caught.value).count(str(tmp_path)) == 1  # only the file with the error is named


def test_errors_about_an_array_name_the_file_of_that_array(tmp_path):
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.eye_array(3))
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    np.save(tmp_path / "y.npy", np.array([0, 1]))
    for extra, message in (("x.npy", r"features must have shape \[3, d\]"), ("y.npy", r"labels must have shape \[3\]")):
        with pytest.raises(ValueError, match=f"^{tmp_path}/{extra}: {message}"):
            read([tmp_path / "a.mtx", tmp_path / extra])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("mine/edges.csv", "mine"),
        ("mine/friends.csv", "friends"),
        ("mine/data/Edges.csv", "mine"),
        ("mine/graph.csv", "mine"),
    ],
)
def test_a_graph_in_a_file_with_a_generic_name_is_named_after_its_folder(tmp_path, monkeypatch, path, name):
    (tmp_path / path).parent.mkdir(parents=True)
    table(tmp_path / path, EDGES)
    assert read(tmp_path / path).info.name == name
    monkeypatch.chdir((tmp_path / path).parent)
    assert read(Path(path).name).info.name == name


def test_column_that_looks_like_labels_is_never_a_feature(tmp_path):
    nodes = {name: values for name, values in NODES.items() if name != "label"} | {"Class": ["1", "2", "1", "2"]}
    paths = [table(tmp_path / "e.csv", EDGES), table(tmp_path / "n.csv", nodes)]
    with pytest.raises(
        ValueError,
        match=r"column 'Class' looks like labels.*--label-column 'Class' \(label_column='Class' in P",
    ):
        read(paths)
    assert read(paths, label_column="Class").y.tolist() == [0, 1, 0, 1]
    assert read(paths, ignore=["Class"]).classes == 0


CSV_EDGES = b"source,target\na,b\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.csv", b"", "must have a line of column names and rows below it"),
        ("g.csv", b"source,target\n", "must have a line of column names and rows below it"),
        ("g.csv", b"source,target\na\n", r"every row must have 2 values \(source, target\); row 1 has 1"),
        ("g.csv", b"source,source\na,b\n", "column names must differ; got 'source' more than once"),
        ("g.csv", b"source,target\n\xff,b\n", "must be UTF-8 text"),
        ("g.csv", b"id,label\na,b\n", r"no column 'source' .*edges file first.*Its columns are 'id', 'label'"),
        ("g.parquet", b"nonsense", "must be a Parquet file; it cannot be read"),
        ("g.npz", b"nonsense", "must be an .npz of plain arrays; it cannot be read"),
        ("g.npz", b"PK\x03\x04nonsense", "must be an .npz of plain arrays; it cannot be read"),
        (
            "g.npz",
            b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<i8', 'fortran_order': False, 'shape': (0,), }".ljust(117) + b"\n",
            "cannot be read",
        ),
        ("g.npz", b"", "must be an .npz of plain arrays; it cannot be read"),
        ("g.mtx", b"nonsense", "must be a valid .mtx file; it cannot be read"),
        (
            "g.mtx",
            b"%%MatrixMarket matrix coordinate pattern general\n2 3 1\n1 1\n",
            r"must be square; got shape \[2, 3\]",
        ),
        ("g.pt", b"nonsense", "is a pickle, and opening a pickle can run arbitrary code"),
        ("g.pkl", pickle.dumps(1), "is a pickle, and opening a pickle can run arbitrary code"),
        ("g.txt", CSV_EDGES, r"unknown file type '\.txt'"),
        ("g", CSV_EDGES, "unknown file type ''"),
    ],
)
def test_files_that_cannot_be_read_are_refused_by_name(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_npz_is_refused_whatever_byte_is_wrong(tmp_path, seed):
    path, random = write_npz(random_graph(0), tmp_path / "g.npz"), np.random.default_rng(seed)
    damaged = np.frombuffer(path.read_bytes(), np.uint8).copy()
    damaged[random.integers(0, len(damaged), 8)] ^= 0xFF
    path.write_bytes(damaged.tobytes())
    with pytest.raises(ValueError, match=r"g\.npz"):
        read(path)


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ({"x": np.ones((2, 2))}, ValueError, r"needs an array 'edges' \[2, m\] or \[m, 2\]; got x"),
        ({**EDGE, "feature": np.ones((2, 2))}, ValueError, "unknown array 'feature'. Did you mean 'features'"),
        ({**EDGE, "x": np.array([[1.0], [np.nan]])}, ValueError, "features must be finite; node 1 has nan"),
        ({**EDGE, "x": np.ones((3, 1)), "y": np.array([0, 1])}, ValueError, r"labels must have shape \[3\]"),
        ({**EDGE, "y": np.array([0.0, 1.0])}, TypeError, "labels must be integers"),
        ({"edges": np.zeros((3, 4), int)}, ValueError, r"edges must have shape \[2, m\].*got \[3, 4\]"),
        ({**EDGE, "attr_indices": np.array([0])}, ValueError, "'attr_indptr' is missing"),
        ({"edges": np.array([[0], [5]]), "y": np.array([0, 1])}, ValueError, "edge ids must be 0 .. 1"),
        ({**EDGE, "train": np.array([True, False])}, ValueError, "must all be present; got only train"),
        ({**EDGE, **dict.fromkeys(splits.PARTS, np.array([0]))}, TypeError, "train mask must be bool; got int64"),
        ({**EDGE, "y": np.array(["a", None], dtype=object)}, ValueError, "plain arrays.*allow_pickle=False"),
        (
            {"adj_indptr": np.array([0, 9, 1]), "adj_indices": np.array([1]), "adj_shape": np.array([2, 2])},
            ValueError,
            "ind",
        ),
    ],
)
def test_bad_arrays_are_refused_by_name(tmp_path, arrays, error, message):
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(error, match=message) as caught:
        read(tmp_path / "g.npz")
    assert str(tmp_path / "g.npz") in str(caught.value)


def test_missing_files_and_wrong_lists_of_files_are_refused(tmp_path):
    edges = table(tmp_path / "edges.csv", EDGES)
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.eye_array(2))
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "objects.npy", np.array([None, 1], dtype=object))
    for what, error, message in (
        (tmp_path / "edge.csv", FileNotFoundError, "there is no file .*edge.csv. Did you mean edges.csv?"),
        ([edges, tmp_path / "nodes.csv"], FileNotFoundError, "there is no file .*nodes.csv"),
        (tmp_path / "nowhere" / "e.csv", FileNotFoundError, "there is no file"),
        ([], ValueError, "got an empty list"),
        ([edges, edges, edges], ValueError, "one file of edges and one of nodes; got"),
        (
            [tmp_path / "a.mtx", tmp_path / "cube.npy"],
            ValueError,
            r"must hold features \[n, d\] or labels \[n\]; got shape \[2, 2, 2\]",
        ),
        ([tmp_path / "a.mtx", tmp_path / "objects.npy"], ValueError, "must be a valid .npy file; it cannot be read"),
        ([tmp_path / "a.mtx", edges], ValueError, "edges.csv must have a column 'label', since the edges are a matrix"),
        ([tmp_path / "a.mtx", tmp_path / "a.mtx", tmp_path / "a.mtx"], ValueError, "or pass one file of each only"),
    ):
        with pytest.raises(error, match=message):
            read(what)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"a folder must hold edges.csv"):
        read(tmp_path / "empty")
    with pytest.raises(ValueError, match="label_column: these options are for tables"):
        read(write_npz(random_graph(0), tmp_path / "g.npz"), label_column="kind")


def test_the_error_without_pyarrow_says_how_to_install_it(tmp_path, monkeypatch):
    edges = table(tmp_path / "e.parquet", EDGES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"Parquet needs pyarrow. Install it: pip install 'adaptkry\[files\]'"):
        read(edges)


def test_write_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = write_npz(random_graph(0), tmp_path / "g.npz")
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez_compressed", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_npz(random_graph(1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_texts_and_labels_read_missing_values_as_unknown():
    assert texts(np.array([1.0, float("nan"), 2.5])) == ["1", "", "2.5"]
    assert texts(np.array([None, " a ", True], dtype=object)) == ["", "a", "True"]
    numbers, names = encode(["nan", "b", "-1", "", "NaN"])  # only an empty label is unknown
    assert (numbers.tolist(), names) == ([3, 2, 0, -1, 1], ("-1", "NaN", "b", "nan"))


def friends(**options) -> nx.Graph:
    """Three people in a row; node attributes as given, one list per attribute."""
    graph = nx.Graph(name="friends")
    for i, node in enumerate(("ann", "bob", "cy")):
        graph.add_node(node, **{name: values[i] for name, values in options.items() if values[i] is not None})
    graph.add_edges_from([("ann", "bob"), ("bob", "cy")])
    return graph


@pytest.mark.parametrize(("features", "labels"), [("x", "y"), ("features", "label")])
def test_networkx_graphs_have_features_and_labels(features, labels):
    rows = [[1.0, 2.0], np.array([3.0, 4.0]), torch.tensor([5.0, 6.0], dtype=torch.float64)]
    graph = load(friends(**{features: rows, labels: [1, 0, 1]}), metric="roc_auc")
    same(graph, Graph([[0, 1], [1, 2]], np.array([[1.0, 2], [3, 4], [5, 6]]), [1, 0, 1]))
    assert graph.info == Info("friends", "roc_auc", None, None, ("ann", "bob", "cy"))


def test_networkx_graphs_without_attributes_have_neither_features_nor_labels():
    graph = load(friends(), name="mine")
    same(graph, Graph([[0, 1], [1, 2]]))
    assert graph.info.name == "mine"


def test_networkx_labels_may_be_text_and_missing():
    graph = load(friends(label=["spam", None, "ham"], x=[1, 2, 3]))
    assert (graph.y.tolist(), graph.info.class_names) == ([1, -1, 0], ("ham", "spam"))
    assert graph.x.tolist() == [[1], [2], [3]]
    assert load(friends(y=[np.int64(1), None, 0])).y.tolist() == [1, -1, 0]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_networkx_graphs_keep_direction_and_weights(kind):
    plain = kind([(0, 1), (2, 1)])
    same(load(plain), Graph([[0, 2], [1, 1]], nodes=3, directed=plain.is_directed()))
    plain.add_edge(0, 2, weight=2.5)
    weighted = Graph([[0, 2, 0], [1, 1, 2]], nodes=3, weights=[1, 1, 2.5], directed=plain.is_directed())
    assert list(plain.nodes) == [0, 1, 2]
    same(load(plain), weighted)
    same(load(plain, weight=None), Graph([[0, 2, 0], [1, 1, 2]], nodes=3, directed=plain.is_directed()))


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (
            friends(x=[1, None, 3]),
            ValueError,
            r"every node must have features; node 'bob' has none of x, features\. Add",
        ),
        (friends(x=[1, [2, 3], 4]), ValueError, r"features must be vectors of one length; got shapes \[\[1\], \[2\]\]"),
        (
            friends(x=[[[1]], [[2]], [[3]]]),
            ValueError,
            r"must be vectors of one length; got shapes \[\[1, 1\]\]",
        ),
        (friends(x=["a", "b", "c"]), TypeError, "features must be numbers in an array"),
        (friends(x=[1, 2, NAN]), ValueError, "features must be finite; node 2 has nan"),
        (friends(y=[0, -2, 1]), ValueError, r"-1 for unknown; node 1 has -2\. Number the classes"),
        (nx.Graph(), ValueError, r"at least one node; got an empty NetworkX graph\. Add nodes"),
    ],
)
def test_bad_networkx_graphs_are_refused(graph, error, message):
    with pytest.raises(error, match=message):
        load(graph)


@pytest.mark.parametrize("data", [5, None, [1, 2], np.zeros((2, 3))], ids=["number", "None", "numbers", "array"])
def test_data_of_an_unknown_type_is_refused(data):
    with pytest.raises(TypeError, match=r"a graph must be a name, .* or a NetworkX graph; got \w+\. Use Graph\("):
        load(data)


def test_numbers_that_are_taken_as_classes_are_said_to_be(tmp_path, caplog):
    """Somebody who forgets --task regression."""
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(11)))
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,label,x\n" + "".join(f"{i},{i + 0.25},{i}\n" for i in range(12)))
    graph = load(tmp_path)
    assert "12 labelled nodes have 12 different labels, which are taken as classes" in caplog.text
    with pytest.raises(ValueError, match=r"--task regression"):
        splits.stratified(graph.y, count=1)
    caplog.clear()
    nodes.write_text("id,label,x\n" + "".join(f"{i},{i % 6},{i}\n" for i in range(12)))
    load(tmp_path)
    assert "taken as classes" not in caplog.text


def test_weights_of_which_few_are_far_larger_than_most_are_reported(tmp_path, caplog):
    rng = np.random.default_rng(0)

    def messages(weights) -> str:
        caplog.clear()
        edges = pd.DataFrame({"source": np.arange(300), "target": np.arange(1, 301)})
        (edges if weights is None else edges.assign(paid=weights)).to_csv(tmp_path / "payments.csv", index=False)
        graph = load(tmp_path / "payments.csv", weight_column=None if weights is None else "paid")
        assert (graph.weights is None) == (weights is None)
        return "".join(record.getMessage() for record in caplog.records if "skewed" in record.getMessage())

    paid = rng.lognormal(4, 2, 300)
    paid[7] = 123456
    text = f"payments: edge weights are skewed (median {np.median(paid):.4g}, largest 123,456): a few edges dominate"
    assert messages(paid).startswith(text)
    one_is_large = [*np.ones(299), 1e6]
    for ordinary in (None, one_is_large, rng.random(300), np.full(300, 1e6), rng.lognormal(4, 1, 300), np.log1p(paid)):
        assert not messages(ordinary)


def test_a_sparse_matrix_with_wrong_parts_says_which_and_what_to_do(tmp_path):
    matrix = sp.csr_array((np.ones(4), ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    parts = {f"adj_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "wrong.npz", **{**parts, "adj_indices": np.array([1, 0, 9, 1])})
    with pytest.raises(ValueError, match=r"adj_indices must fit adj_shape; .* Write the file again"):
        load(tmp_path / "wrong.npz")


def test_what_other_functions_call_an_option_of_load_is_one():
    functions = (load, read_tables, read_matrix, read_npz, from_networkx)
    assert {name for function in functions for name in inspect.signature(function).parameters} >= LOAD_OPTIONS
