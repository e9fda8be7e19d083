"""What the protocol is worth: rows of trainings whose epochs are chosen on test nodes, and what is said about them."""

import numpy as np
import pytest

from adaptkry.graphs.splits import stratified
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.paper import cells
from adaptkry.paper.cells import MeasuredCell
from adaptkry.paper.items import protocol
from adaptkry.paper.measure import RunOptions
from adaptkry.paper.published import PAPER
from adaptkry.training.fit import fit

GRAPH = csbm(nodes=150, phi=-0.4, information=0.5, seed=0)
SPLITS = stratified(GRAPH.y, count=3)
ITEM = PAPER["protocol"]


def test_epochs_chosen_on_test_nodes_have_the_best_test_score_of_all_epochs():
    settings = recipe("adaptkry", hidden=8, degree=2, epochs=30, stop="never", mlp_lr=0.05)
    rows = protocol.peeked(GRAPH, settings, SPLITS, RunOptions(device="cpu"))
    honest = fit(GRAPH, settings, SPLITS, device="cpu").results
    assert {row["epochs_chosen_on"] for row in rows} == {"test nodes"}
    assert [row["split_seed"] for row in rows] == [result.split_seed for result in honest]
    gains = [row["test"] - (result.test or 0) for row, result in zip(rows, honest, strict=True)]
    losses = [row["validation"] - (result.validation or 0) for row, result in zip(rows, honest, strict=True)]
    assert min(gains) >= 0
    assert max(gains) > 0
    assert max(losses) <= 0  # on validation nodes, the epoch that they choose is best
    for row in rows:
        last = fit(GRAPH, settings, SPLITS, device="cpu", epochs=row["epoch"] + 1, select="last").results[row["split"]]
        assert row["test"] == pytest.approx(last.test)


def test_no_setting_and_no_other_row_chooses_epochs_on_test_nodes():
    options = RunOptions(device="cpu")
    found = {(one.row, one.column) for one in protocol.measurements(ITEM, options)}
    graphs, ranked = ITEM["ours"]["graphs"], ITEM["ours"]["ranked_graphs"]
    assert {column for row, column in found if row == protocol.PEEKING} == {f"{g}, class_balanced" for g in graphs}
    assert {column for row, column in found if row == protocol.RAW} == {f"{g}, class_balanced" for g in graphs}
    for scheme in ("class_balanced", "stratified", "uniform"):
        assert {("adaptkry", f"{graph}, {scheme}") for graph in graphs} <= found
    assert {("bernnet", f"{graph}, stratified") for graph in ranked} <= found
    assert all(recipe("adaptkry", graph).normalise for graph in graphs)  # so that raw features are a change


def measured(row, name, column, scores):
    rows = (row("protocol", **{"row": name, "column": column}, split=i, split_seed=i, test=s, validation=s)
            for i, s in enumerate(scores))  # fmt: skip
    return {(name, column): MeasuredCell(tuple(rows))}


def test_what_a_change_is_worth_is_computed_from_rows(row):
    found = (
        measured(row, "adaptkry", "cora, class_balanced", (0.88, 0.90))  # printed: 89.95
        | measured(row, protocol.PEEKING, "cora, class_balanced", (0.90, 0.91))
        | measured(row, protocol.RAW, "cora, class_balanced", (0.87, 0.89))
        | measured(row, "adaptkry", "cora, uniform", (0.80, 0.82, 0.87))
        | measured(row, "adaptkry", "citeseer, class_balanced", (0.80, 0.80))  # printed: 83.78
        | measured(row, protocol.PEEKING, "citeseer, class_balanced", (0.82, 0.82))
    )
    part = protocol.section(found, ITEM)
    lines = {line[0]: line[1:] for line in part["tables"][0]["rows"]}
    assert lines["printed"][0]["text"] == "89.95"
    assert lines["features not row-normalised"][0]["text"].endswith("(-1.00 ± 0.00)")
    assert lines["uniform splits"][0]["text"].endswith("(-6.00)")  # other splits: not paired, no interval
    assert lines["stratified splits"][0] is None
    notes = "\n".join(part["notes"])
    peeking = "epochs chosen on test nodes (evidence, not a result)"
    assert f"{peeking}: +1.75 points on average over 2 graphs, from +1.50 (cora) to +2.00 (citeseer)." in notes
    assert "above ours on 2 of 2 graphs (cora, citeseer), and above even what epochs" in notes
    assert notes.count("give on 1 (citeseer).") == 1


def test_rows_of_the_former_item_are_kept(row):
    old = row("split-schemes", test=0.5, split=0)
    assert cells.problem(old, "protocol") is None
    assert cells.problem(old, "table-2") == "a row of 'split-schemes'"
    assert np.isclose(MeasuredCell((old,)).mean, 50)
