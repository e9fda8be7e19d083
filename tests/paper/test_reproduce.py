"""The paper, re-run: rows to cells to documents, every item as a smoke test, and the checks that need real graphs."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from adaptkry.common import rows as results
from adaptkry.graphs.benchmarks import raw_files
from adaptkry.paper import cells, documents
from adaptkry.paper import measure as core
from adaptkry.paper import reproduce as reproduction
from adaptkry.paper import tables as grids
from adaptkry.paper.items import angles, learned_filters, orthogonality, table_2, tau_sensitivity
from adaptkry.paper.reproduce import PAPER, RunOptions
from benchmark_graphs import benchmark_graph

QUICK = RunOptions(quick=True, device="cpu")
PAPER_TEXT = Path(__file__).parents[3] / "shared" / "paper" / "adaptkry.tex"
STAMP = {"made": "2026-01-01T00:00:00", "quick": False, "commit": "c", "device": "d"}


@pytest.fixture
def _no_data(monkeypatch):
    monkeypatch.setattr(raw_files, "search_folders", lambda _root=None: [])
    core._load.cache_clear()
    yield
    core._load.cache_clear()


def row(item="tying", **more):
    return {"item": item, "row": "tied", "column": "cora", **STAMP, **more}


# --- rows and cells ---


def test_a_cell_is_the_mean_and_students_interval_of_its_scores():
    cell = cells.Cell(tuple(row(test=score) for score in (0.8, 0.9, 1.0)))
    assert cell.mean == pytest.approx(90)
    assert cell.half == pytest.approx(4.30265 * 10 / np.sqrt(3), rel=1e-5)  # t of 0.975 with 2 degrees of freedom


def test_restarts_that_were_not_chosen_and_failures_do_not_count():
    rows = (row(test=0.5, chosen=True), row(test=0.9, chosen=False), row(test=None, chosen=True))
    assert cells.Cell(rows).numbers.tolist() == [50.0]


@pytest.mark.parametrize(
    ("published", "margin", "verdict"),
    [(80.0, 1.0, "holds"), (81.0, 1.0, "holds"), (81.5, 1.0, "below"), (78.5, 1.0, "above"), (85.0, 5.0, "holds")],
)
def test_verdicts(published, margin, verdict):
    assert cells.Cell((row(value=80.0),)).verdict(published, margin) == verdict


def test_a_wide_interval_holds_what_lies_in_it():
    assert cells.Cell(tuple(row(test=t) for t in (0.7, 0.9))).verdict(60.0, 1.0) == "holds"


def test_the_newest_measurement_of_a_cell_replaces_older_ones_and_quick_ones_stay_apart():
    old, new = row(value=1.0), [row(value=2.0, made="2026-02-02"), row(value=4.0, made="2026-02-02")]
    found = cells.newest([old, *new, row(value=9.0, quick=True)], quick=False)
    assert found["tied", "cora"].mean == 3.0
    assert cells.newest([old, row(value=9.0, quick=True)], quick=True)["tied", "cora"].mean == 9.0


def test_damaged_and_foreign_rows_are_named_skipped_and_counted(tmp_path):
    good = json.dumps(row(value=1.0))
    lines = [good, '{"item": "tying", "ro', json.dumps({"benchmark": "basis"}), json.dumps(row("angles")), "[]", good]
    (tmp_path / "tying.jsonl").write_text("\n".join(lines))
    found, bad = cells.read(tmp_path / "tying.jsonl", "tying")
    assert len(found) == 2
    assert [re.search(r"line (\d)", text)[1] for text in bad] == ["2", "3", "4", "5"]  # type: ignore[index]
    shown = documents.section("tying", tmp_path, quick=False)
    assert "4 lines of the results were skipped" in documents.markdown(shown)
    assert "| 4 |" in documents.provenance([shown])
    assert "tying.jsonl, line 2: not JSON" in documents.provenance([shown])


def test_a_cell_below_without_a_reason_says_so_and_phrases_are_spelled_out():
    item = {"margin": 1.0, "reasons": {"a/x": "WORD 5."}}
    found = {(name, "x"): cells.Cell((row(value=1.0),)) for name in "ab"}
    notes = grids.reasons(found, {("a", "x"): 9.0, ("b", "x"): 9.0, ("c", "x"): 1.0}, item, {"WORD": "It gives"})
    assert notes[0].startswith("0 of 2 printed values hold")
    assert notes[1:] == ["a, x (below): It gives 5.", "b, x (below): no reason is known to us."]


# --- documents ---


def test_a_cell_that_holds_by_its_interval_alone_is_named_with_its_reason():
    wide = {("a", "g"): cells.Cell(tuple(row(test=score) for score in (0.70, 0.84)))}
    item = {"margin": 1.0, "reasons": {"a/g": "WHY"}}
    said = grids.reasons(wide, {("a", "g"): 80.0}, item, {"WHY": "few splits."})
    assert said[0].startswith("1 of 1 printed values hold")
    assert said[1:] == ["a, g (within our interval only): few splits."]
    assert table_2.reached(wide, {("a", "g"): 80.0}, item)[0].startswith("0 of 1 cells of the baselines")
    assert table_2.reached(wide, {("a", "g"): 78.0}, item)[0].startswith("1 of 1 cells of the baselines")


@pytest.mark.usefixtures("_no_data")
def test_a_document_is_rebuilt_byte_for_byte_after_the_results_are_deleted(tmp_path):
    """The part without dates and seconds: figures of a training as well as of a formula."""
    texts = []
    for _ in range(2):
        shutil.rmtree(tmp_path / "rows", ignore_errors=True)
        reproduction.reproduce(["tying", "figure-1"], QUICK, tmp_path / "rows")
        documents.write(["tying", "figure-1"], tmp_path / "rows", tmp_path / "docs", quick=True)
        whole = (tmp_path / "docs" / "reproduction.md").read_text()
        texts.append(whole.split("## Where the rows come from")[0])
        texts.append((tmp_path / "docs" / "reproduction" / "figure-1.svg").read_text())
    assert texts[:2] == texts[2:]
    assert "untied" in texts[0]


def test_what_was_not_run_is_said(tmp_path):
    assert "Not run yet: `adaptkry reproduce angles`" in documents.markdown(
        documents.section("angles", tmp_path, False)
    )


def test_latex_escapes_what_latex_reads():
    assert documents.escaped("50 % & ± a_b #1 {x}") == r"50 \% \& $\pm$ a\_b \#1 \{x\}"


def test_names_in_rows_cannot_break_the_table(tmp_path):
    evil = "</script>|x"
    results.append(tmp_path / "theory.jsonl", [row("theory", value=1, claim=evil, measured="", note="")])
    text = documents.markdown(documents.section("theory", tmp_path, quick=False))
    assert r"</script>\|x" in text


# --- the rules ---


def test_the_rule_for_low_pass_filters_agrees_with_the_papers_own_curves():
    low = [
        name for name in PAPER["learned-filters"]["graphs"]
        if learned_filters.is_low_pass(
            np.polynomial.polynomial.polyval(1 - learned_filters.GRID, PAPER["learned-filters"]["paper"][name]))
    ]  # fmt: skip
    assert low == PAPER["learned-filters"]["ours"]["low_pass"]


def test_a_flat_or_rising_filter_is_not_low_pass():
    assert not learned_filters.is_low_pass(np.ones(101))
    assert not learned_filters.is_low_pass(np.linspace(0, 1, 101))
    assert learned_filters.is_low_pass(np.linspace(1, 0, 101) ** 2)


@pytest.mark.parametrize(
    ("cora", "squirrel", "words"),
    [
        (0.1, 1.0, ["holds"] * 2),
        (5.0, -1.0, ["does not hold"] * 2),
        (0.0, 0.0, ["holds", "does not hold"]),  # flat: no rise
    ],
)
def test_the_two_claims_about_tau_can_hold_and_can_fail(cora, squirrel, words):
    found = {}
    for tau in np.linspace(0.1, 1.0, 10):
        found["cora", f"{tau:g}"] = cells.Cell((row(value=88 + cora * tau),))
        found["squirrel", f"{tau:g}"] = cells.Cell((row(value=50 + squirrel * tau),))
    said = tau_sensitivity.claims(found, PAPER["tau-sensitivity"])
    assert [text.rpartition(": ")[2] for text in said] == [f"{word}." for word in words]


def test_printed_values_are_those_of_the_paper():
    """Every number we say the paper prints stands in its source."""
    if not PAPER_TEXT.exists():
        pytest.skip("the paper's source is not beside this checkout")
    text = PAPER_TEXT.read_text(encoding="utf-8")
    merged = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)  # 5,429 is a number, (2,110.52) are two
    stands = {float(number) for number in re.findall(r"\d+\.?\d*", text + merged)}
    asked = [
        value for name in PAPER for value in numbers(PAPER[name].get("paper", {}))
        if name != "figure-1"  # fractions in the paper
    ]  # fmt: skip
    assert len(asked) > 300
    assert [value for value in asked if abs(value) not in stands] == []


def numbers(value):
    """All numbers inside nested tables and lists."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [] if isinstance(value, str) else [float(value)]


