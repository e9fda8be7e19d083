"""One fitted run, and one experiment with every element that a page can show, shared by all tests of reports."""

from dataclasses import replace

import pytest
import torch

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.outofcore.propagate import propagate
from adaptkry.report.elements import cell, chart, experiment, series, table
from adaptkry.report.html import write_facts
from adaptkry.report.run_report import write_pages
from adaptkry.training.data import FolderData
from adaptkry.training.fit import fit

HOSTILE = "</script><script>alert(1)</script>"  # a name that must never become markup


@pytest.fixture(scope="session")
def hostile():
    return HOSTILE


@pytest.fixture(scope="session")
def graph():
    found = csbm(nodes=150, phi=-0.6, seed=0)
    found.info = replace(found.info, class_names=(HOSTILE, "<b>other</b>"))
    return found


@pytest.fixture(scope="session")
def three_splits(graph):
    return splits.stratified(graph.y, count=3)


@pytest.fixture(scope="session")
def run(graph, three_splits):
    return fit(graph, recipe("adaptkry", epochs=30, degree=4), three_splits, device="cpu")


@pytest.fixture(scope="session")
def run_folder(run, graph, three_splits, tmp_path_factory):
    """Facts, picture and page of the run."""
    folder = tmp_path_factory.mktemp("run")
    write_pages(run, graph, folder, three_splits)
    return folder


@pytest.fixture(scope="session")
def experiment_folder(tmp_path_factory):
    marks = [cell("81.2 ± 0.9", 81.2, "holds"), cell("9.50", 9.5, "above"), cell("", None, "below")]
    rows = [["cora", 81.25, marks[0]], ["10", None, marks[2]], [HOSTILE, 9.5, marks[1]], ["9", 100, None]]
    columns = ["graph", "published", "ours", *(f"a wide column {k}" for k in range(12))]
    lines = [
        series("ours", [0.5, 1.0, 1.5], [3.0, 0.5, 20.0], low=[2.0, -0.1, 10.0], high=[4.0, 0.9, 30.0]),
        series(HOSTILE, [0.5, 1.0, 1.5], [4.0, None, 25.0], dashed=True),
    ]
    names = [f"method {k}" for k in range(14)]
    methods = [series(s, names, range(14), range(-1, 13), range(1, 15)) for s in ("Cora", "Actor")]
    facts = experiment(
        "Sensitivity <b>now</b>",
        lead="It `<b>holds</b>`, it does.",
        tables=[table("Every graph", columns, [[*row, *range(12)] for row in rows], HOSTILE)],
        charts=[
            chart("Seconds", lines, x="tau", y="seconds", log=True),
            chart("Methods", methods, x="method", y="test %"),
        ],
        notes=["warning: few nodes", HOSTILE, "one ` alone"],
        provenance={"version": "1"},
    )
    folder = tmp_path_factory.mktemp("experiment")
    write_facts(folder, facts)
    return folder


@pytest.fixture(scope="session")
def difficult_folders(tmp_path_factory):
    """Name -> folder of a run that is hard to show: odd names, many classes, failures, a basis folder."""
    names = ("\u05e9\u05dc\u05d5\u05dd $x_1$ <!-- \" '\n", "x" * 300)
    odd = with_labels(lambda y: y, names, name="a \u202e <b>graph</b>", node_ids=[f"node {i} " * 9 for i in range(140)])
    many = with_labels(lambda y: torch.arange(len(y)) % 70, [f"class {k} of a long name" for k in range(70)], nodes=700)
    # class 2 has too few nodes for a test set, and the last nodes have no label
    missing = with_labels(lambda y: torch.where(torch.arange(len(y)) < 2, 2, y).where(torch.arange(len(y)) < 120, -1))
    cases = {
        "many classes": (many, 1, {}),
        "odd names": (odd, 2, {}),
        "an untested class": (missing, 2, {}),
        "an ensemble": (odd, 2, {"combine": "mean", "restarts": 2}),
        "no filter": (missing, 2, {"method": "mlp"}),
    }
    folders = {}
    for name, (graph, count, options) in cases.items():
        drawn = splits.stratified(graph.y, count=count)
        settings = {"epochs": 3, "hidden": 8, "device": "cpu"} | options
        run = fit(graph, settings.pop("method", "adaptkry"), drawn, **settings)
        if name == "an untested class":  # and a failed training
            run.results[1] = replace(
                run.results[1], validation=None, test=None, failed="loss was not finite in epoch 2"
            )
        folders[name] = tmp_path_factory.mktemp("run")
        write_pages(run, graph, folders[name], drawn)
    folders["a basis folder"] = tmp_path_factory.mktemp("run")
    basis = propagate(csbm(nodes=120, seed=5), tmp_path_factory.mktemp("basis") / "b", taus=[0.5], degree=2)
    run = fit(basis, count=2, epochs=3, hidden=8, device="cpu")
    write_pages(run, None, folders["a basis folder"], FolderData(basis).splits("stratified", 2))
    tasks = {"regression": ("the price of a house in euros",), "multilabel": names}
    for task, labels in tasks.items():
        y = odd.x[:, : len(labels)].double()
        info = replace(odd.info, class_names=tuple(labels))
        other = Graph(odd.adjacency.nonzero(), odd.x, y if task == "regression" else y > 0, task=task, info=info)
        drawn = splits.uniform(other, count=2)
        folders[task] = tmp_path_factory.mktemp("run")
        write_pages(fit(other, splits=drawn, epochs=3, hidden=8, device="cpu"), other, folders[task], drawn)
    return folders


def with_labels(change, class_names=None, *, nodes=140, **info) -> Graph:
    """A graph with other labels, names of classes, and further information."""
    graph = csbm(nodes=nodes, seed=1)
    graph = graph.relabelled(change(graph.y))
    graph.info = replace(graph.info, class_names=None if class_names is None else tuple(class_names), **info)
    return graph
