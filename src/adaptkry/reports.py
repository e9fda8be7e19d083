"""The report page: one HTML file that works from disk, without a server and without the network.

Charts are drawn by a small script of our own: a page is some hundred kilobytes, where a charting library alone would
be the five megabytes a page may have.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from adaptkry import storage
from adaptkry.experiments import finite


def page(facts: Sequence[dict]) -> str:
    """The page of one or several runs, from their `facts.json`."""
    parts = {
        name: (files("adaptkry") / "page" / f"page.{name}").read_text(encoding="utf-8")
        for name in ("html", "css", "js")
    }
    # "</script>" inside a name would end the block of data; an escaped slash is the same JSON.
    data = json.dumps(list(facts), allow_nan=False).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    text = parts["html"].replace("/*STYLE*/", parts["css"]).replace("/*SCRIPT*/", parts["js"])
    return text.replace("/*DATA*/", data)


def write_facts(folder: Path, facts: dict) -> Path:
    """Keep what a report needs in the run folder."""
    storage.write(folder / "facts.json", json.dumps(finite(facts), allow_nan=False))
    return folder / "facts.json"


def read_facts(folder: Path) -> dict:
    """What a run folder keeps for its report."""
    path = folder / "facts.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} has no facts.json: it is no run folder of `adaptkry fit`. Check the path.")
    return json.loads(path.read_text(encoding="utf-8"))


def write(folders: Sequence[Path], out: Path) -> Path:
    """The report of run folders as one file."""
    storage.write(out, page([read_facts(folder) for folder in folders]))
    return out
