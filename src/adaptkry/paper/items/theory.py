"""The theory section as a table."""

from adaptkry.graphs.graph import Graph
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.verdicts import HOLDS, claim_verdict
from adaptkry.report import elements
from adaptkry.spectral.theory import check_all

NOT_APPLICABLE = "does not apply"


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """All checks on every graph."""
    return [Measurement(name, "", name, checks) for name in item["ours"]["graphs"]]


def checks(graph: Graph) -> list[dict]:
    """One row per check."""
    return [
        {"row": f"{i + 1}. {one.name}", "value": int(one.holds), "claim": one.claim, "measured": one.measured,
         "note": one.note}
        for i, one in enumerate(check_all(graph.undirected()))
    ]  # fmt: skip


def section(cells: Cells, item: dict) -> dict:
    """Claim, measurement, verdict and erratum."""
    lines = []
    for (name, graph), cell in sorted(cells.items(), key=lambda pair: (pair[0][1], pair[1].rows[0]["row"])):
        row = cell.rows[0]
        applies = not row["note"].startswith(NOT_APPLICABLE)
        word = claim_verdict(bool(row["value"])) if applies else NOT_APPLICABLE
        lines.append([graph, name, row["claim"], row["measured"], word, row["note"]])
    verdicts = [line[4] for line in lines]
    held, applicable = verdicts.count(HOLDS), len(verdicts) - verdicts.count(NOT_APPLICABLE)
    heads = ["graph", "where", "claim, as checked", "measured", "verdict", "erratum or remark"]
    note = f"{held} of the {applicable} checks that apply hold. `docs/theory.md` explains each with a runnable example."
    return {"tables": [elements.table("claims", heads, lines)], "notes": [note]}
