"""The table of hyper-parameters: those printed, and those that we train with."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.tables import printed_values, result_table, verdict_notes

SOURCE_NOTE = "A value above the printed one is that of the published script. `adaptkry.recipe` returns all settings."


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """No graph is needed: recipes are data."""
    return [Measurement(None, "degree", name, lambda _, name=name: settings(item, name)) for name in item["graphs"]]


def settings(item: dict, name: str) -> list[dict]:
    """The settings in the paper's table, one row each."""
    trained, rows = recipe("adaptkry", name), []
    for setting in item["paper"]:
        value = getattr(trained, setting)
        result = {"text": ", ".join(map(str, value))} if isinstance(value, tuple) else {"value": value}
        rows.append({"row": setting, "column": name, **result})
    return rows


def section(cells: Cells, item: dict) -> dict:
    """The table."""
    printed = printed_values(item["paper"], item["graphs"])
    table = result_table("settings", cells, list(item["paper"]), item["graphs"], item, printed)
    return {"tables": [table], "notes": [SOURCE_NOTE, *verdict_notes(cells, printed, item)]}
