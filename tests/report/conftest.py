"""One fitted run, and one experiment with every element that a page can show, shared by all tests of reports."""

from dataclasses import replace

import pytest

from adaptkry.graphs import splits
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.report.elements import cell, chart, experiment, series, table
from adaptkry.report.html import write_facts
from adaptkry.report.run_report import write_pages
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
