"""Beyond the paper: one weight per hop for all taus (tied), or one per hop and tau (untied)."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import result_table

FORMS = {"tied": True, "untied": False}


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per form and graph with several taus."""
    return [
        training(options, row, graph, graph, [recipe("adaptkry", graph, tied=tied)])
        for graph in item["graphs"]
        for row, tied in FORMS.items()
    ]


def section(cells: Cells, item: dict) -> dict:
    """Return the table, and the mean difference over the same splits."""
    notes = []
    for graph in item["graphs"]:
        tied, untied = (cells.get((row, graph)) for row in FORMS)
        if tied and untied and len(tied.numbers) == len(untied.numbers):
            difference = (untied.numbers - tied.numbers).mean()
            notes.append(f"{graph}: untied minus tied over the same splits, {difference:+.2f} points on average.")
    return {"tables": [result_table("test accuracy (%)", cells, list(FORMS), item["graphs"], item, {})], "notes": notes}
