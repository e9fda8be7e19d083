"""`adaptkry demo`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import JsonOption

EXAMPLES = ("adaptkry demo", "adaptkry demo --out runs/first --json")


def demo(
    out: Annotated[Path, typer.Option(help="Output folder, with one run folder per training.")] = Path("runs/demo"),
    as_json: JsonOption = False,
) -> None:
    """Train adaptkry and two baselines on two built-in graphs: one where neighbours agree, one where they differ."""
    from adaptkry.cli import terminal
    from adaptkry.cli.progress import progress
    from adaptkry.common.memory import keep_freed_memory
    from adaptkry.report.demo import DEMO_METHODS, train_demo

    keep_freed_memory()
    with progress("training", 2 * len(DEMO_METHODS), quiet=as_json) as advance:
        rows = train_demo(out, advance)
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        terminal.print_demo(rows)
        typer.echo(f"report of all six runs: {out / 'report.html'}")
