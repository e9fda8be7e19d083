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


def test_the_readme_says_of_the_ranking_what_the_rows_say():
    readme, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/results.md"))
    assert "in our rows on 3 of 6" in page
    assert "excludes zero on none of them" in page
    assert "In our rows it has the highest mean on some of the six graphs only" in " ".join(readme.split())
    assert "on none is its lead significant" in readme
