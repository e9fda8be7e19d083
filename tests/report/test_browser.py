"""What a browser makes of the report page; run with `make test-browser`."""

import shutil

import pytest

from adaptkry.report.html import write_page

CHROMIUM_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """Debian's chromium and chromedriver; Selenium would look for them on the network."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if missing := [name for name, path in programs.items() if path is None]:
        pytest.skip(f"{' and '.join(missing)} not found (Debian: apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for option in CHROMIUM_OPTIONS:
        options.add_argument(option)
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs["chromedriver"]))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, run_folder, experiment_folder, tmp_path):
    """The page of one run and one experiment, wide; in the end the browser must have had nothing to complain about."""
    browser.set_window_size(1280, 1000)
    browser.get(write_page([run_folder, experiment_folder], tmp_path / "report.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []


def press(opened, title: str) -> None:
    """Press the tab of a run or experiment."""
    next(one for one in opened.find_elements("css selector", "#tabs button") if title in one.text).click()


def column(opened, heading: str, place: int = 0) -> list[str]:
    """The text of a column of the first table with that heading, from top to bottom."""
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
def test_in_a_browser_verdicts_are_badges_with_words_and_names_stay_text(opened, hostile):
    assert opened.execute_script("return document.querySelectorAll('script').length") == 2
    assert hostile in column(opened, "F1 %")
    press(opened, "Sensitivity <b>now</b>")
    badges = opened.find_elements("css selector", "td .badge")
    assert {badge.text.split()[-1] for badge in badges} == {"holds", "above", "below"}
    assert len({badge.value_of_css_property("color") for badge in badges}) == 3
    assert opened.find_element("css selector", ".lead").text == "It <b>holds</b>, it does."
    assert [code.text for code in opened.find_elements("css selector", "code")] == ["<b>holds</b>"]
    assert "one ` alone" in [item.text for item in opened.find_elements("css selector", "li")]
    assert hostile in column(opened, "published")
    assert hostile in [item.text for item in opened.find_elements("css selector", ".legend li")]
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
