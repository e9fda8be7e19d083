import matplotlib.pyplot as plt
import numpy as np
import pytest

from adaptkry.graphs.synthetic import csbm
from adaptkry.report import charts as plots
from adaptkry.report.elements import chart, series
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.propagation import Propagation


@pytest.mark.parametrize("learned", [True, False])
def test_neighbouring_panels_of_a_picture_stand_apart(tmp_path, monkeypatch, learned):
    close = plt.close
    monkeypatch.setattr(plt, "close", lambda _: None)
    grid = np.linspace(-1, 1, 11)
    path = plots.run_picture(
        tmp_path / "picture.png",
        title="a title",
        grid=grid,
        responses=grid[:, None] * 1234.5 if learned else None,
        density=density_of_states(Propagation(csbm(nodes=50)), moments=50, probes=4),
        curves={"loss": np.ones((5, 2)), "validation": np.ones((5, 2))},
        confusion=np.eye(3),
        names=["a", "rather long", "c"],
    )
    ends = [(box.x0, box.x1) for axes in plt.gcf().axes if (box := axes.get_tightbbox())]
    left, middle, right, behind_left, behind_middle = ends  # a panel's second axes come last
    assert middle[0] - max(left[1], behind_left[1]) > 15
    assert right[0] - max(middle[1], behind_middle[1]) > 15
    close("all")
    assert path.read_bytes().startswith(b"\x89PNG")


LINES = [
    series("ours", range(1, 6), [3.0, None, 5.0, 4.0, 9.0], low=[1.0, None, -2.0, 2.0, 8.0], high=[4, 4, 6, 6, 10]),
    series("_a $price^ 名", [1, 5], [7.0, 7.0], dashed=True),
]
CHARTS = [
    chart("numbers", LINES, x="hop", y="seconds", log=True),
    chart("names", [series("ours", ["a", "b"], [1, 2], [0, 1], [3, 4]), series("none", ["b"], [None])], y="test %"),
    chart("behind", LINES[1:], behind={"name": "density", "edges": [0, 2, 5], "mass": [1, 3]}),
    chart("empty", []),
]


@pytest.mark.parametrize("kind", ["svg", "png"])
@pytest.mark.parametrize("index", range(len(CHARTS)))
def test_the_same_chart_gives_the_same_bytes_and_no_date(tmp_path, kind, index):
    first, second = (plots.chart_picture(tmp_path / f"{n}.{kind}", CHARTS[index]).read_bytes() for n in "ab")
    assert first == second
    assert first.startswith(b"<?xml" if kind == "svg" else b"\x89PNG")
    for word in (b"dc:date", b"Software", b"Matplotlib v"):
        assert word not in first


def test_numbers_of_a_logarithmic_axis_are_plain(tmp_path, monkeypatch):
    monkeypatch.setitem(plots.PRINTED, "svg.fonttype", "none")  # words stay words
    words = plots.chart_picture(tmp_path / "a.svg", CHARTS[0]).read_text()
    assert ">10</text>" in words
    assert "mathdefault" not in words


def test_a_grid_holds_every_chart_under_one_legend(tmp_path):
    grid = plots.grid_picture(tmp_path / "grid.svg", CHARTS, columns=3).read_text()
    assert grid.count('id="axes_') >= len(CHARTS)
    assert grid.count('id="legend_') == 1


def test_a_users_matplotlib_settings_change_nothing_and_are_left_alone(tmp_path):
    plain = plots.chart_picture(tmp_path / "a.svg", CHARTS[0]).read_bytes()
    with plt.rc_context({"font.size": 30, "lines.linewidth": 9}):
        assert plots.chart_picture(tmp_path / "b.svg", CHARTS[0]).read_bytes() == plain
        assert plt.rcParams["font.size"] == 30


@pytest.mark.parametrize(
    ("name", "charts", "message"), [("a.pdf", CHARTS, "got 'a.pdf'"), ("a.svg", [], "got 0 charts")]
)
def test_a_picture_of_another_kind_or_of_nothing_is_refused(tmp_path, name, charts, message):
    with pytest.raises(ValueError, match=message):
        plots.grid_picture(tmp_path / name, charts)