# --- running ---


@pytest.mark.parametrize("name", [name for name in reproduction.ITEMS if name != "table-2"])
@pytest.mark.usefixtures("_no_data")
def test_every_item_runs_on_built_in_graphs(name, tmp_path):
    outcome = reproduction.reproduce([name], QUICK, tmp_path)[name]
    assert outcome.rows > 0
    assert (outcome.failed, outcome.missing) == ([], {})
    shown = documents.section(name, tmp_path, quick=True)
    assert documents.markdown(shown).count("|") > 10
    assert "tabular" in documents.latex(shown)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_data")
def test_everything_at_once_on_built_in_graphs_by_the_command(tmp_path, command):
    words = ["reproduce", "all", "--quick", "--device", "cpu", "--json"]
    words += ["--out", tmp_path / "rows", "--docs", tmp_path / "docs"]
    said = json.loads(command(*words, code=3).out)  # 3: the real graphs are not at hand
    assert said["failed"] == []
    assert set(said["rows"]) == set(reproduction.ITEMS)
    assert Path(said["report"]).stat().st_size < 5e6


@pytest.mark.usefixtures("_no_data")
def test_missing_data_is_told_and_the_rest_goes_on(tmp_path, monkeypatch):
    how = RunOptions(device="cpu", splits=1)
    monkeypatch.setitem(PAPER["theory"]["ours"], "graphs", ["penn94", "csbm"])
    monkeypatch.setattr("adaptkry.graphs.load.load", offline)
    outcome = reproduction.reproduce(["theory"], how, tmp_path)["theory"]
    assert list(outcome.missing) == ["penn94"]
    assert outcome.rows > 0


