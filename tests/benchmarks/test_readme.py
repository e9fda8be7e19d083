"""The tables of the README are written from rows."""

from pathlib import Path

from benchmarks.readme import accuracy, replace, speed

from adaptkry.common.rows import read

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_readme_agree_with_the_rows():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for marker, table, rows in (("speed", speed, "benchmarks.jsonl"), ("accuracy", accuracy, "adaptkry.jsonl")):
        assert replace(text, marker, table(read(ROOT / "results" / rows))) == text
