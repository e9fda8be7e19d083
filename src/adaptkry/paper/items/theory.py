"""The theory section as a table."""

from adaptkry.graphs.graph import Graph
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions
from adaptkry.report import elements as experiments
from adaptkry.spectral import theory as claims

HOLDS = ("does not hold", "holds")


def jobs(item: dict, how: RunOptions) -> list[Job]:
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
        word = "does not apply" if row["note"].startswith("does not apply") else HOLDS[row["value"]]
        rows.append([graph, name, row["claim"], row["measured"], word, row["note"]])
    words = [row[4] for row in rows]
    held, apply = words.count("holds"), len(words) - words.count("does not apply")
    heads = ["graph", "where", "claim, as checked", "measured", "verdict", "erratum or remark"]
    note = f"{held} of the {apply} checks that apply hold. `docs/theory.md` explains each with an example that runs."
    return {"tables": [experiments.table("claims", heads, rows)], "notes": [note]}
