# ruff: noqa: E501  one line per case
"""Columns of tables as features: names of columns, categories, truth values, missing values, and data frames."""

import datetime
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import load
from adaptkry.graphs.readers.layout import Column, Layout

EDGES = {"source": ["a", "b", "c"], "target": ["b", "c", "d"]}
NODES = {
    "id": list("abcd"),
    "label": ["u", "v", "u", ""],
    "age": ["1.5", "", "4", "2"],
    "city": ["Rome", "Oslo", "Rome", "Bern"],
    "paid": ["true", "False", "TRUE", "false"],
}


def frame(content: dict[str, list]) -> pd.DataFrame:
    return pd.DataFrame(content).replace("", None)


def files(folder: Path, nodes: dict[str, list] = NODES, edges: dict[str, list] = EDGES) -> list[Path]:
    """The tables as CSV files."""
    pd.DataFrame(edges).to_csv(folder / "edges.csv", index=False)
    pd.DataFrame(nodes).to_csv(folder / "nodes.csv", index=False)
    return [folder / "edges.csv", folder / "nodes.csv"]


def features(graph: Graph) -> dict[str, list[float]]:
    """Columns of features by their names."""
    return dict(zip(graph.info.feature_names or (), graph.x.T.tolist(), strict=True))


CITIES = {"city=Bern": [0, 0, 0, 1], "city=Oslo": [0, 1, 0, 0], "city=Rome": [1, 0, 1, 0]}


def test_texts_are_one_hot_truth_values_0_and_1_and_gaps_have_the_mean(tmp_path, caplog):
    caplog.set_level(logging.INFO, "adaptkry")
    graph = load(files(tmp_path), missing="mean")
    assert features(graph) == {"age": [1.5, 2.5, 4, 2], **CITIES, "paid": [1, 0, 1, 0]}
    assert f"{tmp_path}/nodes.csv: one column per category for 'city (3)'" in caplog.text
    assert "missing values are replaced by the mean of their column: 1 in column 'age'" in caplog.text
    flagged = features(load(files(tmp_path), missing="flag"))
    assert flagged == {"age": [1.5, 2.5, 4, 2], "age is missing": [0, 1, 0, 0], **CITIES, "paid": [1, 0, 1, 0]}


def test_missing_categories_have_the_shares_of_the_others_and_missing_truth_values_their_mean(tmp_path):
    nodes = NODES | {"age": list("1234"), "city": ["Rome", "Oslo", "Rome", ""], "paid": ["true", "", "true", "false"]}
    found = features(load(files(tmp_path, nodes), missing="flag"))
    gaps = {"city is missing": [0, 0, 0, 1], "paid is missing": [0, 1, 0, 0]}
    expected = {"age": [1, 2, 3, 4], "city=Oslo": [0, 1, 0, 1 / 3], "city=Rome": [1, 0, 1, 2 / 3]}
    assert found == expected | {"paid": [1, 2 / 3, 1, 0]} | gaps


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "both", "index", "categories", "one list"])
def test_data_frames_give_the_graph_of_the_files(tmp_path, kind):
    expected = load(files(tmp_path), missing="flag")
    edges, nodes = frame(EDGES), frame(NODES)
    nodes["age"] = [1.5, float("nan"), 4, 2]
    nodes["paid"] = [True, False, True, False]
    if kind == "pyarrow":
        edges, nodes = pa.table(EDGES), pa.Table.from_pandas(nodes)
    elif kind == "both":
        edges = tmp_path / "edges.csv"
    elif kind == "index":
        nodes = nodes.set_index("id")
    elif kind == "categories":
        nodes = nodes.astype({"city": "category", "label": "category"})
    one_list = kind == "one list"
    graph = load([edges, nodes], missing="flag") if one_list else load(edges=edges, nodes=nodes, missing="flag")
    assert features(graph) == features(expected)
    assert graph.y.tolist() == expected.y.tolist() == [0, 1, 0, -1]
    assert graph.info.node_ids == ("a", "b", "c", "d")
    assert (graph.info.name, graph.info.class_names) == (tmp_path.name if kind == "both" else "graph", ("u", "v"))


def test_integers_with_gaps_keep_all_digits_and_labels_their_text():
    nodes = pd.DataFrame(
        {"id": [1, 2], "label": pd.array([7, None], dtype="Int64"), "f": pd.array([2**52, None], "Int64")}
    )
    graph = load(edges=pd.DataFrame({"source": [1], "target": [2]}), nodes=nodes, missing="mean")
    assert (graph.info.node_ids, graph.info.class_names) == (("1", "2"), ("7",))
    assert graph.x.tolist() == [[2.0**52], [2.0**52]]


