"""The files of a report: facts, picture, page and figures."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from adaptkry.common.files import (
    check_output_file,
    check_output_folder,
    checked_path,
    digest_of,
    exclusive_lock,
    read_json,
    remove_leftovers,
    visible_names,
    write,
)
from adaptkry.report.charts import write_chart, write_charts
from adaptkry.report.elements import checked_experiment, finite
from adaptkry.report.page_html import page

FACTS, PICTURE, PAGE = REPORT_FILES = ("facts.json", "picture.png", "report.html")
RESULT_FILES = ("run.json", "comparison.json")  # one of them is written last, when the results are complete
RUN_KEYS = {"title", "tables", "charts", "score", "overview"}  # required keys of the facts of a run


def write_report(folder: Path, facts_of: Callable[[], dict], *, renew: bool = False) -> dict[str, str]:
    """Write the facts, the picture (of a run) and the page of the results in a folder, as far as they are missing.

    The results are on disk before; this can fail, be interrupted and be repeated.

    Args:
        folder: a folder with a finished run or comparison; it is locked.
        facts_of: computes the facts; called if there are none, or only those of earlier results.
        renew: write everything again.

    Returns:
        The paths of the folder, the picture and the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    check_report_files(folder)
    with exclusive_lock(folder):
        remove_leftovers(folder)
        if renew or not has_facts(folder):
            facts = facts_of()
            for name in REPORT_FILES:
                (folder / name).unlink(missing_ok=True)
            write_facts(folder, facts | {"results": results_digest(folder)})
        facts = read_facts(folder)
        if facts["kind"] == "run" and not (folder / PICTURE).exists():
            write_picture(folder / PICTURE, facts)
        if not (folder / PAGE).exists():
            write_page([folder], folder / PAGE)
    paths = {"folder": folder, "picture": folder / PICTURE, "report": folder / PAGE}
    return {name: str(path) for name, path in paths.items() if name != "picture" or facts["kind"] == "run"}


def remove_stale_report(folder: Path) -> None:
    """Remove the report of earlier results, which are not those in the folder."""
    if (folder / FACTS).exists() and not has_facts(folder):
        check_report_files(folder)
        for name in REPORT_FILES:
            (folder / name).unlink(missing_ok=True)


def check_report_files(folder: Path) -> None:
    """Refuse a folder with files of somebody else under the names that a report has."""
    check_output_file(folder / FACTS, [], lambda head: head.lstrip().startswith(b"{") and b'"kind"' in head)
    check_output_file(folder / PAGE, [], is_page)
    if (folder / PICTURE).exists() and not (folder / FACTS).exists() and results_digest(folder) is None:
        raise ValueError(f"{folder / PICTURE} exists, and is not the picture of a run. Use another folder.")


def results_digest(folder: Path) -> str | None:
    """Return the SHA-256 of the file that completes the results in a folder; None if there are no results."""
    found = [folder / name for name in RESULT_FILES if (folder / name).is_file()]
    return digest_of(found[0].read_bytes()) if found else None


def has_facts(folder: Path) -> bool:
    """Return whether a folder holds all facts of the results in it, not those of earlier results."""
    try:
        found = read_facts(folder)
    except (OSError, ValueError):
        return False
    return "results" in found and found["results"] == results_digest(folder) and not found.get("is_partial")


def write_picture(path: Path, facts: dict) -> Path:
    """Draw all charts of a run into one file."""
    columns, title = 2 if len(facts["charts"]) == 4 else 3, facts.get("summary") or facts["title"]
    return write_charts(path, checked_experiment(facts)["charts"], columns, title=title)


def write_facts(folder: Path, facts: dict) -> Path:
    """Write the facts of a run or experiment to its folder."""
    write(folder / FACTS, json.dumps(finite(facts), allow_nan=False))
    return folder / FACTS


def read_facts(path: Path) -> dict:
    """Read the facts of a run or experiment from its folder or from a file."""
    file = path if path.is_file() else path / FACTS
    if not file.exists():
        raise FileNotFoundError(
            f"a report needs folders that `adaptkry fit`, `tune`, `auto` or `compare` finished; {path} has no "
            "facts.json. Check the path, or repeat the command with --resume."
        )
    found = read_json(file, "Run the command that wrote it again.")
    kind = found.get("kind")
    if kind != "experiment" and not (kind == "run" and found.keys() >= RUN_KEYS):
        raise ValueError(
            f"{file} must hold a run or an experiment of this version; it holds neither a run nor an experiment. "
            f"Check the path, or run the command that wrote it again."
        )
    return found


def is_page(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a page of this module."""
    return b"<title>adaptkry report</title>" in head


def write_page(folders: Sequence[Path], out: Path) -> Path:
    """Write the report of several run or experiment folders as one HTML file."""
    facts = [folder if folder.is_file() else folder / FACTS for folder in folders]
    check_output_file(out, facts, is_page)
    write(out, page([read_facts(folder) for folder in folders]))
    return out


def write_figures(folders: Sequence[Path], out: Path) -> list[Path]:
    """Write every chart of the folders as SVG and PNG files, numbered in order.

    The output folder is created; one with other files than figures is refused.
    """
    for name in visible_names(checked_path(out, "the folder of figures")):
        if not re.fullmatch(r"\d{2,}-[a-z0-9-]+\.(svg|png)", name):
            raise ValueError(
                f"the folder of figures must be new, empty or hold figures; {out} holds {name}. Use another."
            )
    charts = [chart for folder in folders for chart in charts_of(read_facts(folder))]
    check_output_folder(out)
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
