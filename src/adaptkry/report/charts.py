"""Draw charts of `elements` with Vega-Lite: the page, SVG files and PNG files show the same drawing.

The only module of the package that imports Altair and vl-convert, which need no network. The same data give the same
bytes: text is measured with a font that vl-convert contains, and data are rounded, because the last digits of a
computation depend on the processor.
"""

import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaptkry.common.files import write
from adaptkry.report.elements import NOTHING_MEASURED

# Colours on a light page and on a dark one; series have those of Okabe and Ito, safe for colour-blind readers.
INK, SOFT, LINE, BACKGROUND, GREY = "#1f2328", "#59636e", "#d1d9e0", "#fffffe", "#afb8c1"
SERIES = {"#0072b2": "#4aa3df", "#c84e00": "#ff8a3d", "#00805b": "#2fc79b", "#b5568c": "#e29ac4", "#2f8fc9": "#9bd3f5",
          "#946a00": "#f0c040", "#57606b": "#b1bac4"}  # fmt: skip
RIGHT, WRONG = "#0a5fa4", "#b94700"  # cells of a matrix on and beside the diagonal
DARK = {INK: "#e6edf3", SOFT: "#9aa4af", LINE: "#30363d", BACKGROUND: "none", GREY: "#484f58", RIGHT: "#2f81d0",
        WRONG: "#d2691e"} | SERIES  # fmt: skip
POINT_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # vl-convert contains the first
CHART_SIZE = (330, 210)  # of the plotting area of one chart, in pixels
PANEL_SIZE = (230, 160)  # of one of several charts in a row
LABELS = {"labelColor": SOFT, "labelFontSize": 12, "titleColor": SOFT, "titleFontSize": 12, "titleFontWeight": "normal"}
LEGEND = {"orient": "bottom", "title": None, "labelColor": INK, "labelFontSize": 12, "labelLimit": 300,
          "symbolSize": 70, "symbolOpacity": 1}  # fmt: skip
STYLE = {
    "font": FONT,
    "background": BACKGROUND,
    "view": {"stroke": None},
    "title": {"color": INK, "fontSize": 13, "anchor": "start", "fontWeight": "bold"},
    "axis": {
        **LABELS,
        "domainColor": LINE,
        "gridColor": LINE,
        "tickColor": LINE,
        "gridOpacity": 0.7,
        "labelFlush": False,
    },
    "axisX": {"tickCount": 6},
    "axisY": {"tickCount": 5, "titlePadding": 8},
}
COUNTED_CLASSES = 15  # cells of larger matrices have no numbers
SHOWN_DIGITS = 6  # significant digits of data
IS_VALIDATED = False  # whether Altair checks every part against the schema of Vega-Lite: slow, so only in tests


def write_chart(path: Path, chart: dict) -> Path:
    """Draw one chart as an SVG or PNG file, depending on the suffix of the path."""
    return write_charts(path, [chart], columns=1)


def write_charts(path: Path, charts: Sequence[dict], columns: int = 3, *, title: str = "") -> Path:
    """Draw several charts in one SVG or PNG file with one legend; series of the same name have the same colour.

    Args:
        path: output file, ending in .svg or .png.
        charts: charts from `elements.chart` and `elements.matrix`.
        columns: number of charts per row.
        title: heading of the figure.
    """
    file_format = path.suffix.lower().removeprefix(".")
    if file_format not in ("png", "svg"):
        raise ValueError(f"the file of a chart must end in .png or .svg; got {path.name!r}. Rename it.")
    if not charts or columns < 1:
        raise ValueError(
            f"a figure needs at least one chart and one column; got {len(charts)} charts and {columns} columns."
        )
    drawn = specification(charts, columns, title)
    if file_format == "svg":
        write(path, svg_of(drawn))
    else:
        write(path, drawing_libraries()[1].vegalite_to_png(drawn, scale=2))
    return path


def svg(chart: dict) -> str:
    """Draw one chart as an SVG element."""
    return svg_of(specification([chart]))


def svg_of(drawn: dict) -> str:
    """Draw a Vega-Lite specification as an SVG element."""
    return drawing_libraries()[1].vegalite_to_svg(drawn)


def drawing_libraries() -> tuple[Any, Any]:
    """Import Altair and vl-convert."""
    try:
        import altair
        import vl_convert
    except ImportError:
        raise ImportError(
            "charts need Altair and vl-convert, which are not installed. Install them with: "
            "pip install altair vl-convert-python"
        ) from None
    return altair, vl_convert


def specification(charts: Sequence[dict], columns: int = 1, title: str = "") -> dict:
    """Return the Vega-Lite specification of charts in a grid, with one legend below them."""
    alt, _ = drawing_libraries()
    with alt.utils.schemapi.debug_mode(IS_VALIDATED):
        return _specification(alt, charts, columns, title).to_dict(validate=IS_VALIDATED)


