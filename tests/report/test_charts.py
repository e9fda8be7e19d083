"""Charts: one Vega-Lite specification gives the page, SVG files and PNG files."""

import builtins
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from adaptkry.report import charts
from adaptkry.report.charts import specification, write_chart, write_charts
from adaptkry.report.elements import chart, finite, matrix, series
from adaptkry.report.page_html import chart_html

LINES = [
    series("ours", range(1, 6), [3.0, None, 5.0, 4.0, 9.0], low=[1.0, None, -2.0, 2.0, 8.0], high=[4, 4, 6, 6, 10]),
    series("_a $price^ 名", [1, 5], [7.0, 7.0], dashed=True),
]
CHARTS = [
    chart("numbers", LINES, x="hop", y="seconds", log=True),
    chart("names", [series("ours", ["a", "b"], [1, 2], [0, 1], [3, 4]), series("none", ["b"], [None])], y="test %"),
    chart("behind", LINES[1:], behind={"name": "density", "edges": [0, 2, 5], "mass": [1, 3]}),
    chart("marks", LINES[:1], marks=[{"name": "trained tau 3", "x": 3}], log_x=True),
    chart("empty", []),
    chart("no lines", [], behind={"name": "density", "edges": [0, 2, 5], "mass": [1, 3]}),
    matrix("matrix", ["a", "_b $名"], [[3, 1], [0, 0]], x="predicted", y="true"),
    matrix("one class", ["a"], [[3]]),
]


