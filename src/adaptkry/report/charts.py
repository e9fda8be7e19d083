"""Arrays in, picture out. Matplotlib draws the still pictures; nothing else speaks to it."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common.files import replacing

BLUE, GREY, ORANGE = "#1f6feb", "#8b949e", "#d1701f"


def run_picture(
    path: Path, *, title: str, grid, responses, density, curves: dict[str, np.ndarray], confusion: np.ndarray, names
) -> Path:
    """What a fit learned, in one PNG: filter over density of states, learning curves, confusion matrix.

    Args:
        path: where the picture goes.
        title: its heading.
        grid: eigenvalues [m] at which the filter was read.
        responses: learned responses, one column a member: [m, b]; None without a learned filter.
        density: a `Density` of the operator's spectrum, or None.
        curves: loss and validation score, [epochs, b] each.
        confusion: counts [c, c], true class down, predicted class across.
        names: class names.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    apart = ConstrainedLayoutEngine(wspace=0.06, w_pad=0.08)  # so that labels of neighbours do not touch
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.4), layout=apart)
    figure.suptitle(title)
    draw_filter(left, grid, responses, density)
    draw_curves(middle, curves)
    draw_confusion(right, confusion, names)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=110)
    plt.close(figure)
    return path


def draw_filter(axes, grid, responses, density) -> None:
    """The learned response of every member, and behind it where the eigenvalues are."""
    axes.set_title("learned filter over the spectrum")
    axes.set_xlabel("frequency 1 - λ   (0 smooth, 2 rough)")
    shown = []
    if density is not None:
        behind = axes.twinx()
        width = np.diff(density.edges)
        bars = behind.bar(
            1 - density.centres, density.density, width, color=GREY, alpha=0.35, label="density of states"
        )
        behind.set_yticks([])  # in the legend it needs no axis: only its shape matters
        axes.set_zorder(behind.get_zorder() + 1)
        axes.patch.set_visible(False)
        shown.append(bars)
    if responses is None:
        axes.text(0.5, 0.5, "no learned filter", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
    else:
        axes.plot(1 - grid, responses, color=BLUE, alpha=0.3, linewidth=1)
        shown += axes.plot(1 - grid, responses.mean(1), color=BLUE, linewidth=2.5, label="g(λ), mean of trainings")
        axes.axhline(0, color="black", linewidth=0.5)
        axes.set_ylabel("response g(λ)", color=BLUE)
    axes.legend(handles=shown, loc="best")


def draw_curves(axes, curves: dict[str, np.ndarray]) -> None:
    """Validation score and training loss of every member by epoch."""
    axes.set_title("learning curves")
    axes.set_xlabel("epoch")
    axes.plot(100 * curves["validation"], color=BLUE, alpha=0.4, linewidth=1)
    axes.set_ylabel("validation score (%)", color=BLUE)
    other = axes.twinx()
    other.plot(curves["loss"], color=ORANGE, alpha=0.4, linewidth=1)
    other.set_ylabel("training loss", color=ORANGE)


def draw_confusion(axes, confusion: np.ndarray, names) -> None:
    """Share of each true class that was called what; counts written in."""
    axes.set_title("confusion on test nodes")
    share = confusion / np.maximum(confusion.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if len(names) <= 15:
        short = [str(name)[:12] for name in names]
        turned = {"rotation": 45, "ha": "right"} if max(map(len, short)) > 3 else {}
        axes.set_xticks(range(len(names)), short, **turned)
        axes.set_yticks(range(len(names)), short)
        for (i, j), value in np.ndenumerate(confusion):
            dark = "white" if share[i, j] > 0.5 else "black"
            axes.text(j, i, f"{value:.0f}", ha="center", va="center", color=dark, fontsize=8)


# Okabe and Ito's colours, told apart by eyes of all kinds; the lighter ones darkened to be readable on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5568c", "#3a9bd6", "#b07d00", "#57606a")
MARKERS = "os^Dv<>"
CENTIMETRE = 1 / 2.54  # in inches, which matplotlib counts in
PRINTED = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#d0d7de",
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "text.parse_math": False,  # a dollar in a user's name is a dollar
    "svg.hashsalt": "adaptkry",  # names inside an SVG are drawn from it, so that the same data give the same bytes
}


def chart_picture(path: Path, chart: dict) -> Path:
    """One chart of an experiment (see `experiments.chart`) as PNG or SVG by the path's suffix, 12 cm wide.

    The same data give the same bytes: no date, no version, no chance.
    """
    return grid_picture(path, [chart], columns=1)


def grid_picture(path: Path, charts: Sequence[dict], columns: int = 3) -> Path:
    """Several charts in one picture under one legend; series of one name have one colour.

    Args:
        path: where the picture goes; ends in .png or .svg.
        charts: what `experiments.chart` made.
        columns: charts side by side.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        raise ValueError(f"a picture's name must end in .png or .svg; got {path.name!r}.")
    if not charts or columns < 1:
        raise ValueError(f"a picture needs a chart and a column; got {len(charts)} charts, {columns} columns.")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(columns, len(charts))
    rows = math.ceil(len(charts) / columns)
    width = 12 if columns == 1 else max(12, 6 * columns)
    height = 7.5 if columns == 1 else 4.6
    names = list(dict.fromkeys(line["name"] for chart in charts for line in chart["series"]))
    looks = {name: look(i) for i, name in enumerate(names)}
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # a user's matplotlibrc does not change the picture
        mpl.rcParams.update(PRINTED)  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", message="Glyph")  # a letter the font lacks is drawn as a box
        size = (width * CENTIMETRE, (rows * height + 0.5) * CENTIMETRE)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for axes, chart in zip(panels, charts, strict=False):
            for name, handle in draw_chart(axes, chart, looks).items():
                handles.setdefault(name, handle)
        for axes in panels[len(charts) :]:
            axes.set_axis_off()
        labels = [name if not name.startswith("_") else f" {name}" for name in handles]  # "_" would hide it
        if handles:
            across = max(1, min(len(labels), int(width * 6 / (max(map(len, labels)) + 8))))
            figure.legend(list(handles.values()), labels, loc="outside lower center", ncols=across, frameon=False)
        unsaid = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        with replacing(path) as file:
            figure.savefig(file, format=kind, dpi=300, metadata=unsaid)
    return path


def look(index: int) -> dict:
    """Colour, marker and, from the eighth series on, another dash."""
    place = index % len(COLOURS)
    return {"color": COLOURS[place], "marker": MARKERS[place], "linestyle": "-" if index < len(COLOURS) else ":"}


def draw_chart(axes, chart: dict, looks: dict[str, dict]) -> dict[str, Any]:
    """Draw one chart; what its legend shows, by name."""
    handles: dict[str, Any] = {}
    axes.set_title(chart["title"])
    axes.set_xlabel(chart["x"])
    axes.set_ylabel(chart["y"])
    if not any(v is not None for line in chart["series"] for v in line["y"]):
        axes.text(0.5, 0.5, "nothing was measured", ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return handles
    if chart["log"]:
        draw_logarithmic(axes)
    places = list(dict.fromkeys(v for line in chart["series"] for v in line["x"] if isinstance(v, str)))
    if places:
        draw_names(axes, places)
    if chart.get("behind"):
        handles[chart["behind"]["name"]] = draw_behind(axes, chart["behind"])
    for i, line in enumerate(chart["series"]):
        aside = ((i + 0.5) / len(chart["series"]) - 0.5) * 0.6  # series of names stand side by side
        x = np.array([places.index(v) + aside for v in line["x"]] if places else line["x"], dtype=float)
        style = looks[line["name"]] | ({"linestyle": "--"} if line["dashed"] else {})
        handles[line["name"]] = draw_line(axes, x, line, style, named=bool(places))
    return handles


def draw_logarithmic(axes) -> None:
    """A logarithmic axis with plain numbers: matplotlib's own are formulas, which `text.parse_math` leaves unread."""
    from matplotlib.ticker import LogFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))  # between powers where they are few


