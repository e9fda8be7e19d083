"""Beyond the paper: the direction of edges."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import grid

DIRECTED = {"degree": 4, "taus": (1.0,), "hop_norm": True}


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """Every direction on every directed graph."""
    return [
        training(how, row, graph, graph, [recipe("adaptkry", graph, directions=tuple(directions), **DIRECTED)])
        for graph in item["graphs"]
        for row, directions in item["ours"]["directions"].items()
    ]


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, and what the best direction gains."""
    rows = list(item["ours"]["directions"])
    notes = []
    for graph in item["graphs"]:
        own = {row: cells[row, graph].mean for row in rows if (row, graph) in cells}
        if "both" in own:
            best = max(own, key=lambda row: own[row])
            notes.append(f"{graph}: best is {best!r}, {own[best] - own['both']:+.2f} points against 'both'.")
    return {"tables": [grid("test accuracy (%)", cells, rows, item["graphs"], item, {})], "notes": notes}
