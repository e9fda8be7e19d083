"""The report page in a browser; run with `make test-browser`."""

import json
import os
import re
import shutil
from pathlib import Path

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
    assert opened.execute_script("return document.querySelectorAll('script').length") == 1
    assert hostile in column(opened, "F1 %")
    click_tab(opened, "Sensitivity <b>now</b>")
    badges = opened.find_elements("css selector", "td .badge")
    assert {badge.text.split()[-1] for badge in badges} == {"holds", "above", "below"}
    assert len({badge.value_of_css_property("color") for badge in badges}) == 3
    leads = [lead.text for lead in opened.find_elements("css selector", ".lead") if lead.is_displayed()]
    assert leads == ["It <b>holds</b>, it does."]
    assert [code.text for code in opened.find_elements("css selector", "code")] == ["<b>holds</b>"]
    assert "one ` alone" in [item.text for item in opened.find_elements("css selector", "li")]
    assert hostile in column(opened, "published")
    assert hostile in [text.text for text in opened.find_elements("css selector", "svg text")]
    assert opened.execute_script("return document.querySelectorAll('script, b').length") == 1


@pytest.mark.browser
def test_in_a_browser_everything_is_reached_by_keyboard_and_points_tell_their_values(opened):
    from selenium.webdriver import ActionChains

    def press(keys: str) -> None:
        ActionChains(opened).send_keys(keys).perform()

    press("\ue004")  # the Tab key: the first tab
    for _ in range(80):
        if opened.switch_to.active_element.tag_name == "summary":
            break
        press("\ue004")
    assert not opened.find_elements("css selector", "details[open]")
    press("\ue007")  # the Enter key
    assert opened.find_elements("css selector", "details[open]")
    kinds = "return [...document.querySelectorAll('article:not([hidden]) .scroll')].every((box) => "
    assert opened.execute_script(kinds + "box.scrollWidth <= box.clientWidth || box.tabIndex === 0)")
    point = opened.find_element("css selector", "article:not([hidden]) path[aria-roledescription=point]")
    ActionChains(opened).move_to_element(point).perform()
    assert opened.find_element("css selector", "#tip").text == point.get_attribute("aria-label")


SIZES = [(width, scheme) for width in (1440, 800, 390) for scheme in ("light", "dark")]
LAYOUT = """
const shown = (node) => node.getClientRects().length > 0;
const right = document.documentElement.clientWidth, problems = [];
if (document.documentElement.scrollWidth > right) problems.push('the page scrolls sideways');
for (const node of document.querySelectorAll('h1, h2, h3, h4, p, summary, figure, nav button')) {
  const box = node.getBoundingClientRect();
  if (shown(node) && (box.right > right + 1 || box.left < 0)) problems.push(`${node.tagName} leaves the page`);
}
for (const svg of document.querySelectorAll('svg')) {
  if (!shown(svg)) continue;
  const box = svg.getBoundingClientRect(), outer = svg.getAttribute('viewBox').split(' ');
  if (box.width < 100 || box.height < 50) problems.push('a chart is too small');
  if (!svg.querySelector('path[d], rect')) problems.push('a chart is empty');
  if (Math.abs(box.width / box.height - outer[2] / outer[3]) > 0.02) problems.push('a chart is stretched');
  if (svg.closest('.lines') && box.right > right) problems.push('a chart is cut off');
  for (const text of svg.querySelectorAll('text')) {
    const part = text.getBoundingClientRect();
    const isCut = part.width && (part.left < box.left - 2 || part.right > box.right + 2);
    if (isCut) problems.push(`cut text: ${text.textContent}`);
  }
}
for (const table of document.querySelectorAll('table')) {
  const isWide = table.getBoundingClientRect().right > table.parentNode.getBoundingClientRect().right + 1;
  if (shown(table) && isWide && getComputedStyle(table.parentNode).overflowX !== 'auto') problems.push('a cut table');
}
return problems;
"""


