"""`adaptkry tour`."""

import json
from typing import Annotated

import typer

from adaptkry.cli.options import JsonOption

EXAMPLES = ("adaptkry tour", "adaptkry tour --nodes 2000 --phi -1", "adaptkry tour --json")


def tour(
    nodes: Annotated[int, typer.Option(min=20, max=4000, help="Number of nodes of the built-in graph.")] = 400,
    phi: Annotated[
        float,
        typer.Option(
            help="From -1 (neighbours differ in class) to 1 (they agree); at 0 the edges carry no information."
        ),
    ] = 0.6,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the graph.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show how tau changes the spectrum and the basis of a built-in graph, and check the paper's theory."""
    import numpy as np

    from adaptkry.cli import terminal
    from adaptkry.report import demo

    found = demo.tour(nodes, phi, seed)
    if as_json:
        typer.echo(json.dumps(found, default=np.ndarray.tolist))
    else:
        terminal.print_tour(found)