def offline(name, **_options):
    from adaptkry.graphs.synthetic import csbm

    if name == "csbm":
        return csbm(nodes=100)
    raise FileNotFoundError(f"{name}: its files are not on this machine")


@pytest.mark.usefixtures("_no_data")
def test_resume_leaves_out_what_this_commit_has(tmp_path):
    first = reproduction.reproduce(["tying"], QUICK, tmp_path)["tying"].rows
    assert first > 0
    assert reproduction.reproduce(["tying"], QUICK, tmp_path, resume=True)["tying"].rows == 0
    assert reproduction.reproduce(["tying"], QUICK, tmp_path, only=["tied"])["tying"].rows == first // 2
    with pytest.raises(ValueError, match="untied"):
        reproduction.reproduce(["tying"], QUICK, tmp_path, only=["untid"])


def test_an_unknown_item_is_answered_with_the_nearest_names(command):
    assert "Did you mean 'table-2'" in command("reproduce", "tabel-2", code=2).err


# --- real graphs ---


def need(*names):
    for name in names:
        if not reproduction.at_hand(name, None):
            pytest.skip(f"{name} is not on this machine: set ADAPTKRY_DATA")


@pytest.mark.data
def test_sixty_of_sixty_angles_hold(tmp_path):
    need("cora", "squirrel")
    reproduction.reproduce(["angles"], RunOptions(device="cpu"), tmp_path)
    assert "60 of 60 printed values hold" in documents.markdown(documents.section("angles", tmp_path, quick=False))


