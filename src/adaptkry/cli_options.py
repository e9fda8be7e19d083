"""Arguments that several commands share, and the graph they name."""

from pathlib import Path
from typing import Annotated

import typer

from adaptkry import datasets
from adaptkry.graph import Graph

DataRoot = Annotated[
    Path | None, typer.Option(help="A folder with the benchmark's raw files, looked at before a download.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
GraphName = Annotated[list[str], typer.Argument(help="A name (see `adaptkry datasets`) or your own file(s).")]


def load(names: list[str], data_root: Path | None) -> Graph:
    """A graph by one name or file, or by several files."""
    return datasets.load(names[0] if len(names) == 1 else names, root=data_root)
