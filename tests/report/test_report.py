"""The report page: its data, its safety, and what a browser makes of it."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from adaptkry.graphs import splits
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.report import elements as experiments
from adaptkry.report import html as reports
from adaptkry.report import run_report as facts
from adaptkry.report.elements import cell, series
from adaptkry.spectral.propagation import Propagation
from adaptkry.spectral.spectrum import eigenvalues
from adaptkry.training import fit as fitting

GRAPH = csbm(nodes=150, phi=-0.6, seed=0)
EVIL = "</script><script>alert(1)</script>"
GRAPH.info = replace(GRAPH.info, class_names=(EVIL, "<b>other</b>"))
SPLIT = splits.stratified(GRAPH.y, count=3)


@pytest.fixture(scope="module")
def found():
    run = fitting.fit(GRAPH, recipe("adaptkry", epochs=30, degree=4), SPLIT, device="cpu")
    return facts.facts(run, GRAPH, SPLIT), run


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    reports.write_facts(place, found[0])
    return place


def test_quantiles_of_the_explorer_are_those_of_the_spectrum(found):
    for step in found[0]["explorer"][4::5]:
        exact = eigenvalues(Propagation(GRAPH, step["tau"])).numpy()
        wanted = np.quantile(exact, np.linspace(0, 1, 101))
        assert np.abs(wanted - np.array(step["quantiles"]))[5:-5].max() < 0.06


def test_confusion_counts_every_tested_node_once(found):
    counted, run = found
    assert np.sum(counted["confusion"]) == int(SPLIT.test.sum())
    right = np.trace(counted["confusion"]) / np.sum(counted["confusion"])
    assert right == pytest.approx(np.mean([row["test"] for row in run.rows]), abs=1e-6)


def test_names_cannot_leave_the_data(folder):
    page = reports.page([reports.read_facts(folder)])
    assert EVIL not in page
    assert page.count("</script>") == 2
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])[0]["names"][0] == EVIL


def test_a_page_needs_nothing_from_elsewhere_and_is_small(folder):
    page = reports.page([reports.read_facts(folder)] * 3)
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", page)
    assert len(page) < 5_000_000


def test_a_folder_without_facts_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no facts\.json"):
        reports.write([tmp_path], tmp_path / "page.html")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """An experiment with all that a page can show, evil names among it."""
    marks = [cell("81.2 ± 0.9", 81.2, "holds"), cell("9.50", 9.5, "above"), cell("", None, "below")]
    rows = [["cora", 81.25, marks[0]], ["10", None, marks[2]], [EVIL, 9.5, marks[1]], ["9", 100, None]]
    columns = ["graph", "published", "ours", *(f"a wide column {k}" for k in range(12))]
    lines = [
        series("ours", [0.5, 1.0, 1.5], [3.0, 0.5, 20.0], low=[2.0, -0.1, 10.0], high=[4.0, 0.9, 30.0]),
        series(EVIL, [0.5, 1.0, 1.5], [4.0, None, 25.0], dashed=True),
    ]
    names = [f"method {k}" for k in range(14)]
    methods = [series(s, names, range(14), range(-1, 13), range(1, 15)) for s in ("Cora", "Actor")]
    made = experiments.experiment(
        "Sensitivity <b>now</b>",
        lead="It `<b>holds</b>`, it does.",
        tables=[experiments.table("Every graph", columns, [[*row, *range(12)] for row in rows], EVIL)],
        charts=[
            experiments.chart("Seconds", lines, x="tau", y="seconds", log=True),
            experiments.chart("Methods", methods, x="method", y="test %"),
        ],
        notes=["warning: few nodes", EVIL, "one ` alone"],
        made={"version": "1"},
    )
    place = tmp_path_factory.mktemp("experiment")
    reports.write_facts(place, made)
    return place


def test_a_page_holds_runs_and_experiments_side_by_side(folder, experiment, tmp_path):
    page = reports.write([folder, experiment], tmp_path / "page.html").read_text(encoding="utf-8")
    assert EVIL not in page
    assert page.count("</script>") == 2
    assert len(page) < 5_000_000


def test_missing_keys_of_an_experiment_mean_empty(tmp_path):
    bare = {"kind": "experiment", "charts": [{"series": [{"name": "a", "x": [1], "y": [2]}]}], "tables": [{}]}
    (tmp_path / "facts.json").write_text(json.dumps(bare))
    data = re.search(r'id="data">(.*?)</script>', reports.page([reports.read_facts(tmp_path)]), re.DOTALL)
    assert data is not None
    (shown,) = json.loads(data[1])
    assert shown["notes"] == shown["tables"][0]["rows"] == []
    assert shown["charts"][0]["series"][0]["low"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "neither a run nor an experiment"),
        ('{"kind": "other"}', "neither a run nor an experiment"),
        ('{"kind": "experiment", "charts": [{"series": [{"name": "a"}]}]}', "cannot be read"),
    ],
)
def test_facts_of_no_known_kind_are_refused_in_one_sentence(tmp_path, text, message):
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        reports.write([tmp_path], tmp_path / "page.html")


def test_figures_are_every_chart_as_svg_and_png(folder, experiment, tmp_path):
    drawn = reports.figures([folder, experiment], tmp_path / "new" / "figures")
    assert {path.suffix for path in drawn} == {".svg", ".png"}
    assert [path.stem for path in drawn[::2]] == [
        "01-learned-filter-adaptkry-on-csbm",
        "02-training-loss-adaptkry-on-csbm",
        "03-validation-accuracy-adaptkry-on-csbm",
        "04-weight-of-each-hop-adaptkry-on-csbm",
        "05-angle-between-consecutive-hops-adaptkry-on-csbm",
        "06-seconds",
        "07-methods",
    ]
    assert all(path.stat().st_size > 5000 for path in drawn)


def test_the_mean_of_a_runs_chart_is_that_of_its_trainings(found):
    drawn = experiments.charts_of(found[0])[0]
    response = np.array(found[0]["filter"]["responses"])
    assert drawn["series"][0]["y"][::-1] == pytest.approx(response.mean(0))
    assert drawn["series"][0]["low"][::-1] == pytest.approx(response.min(0))
    assert drawn["behind"]["edges"] == sorted(drawn["behind"]["edges"])


QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """Debian's chromium under its own driver; Selenium is not let look for one on the network."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if missing := [name for name, path in programs.items() if path is None]:
        pytest.skip(f"{' and '.join(missing)} not found (Debian: apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for word in QUIET:
        options.add_argument(word)
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs["chromedriver"]))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, folder, experiment, tmp_path):
    """The page of one run and one experiment, wide; in the end the browser must have had nothing to complain about."""
    browser.set_window_size(1280, 1000)
    browser.get(reports.write([folder, experiment], tmp_path / "report.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []


def press(opened, words: str) -> None:
    """Press the tab with these words."""
    next(one for one in opened.find_elements("css selector", "#tabs button") if words in one.text).click()


def column(opened, heading: str, place: int = 0) -> list[str]:
    """What a column of the first table with that heading says, from top to bottom."""
    tables = opened.find_elements("xpath", f"//table[.//th[contains(., '{heading}')]]")
    return [
        row.find_elements("css selector", "td")[place].text for row in tables[0].find_elements("xpath", ".//tbody/tr")
    ]


def head(opened, heading: str):
    """The button in a table's head."""
    return opened.find_element("xpath", f"//th/button[contains(., '{heading}')]")


@pytest.mark.browser
def test_in_a_browser_the_slider_moves_the_curve(opened):
    def curve() -> str:
        return opened.find_element("css selector", "#explorer path.response").get_attribute("d")

    before, slider = curve(), opened.find_element("css selector", "input[type=range]")
    slider.send_keys("\ue014" * 5)  # the right arrow
    near, shown = curve(), float(opened.find_element("css selector", "output").text)
    assert near != before
    slider.send_keys("\ue010")  # the End key
    assert curve() not in (before, near)
    assert shown < float(opened.find_element("css selector", "output").text) == 1.9


@pytest.mark.browser
def test_in_a_browser_a_pressed_head_sorts_and_empty_cells_stay_last(opened):
    press(opened, "Sensitivity")
    assert column(opened, "published", 1) == ["81.25", "-", "9.5", "100"]
    head(opened, "published").click()
    assert column(opened, "published", 1) == ["9.5", "81.25", "100", "-"]
    head(opened, "published").click()
    assert column(opened, "published", 1) == ["100", "81.25", "9.5", "-"]
    head(opened, "graph").click()
    assert column(opened, "published")[:2] == ["9", "10"]  # numbers by size, not by their first digit
    head(opened, "ours").send_keys("\ue007")  # the Enter key
    assert [text.split()[0] for text in column(opened, "published", 2)[:2]] == ["9.50", "81.2"]
    assert head(opened, "ours").find_element("xpath", "..").get_attribute("aria-sort") == "ascending"


@pytest.mark.browser
def test_in_a_browser_verdicts_are_badges_with_words_and_names_stay_text(opened):
    assert opened.execute_script("return document.querySelectorAll('script').length") == 2
    assert EVIL in column(opened, "F1 %")
    press(opened, "Sensitivity <b>now</b>")
    badges = opened.find_elements("css selector", "td .badge")
    assert {badge.text.split()[-1] for badge in badges} == {"holds", "above", "below"}
    assert len({badge.value_of_css_property("color") for badge in badges}) == 3
    assert opened.find_element("css selector", ".lead").text == "It <b>holds</b>, it does."
    assert [code.text for code in opened.find_elements("css selector", "code")] == ["<b>holds</b>"]
    assert "one ` alone" in [item.text for item in opened.find_elements("css selector", "li")]
    assert EVIL in column(opened, "published")
    assert EVIL in [item.text for item in opened.find_elements("css selector", ".legend li")]
    assert opened.execute_script("return document.querySelectorAll('script, b').length") == 2


@pytest.mark.browser
@pytest.mark.parametrize("tab", ["adaptkry on", "Sensitivity"])
def test_in_a_browser_a_phone_scrolls_a_wide_table_in_its_own_box_only(opened, tab):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        press(opened, tab)
        wide, window = opened.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window == 390
        if tab == "Sensitivity":
            ends = opened.execute_script(
                "const box = document.querySelector('main .scroll'); return [box.scrollWidth, box.clientWidth]"
            )
            assert ends[0] > ends[1]
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
