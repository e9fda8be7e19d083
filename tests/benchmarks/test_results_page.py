"""The tables and sentences of docs/results.md are written from rows."""

from pathlib import Path

import pytest
from benchmarks.results_page import TABLES, replace, rows_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("marker", TABLES)
def test_the_page_agrees_with_the_rows(marker):
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    lines, file = TABLES[marker]
    assert replace(text, marker, lines(rows_of(ROOT / "results" / file))) == text
