"""The table of tau sets: accuracy with one, two and three taus."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import printed_values, result_table, verdict_notes


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per set of taus and graph; all other settings are those of Table 2."""
    return [
        training(options, row, graph, graph, [recipe("adaptkry", graph, taus=tuple(taus))])
        for row, sets in item["ours"].items()
        for graph, taus in zip(item["graphs"], sets, strict=True)
    ]


def section(cells: Cells, item: dict) -> dict:
    """Return the table, and a note that lists the sets."""
    printed = printed_values(item["paper"], item["graphs"])
    table = result_table("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, printed)
    notes = [
        f"{row}: " + "; ".join(f"{graph} {taus}" for graph, taus in zip(item["graphs"], sets, strict=True))
        for row, sets in item["ours"].items()
    ]
    return {"tables": [table], "notes": notes + verdict_notes(cells, printed, item)}
