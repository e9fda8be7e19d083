"""`adaptkry report`."""

import functools
import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import JsonOption

EXAMPLES = (
    "adaptkry report runs/cora-adaptkry",
    "adaptkry report runs/a runs/b-comparison --out both.html",
    "adaptkry report runs/a --figures figures",
)


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER", help="Run folders, comparison folders, or files written by reproduce (ITEM.json)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The HTML file. Default: report.html in the folder (beside the first of several folders), or "
            "ITEM.html beside ITEM.json."
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also write every chart to this folder, as SVG and PNG.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page about runs and comparisons. It needs neither a server nor a network connection.

    What is missing of the report of a folder is made first.
    """
    from adaptkry.common.files import check_output_file
    from adaptkry.report.html import is_page, results_digest, write_figures, write_page, write_report
    from adaptkry.report.stored import stored_facts

    target = out or default_page(folders)
    check_output_file(target, [], is_page)  # before anything is computed
    for folder in folders:
        if folder.is_dir() and results_digest(folder) is not None:
            write_report(folder, functools.partial(stored_facts, folder))  # what is missing
    page = write_page(folders, target)
    drawn = write_figures(folders, figures) if figures else []
    if as_json:
        typer.echo(json.dumps({"report": str(page), "figures": [str(path) for path in drawn]}))
    else:
        typer.echo("\n".join([f"report: {page}", *(f"figure: {path}" for path in drawn)]))


def default_page(folders: list[Path]) -> Path:
    """The default of --out; a page about several runs does not replace the page of one of them."""
    first = folders[0]
    if first.is_file():
        return first.with_suffix(".html")
    return (first if len(folders) == 1 else first.parent) / "report.html"
