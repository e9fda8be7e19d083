"""`adaptkry inspect`."""

import json

import typer

from adaptkry.cli.options import DataRootOption, DirectedOption, GraphArgument, JsonOption, column_options, open_graph

EXAMPLES = ("adaptkry inspect csbm", "adaptkry inspect edges.csv nodes.csv", "adaptkry inspect squirrel --json")


@column_options()
def inspect(
    graph: GraphArgument,
    columns: dict,
    directed: DirectedOption = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show size, components, homophily, spectrum and mixing bound of a graph, suggested settings, and warnings."""
    import numpy as np

    from adaptkry.cli import terminal
    from adaptkry.report.inspection import inspect_graph

    found = inspect_graph(open_graph(graph, data_root, directed, columns))
    if as_json:
        typer.echo(json.dumps(found, default=np.ndarray.tolist))
    else:
        terminal.print_inspection(found)
