"""The table of tau sets: one, two and three bases."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import grid, published, reasons


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """The paper's sets, all other settings those of Table 2."""
    return [
        training(how, row, graph, graph, [recipe("adaptkry", graph, taus=tuple(taus))])
        for row, sets in item["ours"].items()
        for graph, taus in zip(item["graphs"], sets, strict=True)
    ]


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, and the sets."""
    known = published(item["paper"], item["graphs"])
    table = grid("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, known)
    notes = [
        f"{row}: " + "; ".join(f"{graph} {taus}" for graph, taus in zip(item["graphs"], sets, strict=True))
        for row, sets in item["ours"].items()
    ]
    return {"tables": [table], "notes": notes + reasons(cells, known, item, phrases)}
