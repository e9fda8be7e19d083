"""The report page: its data, and that names in the data never become markup."""

import json
import re

import pytest

from adaptkry.report import html
from adaptkry.report.elements import experiment
from adaptkry.report.html import read_facts, write_figures, write_page


def test_names_in_the_data_never_become_markup(run_folder, hostile):
    page = html.page([read_facts(run_folder)])
    assert hostile not in page
    assert page.count("</script>") == 2
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])[0]["tables"][0]["rows"][0][0] == hostile
    assert json.loads(data[1])[0]["charts"][-1]["names"][0] == hostile


def test_a_page_loads_no_other_files_and_is_small(run_folder):
    page = html.page([read_facts(run_folder)] * 3)
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", page)
    assert len(page) < 5_000_000


def test_a_folder_without_facts_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no facts\.json"):
        write_page([tmp_path], tmp_path / "page.html")


def test_a_page_can_show_runs_and_experiments(run_folder, experiment_folder, hostile, tmp_path):
    page = write_page([run_folder, experiment_folder], tmp_path / "page.html").read_text(encoding="utf-8")
    assert hostile not in page
    assert page.count("</script>") == 2
    assert len(page) < 5_000_000


def test_missing_keys_of_an_experiment_become_empty_parts(tmp_path):
    bare = {"kind": "experiment", "charts": [{"series": [{"name": "a", "x": [1], "y": [2]}]}], "tables": [{}]}
    (tmp_path / "facts.json").write_text(json.dumps(bare))
    data = re.search(r'id="data">(.*?)</script>', html.page([read_facts(tmp_path)]), re.DOTALL)
    assert data is not None
    (shown,) = json.loads(data[1])
    assert shown["notes"] == shown["tables"][0]["rows"] == []
    assert shown["charts"][0]["series"][0]["low"] is None


def test_the_provenance_of_experiments_of_version_0_1_is_shown():
    assert '"provenance": {"version": "1"}' in html.page([{"kind": "experiment", "made": {"version": "1"}}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[]", "must be a JSON object; got list"),
        ('{"kind": "other"}', "neither a run nor an experiment"),
        ('{"kind": "run"}', "neither a run nor an experiment"),
        ('{"kind": "experiment", "charts": [{"series": [{"name": "a"}]}]}', "cannot be read"),
    ],
)
def test_invalid_facts_are_refused(tmp_path, text, message):
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        write_page([tmp_path], tmp_path / "page.html")


def test_every_chart_is_written_as_svg_and_png(run_folder, experiment_folder, tmp_path):
    drawn = write_figures([run_folder, experiment_folder], tmp_path / "new" / "figures")
    assert {path.suffix for path in drawn} == {".svg", ".png"}
    assert [path.stem for path in drawn[::2]] == [
        "01-learned-filter-adaptkry-on-csbm",
        "02-training-loss-adaptkry-on-csbm",
        "03-validation-accuracy-adaptkry-on-csbm",
        "04-weight-of-each-hop-adaptkry-on-csbm",
        "05-angle-between-consecutive-hops-adaptkry-on-csbm",
        "06-confusion-matrix-adaptkry-on-csbm",
        "07-seconds",
        "08-methods",
    ]
    assert all(path.stat().st_size > 5000 for path in drawn)


@pytest.mark.parametrize("name", ["<!--", "<!-- <script>", "</script>", "a</b"])
def test_no_name_opens_a_comment_or_ends_the_script_in_which_the_data_are(name):
    text = html.page([experiment(name, notes=[name])])
    start = text.index('id="data">') + len('id="data">')
    data = text[start : text.index("</script>", start)]
    assert json.loads(data)[0]["title"] == name
    assert "<!--" not in data
    assert "</" not in data
