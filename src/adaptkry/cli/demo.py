"""`adaptkry demo`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import Json

EXAMPLES = ("adaptkry demo", "adaptkry demo --out runs/first --json")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run folders.")] = Path("runs/demo"),
    as_json: Json = False,
) -> None:
    """Train on two built-in graphs, where neighbours agree and where they differ, against two baselines."""
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.common.memory import keep_freed
    from adaptkry.report.demo import DEMO_METHODS, train_demo

    keep_freed()
    with progress("training", 2 * len(DEMO_METHODS), quiet=as_json) as advance:
        rows = train_demo(out, advance)
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        terminal.print_demo(rows)
        typer.echo(f"report of all six runs: {out / 'report.html'}")
