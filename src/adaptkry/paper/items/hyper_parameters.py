"""The table of hyper-parameters: printed, and trained with."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions
from adaptkry.paper.tables import grid, published, reasons


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """No graph is needed: recipes are data."""
    return [Job(None, "degree", name, lambda _, name=name: settings(item, name)) for name in item["graphs"]]


def settings(item: dict, name: str) -> list[dict]:
    """The settings that the paper's table has, one row each."""
    made, rows = recipe("adaptkry", name), []
    for setting in item["paper"]:
        value = getattr(made, setting)
        what = {"text": ", ".join(map(str, value))} if isinstance(value, tuple) else {"value": value}
        rows.append({"row": setting, "column": name, **what})
    return rows


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table; what else our recipes say is in `methods.PUBLISHED`."""
    known = published(item["paper"], item["graphs"])
    table = grid("settings", cells, list(item["paper"]), item["graphs"], item, known)
    more = "A value above the printed one is that of the published script. All settings: `methods.PUBLISHED`."
    return {"tables": [table], "notes": [more, *reasons(cells, known, item, phrases)]}
