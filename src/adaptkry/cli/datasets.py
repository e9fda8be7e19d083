"""`adaptkry datasets`."""

import json

import typer

from adaptkry.cli.options import JsonOption

EXAMPLES = ("adaptkry datasets", "adaptkry datasets --json")


def datasets(as_json: JsonOption = False) -> None:
    """List the graphs that can be loaded by name."""
    from adaptkry.cli import terminal
    from adaptkry.graphs.load import describe

    rows = describe()
    if as_json:
        typer.echo(json.dumps(rows, default=str))
    else:
        terminal.print_datasets(rows)
