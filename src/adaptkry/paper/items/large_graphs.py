"""The large-graph table, and a smaller graph of Penn94's family that is at hand."""

from dataclasses import replace

from adaptkry.models.recipe import Recipe, recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import Published, grid, published, reasons
from adaptkry.selection import grid as tuning


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """Every method on every graph and split of the table."""
    fewer = replace(how, splits=min(how.splits, item["ours"]["splits"]))
    methods = (item["quick"] if how.quick else item["paper"])["methods"]
    return [
        training(fewer, method, column["name"], column["graph"], settings(method, column["like"], how),
                 column["scheme"])
        for column in item["ours"]["columns"] for method in methods
    ]  # fmt: skip


def settings(method: str, like: str, how: RunOptions) -> list[Recipe]:
    """Published settings, or those that are tried."""
    return [recipe(method, like)] if how.quick else tuning.alternatives(method, like)


def known(item: dict) -> Published:
    """The printed figures, column by column."""
    columns = {name: values for name, values in item["paper"].items() if isinstance(values, list) and name != "methods"}
    turned = {(row, column): value for (column, row), value in published(columns, item["paper"]["methods"]).items()}
    return turned | {("adaptkry", column): value for column, value in item["paper"]["adaptkry-only"].items()}


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table."""
    columns = [column["name"] for column in item["ours"]["columns"]]
    table = grid("test score (%)", cells, item["paper"]["methods"], columns, item, known(item))
    return {"tables": [table], "notes": reasons(cells, known(item), item, phrases)}
