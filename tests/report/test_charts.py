from itertools import pairwise

import matplotlib.pyplot as plt
import pytest

from adaptkry.report import charts
from adaptkry.report.charts import write_chart, write_charts
from adaptkry.report.elements import chart, matrix, series

LINES = [
    series("ours", range(1, 6), [3.0, None, 5.0, 4.0, 9.0], low=[1.0, None, -2.0, 2.0, 8.0], high=[4, 4, 6, 6, 10]),
    series("_a $price^ 名", [1, 5], [7.0, 7.0], dashed=True),
]
CHARTS = [
    chart("numbers", LINES, x="hop", y="seconds", log=True),
    chart("names", [series("ours", ["a", "b"], [1, 2], [0, 1], [3, 4]), series("none", ["b"], [None])], y="test %"),
    chart("behind", LINES[1:], behind={"name": "density", "edges": [0, 2, 5], "mass": [1, 3]}),
    chart("empty", []),
    matrix("matrix", ["a", "_b $名"], [[3, 1], [0, 0]], x="predicted", y="true"),
]


@pytest.mark.parametrize("lines", [LINES, []], ids=["curve", "no curve"])
def test_neighbouring_charts_of_a_figure_do_not_overlap(tmp_path, monkeypatch, lines):
    density = {"name": "density", "edges": [0, 1, 2], "mass": [1, 3]}
    panels = [
        chart("filter", lines, y="response", behind=density),
        chart("a large scale", [series("ours", [1, 2], [1234.5, -9876.5])], y="loss"),
        matrix("confusion", ["a", "rather long", "c"], [[1, 0, 0]] * 3, x="predicted class", y="true class"),
    ]
    figures, draw = [], charts.draw_figure
    monkeypatch.setattr(charts, "draw_figure", lambda *args: figures.append(draw(*args)) or figures[0])
    path = write_charts(tmp_path / "a.png", panels, 3, title="a title", panel=(10, 7.5), dpi=72)
    assert path.read_bytes().startswith(b"\x89PNG")
    (figure,) = figures
    boxes = [axes.get_tightbbox() for axes in figure.axes[:3]]  # the axes of the histogram follow, without labels
    gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
    assert min(gaps) > 1
    assert figure.get_suptitle() == "a title"


@pytest.mark.parametrize("kind", ["svg", "png"])
@pytest.mark.parametrize("index", range(len(CHARTS)))
def test_the_same_chart_gives_the_same_bytes_and_no_date(tmp_path, kind, index):
    first, second = (write_chart(tmp_path / f"{n}.{kind}", CHARTS[index]).read_bytes() for n in "ab")
    assert first == second
    assert first.startswith(b"<?xml" if kind == "svg" else b"\x89PNG")
    for word in (b"dc:date", b"Software", b"Matplotlib v"):
        assert word not in first


def test_numbers_of_a_logarithmic_axis_are_plain(tmp_path, monkeypatch):
    monkeypatch.setitem(charts.STYLE, "svg.fonttype", "none")  # text stays text
    text = write_chart(tmp_path / "a.svg", CHARTS[0]).read_text()
    assert ">10</text>" in text
    assert "mathdefault" not in text


def test_a_grid_has_every_chart_and_one_legend(tmp_path):
    grid = write_charts(tmp_path / "grid.svg", CHARTS, columns=3).read_text()
    assert grid.count('id="axes_') >= len(CHARTS)
    assert grid.count('id="legend_') == 1


def test_matplotlib_settings_of_the_user_are_ignored_and_kept(tmp_path):
    plain = write_chart(tmp_path / "a.svg", CHARTS[0]).read_bytes()
    with plt.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert write_chart(tmp_path / "b.svg", CHARTS[0]).read_bytes() == plain
        assert plt.rcParams["font.size"] == 30


@pytest.mark.parametrize(
    ("name", "shown", "message"), [("a.pdf", CHARTS, "got 'a.pdf'"), ("a.svg", [], "got 0 charts")]
)
def test_another_file_format_or_no_chart_is_refused(tmp_path, name, shown, message):
    with pytest.raises(ValueError, match=message):
        write_charts(tmp_path / name, shown)
