"""The theory section as a table."""

from adaptkry import experiments
from adaptkry import theory as claims
from adaptkry.graph import Graph
from adaptkry.reproduction.cells import Cells
from adaptkry.reproduction.core import How, Job


def jobs(item: dict, how: How) -> list[Job]:
    """All checks on every graph."""
    return [Job(name, "", name, measured) for name in item["ours"]["graphs"]]


def measured(graph: Graph) -> list[dict]:
    """One row a check."""
    return [
        {"row": f"{i + 1}. {one.name}", "value": int(one.holds), "claim": one.claim, "measured": one.measured,
         "note": one.note}
        for i, one in enumerate(claims.check_all(graph.undirected()))
    ]  # fmt: skip


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """Claim, measured, holds, erratum."""
    rows = []
    for (name, graph), own in sorted(cells.items(), key=lambda pair: (pair[0][1], pair[1].rows[0]["row"])):
        row = own.rows[0]
        word = "holds" if row["value"] else "does not hold"
        rows.append([graph, name, row["claim"], row["measured"], word, row["note"]])
    held = sum(row[4] == "holds" for row in rows)
    heads = ["graph", "where", "claim, as checked", "measured", "verdict", "erratum or remark"]
    return {
        "tables": [experiments.table("claims", heads, rows)],
        "notes": [f"{held} of {len(rows)} checks hold. `docs/theory.md` explains each with an example that runs."],
    }
