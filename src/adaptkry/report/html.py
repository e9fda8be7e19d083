"""The report page: one HTML file that needs neither a server nor network access.

Charts are drawn by a small script of this package (`page/page.js`): a page has a few hundred kilobytes, while a
charting library alone would need most of the limit of five megabytes.
"""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from adaptkry.common.files import write
from adaptkry.report.charts import write_chart
from adaptkry.report.elements import checked_experiment, finite

RUN_KEYS = {"title", "tables", "charts", "score", "overview", "explorer"}  # required keys of the facts of a run


def page(facts: Sequence[dict]) -> str:
    """Return the HTML page of runs and experiments, from their facts."""
    parts = {
        name: (files("adaptkry.report") / "page" / f"page.{name}").read_text(encoding="utf-8")
        for name in ("html", "css", "js")
    }
    # "</script>" inside a name would end the script element; with an escaped slash it is the same JSON.
    data = json.dumps([checked_experiment(one) for one in facts], allow_nan=False)
    data = data.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    text = parts["html"].replace("/*STYLE*/", parts["css"]).replace("/*SCRIPT*/", parts["js"])
    return text.replace("/*DATA*/", data)


def write_facts(folder: Path, facts: dict) -> Path:
    """Write the facts of a run or experiment to its folder."""
    write(folder / "facts.json", json.dumps(finite(facts), allow_nan=False))
    return folder / "facts.json"


def read_facts(path: Path) -> dict:
    """Read the facts of a run or experiment from its folder or from a file."""
    file = path if path.is_file() else path / "facts.json"
    if not file.exists():
        raise FileNotFoundError(
            f"a report needs folders that `adaptkry fit`, `auto` or `compare` finished; {path} has no facts.json. "
            "Check the path, or write it in Python: adaptkry.report.run_report.write_pages(...)."
        )
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{file} must be JSON; it is not JSON ({error}). Run the command that wrote it again."
        ) from None
    kind = found.get("kind") if isinstance(found, dict) else None
    if kind != "experiment" and not (kind == "run" and found.keys() >= RUN_KEYS):
        raise ValueError(
            f"{file} must hold a run or an experiment of this version; it holds neither a run nor an experiment. "
            f"Check the path, or run the command that wrote it again."
        )
    return found


def write_page(folders: Sequence[Path], out: Path) -> Path:
    """Write the report of several run or experiment folders as one HTML file."""
    write(out, page([read_facts(folder) for folder in folders]))
    return out


def write_figures(folders: Sequence[Path], out: Path) -> list[Path]:
    """Write every chart of the folders as SVG and PNG files, numbered in order; the output folder is created."""
    charts = [chart for folder in folders for chart in charts_of(read_facts(folder))]
    out.mkdir(parents=True, exist_ok=True)
    names = [f"{number:02d}-{slug(chart['title'])}" for number, chart in enumerate(charts, 1)]
    return [
        write_chart(out / f"{name}.{suffix}", chart)
        for name, chart in zip(names, charts, strict=True)
        for suffix in ("svg", "png")
    ]


def charts_of(facts: dict) -> list[dict]:
    """Return the charts of an experiment or a run; charts of a run without a curve are omitted, the others titled."""
    charts = checked_experiment(facts)["charts"]
    if facts["kind"] == "experiment":
        return charts
    return [chart | {"title": f"{chart['title']}, {facts['title']}"} for chart in charts if chart.get("series", True)]


def slug(title: str) -> str:
    """Convert a title to a file name without path separators, so that files stay inside the output folder."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "chart"
