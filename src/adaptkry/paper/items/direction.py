"""Beyond the paper: the direction of edges."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import difference_cell, result_table

DIRECTION_SETTINGS = {"degree": 4, "taus": (1.0,), "hop_norm": True}


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per directed graph and direction."""
    return [
        training(
            options, row, graph, graph, [recipe("adaptkry", graph, directions=tuple(directions), **DIRECTION_SETTINGS)]
        )
        for graph in item["graphs"]
        for row, directions in item["ours"]["directions"].items()
    ]


def chosen_direction(cells: Cells, item: dict, graph: str) -> str | None:
    """Return the direction with the highest mean validation score; None if the graph was not measured."""
    rows = [row for row in item["ours"]["directions"] if (row, graph) in cells]
    return max(rows, key=lambda row: cells[row, graph].validation, default=None)


def section(cells: Cells, item: dict) -> dict:
    """Return the table, and the gain of the direction that validation nodes choose over ignoring directions."""
    rows, notes = list(item["ours"]["directions"]), []
    for graph in item["graphs"]:
        best, base = chosen_direction(cells, item, graph), cells.get(("both", graph))
        if best is not None and base is not None:
            difference = difference_cell(cells[best, graph], base, "test")
            gain = (
                ""
                if best == "both" or difference is None
                else f": {difference['text']} points on test nodes "
                "compared with 'both' (same splits, corrected 95 % interval)"
            )
            notes.append(f"{graph}: {best!r} is best on validation nodes{gain}.")
    return {"tables": [result_table("test accuracy (%)", cells, rows, item["graphs"], item, {})], "notes": notes}
