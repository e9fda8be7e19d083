"""The report page: one HTML file that works from disk, without a server and without the network.

Charts are drawn by a small script of our own: a page is some hundred kilobytes, where a charting library alone would
be the five megabytes a page may have.
"""

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from adaptkry.common import files as storage
from adaptkry.report import charts as plots
from adaptkry.report.elements import charts_of, finite, whole

RUN = {"about", "settings", "rows", "curves", "homophily", "filter", "explorer", "hop_weights", "angles", "confusion",
       "names"}  # fmt: skip  # without these a page has no run to show


def page(facts: Sequence[dict]) -> str:
    """The page of runs and experiments, from their `facts.json`."""
    parts = {
        name: (files("adaptkry.report") / "page" / f"page.{name}").read_text(encoding="utf-8")
        for name in ("html", "css", "js")
    }
    shown = [whole(one) if one.get("kind") == "experiment" else one for one in facts]
    # "</script>" inside a name would end the block of data; an escaped slash is the same JSON.
    data = json.dumps(shown, allow_nan=False).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    text = parts["html"].replace("/*STYLE*/", parts["css"]).replace("/*SCRIPT*/", parts["js"])
    return text.replace("/*DATA*/", data)


def write_facts(folder: Path, facts: dict) -> Path:
    """Keep what a report needs in its folder."""
    storage.write(folder / "facts.json", json.dumps(finite(facts), allow_nan=False))
    return folder / "facts.json"


def read_facts(folder: Path) -> dict:
    """What a folder keeps for its report, or a file: the facts of a run or of an experiment."""
    path = folder if folder.is_file() else folder / "facts.json"
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} has no facts.json: it is no folder of `adaptkry fit` or `adaptkry compare`. Check the path."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}). Make the folder again.") from None
    if not isinstance(found, dict) or (found.get("kind") != "experiment" and not found.keys() >= RUN):
        raise ValueError(f"{path} holds neither a run nor an experiment. Make the folder again, or check the path.")
    return found


def write(folders: Sequence[Path], out: Path) -> Path:
    """The report of runs and experiments as one file."""
    storage.write(out, page([read_facts(folder) for folder in folders]))
    return out


def figures(folders: Sequence[Path], out: Path) -> list[Path]:
    """Every chart of the folders as SVG and PNG, numbered in their order; the folder is made where it is missing."""
    charts = [chart for folder in folders for chart in charts_of(read_facts(folder))]
    out.mkdir(parents=True, exist_ok=True)
    names = [f"{number:02d}-{slug(chart['title'])}" for number, chart in enumerate(charts, 1)]
    return [
        plots.chart_picture(out / f"{name}.{kind}", chart)
        for name, chart in zip(names, charts, strict=True)
        for kind in ("svg", "png")
    ]


def slug(title: str) -> str:
    """A title as the name of a file: nothing in it can leave the folder."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "chart"
