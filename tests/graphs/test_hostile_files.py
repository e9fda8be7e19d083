# ruff: noqa: E501  one line per case
"""Careless, damaged and forged input files: a graph, a message, or one error that says what to do; never a traceback.

`CASES` has one row per case. The last part damages valid files at random.
"""

import datetime
import decimal
import io
import logging
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import load
from adaptkry.graphs.readers.arrays import write_npz
from refusals import assert_refusal
from strategies import random_graph

USER_ERRORS = (ValueError, TypeError, OSError)
Writer = Callable[[Path], Any]  # writes files into a folder, and returns what `load` is given


@dataclass(frozen=True)
class Case:
    """What a user has, and what becomes of it: an error, or a graph with properties."""

    name: str
    write: Writer
    error: str = ""  # a regular expression in the message; empty: there is a graph
    graph: Callable[[Graph], Any] = bool  # must be true of the graph
    message: str = ""  # a regular expression in a message of the logger; empty: there is none
    options: dict[str, Any] = field(default_factory=dict)


def text(name: str, content: str | bytes) -> Writer:
    """One file."""

    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return write


def tables(edges: str = "source,target\na,b\nb,c\n", nodes: str = "") -> Writer:
    """The files edges.csv and, if it has content, nodes.csv."""

    def write(folder: Path) -> list[Path]:
        return [text(f"{name}.csv", part)(folder) for name, part in (("edges", edges), ("nodes", nodes)) if part]

    return write


def nodes(content: str) -> Writer:
    """Three nodes a, b and c."""
    return tables(nodes=content)


def parquet(name: str = "nodes.parquet", *, names: list[str] | None = None, **columns) -> Writer:
    """A Parquet file of nodes, beside edges.csv; values may be Arrow arrays."""

    def write(folder: Path) -> list[Path]:
        arrays = [pyarrow.array(values) if isinstance(values, list) else values for values in columns.values()]
        pyarrow.parquet.write_table(pyarrow.table(arrays, names=names or list(columns)), folder / name)
        return [text("edges.csv", "source,target\na,b\nb,c\n")(folder), folder / name]

    return write


def npz(**arrays) -> Writer:
    """An .npz with these arrays, by default with the edges of a path of three nodes."""

    def write(folder: Path) -> Path:
        given = arrays if any(key.startswith("adj") or key == "edge_index" for key in arrays) else EDGES | arrays
        np.savez(folder / "g.npz", **{key: value for key, value in given.items() if value is not None})
        return folder / "g.npz"

    return write


def mtx(content: str) -> Writer:
    """A Matrix Market file."""
    return text("g.mtx", f"%%MatrixMarket matrix {content}")


def changed_npz(change: Callable[[bytearray], Any]) -> Writer:
    """A compressed .npz with some bytes changed."""

    def write(folder: Path) -> Path:
        content = bytearray(write_npz(random_graph(0), folder / "g.npz").read_bytes())
        change(content)
        (folder / "g.npz").write_bytes(content)
        return folder / "g.npz"

    return write