def test_columns_have_the_names_that_the_user_gives(tmp_path):
    edges = {"von": ["a", "b"], "nach": ["b", "a"], "kg": ["2", "3"]}
    nodes = {"name": ["a", "b"], "class": ["1", "2"], "x": ["1", "2"], "note": ["p", "q"], "z": ["5", "6"]}
    names: dict[str, Any] = {
        "source": "von",
        "target": "nach",
        "weight_column": "kg",
        "id_column": "name",
        "label_column": "class",
    }
    graph = load(files(tmp_path, nodes, edges), **names, features=["z", "x"], directed=True)
    assert features(graph) == {"z": [5, 6], "x": [1, 2]}
    assert graph.adjacency.toarray().tolist() == [[0, 2], [3, 0]]
    assert graph.y.tolist() == [0, 1]
    again = load(files(tmp_path, nodes, edges), layout=graph.info.layout)
    assert (features(again), again.is_directed) == (features(graph), True)
    assert again.adjacency.toarray().tolist() == [[0, 2], [3, 0]]


def test_listed_features_leave_out_the_others_with_a_message(tmp_path, caplog):
    assert features(load(files(tmp_path), features=["paid"])) == {"paid": [1, 0, 1, 0]}
    assert "nodes.csv: these columns are not used: 'age', 'city'" in caplog.text


def test_codes_are_categories_if_the_user_says_so(tmp_path):
    nodes = {"id": list("abcd"), "zip": ["10", "9", "10", "9"]}
    found = features(load(files(tmp_path, nodes), categories=["zip"]))
    assert found == {"zip=9": [0, 1, 0, 1], "zip=10": [1, 0, 1, 0]}


def other(**columns) -> dict[str, list]:
    return NODES | {"age": list("1234")} | columns


def test_other_nodes_are_encoded_as_those_of_the_training(tmp_path, caplog):
    layout = load(files(tmp_path), missing="flag").info.layout
    caplog.clear()
    nodes = {
        "paid": ["0", "1", "", "true"], "extra": list("1234"), "city": ["Oslo", "Rome", "Nice", ""],
        "age": ["", "7", "8", "9"], "label": ["v", "v", "", "w"], "id": list("dcba"),
    }  # fmt: skip
    graph = load(files(tmp_path, nodes), layout=Layout.from_dict(layout.to_dict()))
    found = features(graph)
    assert list(found) == ["age", "age is missing", "city=Bern", "city=Oslo", "city=Rome", "paid"]
    assert found["age"] == [2.5, 7, 8, 9]  # the mean of the training nodes
    assert found["age is missing"] == [1, 0, 0, 0]
    assert [found[f"city={name}"] for name in ("Bern", "Oslo", "Rome")] == [
        [0, 0, 0, 0.25],
        [1, 0, 0, 0.25],
        [0, 1, 0, 0.5],
    ]
    assert found["paid"] == [0, 1, 0.5, 1]
    assert (graph.y.tolist(), graph.info.class_names) == ([1, 1, -1, 2], ("u", "v", "w"))
    said = [record.getMessage() for record in caplog.records]
    assert any("column 'city' has categories that the run was not trained on ('Nice')" in text for text in said)
    assert any("not used: 'extra'" in text for text in said)