def draw_names(axes, places: Sequence[str]) -> None:
    """Names across instead of numbers; slanted where they would touch."""
    short = [name if len(name) <= 18 else f"{name[:17]}…" for name in places]
    slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if len("  ".join(short)) > 60 else {}
    axes.set_xticks(range(len(places)), short, **slanted)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(visible=False, axis="x")


def draw_behind(axes, behind: dict):
    """A histogram in grey behind the lines; it has no axis, because only its shape matters."""
    other = axes.twinx()
    edges, mass = np.array(behind["edges"], dtype=float), np.array(behind["mass"], dtype=float)
    bars = other.bar(edges[:-1], mass, np.diff(edges), align="edge", color=GREY, alpha=0.35, linewidth=0)
    other.set_ylim(0, 1.1 * mass.max() or 1)
    other.set_axis_off()
    axes.set_zorder(other.get_zorder() + 1)
    axes.patch.set_visible(False)
    return bars


def draw_line(axes, x: np.ndarray, line: dict, style: dict, *, named: bool):
    """One series: a line with a band, or, over names, points with bars."""
    y = np.array(line["y"], dtype=float)  # None becomes NaN, a gap
    ends = None if line["low"] is None else np.array([line["low"], line["high"]], dtype=float)
    if named:
        size = None if ends is None else np.nan_to_num(np.abs(ends - y))
        filled = {"markerfacecolor": "white"} if style["linestyle"] == "--" else {}
        style = style | {"linestyle": "none", "markersize": 4.5, "capsize": 2} | filled
        return axes.errorbar(x, y, size, **style)
    if ends is not None:
        axes.fill_between(x, *ends, color=style["color"], alpha=0.2, linewidth=0)
    style = style if len(x) <= 30 else style | {"marker": ""}  # points that close are a line
    (drawn,) = axes.plot(x, y, **style)
    return drawn
