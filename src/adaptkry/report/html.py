"""The report page: one HTML file that works from disk, without a server and without network access.

Charts are drawn by a small script of this package: a page has a few hundred kilobytes, where a charting library would
fill the five megabytes that a page may have.
"""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from adaptkry.common.files import write
from adaptkry.report.charts import write_chart
from adaptkry.report.elements import checked_experiment, finite

RUN_KEYS = {"title", "tables", "charts", "score", "overview", "explorer"}  # without these there is no run to show


def page(facts: Sequence[dict]) -> str:
    """The page of runs and experiments, from their facts."""
    parts = {
        name: (files("adaptkry.report") / "page" / f"page.{name}").read_text(encoding="utf-8")
        for name in ("html", "css", "js")
    }
    # "</script>" inside a name would end the block of data; an escaped slash is the same JSON.
    data = json.dumps([checked_experiment(one) for one in facts], allow_nan=False)
    data = data.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    text = parts["html"].replace("/*STYLE*/", parts["css"]).replace("/*SCRIPT*/", parts["js"])
    return text.replace("/*DATA*/", data)


def write_facts(folder: Path, facts: dict) -> Path:
    """Store the facts of a run or experiment in its folder."""
    write(folder / "facts.json", json.dumps(finite(facts), allow_nan=False))
    return folder / "facts.json"


def read_facts(path: Path) -> dict:
    """The facts of a run or experiment, from its folder or from a file."""
    file = path if path.is_file() else path / "facts.json"
    if not file.exists():
        raise FileNotFoundError(
            f"a folder of `adaptkry fit` or `adaptkry compare` is needed; {path} has no facts.json. Check the path."
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
    """Write the report of runs and experiments as one file."""
    write(out, page([read_facts(folder) for folder in folders]))
    return out


def write_figures(folders: Sequence[Path], out: Path) -> list[Path]:
    """Write every chart of the folders as SVG and PNG, numbered in order; the output folder is created."""
    charts = [chart for folder in folders for chart in charts_of(read_facts(folder))]
    out.mkdir(parents=True, exist_ok=True)
    names = [f"{number:02d}-{slug(chart['title'])}" for number, chart in enumerate(charts, 1)]
    return [
        write_chart(out / f"{name}.{suffix}", chart)
        for name, chart in zip(names, charts, strict=True)
        for suffix in ("svg", "png")
    ]


def charts_of(facts: dict) -> list[dict]:
    """The charts of an experiment; those of a run get its title, and those without a curve are left out."""
    charts = checked_experiment(facts)["charts"]
    if facts["kind"] == "experiment":
        return charts
    return [one | {"title": f"{one['title']}, {facts['title']}"} for one in charts if one.get("series", True)]


def slug(title: str) -> str:
    """A title as a file name without separators, so that no title can leave the folder."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "chart"
