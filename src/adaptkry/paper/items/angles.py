"""Figure 3: the mean angle between consecutive hops."""

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import normalised
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions
from adaptkry.paper.tables import grid, published, reasons
from adaptkry.report import elements as experiments
from adaptkry.spectral import spectrum
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.propagation import Propagation

HOPS = [str(k) for k in range(1, 11)]


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """One job a curve."""
    return [
        Job(row.split(",")[0], row, "", lambda graph, row=row: measured(graph, float(row.split()[-1])))
        for row in item["paper"]
    ]


def measured(graph: Graph, tau: float) -> list[dict]:
    """Ten angles; Cora's rows of features are divided by their sums, Squirrel's are raw."""
    x = (normalised(graph) if graph.info.name == "cora" else graph).x
    found = spectrum.angles(krylov(Propagation(graph, tau), x, len(HOPS)))
    return [{"column": hop, "value": float(angle)} for hop, angle in zip(HOPS, found, strict=True)]


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, and a chart a graph."""
    known = published(item["paper"], HOPS)
    table = grid("degrees", cells, list(item["paper"]), HOPS, item, known)
    charts = [drawn(cells, item, graph) for graph in ("cora", "squirrel")]
    return {"tables": [table], "charts": charts, "notes": reasons(cells, known, item, phrases)}


def drawn(cells: Cells, item: dict, graph: str) -> dict:
    """Angles against hops, three taus."""
    rows = [row for row in item["paper"] if row.startswith(graph) and (row, "1") in cells]
    lines = []
    for row in rows:
        there = [hop for hop in HOPS if (row, hop) in cells]
        lines.append(experiments.series(row.split(", ")[1], list(map(int, there)), [cells[row, h].mean for h in there]))
    return experiments.chart(graph, lines, x="hop", y="angle (degrees)")
