"""The report as the last step of a command, after its results were written and printed."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import log
from adaptkry.cli.signals import interruptible

ReportOption = Annotated[
    bool, typer.Option("--report/--no-report", help="Whether to make the report: charts and an HTML page.")
]
HOW_TO_REPEAT = {
    "report": "`adaptkry report {0}` makes the report",
    "predictions": "`adaptkry predict {0} GRAPH` makes the predictions",
}


def report_step(
    folder: Path, make: Callable[[], dict[str, str]], *, is_wanted: bool = True, what: str = "report"
) -> tuple[dict[str, str | None], int]:
    """Make the report or the predictions of complete results; a failure is a warning, because nothing is lost.

    Args:
        folder: the folder of the results.
        make: writes the files and returns their paths by name.
        is_wanted: whether to make them.
        what: "report" or "predictions".

    Returns:
        The paths of the folder and of the files that were written (of a report, picture and page; None if they were
        not), and the exit code: that of an interruption, otherwise 0.
    """
    names = ("picture", "report") if what == "report" else (what,)
    paths: dict[str, str | None] = {"folder": str(folder), **dict.fromkeys(names)}
    if not is_wanted:
        if what == "report" and (folder / "facts.json").exists():
            from adaptkry.report.html import remove_stale_report

            remove_stale_report(folder)
        return paths, 0
    remedy = f"the results in {folder} are complete; {HOW_TO_REPEAT[what].format(folder)}"
    try:
        with interruptible(lambda: remedy):
            log.info(f"making the {what}; the results in {folder} are complete")
            return paths | make(), 0
    except typer.Exit as end:  # before other exceptions, of which it is one
        return paths, end.exit_code
    except Exception as error:  # whatever is wrong with a report, the results are on disk
        from adaptkry.cli.app import describe_error  # it imports the commands, which import this module

        text, _ = describe_error(error)
        log.warning(f"the {what} could not be made: {text.rstrip('.')}; {remedy}")
        return paths, 0
