"""Table 1: counts of the six graphs."""

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import edge
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions
from adaptkry.paper.tables import grid, published, reasons

ROWS = ("nodes", "edges", "features", "classes", "homophily", "entries", "loops")


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """One job a graph counts everything."""
    return [Job(name, "nodes", name, counted) for name in item["graphs"]]


def counted(graph: Graph) -> list[dict]:
    """Every count as a row of its own."""
    loops = graph.entries - graph.without_self_loops().entries
    found = {
        "nodes": graph.nodes, "edges": (graph.undirected().entries - loops) // 2, "features": graph.x.shape[1],
        "classes": graph.classes, "homophily": edge(graph), "entries": graph.entries, "loops": loops,
    }  # fmt: skip
    return [{"row": name, "value": value} for name, value in found.items()]


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, and why counts differ."""
    known = published(item["paper"], item["graphs"])
    return {
        "tables": [grid("counts", cells, ROWS, item["graphs"], item, known)],
        "notes": reasons(cells, known, item, phrases),
    }
