"""Draw charts of `elements` as PNG and SVG files. The only module of the package that imports Matplotlib."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common.files import replacing

GREY = "#8b949e"
# The palette of Okabe and Ito, safe for colour-blind readers; lighter colours are darkened to be readable on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5568c", "#3a9bd6", "#b07d00", "#57606a")
MARKERS = "os^Dv<>"
CENTIMETRE = 1 / 2.54  # in inches, Matplotlib's unit
MAX_LABELLED_CLASSES = 15  # larger matrices are drawn without names and counts, which would overlap
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#d0d7de",
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "text.parse_math": False,  # a dollar sign in a user's class name does not start a formula
    "svg.hashsalt": "adaptkry",  # ids inside an SVG derive from it: the same data give the same bytes
}


def write_chart(path: Path, chart: dict) -> Path:
    """Draw one chart as a PNG or SVG file, depending on the suffix of the path; it is 12 cm wide.

    The same data give the same bytes: the file contains no date and no version.
    """
    return write_charts(path, [chart], columns=1)


def write_charts(
    path: Path,
    charts: Sequence[dict],
    columns: int = 3,
    *,
    title: str = "",
    panel: tuple[float, float] | None = None,
    dpi: int = 300,
) -> Path:
    """Draw several charts in one file with one legend; series of the same name have the same colour.

    Args:
        path: output file, ending in .png or .svg.
        charts: charts from `elements.chart` and `elements.matrix`.
        columns: number of charts per row.
        title: heading of the figure.
        panel: width and height of one chart in centimetres; None depends on the number of columns.
        dpi: resolution of a PNG file.
    """
    file_format = path.suffix.lower().removeprefix(".")
    if file_format not in ("png", "svg"):
        raise ValueError(f"the file of a chart must end in .png or .svg; got {path.name!r}. Rename it.")
    if not charts or columns < 1:
        raise ValueError(
            f"a figure needs at least one chart and one column; got {len(charts)} charts and {columns} columns."
        )
    import matplotlib as mpl

    metadata = {"Date": None, "Creator": None} if file_format == "svg" else {"Software": None}
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # ignore the user's matplotlibrc
        mpl.rcParams.update(STYLE)  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", message="Glyph")  # characters missing from the font are drawn as boxes
        figure = draw_figure(charts, min(columns, len(charts)), title, panel)
        with replacing(path) as file:
            figure.savefig(file, format=file_format, dpi=dpi, metadata=metadata)
    return path


def draw_figure(charts: Sequence[dict], columns: int, title: str, panel: tuple[float, float] | None):
    """Draw the charts in a grid, with a title above and one legend below."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(charts) / columns)
    panel_width, height = panel or ((12, 7.5) if columns == 1 else (6, 4.6))
    width = max(12, panel_width * columns)
    names = list(dict.fromkeys(line["name"] for chart in charts for line in chart.get("series", ())))
    styles = {name: series_style(i) for i, name in enumerate(names)}
    size = (width * CENTIMETRE, (rows * height + (1.2 if title else 0.5)) * CENTIMETRE)
    figure = Figure(figsize=size, layout="constrained")
    if title:
        figure.suptitle(title)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for axes, chart in zip(panels, charts, strict=False):
        for name, handle in DRAW[chart["kind"]](axes, chart, styles).items():
            handles.setdefault(name, handle)
    for axes in panels[len(charts) :]:
        axes.set_axis_off()
    labels = [name if not name.startswith("_") else f" {name}" for name in handles]  # Matplotlib hides "_..."
    if handles:
        legend_columns = max(1, min(len(labels), int(width * 6 / (max(map(len, labels)) + 8))))
        figure.legend(list(handles.values()), labels, loc="outside lower center", ncols=legend_columns, frameon=False)
    return figure


def series_style(index: int) -> dict:
    """Return colour, marker and line style of a series; from the eighth series on, lines are dotted."""
    i = index % len(COLOURS)
    return {"color": COLOURS[i], "marker": MARKERS[i], "linestyle": "-" if index < len(COLOURS) else ":"}


