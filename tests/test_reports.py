"""The report page: its data, its safety, and what a browser makes of it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from adaptkry import facts, fitting, reports, splits
from adaptkry.datasets.synthetic import csbm
from adaptkry.operators import Propagation
from adaptkry.recipes import recipe
from adaptkry.spectrum import eigenvalues

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


QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=4000",
    "--dump-dom",
    "--enable-logging=stderr",
)
# Appended to the page: a person's hands. What was seen is written where the test can read it.
HANDS = """<script>{
const seen = {}, path = () => document.querySelector("#explorer path.response").getAttribute("d");
const before = path(), slider = document.querySelector("input[type=range]");
slider.value = 1.5; slider.dispatchEvent(new Event("input"));
seen.moved = path() !== before; seen.shown = document.querySelector("output").value;
const table = [...document.querySelectorAll("table")].find((t) => t.textContent.includes("F1 %"));
const column = () => [...table.querySelectorAll("tbody tr")].map((row) => row.cells[0].textContent);
seen.first = column(); table.querySelector("th button").click(); seen.up = column();
table.querySelector("th button").click(); seen.down = column();
document.body.setAttribute("data-seen", JSON.stringify(seen));
}</script>"""


@pytest.mark.browser
def test_in_a_browser_the_slider_moves_the_curve_tables_sort_and_names_stay_text(folder, tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    page = tmp_path / "report.html"
    page.write_text(reports.page([reports.read_facts(folder)]).replace("</body>", HANDS + "</body>"), encoding="utf-8")
    words = [chromium, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    kept = re.search(r'data-seen="(.*?)"', done.stdout)
    assert kept is not None, "the page's script did not run to its end"
    seen = json.loads(kept[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">"))
    assert seen["moved"]
    assert seen["shown"] == "1.50"
    assert sorted(seen["first"]) == sorted([EVIL, "<b>other</b>"])
    assert seen["down"] == seen["up"][::-1] == sorted(seen["up"], reverse=True)
