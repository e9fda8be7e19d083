"""The report page: its data, and that names in the data never become markup."""

import json
import re
from html import escape, unescape
from html.parser import HTMLParser

import pytest

from adaptkry.report.charts import DARK, INK, LINE, SOFT, svg
from adaptkry.report.elements import cell, chart, experiment, matrix, series, table
from adaptkry.report.html import read_facts, write_figures, write_page
from adaptkry.report.page_html import best_run, dark_rules, page, table_html


def test_names_in_the_data_never_become_markup(run_folder, hostile):
    text = page([read_facts(run_folder)])
    assert hostile not in text
    assert text.count("<script") == text.count("</script") == 1
    assert f'<td class="text">{escape(hostile)}</td>' in text
    assert f"true class {hostile}" in unescape(text)  # in the chart


def test_a_page_loads_no_other_files_and_is_small(run_folder):
    text = page([read_facts(run_folder)] * 3)
    assert not re.search(
        r"""(src|href)\s*=|@import|url\(""", text.replace('xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    )
    assert len(text) < 3_000_000


def test_a_page_opens_on_the_best_run_and_compares_all(run_folder):
    run = read_facts(run_folder)
    worse = run | {"title": "worse", "scores": run["scores"] | {"mean": 0.1, "low": 0.05, "high": 0.15}}
    text = page([worse, experiment("an experiment"), run])
    assert re.findall(r"<article( hidden)?>", text) == [" hidden", " hidden", ""]
    assert re.findall(r'data-page="(\d)" aria-pressed="(\w+)"', text) == [("0", "false"), ("1", "false"), ("2", "true")]
    assert 'aria-label="mean and 95 % interval over splits, worse: 10 (5 .. 15)"' in text
    assert best_run([experiment("a"), experiment("b")]) == 0
    assert best_run([experiment("a"), run | {"scores": None}]) == 1


def test_details_are_folded_and_the_rest_is_in_the_order_in_which_it_is_read(run_folder):
    text = page([read_facts(run_folder)])
    headings = re.findall(r"<h3>(.*?)</h3>|<summary>(.*?)</summary>", text)
    assert [first for first, _ in headings if first] == [
        "Classes", "Calibration", "Least certain nodes", "What it learned"
    ]  # fmt: skip
    assert [second for _, second in headings if second] == ["Trainings", "Settings", "Graph", "Provenance"]
    opening = re.search(r'<p class="lead">(.*?)</p>', text)
    assert opening is not None
    assert re.fullmatch(r"\d+ of 100 test nodes are right; guessing the largest class gets \d+.", opening[1])


def test_facts_of_version_0_1_are_shown():
    line = {"name": "a", "x": [1], "y": [2], "low": None, "high": None, "dashed": False}
    old = {
        "kind": "run", "title": "old", "lead": "A lead.", "score": "81 %", "overview": {"run": "old"}, "explorer": None,
        "notes": [], "made": {"version": "1"}, "tables": [{"title": "T", "columns": ["a"], "rows": [[1]]}],
        "charts": [{"kind": "lines", "title": "C", "series": [line], "behind": None, "log": False}],
    }  # fmt: skip
    text = page([old])
    assert "<h4>T</h4>" in text
    assert "81 %" in text
    assert '<td class="short">version</td><td data-sort="1.0">1</td>' in text


def test_a_folder_without_facts_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no facts\.json"):
        write_page([tmp_path], tmp_path / "page.html")


def test_a_page_can_show_runs_and_experiments(run_folder, experiment_folder, hostile, tmp_path):
    text = write_page([run_folder, experiment_folder], tmp_path / "page.html").read_text(encoding="utf-8")
    assert hostile not in text
    assert text.count("</script>") == 1
    assert "It <code>&lt;b&gt;holds&lt;/b&gt;</code>, it does." in text
    assert '<td data-sort="81.2">81.2 ± 0.9 <span class="badge holds">✓ holds</span></td>' in text
    assert len(text) < 3_000_000


def test_missing_keys_of_an_experiment_become_empty_parts(tmp_path):
    bare = {"kind": "experiment", "charts": [{"series": [{"name": "a", "x": [1], "y": [2]}]}], "tables": [{}]}
    (tmp_path / "facts.json").write_text(json.dumps(bare))
    text = page([read_facts(tmp_path)])
    assert text.count("<svg") == text.count("<table") == 1


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
    stems = [path.stem for path in drawn[::2]]
    assert stems[0] == "01-test-accuracy-adaptkry-on-csbm"
    assert stems[1] == "02-confusion-matrix-adaptkry-on-csbm"
    assert stems[-2:] == ["10-seconds", "11-methods"]
    assert drawn[0].read_text(encoding="utf-8").count("<svg") == 1
    assert all(path.stat().st_size > 2000 for path in drawn)


@pytest.mark.parametrize(
    "name", ["<!--", "-->", "<script>", "</script>", "</svg>", "a</b", "&lt;", "\"'", '" onload="x', "/*MAIN*/"]
)
def test_names_are_text_wherever_they_are_shown(name):
    tables = [table(name, [name, "b"], [[name, cell(name, 1)]], name)]
    shown = [chart(name, [series(name, [name], [1])], x=name, y=name), matrix(name, [name], [[1]], x=name, y=name)]
    text = page([experiment(name, lead=name, tables=tables, charts=shown, notes=[name], provenance={name: name})])
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    assert not reader.comments
    assert reader.texts.count(name) >= 12
    assert reader.tags.count("script") == reader.tags.count("article") == 1
    assert "onload" not in reader.attributes


class Reader(HTMLParser):
    """Collects the texts and tags of a page, and which tags are still open."""

    def __init__(self):
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.comments: list[str] = []
        self.attributes: set[str] = set()  # their names

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        self.comments.append(data)


def test_columns_of_numbers_are_aligned_and_sorted_by_number():
    rows = [["a", "1,234.5", cell("not tested"), None], ["b" * 50, "-2 ± 1", cell("3.10", 3.1), "x" * 20]]
    text = table_html(table("T", ["a", "b", "c", "d"], rows))
    assert re.findall(r"<th scope=\"col\"([^>]*)>", text) == [' class="long-text"', "", "", ' class="text"']
    assert re.findall(r'data-sort="([^"]*)"', text) == ["1234.5", "-2.0", "3.1"]


def test_the_colours_of_charts_are_replaced_on_a_dark_page():
    rules = dark_rules()
    drawn = svg(chart("t", [series("a", [0, 1], [1, 2])], x="x", y="y"))
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', drawn))
    assert {INK, SOFT, LINE} <= used <= DARK.keys()
    assert all(f'svg [fill="{colour}"] {{ fill: ' in rules for colour in used)
