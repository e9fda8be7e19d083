"""Write the tables and the figure of docs/scale.md from the rows in results/outofcore.jsonl.

python -m benchmarks.scale_page [--rows results/outofcore.jsonl] [--page docs/scale.md]
"""

import argparse
from pathlib import Path

import numpy as np

from adaptkry.common.memory import format_bytes
from adaptkry.common.rows import read
from adaptkry.report.charts import write_chart
from adaptkry.report.elements import chart, series
from benchmarks.pages import newest, replace_between

PAPERS_BYTES = 17e12  # gathered by the products of papers100M, from the table "gathered by the products" of the page
NAMES = {
    "entries": "entries m",
    "degree": "hops K",
    "features": "features d",
    "taus": "taus",
    "size": "n and m together",
}


def basis(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per size: the command and the same products in memory; then their rates."""
    lines = ["| graph | stored | memory limit | peak memory | basis on disk | command | in memory | ratio | commit |"]
    lines += ["|---" * 9 + "|"]
    found = newest([{**row, "key": str(row["config"] | {"blocks": 0})} for row in rows], "key")
    for row in found:
        c, times = row["config"], row["seconds"]
        name = f"{c['nodes']:,} nodes, {c['entries']:,} entries, d = {c['features']}, K = {c['degree']}"
        stored = f"{c['rows']} ({c['stored_rows']:,} rows, {c['dtype']}), {c['blocks']} blocks"
        sizes = [format_bytes(size) for size in (c["memory"], row["peak_bytes"], row["basis_bytes"])]
        seconds = [f"{times[key]:.1f} s" for key in ("command", "in_memory")]
        cells = [name, stored, *sizes, *seconds, f"{row['ratio']:.2f}", row["commit"]]
        lines.append(f"| {' | '.join(cells)} |")
    rates = sorted(row["gathered_bytes"] / row["seconds"]["command"] for row in found)
    minutes = [PAPERS_BYTES / rate / 60 for rate in (rates[-1], rates[0])]
    return [*lines, "", f"The commands gathered {rates[0] / 1e9:.1f} to {rates[-1] / 1e9:.1f} GB of rows per second, "
            f"reading and writing of files included. At these rates, a basis of papers100M for one tau would take "
            f"{minutes[0]:.0f} to {minutes[1]:.0f} minutes on two such cores (not measured)."]  # fmt: skip


def training(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per size: epochs from disk and in memory, with their peak memory."""
    headings = [
        "rows", "basis", "splits", "device", "memory", "epoch in memory", "epoch from disk", "rate", "one pass",
        "peak, in memory", "peak, from disk", "peak, baseline", "commit",
    ]  # fmt: skip
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    keyed = [{**row, "key": training_key(row)} for row in rows]
    for row in newest(keyed, "key"):
        config, times = row["config"], row["seconds"]
        size = [f"{config['rows']:,}", format_bytes(row["basis_bytes"]), f"{config['splits']}", row["device"]]
        size.append(config.get("memory", "0"))
        speed = [f"{times['memory']:.2f} s", f"{times['disk']:.2f} s", f"{100 * row['disk_over_memory']:.0f} %"]
        speed.append(f"{times['read']:.2f} s" if "read" in times else "-")
        peak = [format_bytes(row["peak_bytes"][key]) for key in ("memory", "disk", "bare")]
        lines.append(f"| {' | '.join([*size, *speed, *peak, row['commit']])} |")
    return lines


def training_key(row: dict) -> tuple:
    """Return what rows of training from disk are told apart by; older rows had no memory to keep validation rows."""
    config = row["config"]
    return (config["rows"], config["features"], config["splits"], config.get("memory", "0"), row["device"])


def slopes(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per quantity: the slope on a log-log plot, and the deviation from a straight line."""
    head = "| varied | from | to | starting point | seconds | slope (log-log) | max deviation from a line | commit |"
    lines = [head, "|---" * 8 + "|"]
    for name, (x, y, first) in curves(rows).items():
        bounds = f"{x[0]:,.0f} | {x[-1]:,.0f} | {starting_point(first['config'])} | {y[0]:.2f} .. {y[-1]:.2f}"
        shape = f"{slope(x, y):.2f} | {100 * deviation(x, y):.0f} %"
        lines.append(f"| {NAMES[name]} | {bounds} | {shape} | {first['commit']} |")
    return [*lines, "", "![seconds by entries, hops, features and taus, both axes logarithmic](scale-slopes.svg)"]


TABLES = {"outofcore_basis": basis, "outofcore_slope": slopes, "disk_training": training}  # by name of the benchmark


def starting_point(config: dict) -> str:
    """Return the smallest size of a curve, in the notation of the page."""
    return f"n = {config['nodes']:,}, m = {config['entries']:,}, d = {config['features']}, K = {config['degree']}"


def curves(rows: list[dict]) -> dict[str, tuple[np.ndarray, np.ndarray, dict]]:
    """Return values, seconds and the first row of each varied quantity, from the last commit that has rows of it."""
    found = {}
    for name in NAMES:
        measured = [row for row in rows if row["varied"] == name]
        points = newest([row for row in measured if row["commit"] == measured[-1]["commit"]], "value")
        points.sort(key=lambda row: row["value"])
        if len(points) > 1:
            x, y = (np.array([row[key] for row in points], dtype=float) for key in ("value", "seconds"))
            found[name] = (x, y, points[0])
    return found


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """Return the slope of log y as a linear function of log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def deviation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the largest relative distance from the line a + b x that minimises the relative squared error.

    >>> round(deviation(np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 9.0])), 12)
    0.0
    """
    a, b = np.linalg.lstsq(np.stack([1 / y, x / y], 1), np.ones(len(x)), rcond=None)[0]
    return float(np.abs((a + b * x) / y - 1).max())


def draw(rows: list[dict], path: Path) -> None:
    """Draw all curves on one log-log plot, each relative to its smallest value."""
    lines = [series(f"{NAMES[name]}, slope {slope(x, y):.2f}", x / x[0], y) for name, (x, y, _) in curves(rows).items()]
    x, y = "value, relative to the smallest", "seconds"
    write_chart(path, chart("Seconds of a basis on disk", lines, x=x, y=y, log=True, log_x=True))


def replace(text: str, marker: str, lines: list[str]) -> str:
    """Return the text with the lines between the begin and end markers of one table replaced."""
    begin = f"<!-- rows: {marker} (written by `python -m benchmarks.scale_page`) -->\n"
    return replace_between(text, begin, "<!-- rows: end -->", lines)


def main() -> None:
    """Write the tables for which there are rows, and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="results/outofcore.jsonl")
    parser.add_argument("--page", default="docs/scale.md")
    arguments = parser.parse_args()
    rows, page = read(arguments.rows), Path(arguments.page)
    text = page.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        measured = [row for row in rows if row["benchmark"] == name]
        text = replace(text, name, table(measured)) if measured else text
    page.write_text(text, encoding="utf-8")
    measured = [row for row in rows if row["benchmark"] == "outofcore_slope"]
    if measured:
        draw(measured, page.with_name("scale-slopes.svg"))


if __name__ == "__main__":
    main()