def texts(drawn: str) -> list[str]:
    """The texts of an SVG element, which must be XML."""
    return [found.text or "" for found in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(autouse=True)
def _parts_follow_the_schema_of_vega_lite(monkeypatch):
    monkeypatch.setattr(charts, "IS_VALIDATED", True)


@pytest.mark.parametrize("index", range(len(CHARTS)))
def test_page_svg_and_png_show_one_drawing_and_the_same_chart_gives_the_same_bytes(tmp_path, index):
    for kind in ("svg", "png"):
        first, second = (write_chart(tmp_path / f"{n}.{kind}", CHARTS[index]).read_bytes() for n in "ab")
        assert first == second
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert drawn in chart_html(CHARTS[index])
    assert CHARTS[index]["title"] in texts(drawn)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_drawing_has_the_axes_the_legend_and_the_values_of_the_chart():
    drawn = charts.svg(CHARTS[0])
    assert {"hop", "seconds", "ours", "_a $price^ 名", "1", "10"} <= set(texts(drawn))
    assert 'aria-label="ours, hop 3: 5 (-2 .. 6)"' in drawn
    assert drawn.count('aria-roledescription="point"') == 6  # seven values, one of which is missing
    assert "trained tau 3" in texts(charts.svg(CHARTS[3]))
    assert "density" in texts(charts.svg(CHARTS[5]))
    assert "nothing was measured" in texts(charts.svg(CHARTS[5]))


def test_cells_of_a_matrix_are_as_dark_as_their_share_of_the_row_and_large_matrices_have_no_numbers():
    cells = {
        label: (colour, float(opacity))
        for label, colour, opacity in re.findall(
            r'<path aria-label="([^"]*)"[^>]*? fill="([^"]*)" fill-opacity="([^"]*)"', charts.svg(CHARTS[6])
        )
    }
    assert cells["true a, predicted a: 3"] == (charts.RIGHT, pytest.approx(0.1 + 0.9 * 0.75))
    assert cells["true a, predicted _b $名: 1"] == (charts.WRONG, pytest.approx(0.1 + 0.9 * 0.25))
    assert cells["true _b $名, predicted a: 0"][1] == 0
    large = matrix("70", [f"class {i}" for i in range(70)], [[999 * (i == j) for i in range(70)] for j in range(70)])
    drawn = charts.svg(large)
    assert "999" not in texts(drawn)
    assert texts(drawn).count("class 69") == 2
    assert len(drawn) < 300_000


def test_intervals_below_zero_are_cut_off_on_a_logarithmic_axis():
    drawn = charts.svg(CHARTS[0])
    assert 'class="mark-area' in drawn
    assert "NaN" not in drawn
    assert "Infinity" not in drawn
    lowest = specification([CHARTS[0]])["layer"][0]["encoding"]["y"]["scale"]["domain"][0]
    assert 0 < lowest < 1


def test_points_that_are_not_finite_are_left_out():
    points = series("a", [float("nan"), 1.0, float("inf"), 2.0], [1.0, float("inf"), 2.0, 3.0])
    drawn = charts.svg(finite(chart("t", [points])))
    assert drawn.count('aria-roledescription="point"') == 1
    assert "nothing was measured" in texts(charts.svg(finite(chart("t", [series("a", [float("nan")], [1.0])]))))


def test_the_scale_of_lines_fits_the_values_also_with_intervals():
    lines = series("a", [10, 20], [0.0932, 0.0931], [0.0911, 0.0911], [0.0947, 0.0943])
    labels = [float(text) for text in texts(charts.svg(chart("t", [lines]))) if re.fullmatch(r"0\.\d+", text)]
    assert min(labels) > 0.09


def test_a_grid_has_every_chart_and_one_legend(tmp_path):
    drawn = write_charts(tmp_path / "grid.svg", CHARTS, columns=3, title="a title").read_text(encoding="utf-8")
    assert {"a title", *(one["title"] for one in CHARTS)} <= set(texts(drawn))
    assert drawn.count('class="mark-group role-legend"') == 1
    assert texts(drawn).count("ours") == 1


def test_neighbouring_charts_of_a_figure_do_not_overlap(tmp_path):
    density = {"name": "density", "edges": [0, 1, 2], "mass": [1, 3]}
    panels = [
        chart("filter", [], y="response", behind=density),
        chart("a large scale", [series("ours", [1, 2], [1234.5, -9876.5])], y="loss"),
        matrix("confusion", ["a", "rather long", "c"], [[1, 0, 0]] * 3, x="predicted class", y="true class"),
    ]
    drawn = write_charts(tmp_path / "a.svg", panels, 3).read_text(encoding="utf-8")
    starts = [
        float(x)
        for x in re.findall(
            r'class="mark-group role-scope concat_\d_group"[^>]*><g transform="translate\(([\d.]+),', drawn
        )
    ]
    assert len(starts) == 3
    assert all(right - left > charts.PANEL_SIZE[0] for left, right in pairwise(starts))


def test_data_are_rounded_because_last_digits_depend_on_the_processor():
    one, other = (specification([chart("t", [series("a", [0, 1], [1 / 3, v])])]) for v in (0.1 + 0.2, 0.3))
    assert one == other


@pytest.mark.parametrize(
    "name", ["$x_1^2$", "<b>&'\"-->", "a\nb\x00\x1f", "\ud800", "\u202eright to left", "", "a" * 300]
)
def test_every_name_can_be_drawn(tmp_path, name):
    shown = [
        chart(name, [series(name, [name, "b"], [1, 2])], x=name, y=name),
        chart(name, [series(name, [0, 1], [1, 2])], marks=[{"name": name, "x": 0}], x=name, y=name),
        matrix(name, [name, name], [[1, 2], [3, 4]], x=name, y=name),
    ]
    for one in shown:
        assert texts(charts.svg(one))
    assert write_charts(tmp_path / "a.png", shown, title=name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "shown", "message"), [("a.pdf", CHARTS, "got 'a.pdf'"), ("a.svg", [], "got 0 charts")]
)
def test_another_file_format_or_no_chart_is_refused(tmp_path, name, shown, message):
    with pytest.raises(ValueError, match=message):
        write_charts(tmp_path / name, shown)


def test_without_the_charting_libraries_a_sentence_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name in ("altair", "vl_convert"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install altair vl-convert-python"):
        charts.svg(CHARTS[0])