def zipped(**members: bytes) -> Writer:
    """A zip file with such members, as an .npz."""

    def write(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "g.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(f"{name}.npy", content)
        return folder / "g.npz"

    return write


def npy(shape: str, dtype: str = "<i8", values: bytes = b"") -> bytes:
    """The content of an .npy file with a header of any shape."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + values


def scipy_npz(**changes) -> Writer:
    """A matrix written by scipy.sparse.save_npz with some arrays changed."""

    def write(folder: Path) -> Path:
        sp.save_npz(folder / "g.npz", sp.csc_array(np.eye(3)))
        with np.load(folder / "g.npz") as file:
            arrays: dict[str, Any] = {**file, **changes}
        np.savez(folder / "g.npz", **arrays)
        return folder / "g.npz"

    return write


def matrix_and_table(content: str) -> Writer:
    """A Matrix Market file of three nodes with a table of labels."""

    def write(folder: Path) -> list[Path]:
        scipy.io.mmwrite(folder / "g.mtx", sp.csr_array(np.eye(3)))
        (folder / "y.csv").write_text(content)
        return [folder / "g.mtx", folder / "y.csv"]

    return write


def matrix_with(features: bytes | None = None, labels: Any = None) -> Writer:
    """A Matrix Market file of three nodes with an .npy file of features or labels."""

    def write(folder: Path) -> list[Path]:
        scipy.io.mmwrite(folder / "g.mtx", sp.csr_array(np.eye(3)))
        if features is not None:
            (folder / "x.npy").write_bytes(features)
        else:
            np.save(folder / "x.npy", labels)
        return [folder / "g.mtx", folder / "x.npy"]

    return write


def mat(**variables) -> Writer:
    """A MATLAB file with these variables, by default those of a graph of Facebook-100."""

    def write(folder: Path) -> Path:
        given = {"A": sp.csc_matrix(ADJ), "local_info": np.ones((3, 7), int)} | variables
        scipy.io.savemat(folder / "g.mat", {name: value for name, value in given.items() if value is not None})
        return folder / "g.mat"

    return write


def made(make: Callable[[Path], Any], path: str = "edges.csv") -> Writer:
    """A path that is no regular file."""

    def write(folder: Path) -> Path:
        make(folder / path)
        return folder / path

    return write


def loop(path: Path) -> None:
    (path.parent / "other.csv").symlink_to(path)
    path.symlink_to(path.parent / "other.csv")


def folder_with(**files: str) -> Writer:
    """A folder with such files; __ in a name is a dot."""

    def write(folder: Path) -> Path:
        for name, content in files.items():
            text(name.replace("__", "."), content)(folder)
        return folder

    return write


def graph_of(data: Any) -> Writer:
    return lambda _: data


def people(**attributes) -> nx.Graph:
    graph: Any = nx.Graph([("a", "b", {"weight": 2.0, "since": 1999})])
    for name, value in attributes.items():
        nx.set_node_attributes(graph, dict(zip("ab", value, strict=True)), name)
    return graph


EDGES: dict[str, Any] = {"edges": np.array([[0, 1], [1, 2]])}
ADJ = sp.csr_array((np.ones(4), ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
ATTR = sp.csr_array(np.array([[0.5, 0], [0, 2], [3, 0]]))
BENCHMARK: dict[str, Any] = {  # the layout of gnn-benchmark
    **{f"adj_{part}": getattr(ADJ, part) for part in ("data", "indices", "indptr", "shape")},
    **{f"attr_{part}": getattr(ATTR, part) for part in ("data", "indices", "indptr", "shape")},
    "labels": np.array([0, 1, 0]),
}
EDGE_CSV = "source,target\na,b\nb,c\n"
LONG = 2**53 + 1
DAY = datetime.date(2024, 2, 29)
DAMAGED_NPZ = r"g\.npz must be an \.npz of plain arrays; it cannot be read"
DAMAGED_PARQUET = r"nodes\.parquet must be a Parquet file; it cannot be read"
NO_NUMBER = r"nodes\.(csv|parquet): column 'f' must hold numbers such as 1000.5; node 'a' has"
NO_DATE = r"nodes\.(csv|parquet): column 'f' must hold numbers or categories; node 'a' has"


def without(*names: str) -> dict[str, Any]:
    return {key: value for key, value in BENCHMARK.items() if key not in names}


def y(*labels: int) -> Callable[[Graph], bool]:
    return lambda graph: graph.y.tolist() == list(labels)


def classes(*names: str) -> Callable[[Graph], bool]:
    return lambda graph: tuple(graph.info.class_names or ()) == names


def x(*rows: list[float]) -> Callable[[Graph], bool]:
    return lambda graph: graph.x.tolist() == [list(row) for row in rows]


CASES = [
    # --- labels: only an empty label is unknown
    Case("empty label", nodes("id,label,f\na,u,1\nb,,2\nc,v,3\n"), graph=y(0, -1, 1), message="1 of 3 nodes have no la"),
    Case("label of spaces", nodes("id,label\na,u\nb,  \nc,v\n"), graph=y(0, -1, 1), message="1 of 3 nodes have no label"),
    Case("label -1", nodes("id,label\na,-1\nb,0\nc,1\n"), graph=y(0, 1, 2), message="1 nodes have the label '-1'"),
    Case("label Nan", nodes("id,label\na,Nan\nb,Bo\nc,Bo\n"), graph=classes("Bo", "Nan"), message="label 'Nan', which"),
    Case("label None", nodes("id,label\na,None\nb,x\nc,x\n"), graph=y(0, 1, 1), message="label 'None', which is a class"),
    Case("label ?", nodes("id,label\na,?\nb,?\nc,x\n"), graph=classes("?", "x"), message=r"2 nodes have the label '\?'"),
    Case("no labels at all", nodes("id,label\na,\nb,\nc,\n"), graph=lambda g: g.classes == 0),
    Case("null label", parquet(id=list("abc"), label=["u", None, "v"]), graph=y(0, -1, 1), message="1 of 3 nodes"),
    Case("NaN label", parquet(id=list("abc"), label=[1.0, np.nan, 2.0]), graph=classes("1", "2"), message="1 of 3"),
    Case("long labels and a null", parquet(id=list("abc"), label=[LONG, None, LONG + 1]), graph=classes(str(LONG), str(LONG + 1)), message="1 of 3"),
    Case("labels that are dates", parquet(id=list("abc"), label=[DAY, None, DAY]), graph=classes("2024-02-29"), message="1 of 3"),
    Case("true and false", parquet(id=list("abc"), label=[True, False, None]), graph=classes("False", "True"), message="1 of 3"),
    Case("bytes as labels", parquet(id=list("abc"), label=[b"u", b"v", b"u"]), graph=classes("u", "v")),
    Case("categories", parquet(id=list("abc"), label=pyarrow.array(["u", "v", "u"]).dictionary_encode()), graph=classes("u", "v")),
    Case("labels that differ in case", nodes("id,label\na,Cat\nb,cat\nc,dog\n"), graph=classes("Cat", "cat", "dog"), message="'Cat', 'cat' are different classes"),
    Case("labels that are one number", nodes("id,label\na,0\nb,0.0\nc,1\n"), message="are different classes"),
    Case("npz: classes without nodes", npz(labels=np.array([0, 5, 0])), message="4 of the classes 0 .. 5 have no node"),
    Case("labels of 5000 digits", nodes(f"id,label\na,{'9' * 5000}\nb,1\nc,1\n"), graph=y(1, 0, 0)),
    Case("npz: text", npz(labels=np.array(["u", "", "v"])), graph=y(0, -1, 1), message="1 of 3 nodes have no label"),
    Case("npz: bytes", npz(labels=np.array([b"u", b"v", b"u"])), graph=classes("u", "v")),
    Case("npz: text -1", npz(labels=np.array(["-1", "0", "1"])), graph=y(0, 1, 2), message="label '-1', which is a class"),
    Case("npz: -1", npz(labels=np.array([0, -1, 1])), graph=y(0, -1, 1), message="1 of 3 nodes have no label"),
    Case("npz: -2", npz(labels=np.array([0, -2, 1])), "labels must be 0, 1, 2, ... or -1 for unknown; node 1 has -2"),
    Case("npz: 1e9", npz(labels=np.array([0, 10**9, 1])), r"class numbers .*; got 1000000000 for 3 nodes\. Number the"),
    Case("npz: 1e12", npz(labels=np.array([0, 10**12, 1])), "got 1000000000000 for 3 nodes"),
    Case("npz: -1 as uint64", npz(labels=np.array([0, 2**64 - 1, 1], np.uint64)), "labels must be below 2\\^63"),
    Case("npz: fractions", npz(labels=np.array([0.0, 1.5, 1])), "labels must be integers; got torch.float64"),
    Case("npz: table of text", npz(labels=np.array([["u"], ["v"], ["u"]])), r"text must have shape \[n\]; got \[3, 1\]"),
    Case("npz: too few labels", npz(labels=np.array([0, 1]), x=np.ones((3, 1))), r"labels must have shape \[3\]"),
    Case("npz: one label", npz(labels=np.array(1)), r"must be arrays with one row per node"),
    Case("npz: dates", npz(labels=np.array(["2024-01-01"] * 3, "datetime64[D]")), "labels must be numbers in an array"),
    Case("npz: too few class names", npz(labels=np.array([0, 1, 2]), class_names=np.array(["u", "v"])), "each of the 3 classes.*got 2"),
    Case("npz: unused class names", npz(labels=np.array([0, 1, 1]), class_names=np.array(["u", "v", "w"])), graph=classes("u", "v", "w")),
    Case("npz: too many node ids", npz(node_ids=np.array(list("abcd"))), "node_ids must have one name per node, 3 in all; got 4"),
    Case("npz: pickled class names", npz(labels=np.array([0, 1, 1]), class_names=np.array(["u", None], object)), graph=classes(), message="not used: 'class_names'"),
    Case("npz: pickled labels", npz(labels=np.array(["u", None, "v"], object)), DAMAGED_NPZ),
    Case("matrix: labels 1e12", matrix_with(labels=np.array([0, 1, 10**12])), r"x\.npy: labels must be class numbers"),
    Case("matrix: too few labels in a table", matrix_and_table("label\na\nb\n"), r"y\.csv: labels must have shape \[3\]"),
    Case("matrix: labels in another order", matrix_and_table("id,label\n2,a\n0,b\n1,a\n"), "rows in the order of the matrix"),
    Case("matrix: labels without a name", matrix_and_table("0\n1\n1\n0\n"), "must have a column 'label'.*got '0'"),
    Case("matrix: another column in the table", matrix_and_table("label,f\na,1\nb,2\na,3\n"), graph=classes("a", "b"), message="not used: 'f'"),
    # --- features: all digits, numbers only
    Case("timestamps", nodes("id,f\na,1700000000\nb,1700000030\nc,1700000050\n"), graph=x([1700000000], [1700000030], [1700000050])),
    Case("1e-300", nodes("id,f\na,1e-300\nb,1e39\nc,1e300\n"), graph=x([1e-300], [1e39], [1e300])),
    Case("too large", nodes("id,f\na,1e999\nb,1\nc,2\n"), "column 'f' must hold finite numbers; node 'a' has inf"),
    Case("integers above 2^53", nodes(f"id,f\na,{LONG}\nb,1\nc,2\n"), message=f"above 2\\^53, which are rounded: '{LONG}'"),
    Case("int64 above 2^53", parquet(id=list("abc"), f=[LONG, 1, 2]), message="column 'f' has integers above 2"),
    Case("underscores", nodes("id,f\na,1_000\nb,1\nc,2\n"), f"{NO_NUMBER} '1_000'"),
    Case("thousands", nodes('id,f\na,"1,000"\nb,1\nc,2\n'), f"{NO_NUMBER} '1,000'"),
    Case("dates as text", nodes("id,f\na,2024-02-29\nb,1\nc,2\n"), f"{NO_DATE} '2024-02-29', a date or time.*to the year or to days"),
    Case("dates", parquet(id=list("abc"), f=[DAY, None, DAY]), f"{NO_DATE} '2024-02-29', a date or time.*to the year or to days"),
    Case("times", parquet(id=list("abc"), f=[datetime.datetime(2024, 2, 29), None, None]), f"{NO_DATE} '2024-02-29 00"),
    Case("times of day", parquet(id=list("abc"), f=[datetime.time(1, 2)] * 3), f"{NO_DATE} '01:02:00"),
    Case("durations", parquet(id=list("abc"), f=[datetime.timedelta(days=1)] * 3), f"{NO_DATE} '86400000000 us'"),
    Case("decimals", parquet(id=list("abc"), f=[decimal.Decimal("1.5")] * 3), graph=x([1.5], [1.5], [1.5])),
    Case("lists", parquet(id=list("abc"), f=[[1.0, 2.0]] * 3), r"column 'f' must hold numbers, texts, or true and false; node 'a' has \[1.0, 2.0\]"),
    Case("null feature", parquet(id=list("abc"), f=[1, None, 2]), "a value in every feature column; missing are 1 in column 'f'. Fill them in, or use --missing mean"),
    Case("a column of nulls", parquet(id=list("abc"), f=pyarrow.nulls(3)), "column 'f' has no values. Leave it out: --ignore 'f'"),
    Case("row numbers of pandas", nodes(",id,f\n0,a,1\n1,b,2\n2,c,3\n"), "got '', which looks like row numbers .* index=Fal"),
    Case("row numbers again", nodes("Unnamed: 0,id\n0,a\n1,b\n2,c\n"), "got 'Unnamed: 0', which looks like row numbers"),
    Case("npz: no columns", npz(x=np.ones((3, 0))), r"at least one column; got shape \[3, 0\]"),
    Case("npz: sparse, no columns", npz(**without("attr_shape", "attr_indices", "attr_indptr", "attr_data"), attr_indptr=np.zeros(4, int), attr_indices=np.zeros(0, int), attr_shape=np.array([3, 0])), "at least one column"),
    Case("npz: 1e12 columns", npz(**without("attr_shape"), attr_shape=np.array([3, 10**12])), "plausible number of columns; got 1000000000000"),
    Case("npz: text", npz(x=np.array([["u"], ["v"], ["w"]])), "features must be numbers in an array"),
    Case("npz: complex", npz(x=np.ones((3, 1), complex)), "features must be real"),
    Case("npz: NaN", npz(x=np.array([[1], [np.nan], [2]])), "features must be finite; node 1 has nan"),
    Case("npz: cube", npz(x=np.ones((3, 1, 1))), r"features must have shape \[3, d\]"),
    Case("matrix: header of features", matrix_with(npy("(1000000000000, 2)", "<f8")), r"x\.npy must be a valid \.npy file"),
    Case("matrix: cut features", matrix_with(npy("(3, 2)", "<f8", b"123")), r"x\.npy must be a valid \.npy file"),
    Case("texts", nodes("id,f\na,u\nb,v\nc,u\n"), graph=x([1, 0], [0, 1], [1, 0]), message="one column per category for 'f .2.'"),
    Case("true and false", nodes("id,f\na,true\nb,FALSE\nc,True\n"), graph=x([1], [0], [1])),
    Case("numbers and NA", nodes("id,f\na,1\nb,NA\nc,2\n"), "missing are 1 in column 'f'"),
    Case("many gaps", nodes("id,f,g,h\na,1,,\nb,,,x\nc,2,3,\n"), "missing are 1 in column 'f', 2 in column 'g', 2 in column 'h'"),
    Case("gaps filled", nodes("id,f\na,1\nb,\nc,2\n"), graph=x([1], [1.5], [2]), message="replaced by the mean of their column: 1 in column 'f'", options={"missing": "mean"}),
    Case("gaps flagged", nodes("id,f\na,1\nb,\nc,2\n"), graph=x([1, 0], [1.5, 1], [2, 0]), message="replaced by the mean", options={"missing": "flag"}),
    Case("nothing but gaps", nodes("id,f\na,\nb,\nc,\n"), "column 'f' has no values", options={"missing": "mean"}),
    Case("decimal commas", nodes('id,f\na,"1,5"\nb,"2,5"\nc,"3,5"\n'), f"{NO_NUMBER} '1,5'"),
    Case("a text among numbers", nodes("id,f\na,1\nb,2\nc,many\n"), "numbers only, or texts only; 2 of 3 values are numbers, and node 'c' has 'many'"),
    Case("unknown feature", nodes("id,f\na,1\nb,2\nc,3\n"), "no column 'F' for features. Did you mean 'f'", options={"features": ["F"]}),
    Case("features are a text", nodes("id,f\na,1\nb,2\nc,3\n"), "features must be a list of names of columns; got 'f'", options={"features": "f"}),
    Case("no features chosen", nodes("id,f\na,1\nb,2\nc,3\n"), graph=lambda g: g.features is None, message="not used: 'f'", options={"features": []}),
    # --- names of columns and arrays
    Case("Weight", tables("source,target,Weight\na,b,2\n"), "edge weights must be in a column called weight; column 'Weight'"),
    Case("weights", tables("source,target,weights\na,b,2\n"), "column 'weights' looks like edge weights.*Use --weight-column 'weights'"),
    Case("weight and Weight", tables("source,target,weight,Weight\na,b,2,3\n"), "column 'Weight' looks like edge weights"),
    Case("Label", nodes("id,Label\na,1\nb,2\nc,1\n"), "labels must be in a column called label; column 'Label' looks like"),
    Case("label and LABEL", nodes("id,label,LABEL\na,1,1\nb,2,2\nc,1,1\n"), "column 'LABEL' looks like labels"),
    Case("SOURCE", tables("SOURCE,TARGET\na,b\n"), r"no column 'source' .*Did you mean 'SOURCE'. Its columns are 'SOURCE', 'TARGET': name the right one with --source"),
    Case("ID", nodes("ID,f\na,1\nb,2\nc,3\n"), r"no column 'id' for node ids. Did you mean 'ID'. Its columns are 'ID', 'f'"),
    Case("spaces in the header", tables("source, target , weight\na,b,2\n"), graph=lambda g: g.weights is not None),
    Case("other columns of edges", tables("source,target,since\na,b,1999\n"), message="these columns are not used: 'since'"),
    Case("Parquet: column twice", parquet(names=["id", "f", "f"], id=list("abc"), f=[1, 2, 3], g=[1, 2, 3]), "column names must differ; got 'f' more than once"),
    Case("CSV: column twice", nodes("id,f,f \na,1,1\nb,2,2\nc,3,3\n"), "column names must differ; got 'f' more than once"),
    Case("npz: other arrays", npz(time=np.ones(2)), message="these arrays are not used: 'time'"),
    Case("npz: Labels", npz(Labels=np.array([0, 1, 0])), "unknown array 'Labels'. Did you mean 'labels'"),
    Case("npz: X", npz(X=np.ones((3, 1))), "unknown array 'X'. Did you mean 'x'"),
    Case("npz: x and features", npz(x=np.ones((3, 1)), features=np.ones((3, 2))), "'x' and 'features' are two arrays for"),
    Case("npz: edges and adj", npz(**BENCHMARK, **EDGES), "'edges' and 'adj_data' are two arrays for the same thing"),
    Case("npz: x and attr", npz(**BENCHMARK, x=np.ones((3, 1))), "'x' and 'attr_data' are two arrays for the same thing"),
    Case("npz: weights and adj", npz(**BENCHMARK, edge_weight=np.ones(4)), "'edge_weight' and 'adj_data' are two arrays"),
    Case("npz: nothing", lambda folder: npz(edges=None, z=np.ones(1))(folder), "needs an array 'edges'.*got z"),
    Case("PyG: other attributes", graph_of(Data(num_nodes=2, edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(1, 2))), message="Data: these attributes are not used: 'edge_attr'"),
    Case("PyG: two masks", graph_of(Data(num_nodes=2, edge_index=torch.tensor([[0], [1]]), train_mask=torch.tensor([True, False]), val_mask=torch.tensor([False, True]))), "got only train, validation"),
    Case("PyG: numbers as mask", graph_of(Data(edge_index=torch.tensor([[0], [1]]), train_mask=torch.tensor([0, 1]))), "train mask must be bool"),
    Case("PyG: any object", graph_of(SimpleNamespace(edge_index=torch.tensor([[0], [1]]), num_nodes=2, is_directed=lambda: True)), graph=lambda g: g.nodes == 2),
    Case("NetworkX: other attributes", graph_of(people(x=[1, 2], Label=["u", "v"])), message="not used: 'Label', 'since'"),
    Case("NetworkX: labels are arrays", graph_of(people(y=[np.ones(2), np.zeros(2)], x=[1, 2])), message="'since'"),
    # --- the layout of gnn-benchmark
    Case("gnn-benchmark", npz(**BENCHMARK), graph=lambda g: (g.entries, g.x.tolist(), g.y.tolist()) == (4, ATTR.toarray().tolist(), [0, 1, 0])),
    Case("gnn-benchmark with names", npz(**BENCHMARK, node_names=np.array(list("abc")), attr_names=np.array(["f", "g"]), class_names=np.array(["u", "v"], object)), graph=lambda g: (g.info.node_ids, g.info.feature_names) == (("a", "b", "c"), ["f", "g"]), message="not used: 'class_names'"),
    *(
        Case(f"npz without {part}", npz(**without(part)), f"'{part}' is missing")
        for part in ("adj_indices", "adj_indptr", "adj_shape", "attr_indices", "attr_indptr", "attr_shape")
    ),
    Case("npz without adj_data", npz(**without("adj_data")), graph=lambda g: g.weights is None and g.entries == 4),
    Case("npz without attr_data", npz(**without("attr_data")), graph=x([1, 0], [0, 1], [1, 0])),
    Case("indices out of range", npz(**without("adj_indices"), adj_indices=np.array([1, 0, 2, 9])), "indices"),
    Case("negative indices", npz(**without("adj_indices"), adj_indices=np.array([1, 0, -2, 1])), "indices"),
    Case("indices are fractions", npz(**without("adj_indices"), adj_indices=np.ones(4)), "adj_indices must be integers in"),
    Case("indptr decreases", npz(**without("adj_indptr"), adj_indptr=np.array([0, 3, 1, 4])), "ind"),
    Case("shape of three", npz(**without("adj_shape"), adj_shape=np.array([3, 3, 3])), "g.npz: "),
    Case("shape of 1e12", npz(**without("adj_shape"), adj_shape=np.array([10**12] * 2)), "g.npz: "),
    Case("not square", npz(**without("adj_shape"), adj_shape=np.array([3, 5])), r"must be square; got shape \[3, 5\]"),
    Case("data of another length", npz(**without("adj_data"), adj_data=np.ones(9)), "g.npz: "),
    Case("data are text", npz(**without("adj_data"), adj_data=np.array(list("abcd"))), "g.npz: "),
    # --- edges
    Case("edge id 1e9", npz(edge_index=np.array([[0], [10**9]])), r"node ids must be 0 .. n - 1 .*got 1000000000 in a gr"),
    Case("edge id 1e12", npz(edge_index=np.array([[0], [10**12]])), "got 1000000000000 in a graph of 1 edges"),
    Case("edge id 2^64 - 1", npz(edge_index=np.array([[0], [2**64 - 1]], np.uint64)), "edges must be below 2\\^63"),
    Case("edge id beyond features", npz(x=np.ones((2, 1))), "edge ids must be 0 .. 1 for 2 nodes; got 2"),
    Case("edge ids are fractions", npz(edge_index=np.array([[0.0], [1.0]])), "edges must be integers"),
    Case("negative edge id", npz(edge_index=np.array([[0], [-1]])), "edge ids must be 0 or more; got -1"),
    Case("weights of another length", npz(weights=np.ones(9)), r"weights must have shape \[2\]"),
    Case("weight NaN", npz(weights=np.array([1, np.nan])), "weights must be finite; edge 1 has nan"),
    Case("empty weight", tables("source,target,weight\na,b,\n"), "column 'weight' must hold finite numbers; the edge in"),
    Case("directed is an array", npz(directed=np.array([True, False])), r"directed must be one value; got shape \[2\]"),
    Case("name is an array", npz(name=np.array(["u", "v"])), r"name must be one value; got shape \[2\]"),
    Case("masks are numbers", npz(train=np.array([0]), val=np.array([1]), test=np.array([2])), "train mask must be bool"),
    Case("mask of no size", npz(train=np.array(True), val=np.array(True), test=np.array(True)), "train mask must have shape"),
    Case("only train", npz(train=np.ones(3, bool)), "must all be present; got only train"),
    Case("PyG: 1e12 nodes", graph_of(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=10**12)), "a graph of 1000000000000 nodes must fit in memory"),
    # --- CSV
    Case("unclosed quote", tables('source,target\na,"b\nb,c\n'), r"edges\.csv .*quotation marks come in pairs; line 2 cannot"),
    Case("text after a quote", tables('source,target\n"a"x,b\n'), "quotation marks come in pairs; line 2 cannot be read"),
    Case("long field", tables(f"source,target\na,{'b' * 200_000}\n"), "line 2 cannot be read .field larger than"),
    Case("quoted line end", tables('source,target\n"a\nb",c\n'), graph=lambda g: g.info.node_ids == ("a\nb", "c")),
    Case("empty file", text("edges.csv", ""), "must have a line of column names and rows below it"),
    Case("blank lines", text("edges.csv", "\n\n\n"), "must have a line of column names and rows below it"),
    Case("header only", text("edges.csv", "source,target\n"), "got no rows"),
    Case("too few values", tables("source,target\na\n"), r"every row must have 2 values .*row 1 has 1"),
    Case("too many values", tables("source,target\na,b,c\n"), "row 1 has 3"),
    Case("UTF-16", text("edges.csv", EDGE_CSV.encode("utf-16")), "must be UTF-8 text"),
    Case("byte order mark", text("edges.csv", b"\xef\xbb\xbf" + EDGE_CSV.encode()), graph=lambda g: g.nodes == 3),
    Case("zeros", text("edges.csv", bytes(1000)), "edges.csv"),
    Case("semicolons", text("edges.csv", "source;target\na;b\n"), "looks separated by ';'"),
    Case("Windows line ends", text("edges.csv", EDGE_CSV.replace("\n", "\r\n")), graph=lambda g: g.nodes == 3),
    Case("old Macintosh line ends", text("edges.csv", EDGE_CSV.replace("\n", "\r")), graph=lambda g: g.nodes == 3),
    Case("blank id", nodes("id,f\na,1\n ,2\nc,3\n"), "column 'id' must have a node id in every row; row 2 is blank"),
    Case("node twice", nodes("id,f\na,1\na,2\nc,3\n"), "node ids must differ; 'a' occurs 2 times"),
    Case("unknown node", nodes("id,f\na,1\nb,2\n"), "column 'target' must hold ids of the nodes file .*; got 'c'"),
    Case("id of 5000 digits", text("edges.csv", f"source,target\n1,{'9' * 5000}\n"), graph=lambda g: g.nodes == 2),
    # --- Parquet
    Case("damaged Parquet", lambda folder: [*tables()(folder), text("nodes.parquet", b"PAR1 nonsense PAR1")(folder)], DAMAGED_PARQUET),
    Case("empty Parquet", lambda folder: [*tables()(folder), text("nodes.parquet", b"")(folder)], DAMAGED_PARQUET),
    Case("CSV called Parquet", lambda folder: [*tables()(folder), text("nodes.parquet", "id\na\n")(folder)], DAMAGED_PARQUET),
    Case("Parquet without rows", parquet(id=pyarrow.array([], "string")), "got no rows"),
    Case("Parquet without columns", parquet(), "got no rows"),
    Case("bytes that are no text", parquet(id=[b"\xff", b"b", b"c"]), DAMAGED_PARQUET),
    # --- Matrix Market
    Case("sizes of 1e12", mtx("coordinate pattern general\n1000000000000 1000000000000 1\n1 1\n"), r"g\.mtx must be a valid .*1000000000000"),
    Case("1e12 entries", mtx("coordinate pattern general\n2 2 1000000000000\n1 1\n"), "which cannot be those of a graph in"),
    Case("dense 1e6 x 1e6", mtx("array real general\n1000000 1000000\n1.0\n"), "which cannot be those of a graph in"),
    Case("negative sizes", mtx("coordinate pattern general\n-2 -2 1\n1 1\n"), "must be a valid .mtx file"),
    Case("sizes are text", mtx("coordinate pattern general\ntwo 2 1\n1 1\n"), "must be a valid .mtx file"),
    Case("no sizes", mtx("coordinate pattern general\n"), "must be a valid .mtx file"),
    Case("comments only", mtx("coordinate pattern general\n" + "%\n" * 50), "must be a valid .mtx file"),
    Case("fewer entries", mtx("coordinate pattern general\n2 2 2\n1 1\n"), "must be a valid .mtx file"),
    Case("index 0", mtx("coordinate pattern general\n2 2 1\n0 1\n"), "must be a valid .mtx file"),
    Case("index 3 of 2", mtx("coordinate pattern general\n2 2 1\n3 1\n"), "must be a valid .mtx file"),
    Case("integer overflow", mtx("coordinate integer general\n2 2 1\n1 1 99999999999999999999\n"), "must be a valid .mtx"),
    Case("complex weights", mtx("coordinate complex general\n2 2 1\n1 1 1 1\n"), "unknown field 'complex'"),
    Case("control character", mtx("coordinate pattern symmetric\n2 2 1\n2 1\v"), graph=lambda g: g.entries == 2),
    Case("letters for numbers", mtx("coordinate real general\n2 2 1\n2 1 x\n"), "could not convert string 'x'"),
    Case("dense without rows", mtx("array real general\n0 2\n1\n"), "must be a valid .mtx file"),
    Case("value missing", mtx("coordinate real general\n2 2 1\n2 1\n"), "must be a valid .mtx file"),
    Case("value too many", mtx("coordinate pattern general\n2 2 1\n2 1 1\n"), "must be a valid .mtx file"),
    Case("skew-symmetric", mtx("coordinate real skew-symmetric\n2 2 1\n2 1 3\n"), "weights must not be negative"),
    Case("dense matrix", mtx("array real general\n2 2\n0\n1\n1\n0\n"), graph=lambda g: g.entries == 2),
    Case("no entries", mtx("coordinate pattern general\n2 2 0\n"), graph=lambda g: (g.nodes, g.entries) == (2, 0)),
    # --- .npz files
    Case("byte changed", changed_npz(lambda content: content.__setitem__(100, content[100] ^ 255)), r"g\.npz"),
    Case("cut", changed_npz(lambda content: content.__delitem__(slice(len(content) // 2, None))), DAMAGED_NPZ),
    Case("start missing", changed_npz(lambda content: content.__delitem__(slice(0, 50))), r"g\.npz"),
    Case("encrypted", changed_npz(lambda content: content.__setitem__(content.index(b"PK\x01\x02") + 8, 1)), DAMAGED_NPZ),
    Case("header of 1e12 numbers", zipped(edges=npy("(2, 1000000000000)")), DAMAGED_NPZ),
    Case("header of 2^62 numbers", zipped(edges=npy(f"(2, {2**62})")), DAMAGED_NPZ),
    Case("header of negative size", zipped(edges=npy("(2, -5)")), r"g\.npz"),
    Case("header that is code", zipped(edges=npy("__import__('os').abort()")), DAMAGED_NPZ),
    Case("header nested deeply", zipped(edges=npy("(" * 5000)), DAMAGED_NPZ),
    Case("records", zipped(edges=npy("(1,)", "V8", bytes(8))), r"g\.npz"),
    Case("text as edges", zipped(edges=b"0 1\n1 2\n"), DAMAGED_NPZ),
    Case("no arrays", zipped(), "needs an array 'edges'"),
    Case("SciPy: indices out of range", scipy_npz(indices=np.array([0, 1, 10**6])), r"must be a valid \.npz file"),
    Case("SciPy: 1e12 rows", scipy_npz(shape=np.array([10**12, 3])), r"must be a valid \.npz file"),
    Case("SciPy: unknown format", scipy_npz(format=np.array(b"abc")), r"must be a valid \.npz file"),
    Case("SciPy: indptr", scipy_npz(indptr=np.array([0, 9, 1, 3])), r"must be a valid \.npz file"),
    Case("npz: attr_matrix and attr_data", npz(**BENCHMARK, attr_matrix=np.ones((3, 1))), "'attr_matrix' and 'attr_data' are two"),
    Case("npz: ATTR_DATA", npz(**without("attr_data"), ATTR_DATA=np.ones(3)), "unknown array 'ATTR_DATA'. Did you mean 'attr_data'"),
    Case("npz: Node_Features", npz(Node_Features=np.ones((3, 1))), "unknown array 'Node_Features'. Did you mean 'node_features'"),
    Case("npz: Train_Mask", npz(Train_Mask=np.ones(3, bool)), "unknown array 'Train_Mask'. Did you mean 'train_mask'"),
    # --- .mat files
    Case("Facebook", mat(), graph=lambda g: (g.nodes, g.x.shape, g.y.tolist()) == (3, (3, 6), [0, 0, 0])),
    Case("mat: other variables", mat(year=np.ones(2)), graph=lambda g: g.entries == 4, message="these variables are not used: 'year'"),
    Case("mat: without A", mat(A=None), "must hold A and local_info; A is not among local_info. Save other graphs as"),
    Case("mat: a", mat(A=None, a=sp.csc_matrix(ADJ)), "A is not among a, local_info. Rename 'a'|A is not among local_info, a. Rename 'a'"),
    Case("mat: Local_Info", mat(local_info=None, Local_Info=np.ones((3, 7))), "local_info is not among A, Local_Info. Rename 'Local_Info'"),
    Case("mat: six columns", mat(local_info=np.ones((3, 6), int)), r"local_info must have the 7 columns status, .*got \S+ \[3, 6\]"),
    Case("mat: fractions", mat(local_info=np.full((3, 7), 0.5)), "local_info must have the 7 columns"),
    Case("mat: text", mat(local_info="text"), "local_info must have the 7 columns"),
    Case("mat: fewer rows", mat(local_info=np.ones((2, 7), int)), r"features must have shape \[3, d\]"),
    Case("mat: not square", mat(A=sp.csc_matrix(np.ones((2, 3)))), r"must be square; got shape \[2, 3\]"),
    Case("mat: A is text", mat(A="text"), r"g\.mat"),
    Case("mat: negative label", mat(local_info=np.full((3, 7), -1)), "labels must be 0, 1, 2, ... or -1 for unknown"),
    Case("mat: HDF5", text("g.mat", b"\x89HDF\r\n\x1a\n" + bytes(600)), "g.mat must be a MATLAB file of version 5 to 7.2"),
    Case("mat: empty", text("g.mat", b""), "g.mat must be a MATLAB file of version 5 to 7.2"),
    Case("mat: options of tables", mat(), "id_column: these options are for tables .*got a .mat file", options={"id_column": "id"}),
    # --- options that contradict each other
    Case("features that are ignored", nodes("id,f\na,1\nb,2\nc,3\n"), "ignore must be different columns.*got 'f'", options={"features": ["f"], "ignore": ["f"]}),
    Case("ids that are ignored", nodes("id,f\na,1\nb,2\nc,3\n"), "ignore must be different columns.*got 'id'", options={"ignore": ["id"]}),
    Case("labels that are ignored", nodes("id,label,f\na,x,1\nb,y,2\nc,x,3\n"), graph=lambda g: g.classes == 0, options={"ignore": ["label"]}),
    Case("labels that are named and ignored", nodes("id,label,f\na,x,1\nb,y,2\nc,x,3\n"), "ignore must be different columns.*got 'label'", options={"label_column": "label", "ignore": ["label"]}),
    Case("features that are labels", nodes("id,label,f\na,x,1\nb,y,2\nc,x,3\n"), "features must be different columns.*got 'label'", options={"label_column": "label", "features": ["label"]}),
    Case("a folder and its file", lambda folder: [folder_with(edges__csv=EDGE_CSV)(folder), folder / "edges.csv"], "a folder holds the whole graph; got .* and .*edges.csv"),
    Case("a folder twice", lambda folder: [folder_with(edges__csv=EDGE_CSV)(folder)] * 2, "a folder holds the whole graph"),
    Case("a folder and nodes that are not there", lambda folder: [folder_with(edges__csv=EDGE_CSV)(folder), folder / "gone.csv"], "a folder holds the whole graph"),
    Case("numbers as names of columns", lambda _: [pandas.DataFrame({"source": ["a"], "target": ["b"]}), pandas.DataFrame({"id": ["a", "b"], 3: [1.0, 2.0]})], graph=lambda g: g.info.feature_names == ["3"]),
    # --- paths
    Case("pipe", made(os.mkfifo), "edges.csv must be a regular file; it is a pipe. Write the data to a file"),
    Case("links in a circle", made(loop), "edges.csv does not .*Links point to each other"),
    Case("link to nothing", made(lambda path: path.symlink_to(path.parent / "gone.csv")), "no file .*gone.csv, to which .*edges.csv is a link"),
    Case("device", graph_of(["/dev/null"]), "unknown file type|must be a regular file; it is a device"),
    Case("folder as nodes", lambda folder: [*tables()(folder), folder], "must be a regular file; it is a folder"),
    Case("empty folder", lambda folder: folder, "a folder must hold edges.csv"),
    Case("two files of edges", folder_with(edges__csv=EDGE_CSV, edges__tsv="source\ttarget\na\tb\n"), "holds edges.csv and edges.tsv"),
    Case("Edges.CSV in a folder", folder_with(Edges__CSV=EDGE_CSV), graph=lambda g: g.nodes == 3),
    Case(".CSV", text("E.CSV", EDGE_CSV), graph=lambda g: g.nodes == 3),
    Case(".TSV", text("E.TSV", "source\ttarget\na\tb\n"), graph=lambda g: g.nodes == 2),
    Case(".PARQUET", parquet("N.PARQUET", id=list("abc"), f=[1, 2, 3]), graph=x([1], [2], [3])),
    Case(".NPZ", lambda folder: npz()(folder).rename(folder / "G.NPZ"), graph=lambda g: g.nodes == 3),
    Case(".MTX", text("G.MTX", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n"), graph=lambda g: g.nodes == 2),
    Case("empty path", graph_of(""), "at least one file; got an empty path"),
    Case("empty path in a list", graph_of([""]), "at least one file; got an empty path"),
    Case("unknown home", graph_of("~nobody-of-this-name/e.csv"), "~ in a path must be followed by the name of a user"),
    Case("long path", graph_of("/" + "a" * 5000 + ".csv"), "a path must lead to a file|File name too long"),
    Case("zero byte in a path", graph_of("a\0b.csv"), "a path of the graph must not have NUL characters"),
    Case("a file as folder", lambda folder: text("e.csv", EDGE_CSV)(folder) / "n.csv", "there is no file"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_file_gives_the_graph_or_one_clear_error(case, tmp_path, caplog):
    caplog.set_level(logging.INFO, "adaptkry")
    data = case.write(tmp_path)
    if case.error:
        with pytest.raises(USER_ERRORS) as caught:
            load(data, **case.options)
        message = assert_refusal(caught.value)
        assert re.search(case.error, message.replace(str(tmp_path), "")), message
        assert "\n" not in message
        assert len(message) < 1000 or len(str(data)) > 1000
        return
    graph = load(data, **case.options)
    assert case.graph(graph), (graph.info, graph.y, graph.features)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == bool(case.message), said
    assert not case.message or re.search(case.message, said[0]), said


# --- damaged at random -----------------------------------------------------------------------------------------------

FUZZ = settings(max_examples=120)
FORGED = st.sampled_from(
    [b"", b"\0", b"-1", b"1e999", b"nan", b"999999999999", b"\xff\xfe", b'"', b"\n", b",", b"((((("]
)


@st.composite
def damages(draw) -> Callable[[bytes], bytes]:
    """A function that flips, cuts, swaps or replaces some bytes of a file."""
    steps = draw(st.lists(st.tuples(st.sampled_from(["flip", "cut", "swap", "forge"]), st.floats(0, 1), st.floats(0, 1),
                                    st.integers(1, 255), FORGED), min_size=1, max_size=3))  # fmt: skip

    def damage(content: bytes) -> bytes:
        for kind, first, second, bits, forged in steps:
            data = bytearray(content)
            a, b = sorted(int(place * max(len(data) - 1, 0)) for place in (first, second))
            if kind == "flip" and data:
                data[a] ^= bits
            elif kind == "cut":
                del data[a : min(b, a + 40)]
            elif kind == "swap" and data:
                data[a], data[b] = data[b], data[a]
            else:
                data[a : a + len(forged)] = forged
            content = bytes(data)
        return content

    return damage


def outcome(data: Any) -> str:
    """The message of the error, or the path if it is read as a graph."""
    try:
        return f"{load(data)} from {data}"
    except USER_ERRORS as error:
        return assert_refusal(error)


def table_bytes(columns: dict[str, list]) -> bytes:
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


def npz_bytes(compressed: bool) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **BENCHMARK, node_ids=np.array(list("abc")))
    return stream.getvalue()


def matrix_bytes(kind: str) -> bytes:
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, ADJ if kind == "coordinate" else ADJ.toarray(), precision=3)
    return stream.getvalue()


def scipy_bytes() -> bytes:
    stream = io.BytesIO()
    sp.save_npz(stream, sp.csc_array(ADJ), compressed=False)
    return stream.getvalue()


def mat_bytes() -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"A": sp.csc_matrix(ADJ), "local_info": np.arange(21).reshape(3, 7)})
    return stream.getvalue()


NODES_CSV = b"id,label,f,g\na,u,1.5,2\nb,,-1e3,0\nc,v,2,1\n"
VALID = {
    "edges.csv": EDGE_CSV.encode(),
    "nodes.csv": NODES_CSV,
    "nodes.parquet": table_bytes({"id": list("abc"), "label": [1, None, 2], "f": [1.5, 2.5, 0.0], "g": [1, 2, 3]}),
    "plain.npz": npz_bytes(compressed=False),
    "compressed.npz": npz_bytes(compressed=True),
    "scipy.npz": scipy_bytes(),
    "coordinate.mtx": matrix_bytes("coordinate"),
    "array.mtx": matrix_bytes("array"),
    "facebook.mat": mat_bytes(),
}


@pytest.mark.parametrize("name", VALID)
def test_files_damaged_at_random_give_a_graph_or_a_user_error(name, tmp_path):
    def read(content: bytes) -> Graph:
        (tmp_path / name).write_bytes(content)
        if name.startswith("nodes"):
            (tmp_path / "e.csv").write_text(EDGE_CSV)
            return load([tmp_path / "e.csv", tmp_path / name])
        return load(tmp_path / name)

    assert read(VALID[name]).nodes == 3
    outcomes = []

    @FUZZ
    @given(damages())
    def damaged(damage):
        try:
            outcomes.append(read(damage(VALID[name])).nodes > 0)
        except USER_ERRORS as error:
            outcomes.append(assert_refusal(error))

    damaged()
    errors = [found for found in outcomes if isinstance(found, str)]
    assert errors
    assert all(str(tmp_path) in error for error in errors)
    assert all(outcomes)


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from([*BENCHMARK, "edges", "edge_index", "x", "y", "weights", "train", "val", "test", "directed",
                         "name", "metric", "class_names", "node_ids", "format"]),
        st.sampled_from([np.array(v) for v in (0, -1, 10**12, 0.5, "u", b"u", True, [0], [0, 1], [[0, 1], [1, 0]], [],
                         [np.nan, 1.0], [2**62] * 3, ["a", "b", "c"], [[1.0], [2.0], [3.0]], [True] * 3, 1j)]),
        max_size=4,
    )
)  # fmt: skip
def test_npz_files_with_forged_arrays_give_a_graph_or_a_user_error(tmp_path_factory, arrays):
    path = tmp_path_factory.getbasetemp() / "forged.npz"
    np.savez(path, **BENCHMARK | arrays)
    assert "forged.npz" in outcome(path)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["id", "label", "f", "weight", "source", "", "Label"]),
            st.sampled_from([[1, 2, 3], list("abc"), [None] * 3, [DAY] * 3, [[1]] * 3, [{"a": 1}] * 3, [b"\xff"] * 3,
                             [True, None, False], [2**63 - 1, None, -(2**63)], [1e300, -1e300, 0.0], ["", "a", "nan"]]),
        ),
        max_size=4,
    )
)  # fmt: skip
def test_parquet_files_with_forged_columns_give_a_graph_or_a_user_error(tmp_path_factory, columns):
    folder = tmp_path_factory.getbasetemp()
    names, values = [name for name, _ in columns], [pyarrow.array(part) for _, part in columns]
    pyarrow.parquet.write_table(pyarrow.table(values, names=names), folder / "forged.parquet")
    (folder / "forged.csv").write_text(EDGE_CSV)
    for files in ([folder / "forged.csv", folder / "forged.parquet"], [folder / "forged.parquet"]):
        assert "forged." in outcome(files)
