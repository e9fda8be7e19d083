"""Predictions as a table people can open."""

import csv
import io
from pathlib import Path

from adaptkry.graph import Graph
from adaptkry.runs import Run
from adaptkry.storage import write


def write_csv(path: Path | str, run: Run, graph: Graph) -> int:
    """Write node, predicted class and one probability a class; returns the number of nodes."""
    chances = run.probabilities(graph)
    names = run.about["class_names"] or [str(c) for c in range(run.layout.classes)]
    nodes = graph.info.node_ids or range(graph.nodes)
    page = io.StringIO()
    table = csv.writer(page)
    table.writerow(["node", "class", *(f"p({name})" for name in names)])
    for node, row in zip(nodes, chances.tolist(), strict=True):
        table.writerow([node, names[max(range(len(row)), key=row.__getitem__)], *(f"{p:.6f}" for p in row)])
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, page.getvalue())
    return graph.nodes
