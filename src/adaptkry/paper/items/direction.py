"""Beyond the paper: the direction of edges."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import result_table

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


def section(cells: Cells, item: dict) -> dict:
    """Return the table, and the gain of the best direction over ignoring directions."""
    rows, notes = list(item["ours"]["directions"]), []
    for graph in item["graphs"]:
        means = {row: cells[row, graph].mean for row in rows if (row, graph) in cells}
        if "both" in means:
            best = max(means, key=lambda row: means[row])
            notes.append(f"{graph}: best is {best!r}, {means[best] - means['both']:+.2f} points compared with 'both'.")
    return {"tables": [result_table("test accuracy (%)", cells, rows, item["graphs"], item, {})], "notes": notes}
