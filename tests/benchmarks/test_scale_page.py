"""The page on graphs larger than memory, and the benchmark that measures its rows."""

from pathlib import Path

import numpy as np
import pytest

from adaptkry.common.rows import read
from adaptkry.graphs.graph import Graph
from adaptkry.outofcore.propagate import propagate
from adaptkry.outofcore.random_graph import generate
from adaptkry.spectral.propagation_matrix import Propagation
from benchmarks import outofcore, scale_page
from contracts import assert_close, random_signal

ROOT = Path(__file__).parents[2]


def test_a_table_is_written_between_its_markers():
    begin = "<!-- rows: one (written by `python -m benchmarks.scale_page`) -->\n"
    page = f"head\n{begin}old\n<!-- rows: end -->\ntail"
    assert scale_page.replace(page, "one", ["new"]) == page.replace("old", "new")


def test_the_tables_of_the_page_agree_with_the_rows():
    text, rows = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8"), read(ROOT / "results" / "outofcore.jsonl")
    for name, table in scale_page.TABLES.items():
        assert scale_page.replace(text, name, table([row for row in rows if row["benchmark"] == name])) == text


def test_slopes_are_those_of_the_rows(tmp_path):
    same = {"commit": "c", "config": {"nodes": 9, "entries": 1, "features": 3, "degree": 1}}
    rows = [{"varied": "degree", "value": k, "seconds": 1.0 + 2.0 * k, **same} for k in (1, 2, 4, 8)] + [
        {"varied": "entries", "value": m, "seconds": 3.0 * m, **same} for m in (1, 2, 4, 8)
    ]
    text = "\n".join(scale_page.slopes(rows))
    assert "| entries m | 1 | 8 | n = 9, m = 1, d = 3, K = 1 | 3.00 .. 24.00 | 1.00 | 0 % | c |" in text
    assert "| hops K | 1 | 8 | n = 9, m = 1, d = 3, K = 1 | 3.00 .. 17.00 | 0.84 | 0 % | c |" in text
    assert scale_page.deviation(np.array([1.0, 2, 4]), np.array([1.0, 2, 8])) > 0.1
    scale_page.draw(rows, tmp_path / "slopes.svg")
    assert (tmp_path / "slopes.svg").stat().st_size > 1000


def test_the_reference_in_memory_agrees_with_the_basis_on_disk(tmp_path, capsys):
    folder = generate(tmp_path / "g", nodes=500, entries=4000, features=6)
    propagate(folder, tmp_path / "b", taus=[0.5, 1.0], degree=2, columns=4)
    outofcore.in_memory(str(tmp_path / "g"), str(tmp_path / "b"))
    assert '"agrees": true' in capsys.readouterr().out
    # the graph without sorting is the graph; and another basis does not agree
    indptr, indices = (folder.array(name).read() for name in ("indptr", "indices"))
    rows = np.repeat(np.arange(500), np.diff(indptr))
    x, graph = random_signal(500, 3), Graph([rows, indices], nodes=500, directed=True)
    for tau in (0.5, 1.0):
        P = Propagation(outofcore.as_graph(folder), tau)
        assert_close(P.to_dense(), Propagation(graph, tau, "out").to_dense(), rtol=1e-12, atol=1e-14)
        assert_close(P @ x, P.to_dense() @ x, rtol=0, atol=1e-12)
    propagate(folder, tmp_path / "other", taus=[0.5, 0.9], degree=2, columns=4)
    manifest = tmp_path / "other" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("0.9", "1.0"))
    outofcore.in_memory(str(tmp_path / "g"), str(tmp_path / "other"))
    assert '"agrees": false' in capsys.readouterr().out


@pytest.mark.slow
def test_the_benchmark_writes_a_row(tmp_path, monkeypatch, capsys):
    options = f"--nodes 2e4 --entries 2e5 --features 8 --degree 2 --work {tmp_path} --out {tmp_path / 'r.jsonl'}"
    monkeypatch.setattr("sys.argv", ["outofcore", "basis", *options.split()])
    outofcore.main()
    assert "ratio" in capsys.readouterr().out
    assert (tmp_path / "r.jsonl").read_text().count("peak_bytes") == 1