@pytest.mark.parametrize(
    ("nodes", "options", "message"),
    [
        ({"id": list("abcd"), "label": list("uvuv")}, {}, "must have the columns that the run was trained on; 'age', 'city', 'paid' not found"),
        (other(age=["1", "old", "2", "3"]), {}, "column 'age' must hold numbers, as in the training; node 'b' has 'old'"),
        (other(paid=["true", "maybe", "true", "2"]), {}, "column 'paid' must hold true and false, as in the training; node 'b' has 'maybe'"),
        (other(age=["1", "inf", "2", "3"]), {}, "must hold finite numbers; node 'b' has inf"),
        (other(age=["1", "", "2", "3"]), {}, "missing are 1 in column 'age'"),
        (other(age=["1", "", "2", "3"]), {"missing": "flag"}, "the run has no columns for missing values, so missing must be mean"),
        (other(), {"features": ["age"]}, "the features are those of the run; got features"),
        (other(), {"id_column": "name"}, "no column 'name' for node ids"),
        (None, {}, "the run needs the columns of a nodes file .*'age', 'city', 'paid'"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_a_run_are_refused(tmp_path, nodes, options, message):
    layout = load(files(tmp_path, other())).info.layout
    paths = files(tmp_path, nodes or NODES)
    with pytest.raises(ValueError, match=message):
        load(paths if nodes else paths[0], layout=layout, **options)


def test_a_run_without_flags_may_replace_missing_values_by_its_means(tmp_path):
    layout = load(files(tmp_path, other())).info.layout
    found = features(load(files(tmp_path, other(age=["1", "", "2", "3"])), layout=layout, missing="mean"))
    assert found["age"] == [1, 2.5, 2, 3]


DAY = datetime.date(2024, 2, 29)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["12.03.2024", "13.03.2024", "", "14.03.2024"], "node 'a' has '12.03.2024', a date or time.*the year or to days"),
        (["2024/01/02 10:00"] * 4, "a date or time"),
        ([DAY, None, DAY, DAY], "node 'a' has '2024-02-29', a date or time"),
        ([pd.Timestamp(DAY)] * 4, "a date or time"),
        ([pd.Timedelta(days=1)] * 4, "a date or time"),
        (["1,5", "2,5", "3,5", "4,5"], "numbers such as 1000.5; node 'a' has '1,5'.*use --categories 'f'"),
        (["5 %", "6 %", "7%", ""], "numbers such as 1000.5; node 'a' has '5 %'"),
        (["1", "2", "3", "many"], "numbers only, or texts only; 3 of 4 values are numbers, and node 'd' has 'many'"),
        ([[1], [2], [3], [4]], r"numbers, texts, or true and false; node 'a' has \[1\]"),
        (["1", "inf", "2", "3"], "finite numbers; node 'b' has inf"),
        (["", "", "", ""], r"column 'f' has no values. Leave it out: --ignore 'f' \(ignore=\['f'\] in Python\)"),
        (["1", "NA", "nan", "3"], "missing are 2 in column 'f'. Fill them in, or use --missing mean or --missing flag"),
        (["x", "", "y", ""], "missing are 2 in column 'f'"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_features_are_refused(column, message):
    nodes = pd.DataFrame({"id": list("abcd"), "f": column})
    with pytest.raises(ValueError, match=f"the data frame of nodes: .*{message}"):
        load(edges=frame(EDGES), nodes=nodes)


@pytest.mark.parametrize("count", [30, 1500])
def test_texts_that_differ_for_nearly_every_node_are_no_categories(count):
    edges = pd.DataFrame({"source": [0], "target": [1]})
    nodes = pd.DataFrame({"id": range(2 * count), "name": [f"name {i % (count + 1)}" for i in range(2 * count)]})
    with pytest.raises(
        ValueError,
        match=rf"at most 1000 categories .*got {count + 1} different texts .*--ignore 'name' \(ignore=\['name'\] in Python\)",
    ):
        load(edges=edges, nodes=nodes)
    nodes["name"] = [f"name {i % 15}" for i in range(2 * count)]
    assert load(edges=edges, nodes=nodes).x.shape == (2 * count, 15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["agee"]}, "no column 'agee' for features. Did you mean 'age'"),
        ({"features": ["id"]}, "features must be different columns, without the ids and the labels of nodes; got 'id'"),
        ({"features": ["age", "age"]}, "features must be different columns, .*got 'age'"),
        ({"features": "age"}, "features must be a list of names of columns; got 'age'"),
        ({"features": [1]}, r"features must be a list of names of columns; got \[1\]"),
        ({"categories": ["city"], "ignore": ["city"]}, "categories must be features; got 'city'"),
        ({"missing": "median"}, "unknown way to replace missing values 'median'"),
        ({"label_column": "id"}, "must be different columns; got id_column='id' and label_column='id'"),
        ({"source": "target"}, "must be different columns; got source='target' and target='target'"),
        ({"weight_column": "Weight"}, "no column 'Weight' for edge weights"),
        ({"label": "label"}, "unknown option of read_tables 'label'. Did you mean 'label_column'"),
    ],
)  # fmt: skip
def test_wrong_options_about_columns_are_refused(tmp_path, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        load(files(tmp_path, other()), **options)


def test_options_about_columns_are_for_tables_with_these_columns(tmp_path):
    edges, _ = files(tmp_path)
    np.savez(tmp_path / "g.npz", edges=np.array([[0], [1]]))
    with pytest.raises(ValueError, match=r"missing: these options are for tables .*got a \.npz file"):
        load(tmp_path / "g.npz", missing="mean")
    with pytest.raises(ValueError, match="ignore are about the columns of a nodes file; got only"):
        load(edges, ignore=["age"])
    with pytest.raises(ValueError, match="got data and edges"):
        load(edges, edges=edges)
    with pytest.raises(TypeError, match="data frames, a PyG Data or a NetworkX graph; got int"):
        load(edges, nodes=5)


def test_frames_that_cannot_be_read_are_refused():
    twice = pd.DataFrame([["a", "b", "c"]], columns=["source", "target", "target"])
    with pytest.raises(TypeError, match="the data frame of edges must be a data frame in memory, with distinct names"):
        load(edges=twice)
    with pytest.raises(TypeError, match=r"distinct names of columns; got DataFrame .*already exists"):
        load(edges=frame(EDGES), nodes=frame(NODES).set_index("id", drop=False))
    with pytest.raises(ValueError, match=r"the data frame of edges must have .* got no rows"):
        load(edges=pd.DataFrame({"source": [], "target": []}))


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [{"name": "f"}]},
        {"columns": [{"name": "f", "means": ["x"]}]},
        {"columns": [{"name": 5, "means": [0.5]}]},
        {"columns": [{"name": "f", "kind": "categories", "means": [0.5]}]},
        {"columns": [{"name": "f", "kind": "date", "means": [0.5]}]},
        {"columns": 3},
        {"classes": [1]},
        {"missing": "median"},
        {"directed": "yes"},
        {"other": 1},
        {"source": None},
    ],
)
def test_a_forged_layout_is_refused(change):
    layout = Layout(columns=(Column("f", means=(0.5,)),))
    assert Layout.from_dict(layout.to_dict()) == layout
    with pytest.raises(ValueError, match="the layout of tables must have"):
        Layout.from_dict(layout.to_dict() | change)
