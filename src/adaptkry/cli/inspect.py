"""`adaptkry inspect`."""

import json

import typer

from adaptkry.cli.options import DataRoot, Directed, GraphNames, Json, open_graph

EXAMPLES = ("adaptkry inspect csbm", "adaptkry inspect edges.csv nodes.csv", "adaptkry inspect squirrel --json")


def inspect(graph: GraphNames, directed: Directed = None, data_root: DataRoot = None, as_json: Json = False) -> None:
    """Show size, components, homophily, spectrum, lambda*, mixing bound and warnings of a graph."""
    import numpy as np

    from adaptkry.cli import terminal
    from adaptkry.report.inspection import inspect_graph

    found = inspect_graph(open_graph(graph, data_root, directed).graph)
    if as_json:
        typer.echo(json.dumps(found, default=np.ndarray.tolist))
    else:
        terminal.print_inspection(found)