def _specification(alt: Any, charts: Sequence[dict], columns: int, title: str) -> Any:
    charts, columns = cleaned(charts), min(columns, len(charts))
    names = list(dict.fromkeys(line["name"] for chart in charts for line in chart.get("series", ())))
    behind = list(dict.fromkeys(chart["behind"]["name"] for chart in charts if chart.get("behind")))
    size = CHART_SIZE if columns == 1 else PANEL_SIZE
    scales = series_scales(names, behind)
    panels = [DRAW[chart["kind"]](chart, scales, size) for chart in charts]
    figure = panels[0] if len(panels) == 1 and not title else alt.concat(*panels, columns=columns, spacing=30)
    if title:
        figure = figure.properties(title=alt.Title(cleaned(title), fontSize=15, anchor="start", offset=14))
    longest = min(max(map(len, names + behind), default=0), 40)
    legend = {**LEGEND, "columns": max(1, size[0] * columns // (longest * 7 + 50))}
    return figure.configure(**STYLE, legend=legend)


def series_scales(names: Sequence[str], behind: Sequence[str]) -> dict[str, Any]:
    """Return the encodings of series by name, the same in all panels; from the eighth series on they repeat."""
    alt, _ = drawing_libraries()
    grey = [name for name in behind if name not in names]
    domain = [*names, *grey]
    colours = alt.Scale(domain=domain, range=[*repeated(list(SERIES), len(names)), *[GREY] * len(grey)])
    shapes = alt.Scale(domain=domain, range=[*repeated(POINT_SHAPES, len(names)), *["square"] * len(grey)])
    return {
        "color": alt.Color("s:N", scale=colours), "shape": alt.Shape("s:N", scale=shapes),
        "offset": alt.YOffset("s:N", sort=domain),
    }  # fmt: skip


def repeated(values: Sequence[str], count: int) -> list[str]:
    """Return this many values, from the start again after the last."""
    return [values[i % len(values)] for i in range(count)]


def lines(chart: dict, scales: dict[str, Any], size: tuple[int, int]) -> Any:
    """Draw a line chart: bands, lines and points; rows with intervals if the x-axis has names."""
    alt, _ = drawing_libraries()
    points = [
        {"s": line["name"], "x": rounded(x), "dashed": line["dashed"]} | interval
        for line in chart["series"] for x, interval in zip(line["x"], intervals_of(line), strict=True)
        if x is not None  # it was not finite
    ]  # fmt: skip
    for point in points:
        point["text"] = told(chart, point)
    if not any(point["y"] is not None for point in points):
        return message(chart, scales, size)
    if any(isinstance(point["x"], str) for point in points):
        return dots(chart, points, scales, size)
    low, high = value_range(points, chart["log"])
    for point in points:
        for end in ("low", "high"):  # intervals may leave the chart, and logarithms of numbers below 0 do not exist
            point[end] = None if point[end] is None else rounded(min(max(point[end], low), high))
    kind = "log" if chart["log"] else "linear"
    x_scale = alt.Scale(zero=False, nice=False, type="log" if chart["log_x"] else "linear")
    x = alt.X("x:Q", title=chart["x"], scale=x_scale, axis=x_axis(points, chart["log_x"]))
    y_options = {"title": chart["y"], "scale": alt.Scale(type=kind, domain=[low, high], nice=False)}
    y = alt.Y("y:Q", **y_options)
    colour, shape = scales["color"], scales["shape"]
    base = alt.Chart(alt.Data(values=points))
    dash = alt.StrokeDash("dashed:N", scale=alt.Scale(domain=[False, True], range=[[1, 0], [6, 4]]), legend=None)
    layers = [histogram(chart["behind"], x, y, scales["color"])] if chart["behind"] else []
    if any(point["low"] is not None for point in points):
        band = base.mark_area(opacity=0.2, aria=False)
        layers.append(band.encode(x, alt.Y("low:Q", **y_options), alt.Y2("high:Q"), colour))
    layers.append(base.mark_line(strokeWidth=2, aria=False).encode(x, y, colour, dash))
    if max((len(line["x"]) for line in chart["series"]), default=0) <= 30:  # so many points would hide the line
        layers.append(
            base.mark_point(filled=True, size=45, opacity=1).encode(x, y, colour, shape, description="text:N")
        )
    if chart["marks"]:
        layers += marks(chart["marks"], x)
    return alt.layer(*layers).properties(title=heading(chart, size), width=size[0], height=size[1])


def x_axis(points: Sequence[dict], log: bool) -> Any:
    """Return the axis of numbers: no fractions between whole numbers; on a logarithmic one, the numbers themselves."""
    alt, _ = drawing_libraries()
    values = sorted({point["x"] for point in points})
    if log and len(values) <= 12:
        return alt.Axis(values=values)
    return alt.Axis(tickMinStep=1) if all(float(v).is_integer() for v in values) else alt.Axis()


def told(chart: dict, point: dict) -> str:
    """Return the values of a point as text, which the page shows under the mouse."""
    x = point["x"] if isinstance(point["x"], str) else f"{chart['x']} {point['x']:g}"
    interval = "" if point["low"] is None else f" ({point['low']:g} .. {point['high']:g})"
    return "" if point["y"] is None else f"{point['s']}, {x}: {point['y']:g}{interval}"


def intervals_of(line: dict) -> list[dict]:
    """Return the value and the ends of the interval of every point of a series."""
    nothing = [None] * len(line["y"])
    ends = zip(line["y"], line["low"] or nothing, line["high"] or nothing, strict=True)
    return [{"y": rounded(y), "low": rounded(low), "high": rounded(high)} for y, low, high in ends]


def dots(chart: dict, points: list[dict], scales: dict[str, Any], size: tuple[int, int]) -> Any:
    """Draw one row per name, with a dot and an interval for each series; dots of dashed series are hollow."""
    alt, _ = drawing_libraries()
    low, high = value_range(points, chart["log"])
    scale = alt.Scale(type="log" if chart["log"] else "linear", domain=[low, high], nice=False)
    names = list(dict.fromkeys(point["x"] for point in points))
    count = len(chart["series"])
    shared = [
        alt.Y("x:N", title=chart["x"] or None, sort=names, axis=alt.Axis(grid=True, labelLimit=150)),
        scales["color"],
        *([scales["offset"]] if count > 1 else []),
    ]
    across, title = alt.X("y:Q", title=chart["y"], scale=scale), chart["y"]
    layers = []
    if bounded := [point for point in points if point["low"] is not None]:
        rules = alt.Chart(alt.Data(values=bounded)).mark_rule(strokeWidth=2, aria=False)
        layers.append(rules.encode(alt.X("low:Q", scale=scale, title=title), *shared, x2="high:Q"))
    for is_hollow in (False, True):
        if given := [point for point in points if point["y"] is not None and point["dashed"] == is_hollow]:
            dot = alt.Chart(alt.Data(values=given)).mark_point(size=65, opacity=1, filled=not is_hollow)
            layers.append(dot.encode(across, *shared, scales["shape"], description="text:N"))
    step = alt.Step(24 if count == 1 else 14 * count + 10, **{"for": "position"})
    return alt.layer(*layers).properties(title=heading(chart, size), width=size[0], height=step)


def matrix(chart: dict, scales: dict[str, Any], size: tuple[int, int]) -> Any:
    """Draw a matrix of counts, each cell as dark as its share of the row: blue on the diagonal, orange beside it."""
    alt, _ = drawing_libraries()
    names, counts = distinct(chart["names"]), chart["counts"]
    if not names:
        return message(chart, scales, size)
    cells = [
        {
            "row": name,
            "column": other,
            "count": count,
            "share": shade(count, sum(row)),
            "diagonal": name == other,
            "text": f"{chart['y']} {name}, {chart['x']} {other}: {count:g}",
        }
        for name, row in zip(names, counts, strict=True)
        for other, count in zip(names, row, strict=True)
        if count or len(names) <= COUNTED_CLASSES
    ]
    has_counts = len(names) <= COUNTED_CLASSES
    widest = len(f"{max(map(max, counts)):g}")
    cell = max(28, 7 * widest + 8, min(60, size[0] // len(names))) if has_counts else 14
    axis = {
        "labelLimit": 130,
        "grid": False,
        "ticks": False,
        "domain": False,
        "labelFontSize": 12 if has_counts else 10,
    }
    x = alt.X(
        "column:N",
        title=chart["x"],
        scale=alt.Scale(domain=names),
        axis=alt.Axis(labelAngle=-45 if max(map(len, names)) > 3 else 0, **axis),
    )
    y = alt.Y("row:N", title=chart["y"], scale=alt.Scale(domain=names), axis=alt.Axis(**axis))
    base = alt.Chart(alt.Data(values=cells)).encode(x, y)
    colour = alt.condition("datum.diagonal", alt.value(RIGHT), alt.value(WRONG))
    layers = [
        base.mark_rect().encode(
            description="text:N", fill=colour, fillOpacity=alt.FillOpacity("share:Q", scale=None, legend=None)
        )
    ]
    if has_counts:
        ink = alt.condition("datum.share > 0.5", alt.value("#ffffff"), alt.value(INK))
        layers.append(base.mark_text(fontSize=11, aria=False).encode(text="count:Q", color=ink))
    return alt.layer(*layers).properties(
        title=heading(chart, size), width=alt.Step(cell), height=alt.Step(max(cell - 4, 14) if has_counts else cell)
    )


def shade(count: float, total: float) -> float:
    """Return the opacity of a cell: from 0.1, which is visible, to 1 for the only cell of its row; 0 if it is empty."""
    return rounded(0.1 + 0.9 * count / total) if count else 0.0


DRAW = {"lines": lines, "matrix": matrix}


def heading(chart: dict, size: tuple[int, int]) -> Any:
    """Return the title of a chart, cut where the chart ends."""
    return drawing_libraries()[0].Title(chart["title"], limit=size[0] + 40, anchor="start", frame="group")


def message(chart: dict, scales: dict[str, Any], size: tuple[int, int]) -> Any:
    """Draw a chart without lines: its title, why there are none, and the histogram if there is one."""
    alt, _ = drawing_libraries()
    text = alt.Chart(alt.Data(values=[{}])).mark_text(fontSize=13, color=INK)
    layers = [text.encode(text=alt.value(textwrap.wrap(chart.get("empty") or NOTHING_MEASURED, 30)))]
    if chart.get("behind"):
        x = alt.X("x:Q", title=chart["x"], scale=alt.Scale(nice=False, zero=False))
        y = alt.Y("y:Q", scale=alt.Scale(domain=[0, 1]), axis=None)
        layers.insert(0, histogram(chart["behind"], x, y, scales["color"]))
    return alt.layer(*layers).properties(title=heading(chart, size), width=size[0], height=size[1])


def histogram(behind: dict, x: Any, y: Any, colour: Any) -> Any:
    """Draw a histogram in grey behind the lines, scaled to the chart, because only its shape matters."""
    alt, _ = drawing_libraries()
    low, high = y.to_dict()["scale"]["domain"]
    top = max(behind["mass"], default=0) or 1
    bars = [
        {"x": rounded(a), "to": rounded(b), "y": low, "top": rounded(low + 0.9 * (high - low) * mass / top)}
        for a, b, mass in zip(behind["edges"][:-1], behind["edges"][1:], behind["mass"], strict=True)
    ]
    base = alt.Chart(alt.Data(values=[{**bar, "s": behind["name"]} for bar in bars]))
    return base.mark_rect(opacity=0.6, aria=False).encode(x, y, colour, x2="to:Q", y2="top:Q")


def marks(given: Sequence[dict], x: Any) -> list[Any]:
    """Draw vertical lines with their names at the top, each lower than the one before."""
    alt, _ = drawing_libraries()
    layers = []
    for i, mark in enumerate(given):
        base = alt.Chart(alt.Data(values=[{"x": rounded(mark["x"]), "name": mark["name"]}])).encode(x)
        name = base.mark_text(align="left", baseline="top", dx=4, color=INK, fontSize=11, aria=False)
        layers += [
            base.mark_rule(color=INK, strokeWidth=1.5, aria=False),
            name.encode(text="name:N", y=alt.value(2 + 14 * i)),
        ]
    return layers


def value_range(points: Sequence[dict], log: bool) -> tuple[float, float]:
    """Return the range of the values and intervals with a margin; of positive ones only on a logarithmic axis."""
    shown = [point[part] for point in points for part in ("y", "low", "high") if point[part] is not None]
    shown = [math.log10(v) if log else v for v in shown if v > 0 or not log]
    if not shown:
        return 0.0, 1.0
    low, high = min(shown), max(shown)
    margin = 0.05 * (high - low or abs(high) or 1)
    ends = (10 ** (low - margin), 10 ** (high + margin)) if log else (low - margin, high + margin)
    return rounded(ends[0]), rounded(ends[1])


def rounded(value: Any) -> Any:
    """Return a number with a few significant digits; text and None unchanged."""
    return value if value is None or isinstance(value, str) else float(f"{value:.{SHOWN_DIGITS}g}")


def cleaned(value: Any) -> Any:
    """Return a part of a chart with texts that can be drawn: in one line, without characters that XML cannot hold."""
    if isinstance(value, dict):
        return {name: cleaned(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(part) for part in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"[\ud800-\udfff\ufffe\uffff\x00-\x08\x0e-\x1f]", "\ufffd", re.sub(r"\s+", " ", value)).strip()


def distinct(names: Sequence[str]) -> list[str]:
    """Return names that differ: those that occur again have a number.

    >>> distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    found: list[str] = []
    for name in names:
        number = 2
        candidate = name
        while candidate in found:
            candidate, number = f"{name} ({number})", number + 1
        found.append(candidate)
    return found
