"""The facts of results that are on disk: for a report that is made, or made again, after the command has ended."""

import logging
from pathlib import Path

from adaptkry.graphs.graph import Graph
from adaptkry.report.auto_report import auto_facts
from adaptkry.report.comparison_report import stored_comparison_report
from adaptkry.report.run_report import run_report
from adaptkry.selection.auto import SUMMARY, finished_search
from adaptkry.selection.compare import COMPARISON, load_comparison
from adaptkry.training.data import GraphData
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.predict import training_data
from adaptkry.training.run import Run, require_success
from adaptkry.training.run_folder import load_run

log = logging.getLogger("adaptkry")


def stored_facts(folder: Path) -> dict:
    """Return the facts of the finished run, search or comparison in a folder.

    Without the graph that a run was trained on, they are marked as partial (`"is_partial": True`).
    """
    if (folder / COMPARISON).exists():
        return stored_comparison_report(*load_comparison(folder))
    result = finished_search(folder) if (folder / SUMMARY).exists() else None
    run = load_run(folder) if result is None else result.ensemble
    require_success(run.results, run.chosen)
    graph = training_graph(run, folder)
    facts = run_report(run, graph)
    if result is not None:
        facts = auto_facts(result, facts)
    is_partial = graph is None and run.info.basis_folder is None
    return facts | ({"is_partial": True} if is_partial else {})


def training_graph(run: Run | Ensemble, folder: Path) -> Graph | None:
    """Return the graph that a run was trained on; None, with a message, if it is not there or was changed."""
    if run.info.basis_folder is not None:
        return None
    try:
        data = training_data(run, folder)
    except (ValueError, OSError) as error:
        log.warning(
            f"the report leaves out what needs the graph: {error} For a whole report, repeat the command that wrote "
            f"{folder} with --resume."
        )
        return None
    return data.graph if isinstance(data, GraphData) else None
