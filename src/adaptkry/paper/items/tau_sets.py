"""The table of tau sets: one, two and three bases."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import printed_values, result_table, verdict_notes


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """The paper's sets, all other settings those of Table 2."""
    return [
        training(options, row, graph, graph, [recipe("adaptkry", graph, taus=tuple(taus))])
        for row, sets in item["ours"].items()
        for graph, taus in zip(item["graphs"], sets, strict=True)
    ]


def section(cells: Cells, item: dict) -> dict:
    """The table, and the sets."""
    printed = printed_values(item["paper"], item["graphs"])
    table = result_table("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, printed)
    notes = [
        f"{row}: " + "; ".join(f"{graph} {taus}" for graph, taus in zip(item["graphs"], sets, strict=True))
        for row, sets in item["ours"].items()
    ]
    return {"tables": [table], "notes": notes + verdict_notes(cells, printed, item)}
