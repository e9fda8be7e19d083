from datetime import datetime
from pathlib import Path

import pytest

from adaptkry.common import rows

FILES = sorted((Path(__file__).parents[2] / "results").glob("*.jsonl"))


def test_rows_are_read_as_they_were_written(tmp_path):
    rows.append(tmp_path / "a" / "rows.jsonl", [{"b": 1}, {"c": None}])
    rows.append(tmp_path / "a" / "rows.jsonl", [{"d": "é"}])
    assert rows.read(tmp_path / "a" / "rows.jsonl") == [{"b": 1}, {"c": None}, {"d": "é"}]


def test_a_damaged_line_is_refused_with_its_number(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ValueError, match=r"every line must be JSON; .*rows\.jsonl, line 2 is not .*Restore the file"):
        rows.read(tmp_path / "rows.jsonl")
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n[2]\n')
    with pytest.raises(ValueError, match=r"must be a JSON object; .*rows\.jsonl, line 2 is \[2\]"):
        rows.read(tmp_path / "rows.jsonl")


def test_half_a_line_of_a_full_disk_is_removed_by_the_next_rows_and_a_whole_one_is_kept(tmp_path, caplog):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a": ')
    rows.append(path, [{"a": 2}])
    assert rows.read(path) == [{"a": 1}, {"a": 2}]
    assert "is incomplete and is removed" in caplog.text
    path.write_text('{"a": 1}')
    rows.append(path, [{"a": 2}])
    assert rows.read(path) == [{"a": 1}, {"a": 2}]


def test_settings_have_the_same_names_in_old_and_new_rows():
    old = {
        "kind": "free",
        "start": "uniform",
        "loops": "keep",
        "least_epochs": 3,
        "stages": ["terms"],
        "degree": 2,
    }
    new = {
        "parametrisation": "free", "initial_weights": "uniform", "self_loops": "keep", "min_epochs": 3,
        "stages": ["terms"], "degree": 2,
    }  # fmt: skip
    assert rows.settings_of({"config": old}) == rows.settings_of({"settings": new}) == new
    assert rows.settings_of({"value": 3}) == {}


def test_results_are_in_the_repository():
    assert len(FILES) >= 18


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rows_in_results_stay_readable(path):
    for row in rows.read(path):
        settings, created = rows.settings_of(row), rows.created_of(row)
        assert not settings.keys() & rows.FORMER_SETTINGS.keys()
        assert len(settings) == len(row.get("settings", row.get("config", {})))
        assert settings or "value" in row or "text" in row
        if "item" in row:  # rows of the reproduction have a time
            assert datetime.fromisoformat(created or "").year >= 2026


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["/bin/adaptkry", "fit", "my graph.csv"], "adaptkry fit 'my graph.csv'"),
        (["/lib/adaptkry/__main__.py", "fit"], "adaptkry fit"),
        (["/home/me/study.py", "fit"], None),
        ([], None),
    ],
)
def test_results_have_the_command_line_only_if_a_command_made_them(words, expected, monkeypatch):
    monkeypatch.setattr("sys.argv", words)
    assert rows.origin()["command"] == expected
