"""The table of hyper-parameters: printed values, and those that we train with."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.tables import printed_values, result_table, verdict_notes

SOURCE_NOTE = "Values above the printed ones come from the published scripts. `adaptkry.recipe` returns all settings."


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph name; the graph itself is not needed."""
    return [Measurement(None, "degree", name, lambda _, name=name: settings(item, name)) for name in item["graphs"]]


def settings(item: dict, name: str) -> list[dict]:
    """Return our values of the settings in the paper's table, one row each."""
    trained, rows = recipe("adaptkry", name), []
    for setting in item["paper"]:
        value = getattr(trained, setting)
        result = {"text": ", ".join(map(str, value))} if isinstance(value, tuple) else {"value": value}
        rows.append({"row": setting, "column": name, **result})
    return rows


def section(cells: Cells, item: dict) -> dict:
    """Return the table of settings."""
    printed = printed_values(item["paper"], item["graphs"])
    table = result_table("settings", cells, list(item["paper"]), item["graphs"], item, printed)
    return {"tables": [table], "notes": [SOURCE_NOTE, *verdict_notes(cells, printed, item)]}
