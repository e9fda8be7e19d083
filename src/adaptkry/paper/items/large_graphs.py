"""The table of large graphs, with one smaller graph of the same collection as Penn94."""

from dataclasses import replace

from adaptkry.models.recipe import Recipe, recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import Printed, printed_values, result_table, verdict_notes
from adaptkry.selection.grid import alternatives


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per column (graph and split scheme) and method."""
    fewer = replace(options, splits=min(options.splits, item["ours"]["splits"]))
    methods = (item["quick"] if options.quick else item["paper"])["methods"]
    return [
        training(fewer, method, column["name"], column["graph"], settings(method, column["like"], options),
                 column["scheme"])
        for column in item["ours"]["columns"] for method in methods
    ]  # fmt: skip


def settings(method: str, like: str, options: RunOptions) -> list[Recipe]:
    """Return the published settings, or those to choose from on validation nodes; a quick run uses the first."""
    return [recipe(method, like)] if options.quick else alternatives(method, like)


def printed_by_method(item: dict) -> Printed:
    """Return the printed values, which `paper.toml` lists by column, by (method, column)."""
    columns = {name: values for name, values in item["paper"].items() if isinstance(values, list) and name != "methods"}
    by_column = printed_values(columns, item["paper"]["methods"])
    by_method = {(row, column): value for (column, row), value in by_column.items()}
    return by_method | {("adaptkry", column): value for column, value in item["paper"]["adaptkry-only"].items()}


def section(cells: Cells, item: dict) -> dict:
    """Return the table of test scores."""
    columns, printed = [column["name"] for column in item["ours"]["columns"]], printed_by_method(item)
    table = result_table("test score (%)", cells, item["paper"]["methods"], columns, item, printed)
    return {"tables": [table], "notes": verdict_notes(cells, printed, item)}