@pytest.mark.data
def test_dropping_self_loops_is_seen_by_the_angles():
    """The oracle can fail: without Squirrel's 140 self-loops the first angle is off by 0.3 degrees."""
    graph = benchmark_graph("squirrel").undirected().without_self_loops()
    first = angles.measured(graph, 0.5)[0]["value"]
    assert abs(first - PAPER["angles"]["paper"]["squirrel, tau 0.5"][0]) > 0.1


@pytest.mark.data
def test_table_1_differs_only_where_reasons_are_given(tmp_path):
    need(*PAPER["table-1"]["graphs"])
    reproduction.reproduce(["table-1"], RunOptions(device="cpu"), tmp_path)
    text = documents.markdown(documents.section("table-1", tmp_path, quick=False))
    assert "no reason is known" not in text


@pytest.mark.slow
@pytest.mark.data
def test_a_quick_table_2_runs_every_cell(tmp_path):
    need(*PAPER["table-2"]["graphs"])
    outcome = reproduction.reproduce(["table-2"], QUICK, tmp_path)["table-2"]
    found = cells.newest(cells.read(tmp_path / "table-2.jsonl", "table-2")[0], quick=True)
    assert (outcome.failed, outcome.missing, outcome.replaced) == ([], {}, set())
    assert set(found) == {(m, g) for m in PAPER["table-2"]["paper"] for g in PAPER["table-2"]["graphs"]}
    assert all(len(cell.numbers) == 2 for cell in found.values())


def test_of_several_forms_the_one_best_on_validation_is_shown():
    plain, kept, last = (cells.Cell((row(test=t, validation=v),)) for t, v in ((0.9, 0.5), (0.1, 0.6), (0.2, 0.55)))
    forms = {"": plain, ", kept norms": kept, ", no term dropped": last}
    shown, best = orthogonality.chosen({(f"cora orthkry{form}", "K = 2"): cell for form, cell in forms.items()})
    assert shown["cora orthkry", "K = 2"] == kept  # although it is worst on test nodes
    assert best == {"kept norms": 1}
    assert orthogonality.chosen({("cora orthkry", "K = 2"): plain})[1] == {"": 1}


ROWS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", reproduction.ITEMS)
def test_a_section_is_written_whatever_cell_has_no_rows(name):
    found = cells.newest(cells.read(ROWS / f"{name}.jsonl", name)[0], quick=False)
    assert found
    step = max(1, len(found) // 6)
    for key in list(found)[::step]:
        rest = {other: cell for other, cell in found.items() if other != key}
        assert reproduction.ITEMS[name].section(rest, reproduction.PAPER[name], reproduction.PAPER["phrases"])["tables"]


@pytest.mark.usefixtures("_no_data")
def test_damaged_lines_are_named_on_the_terminal_and_the_rest_is_shown(tmp_path, command):
    place = ["--out", tmp_path / "rows", "--docs", tmp_path / "docs", "--quick"]
    command("reproduce", "hyper-parameters", *place)
    path = tmp_path / "rows" / "hyper-parameters.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(['{"broken', lines[1], lines[2].replace('"value"', '"valu"'), *lines[3:]]) + "\n")
    said = command("reproduce", "hyper-parameters", "--render", *place).err
    assert "skipped: hyper-parameters.jsonl, line 1: not JSON" in said
    assert "skipped: hyper-parameters.jsonl, line 3: neither 'value' nor 'test' nor 'text'" in said
    assert "2 lines of the results were skipped" in (tmp_path / "docs" / "reproduction.md").read_text()


@pytest.mark.usefixtures("_no_data")
@pytest.mark.parametrize("name", ["angles", "hyper-parameters"])
def test_resume_knows_jobs_whose_rows_name_other_cells(tmp_path, name):
    assert reproduction.reproduce([name], QUICK, tmp_path)[name].rows > 0
    assert reproduction.reproduce([name], QUICK, tmp_path, resume=True)[name].rows == 0
