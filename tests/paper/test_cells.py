"""Cells, which are grouped from rows."""

import json
import re

import numpy as np
import pytest

from adaptkry.paper import cells, documents
from adaptkry.paper.cells import MeasuredCell


def test_a_cell_is_the_mean_and_students_interval_of_its_scores(row):
    cell = MeasuredCell(tuple(row(test=score) for score in (0.8, 0.9, 1.0)))
    assert cell.mean == pytest.approx(90)
    assert cell.half_width == pytest.approx(4.30265 * 10 / np.sqrt(3), rel=1e-5)  # t of 0.975, 2 degrees of freedom


def test_restarts_that_were_not_chosen_and_failures_do_not_count(row):
    rows = (row(test=0.5, chosen=True), row(test=0.9, chosen=False), row(test=None, chosen=True))
    assert MeasuredCell(rows).numbers.tolist() == [50.0]


def test_the_newest_measurement_of_a_cell_replaces_older_ones_and_quick_ones_stay_separate(row):
    old, new = row(value=1.0), [row(value=2.0, created="2026-02-02"), row(value=4.0, created="2026-02-02")]
    found = cells.newest([old, *new, row(value=9.0, quick=True)], quick=False)
    assert found["tied", "cora"].mean == 3.0
    assert cells.newest([old, row(value=9.0, quick=True)], quick=True)["tied", "cora"].mean == 9.0


def test_rows_of_version_0_1_are_read(row, tmp_path):
    old = row(value=1.0)
    old["made"] = old.pop("created")
    (tmp_path / "tying.jsonl").write_text(json.dumps(old) + "\n")
    (found,), bad = cells.read(tmp_path / "tying.jsonl", "tying")
    assert (found["created"], bad) == (old["made"], [])


def test_damaged_rows_and_rows_of_other_items_are_skipped_and_reported(row, tmp_path):
    good = json.dumps(row(value=1.0))
    lines = [good, '{"item": "tying", "ro', json.dumps({"benchmark": "basis"}), json.dumps(row("angles")), "[]", good]
    (tmp_path / "tying.jsonl").write_text("\n".join(lines))
    found, bad = cells.read(tmp_path / "tying.jsonl", "tying")
    assert len(found) == 2
    assert [re.search(r"line (\d)", text)[1] for text in bad] == ["2", "3", "4", "5"]  # type: ignore[index]
    section = documents.section("tying", tmp_path, quick=False)
    assert "4 lines of the result file were skipped" in documents.markdown(section)
    assert "| 4 |" in documents.provenance([section])
    assert "tying.jsonl, line 2: not JSON" in documents.provenance([section])


def test_earlier_measurements_of_a_cell_are_kept_apart(row):
    rows = [row(value=value, created=created) for value, created in ((1.0, "a"), (2.0, "a"), (3.0, "b"), (4.0, "c"))]
    (cell,) = cells.newest(rows, quick=False).values()
    assert cell.numbers.tolist() == [4.0]
    assert [one.numbers.tolist() for one in cell.earlier] == [[1.0, 2.0], [3.0]]
