"""Table 1: sizes and homophily of the six graphs."""

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import edge
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.tables import printed_values, result_table, verdict_notes

COUNTS = ("nodes", "edges", "features", "classes", "homophily", "entries", "loops")


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph, which returns all counts."""
    return [Measurement(name, "nodes", name, counts) for name in item["graphs"]]


def counts(graph: Graph) -> list[dict]:
    """Count nodes, edges, features, classes and self-loops, and compute the homophily; one row each."""
    loops = graph.entries - graph.without_self_loops().entries
    found = {
        "nodes": graph.nodes, "edges": (graph.undirected().entries - loops) // 2, "features": graph.x.shape[1],
        "classes": graph.classes, "homophily": edge(graph), "entries": graph.entries, "loops": loops,
    }  # fmt: skip
    return [{"row": name, "value": value} for name, value in found.items()]


def section(cells: Cells, item: dict) -> dict:
    """Return the table, and the reasons why counts differ."""
    printed = printed_values(item["paper"], item["graphs"])
    return {
        "tables": [result_table("counts", cells, COUNTS, item["graphs"], item, printed)],
        "notes": verdict_notes(cells, printed, item),
    }
