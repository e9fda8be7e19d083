"""Table 2 in a hurry: every baseline runs on every graph, two splits, twenty epochs."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.methods_page import GRAPHS, PUBLISHED, page

import real
from adaptkry import results

ROOT = Path(__file__).parents[1]


def test_the_page_counts_cells_and_names_those_that_fall_short():
    common = {"quick": False, "commit": "x", "device": "d", "cell_seconds": 1.0, "settings_tried": 1, "scheme": "s"}
    rows = [
        {**common, "method": method, "graph": graph, "test": (PUBLISHED[method][graph] - below) / 100 + shift}
        for method, below in (("gcn", 0.5), ("sgc", 2.0))
        for graph in GRAPHS
        for shift in (-0.001, 0.001)
    ]
    text = page(rows)
    assert "**6 of 66 cells**" in text
    assert text.count("- **sgc on") == 6
    assert "- **gcn on" not in text


@pytest.mark.slow
@pytest.mark.data
def test_quick_table_runs_every_cell(tmp_path):
    real.real_graph("cora")  # skips where the data is not
    command = [sys.executable, "-m", "benchmarks.table2", "--quick", "--device", "cpu", "--out", str(tmp_path / "rows")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=900)
    rows = results.read(tmp_path / "rows")
    assert {(row["method"], row["graph"]) for row in rows} == {(m, g) for m in PUBLISHED for g in GRAPHS}
    assert all(row["test"] is not None and math.isfinite(row["test"]) for row in rows)
