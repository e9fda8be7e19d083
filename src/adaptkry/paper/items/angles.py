"""Figure 3: the mean angle between consecutive hops."""

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import normalised
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.tables import cell_series, printed_values, result_table, verdict_notes
from adaptkry.report import elements
from adaptkry.spectral import spectrum
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.propagation_matrix import Propagation

HOPS = [str(k) for k in range(1, 11)]


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph and tau."""
    return [
        Measurement(row.split(",")[0], row, "", lambda graph, row=row: hop_angles(graph, float(row.split()[-1])))
        for row in item["paper"]
    ]


def hop_angles(graph: Graph, tau: float) -> list[dict]:
    """Measure ten angles; each row of Cora's features is divided by its sum, those of Squirrel are not scaled."""
    x = (normalised(graph) if graph.info.name == "cora" else graph).x
    angles = spectrum.angles(krylov(Propagation(graph, tau), x, len(HOPS)))
    return [{"column": hop, "value": float(angle)} for hop, angle in zip(HOPS, angles, strict=True)]


def section(cells: Cells, item: dict) -> dict:
    """Return the table, and one chart per graph."""
    printed = printed_values(item["paper"], HOPS)
    return {
        "tables": [result_table("degrees", cells, list(item["paper"]), HOPS, item, printed)],
        "charts": [angle_chart(cells, item, graph) for graph in ("cora", "squirrel")],
        "notes": verdict_notes(cells, printed, item),
    }


def angle_chart(cells: Cells, item: dict, graph: str) -> dict:
    """Return the chart of angles by hop, one line per tau."""
    lines = []
    for row in item["paper"]:
        if row.startswith(graph):
            points = [(int(hop), cells.get((row, hop))) for hop in HOPS]
            lines += cell_series(row.split(", ")[1], points, intervals=False)
    return elements.chart(graph, lines, x="hop", y="angle (degrees)")
