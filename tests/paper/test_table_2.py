"""Table 2: the splits and settings of every training, and its rows."""

import json
from pathlib import Path

import pytest

from adaptkry.common.rows import read, settings_of
from adaptkry.graphs.splits import ADAPTKRY_SEEDS, BERNNET_SEEDS
from adaptkry.models.recipe import Recipe
from adaptkry.paper import cells
from adaptkry.paper.items import table_2
from adaptkry.paper.measure import RunOptions
from adaptkry.paper.published import PAPER

RESULTS = Path(__file__).parents[2] / "results"
WITH_BERNNET_SEEDS = {"gcn", "chebnet", "gprgnn", "bernnet", "evennet", "chebnetii"}
# The stages of a model had other names in version 0.1.
COMPARED = {field for field in Recipe.__dataclass_fields__ if field != "stages"}


@pytest.fixture
def jobs(monkeypatch):
    """The recipes and the scheme of every measurement: (row, column) -> (graph, recipes, scheme)."""
    found = {}

    def training(_options, row, column, graph, recipes, scheme):
        found[row, column] = (graph, recipes, scheme)
        return found[row, column]

    monkeypatch.setattr(table_2, "training", training)
    table_2.measurements(PAPER["table-2"], RunOptions())
    return found


def test_every_training_has_the_seeds_of_its_method(jobs):
    assert len(jobs) == 12 * 6 + len(PAPER["table-2"]["ours"]["probes"])
    for (method, column), (graph, _, scheme) in jobs.items():
        name, _, probe = column.partition(", ")
        assert name == graph
        has_bernnet_seeds = (method in WITH_BERNNET_SEEDS) != (probe == "other seeds")
        expected = "class_balanced_bernnet" if has_bernnet_seeds else "class_balanced"
        assert scheme == ("class_permuted" if probe == "torch's splits" else expected)


def test_every_training_has_the_settings_and_seeds_of_its_rows(jobs):
    """A changed setting or seed is noticed, because the rows have others."""
    measured = cells.newest(cells.read(RESULTS / "table-2.jsonl", "table-2")[0], quick=False)
    assert measured.keys() >= jobs.keys()
    seeds = {"class_balanced": ADAPTKRY_SEEDS, "class_balanced_bernnet": BERNNET_SEEDS, "class_permuted": range(10)}
    for key, (graph, recipes, scheme) in jobs.items():
        rows = measured[key].rows
        assert {row["scheme"] for row in rows} == {scheme}
        assert [row["split_seed"] for row in rows] == list(seeds[scheme])
        assert {row["graph"] for row in rows} == {graph}
        tried = [json.loads(json.dumps(recipe.to_dict())) for recipe in recipes]
        for row in rows:
            used = {name: value for name, value in settings_of(row).items() if name in COMPARED}
            assert any(used == {name: one[name] for name in used} for one in tried), key


def test_rows_exist_for_every_printed_value():
    names = {(row["row"], row["column"]) for row in read(RESULTS / "table-2.jsonl") if not row["quick"]}
    assert names >= {(method, graph) for method in PAPER["table-2"]["paper"] for graph in PAPER["table-2"]["graphs"]}