@pytest.fixture(scope="module")
def pages(run_folder, experiment_folder, difficult_folders, tmp_path_factory):
    """Pages about every kind of run."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: write_page([path], folder / f"{name}.html") for name, path in difficult_folders.items()}
    return found | {"several": write_page([run_folder, experiment_folder, run_folder], folder / "several.html")}


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_in_a_browser_nothing_is_cut_off_at_any_width_and_in_both_modes(browser, pages, width, scheme):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        for name, path in pages.items():
            assert path.stat().st_size < 3_000_000
            browser.get(path.as_uri())
            browser.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert browser.execute_script(LAYOUT) == [], name
            assert browser.get_log("browser") == [], name
            requests = "return performance.getEntriesByType('resource').length"
            assert browser.execute_script(requests) == 0, name
            assert is_dark(browser) == (scheme == "dark"), name
            assert has_contrast(browser), name
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.browser
def test_in_a_browser_a_phone_shows_tables_of_classes_and_nodes_and_a_small_matrix_whole(browser, pages):
    metrics = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        for name in ("an untested class", "no filter", "regression"):
            browser.get(pages[name].as_uri())
            cut = "return [...document.querySelectorAll('section .scroll')].filter((box) => box.scrollWidth > "
            cut += "box.clientWidth + 1).map((box) => box.getAttribute('aria-label'))"
            assert browser.execute_script(cut) == [], name
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.browser
def test_in_a_browser_a_page_opens_in_less_than_a_second(browser, pages):
    for name, path in pages.items():
        times = []
        for _ in range(3):  # the fastest: the machine may be busy
            browser.get(path.as_uri())
            entry = "const [entry] = performance.getEntriesByType('navigation'); return entry.loadEventEnd"
            times.append(browser.execute_script(entry))
        assert min(times) < 1000, name


@pytest.mark.browser
def test_in_a_browser_a_printed_page_is_light_and_shows_everything(browser, pages):
    browser.get(pages["several"].as_uri())
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
        found = (
            "return [...document.querySelectorAll('article, details > *')].map((one) => one.getClientRects().length)"
        )
        assert min(browser.execute_script(found)) > 0
        assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def is_dark(browser) -> bool:
    """Whether the screenshot is dark on average; it must be neither in between nor of one colour."""
    pixels = browser.execute_async_script(PIXELS, "data:image/png;base64," + browser.get_screenshot_as_base64())
    brightness = sum(pixels) / len(pixels)
    assert brightness < 80 or brightness > 200
    assert max(pixels) - min(pixels) > 100
    return brightness < 80


PIXELS = """
const [source, done] = arguments, image = new Image();
image.onload = () => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, image.width, image.height).data, found = [];
  for (let i = 0; i < data.length; i += 44) found.push(Math.round((data[i] + data[i + 1] + data[i + 2]) / 3));
  done(found);
};
image.src = source;
"""


def has_contrast(browser) -> bool:
    """Whether the text of charts differs enough from the page in brightness."""
    colours = "return [...document.querySelectorAll('svg text')].map((one) => getComputedStyle(one).fill)"
    page = "return getComputedStyle(document.body).backgroundColor"

    def brightness(colour: str) -> float:
        return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3

    background = brightness(browser.execute_script(page))
    texts = {colour for colour in browser.execute_script(colours) if colour != "rgb(255, 255, 255)"}
    return all(abs(brightness(colour) - background) > 80 for colour in texts)


SCREENSHOTS = Path(__file__).with_name("screenshots.json")  # ADAPTKRY_SCREENSHOTS=write makes it anew: look at it first
SCALE = 24  # pixels of the page per stored one, in both directions
THUMBNAIL = """
const [source, scale, done] = arguments, image = new Image();
image.onload = () => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [Math.floor(image.width / scale), Math.floor(image.height / scale)];
  const context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data, rows = [];
  for (let y = 0; y < canvas.height; y++) {
    let row = '';
    for (let x = 0; x < canvas.width; x++) {
      const i = 4 * (y * canvas.width + x), grey = Math.round((data[i] + data[i + 1] + data[i + 2]) / 3);
      row += grey.toString(16).padStart(2, '0');
    }
    rows.push(row);
  }
  done(rows);
};
image.src = source;
"""


def thumbnail(browser) -> list[str]:
    """A small grey copy of the screenshot: a text per row, two hexadecimal digits per pixel."""
    source = "data:image/png;base64," + browser.get_screenshot_as_base64()
    return browser.execute_async_script(THUMBNAIL, source, SCALE)


def difference(one: list[str], other: list[str]) -> float:
    """The mean difference of brightness, from 0 to 255; the largest if the sizes differ."""
    if [len(row) for row in one] != [len(row) for row in other]:
        return 255.0
    pairs = zip(bytes.fromhex("".join(one)), bytes.fromhex("".join(other)), strict=True)
    differences = [abs(a - b) for a, b in pairs]
    return sum(differences) / len(differences)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_in_a_browser_a_page_looks_as_it_did(browser, experiment_folder, tmp_path, width, scheme):
    metrics = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        browser.get(write_page([experiment_folder], tmp_path / "report.html").as_uri())
        found, name = thumbnail(browser), f"{width} {scheme}"
        if os.environ.get("ADAPTKRY_SCREENSHOTS") == "write":
            stored = json.loads(SCREENSHOTS.read_text()) if SCREENSHOTS.exists() else {}
            SCREENSHOTS.write_text(json.dumps(stored | {name: found}, indent=1) + "\n")
        expected = json.loads(SCREENSHOTS.read_text())[name]
        assert difference(found, expected) < 0.5
        browser.execute_script("for (const svg of document.querySelectorAll('svg')) svg.style.visibility = 'hidden'")
        assert difference(thumbnail(browser), expected) > 0.5  # a page without charts is noticed
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
