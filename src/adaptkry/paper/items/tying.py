"""Beyond the paper: one weight a hop for all taus, or one for every tau."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import grid

ROWS = {"tied": True, "untied": False}


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """Both forms on the graphs with several taus."""
    return [
        training(how, row, graph, graph, [recipe("adaptkry", graph, tied=tied)])
        for graph in item["graphs"]
        for row, tied in ROWS.items()
    ]


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, and the difference split by split."""
    notes = []
    for graph in item["graphs"]:
        both = [cells.get((row, graph)) for row in ROWS]
        if both[0] and both[1] and len(both[0].numbers) == len(both[1].numbers):
            apart = both[1].numbers - both[0].numbers
            notes.append(f"{graph}: untied minus tied, split by split, {apart.mean():+.2f} points on average.")
    return {"tables": [grid("test accuracy (%)", cells, list(ROWS), item["graphs"], item, {})], "notes": notes}