def draw_lines(axes, chart: dict, styles: dict[str, dict]) -> dict[str, Any]:
    """Draw a line chart; returns its legend entries by name."""
    handles: dict[str, Any] = {}
    set_labels(axes, chart)
    is_empty = not any(v is not None for line in chart["series"] for v in line["y"])
    names = list(dict.fromkeys(v for line in chart["series"] for v in line["x"] if isinstance(v, str)))
    if is_empty:
        axes.text(0.5, 0.5, chart["empty"], ha="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
    if chart["log"] and not is_empty:
        set_log_scale(axes)
    if names and not is_empty:
        set_name_ticks(axes, names)
    if chart["behind"]:
        handles[chart["behind"]["name"]] = draw_histogram(axes, chart["behind"])
    for i, line in enumerate([] if is_empty else chart["series"]):
        shift = ((i + 0.5) / len(chart["series"]) - 0.5) * 0.6  # points of several series at one name do not overlap
        x = np.array([names.index(v) + shift for v in line["x"]] if names else line["x"], dtype=float)
        style = styles[line["name"]] | ({"linestyle": "--"} if line["dashed"] else {})
        handles[line["name"]] = draw_series(axes, x, line, style, is_named=bool(names))
    return handles


def draw_matrix(axes, chart: dict, _styles: dict[str, dict]) -> dict[str, Any]:
    """Draw a matrix of counts, each cell shaded by its share of the row; it has no legend."""
    counts, names = np.array(chart["counts"], dtype=float), chart["names"]
    set_labels(axes, chart)
    axes.grid(visible=False)
    if not names:
        return {}
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    if len(names) > MAX_LABELLED_CLASSES:
        return {}
    short = [name[:12] for name in names]
    slanted = {"rotation": 45, "ha": "right"} if max(map(len, short)) > 3 else {}
    axes.set_xticks(range(len(names)), short, **slanted)
    axes.set_yticks(range(len(names)), short)
    for (i, j), count in np.ndenumerate(counts):
        colour = "white" if share[i, j] > 0.5 else "black"
        axes.text(j, i, f"{count:.0f}", ha="center", va="center", color=colour, fontsize=7)
    return {}


DRAW = {"lines": draw_lines, "matrix": draw_matrix}


def set_labels(axes, chart: dict) -> None:
    """Set the title and the axis labels."""
    axes.set_title(chart["title"])
    axes.set_xlabel(chart["x"])
    axes.set_ylabel(chart["y"])


def set_log_scale(axes) -> None:
    """Make the y-axis logarithmic, labelled with plain numbers: the default labels are formulas (`text.parse_math`)."""
    from matplotlib.ticker import LogFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))  # minor labels if there are few major ones


def set_name_ticks(axes, names: Sequence[str]) -> None:
    """Label the x-axis with names instead of numbers; slanted if they would overlap."""
    short = [name if len(name) <= 18 else f"{name[:17]}…" for name in names]
    slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if len("  ".join(short)) > 60 else {}
    axes.set_xticks(range(len(names)), short, **slanted)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.grid(visible=False, axis="x")


def draw_histogram(axes, behind: dict):
    """Draw a histogram in grey behind the lines; it has no visible axis, because only its shape matters."""
    background = axes.twinx()
    edges, mass = np.array(behind["edges"], dtype=float), np.array(behind["mass"], dtype=float)
    bars = background.bar(edges[:-1], mass, np.diff(edges), align="edge", color=GREY, alpha=0.35, linewidth=0)
    background.set_ylim(0, 1.1 * mass.max() or 1)
    background.set_axis_off()
    axes.set_zorder(background.get_zorder() + 1)
    axes.patch.set_visible(False)
    return bars


def draw_series(axes, x: np.ndarray, line: dict, style: dict, *, is_named: bool):
    """Draw one series: a line with a band, or points with error bars if the x-axis has names."""
    y = np.array(line["y"], dtype=float)  # None becomes NaN, a gap
    interval = None if line["low"] is None else np.array([line["low"], line["high"]], dtype=float)
    if is_named:
        errors = None if interval is None else np.nan_to_num(np.abs(interval - y))
        marker_fill = {"markerfacecolor": "white"} if style["linestyle"] == "--" else {}
        style = style | {"linestyle": "none", "markersize": 4.5, "capsize": 2} | marker_fill
        return axes.errorbar(x, y, errors, **style)
    if interval is not None:
        axes.fill_between(x, *interval, color=style["color"], alpha=0.2, linewidth=0)
    style = style if len(x) <= 30 else style | {"marker": ""}  # so many markers would hide the line
    (curve,) = axes.plot(x, y, **style)
    return curve
