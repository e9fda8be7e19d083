"""The checks of the paper's theory as a table."""

from adaptkry.graphs.graph import Graph
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.verdicts import HOLDS, claim_verdict
from adaptkry.report import elements
from adaptkry.spectral.theory import check_all

NOT_APPLICABLE = "does not apply"


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph, which runs all checks."""
    return [Measurement(name, "", name, checks) for name in item["ours"]["graphs"]]


def checks(graph: Graph) -> list[dict]:
    """Run all checks on a graph; returns one row per check."""
    return [
        {"row": f"{number}. {check.name}", "value": int(check.holds), "claim": check.claim,
         "measured": check.measured, "note": check.note}
        for number, check in enumerate(check_all(graph.undirected()), 1)
    ]  # fmt: skip


def section(cells: Cells, item: dict) -> dict:
    """Return the table of claims, measurements, verdicts and errata."""
    lines = []
    for (name, graph), cell in sorted(cells.items(), key=lambda pair: (pair[0][1], pair[1].rows[0]["row"])):
        row = cell.rows[0]
        applies = not row["note"].startswith(NOT_APPLICABLE)
        verdict = claim_verdict(bool(row["value"])) if applies else NOT_APPLICABLE
        lines.append([graph, name, row["claim"], row["measured"], verdict, row["note"]])
    verdicts = [line[4] for line in lines]
    held, applicable = verdicts.count(HOLDS), len(verdicts) - verdicts.count(NOT_APPLICABLE)
    headings = ["graph", "where", "claim, as checked", "measured", "verdict", "erratum or remark"]
    note = f"{held} of the {applicable} applicable checks hold. `docs/theory.md` explains each with a runnable example."
    return {"tables": [elements.table("claims", headings, lines)], "notes": [note]}
