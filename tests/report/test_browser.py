"""The report page in a browser; run with `make test-browser`."""

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
    """The page of one run and one experiment in a wide window; afterwards the browser's log must be empty."""
    browser.set_window_size(1280, 1000)
    browser.get(write_page([run_folder, experiment_folder], tmp_path / "report.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []


def click_tab(opened, title: str) -> None:
    """Click the tab of a run or experiment."""
    next(tab for tab in opened.find_elements("css selector", "#tabs button") if title in tab.text).click()


def column(opened, heading: str, index: int = 0) -> list[str]:
    """The text of a column, from top to bottom, of the first table that has this heading."""
    tables = opened.find_elements("xpath", f"//table[.//th[contains(., '{heading}')]]")
    return [
        row.find_elements("css selector", "td")[index].text for row in tables[0].find_elements("xpath", ".//tbody/tr")
    ]


def heading_button(opened, heading: str):
    """The button in the heading of a column."""
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
def test_in_a_browser_the_interval_of_a_number_is_found_even_beyond_the_last_one(opened):
    found = opened.execute_script("return [-0.1, 0, 1, 1.5, 2.1].map((v) => intervalOf([0, 1, 2], v))")
    assert found == [1, 1, 1, 2, 2]


@pytest.mark.browser
def test_in_a_browser_clicking_a_heading_sorts_and_empty_cells_stay_last(opened):
    click_tab(opened, "Sensitivity")
    assert column(opened, "published", 1) == ["81.25", "-", "9.5", "100"]
    heading_button(opened, "published").click()
    assert column(opened, "published", 1) == ["9.5", "81.25", "100", "-"]
    heading_button(opened, "published").click()
    assert column(opened, "published", 1) == ["100", "81.25", "9.5", "-"]
    heading_button(opened, "graph").click()
    assert column(opened, "published")[:2] == ["9", "10"]  # numbers by size, not by their first digit
    heading_button(opened, "ours").send_keys("\ue007")  # the Enter key
    assert [text.split()[0] for text in column(opened, "published", 2)[:2]] == ["9.50", "81.2"]
    assert heading_button(opened, "ours").find_element("xpath", "..").get_attribute("aria-sort") == "ascending"


@pytest.mark.browser
def test_in_a_browser_verdicts_are_badges_with_words_and_names_stay_text(opened, hostile):
    assert opened.execute_script("return document.querySelectorAll('script').length") == 2
    assert hostile in column(opened, "F1 %")
    click_tab(opened, "Sensitivity <b>now</b>")
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
def test_in_a_browser_on_a_phone_only_a_wide_table_scrolls_sideways(opened, tab):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        click_tab(opened, tab)
        page, window = opened.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert page <= window == 390
        if tab == "Sensitivity":
            content, visible = opened.execute_script(
                "const box = document.querySelector('main .scroll'); return [box.scrollWidth, box.clientWidth]"
            )
            assert content > visible
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
