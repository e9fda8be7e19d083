"""Table 2: the splits and settings of every training, and its rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from adaptkry.common.intervals import corrected_half_width
from adaptkry.common.rows import read, settings_of
from adaptkry.graphs.splits import ADAPTKRY_SEEDS, BERNNET_SEEDS
from adaptkry.models.recipe import Recipe
from adaptkry.paper import cells
from adaptkry.paper.cells import MeasuredCell
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


def scored(row, method, graph, scores, seeds=(0, 1, 2)):
    rows = [row("table-2", **{"row": method, "column": graph}, split=i, split_seed=seed, test=score)
            for i, (score, seed) in enumerate(zip(scores, seeds, strict=True))]  # fmt: skip
    return {(method, graph): MeasuredCell(tuple(rows))}


ITEM = {
    "graphs": ["g", "h"],
    "margin": 1.0,
    "paper": {"gcn": [80.0, 70.0], "mlp": [81.0, 60.0], "adaptkry": [90.0, 65.0]},
}


def test_the_ranking_is_that_of_the_rows_and_differences_are_paired_with_corrected_intervals(row):
    measured = (
        scored(row, "gcn", "g", (0.70, 0.71, 0.72)) | scored(row, "mlp", "g", (0.60, 0.60, 0.60))
        | scored(row, "adaptkry", "g", (0.80, 0.80, 0.83))
        | scored(row, "gcn", "h", (0.90, 0.91, 0.92)) | scored(row, "adaptkry", "h", (0.80, 0.80, 0.83))
    )  # fmt: skip
    first, second = table_2.ranking(measured, ITEM)
    assert (first["printed"], first["printed_rank"], first["ours"], first["rank"]) == ("adaptkry", 1, "adaptkry", 1)
    assert (first["other"], first["splits"]) == ("gcn", 3)
    differences = np.array([10.0, 9.0, 11.0])
    assert first["difference"] == pytest.approx(10)
    assert first["half_width"] == pytest.approx(corrected_half_width(differences, 1 / 3))
    assert (second["printed"], second["printed_rank"], second["ours"], second["rank"]) == ("gcn", 2, "gcn", 2)
    note = table_2.ranking_note([first, second])
    assert "highest mean on 1 of 2 graphs; in our rows on 1 of 2, behind gcn on h." in note
    assert "excludes zero on g." in note
    unclear = table_2.ranking_note([first | {"half_width": 10.5}])
    assert "in our rows on 1 of 1. The corrected" in unclear
    assert "excludes zero on none of them" in unclear


def test_splits_of_other_seeds_are_not_paired(row):
    measured = scored(row, "gcn", "g", (0.7, 0.1, 0.7), (0, 7, 2)) | scored(row, "adaptkry", "g", (0.8, 0.9, 0.8))
    (only,) = table_2.ranking(measured, ITEM)
    assert (only["splits"], only["difference"]) == (2, pytest.approx(10))


def test_the_ranking_of_the_repository_is_stated_in_its_documents():
    measured = cells.newest(cells.read(RESULTS / "table-2.jsonl", "table-2")[0], quick=False)
    note = table_2.ranking_note(table_2.ranking(measured, PAPER["table-2"]))
    for name in ("docs/results.md", "docs/reproduction.md", "docs/methods.md"):
        assert note in (RESULTS.parent / name).read_text(encoding="utf-8")
