"""`adaptkry generate`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import JsonOption

EXAMPLES = (
    "adaptkry generate big --nodes 1e6 --entries 1e7 --labelled 0.01",
    "adaptkry generate small --nodes 1000 --entries 1e4 --directed",
)


def parse_integer(text: str) -> int:
    """An integer, which may be written as 1e7."""
    for number in (int, float):  # a float would round integers above 2^53
        try:
            value = number(text)
        except ValueError:
            continue
        if value == value // 1:  # neither a fraction nor infinite
            return int(value)
    raise typer.BadParameter(f"must be an integer; got {text!r:.50}. Try 1000000 or 1e6.")


def generate(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="The graph folder to write.")],
    nodes: Annotated[int, typer.Option(parser=parse_integer, metavar="NUMBER", help="Number of nodes, such as 1e6.")],
    entries: Annotated[
        int,
        typer.Option(
            parser=parse_integer,
            metavar="NUMBER",
            help="Approximate number of entries of the adjacency matrix; an undirected edge has two.",
        ),
    ],
    features: Annotated[int, typer.Option(min=1, help="Number of features.")] = 64,
    classes: Annotated[int, typer.Option(min=2, help="Number of classes.")] = 10,
    homophily: Annotated[float, typer.Option(min=0, max=1, help="Share of edges within a class.")] = 0.7,
    labelled: Annotated[float, typer.Option(min=0, max=1, help="Share of nodes with a known label.")] = 1.0,
    directed: Annotated[bool, typer.Option("--directed", help="Make the graph directed.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the graph.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Write a random graph of any size, with power-law degrees and planted classes, to a graph folder.

    An interrupted command can be run again: it keeps the parts that are finished.
    """
    from adaptkry.cli.progress import byte_progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.cli.terminal import size_of
    from adaptkry.common.memory import format_bytes
    from adaptkry.outofcore import random_graph

    with (
        interruptible(lambda: f"finished parts are saved in {out}; run the same command to continue"),
        byte_progress(quiet=as_json) as on_progress,
    ):
        graph = random_graph.generate(
            out, nodes=nodes, entries=entries, features=features, classes=classes, homophily=homophily,
            labelled=labelled, directed=directed, seed=seed, on_progress=on_progress,
        )  # fmt: skip
    written = {"folder": str(out), "nodes": graph.nodes, "entries": graph.entries, "bytes": size_of(out)}
    text = f"graph folder: {out}, {graph.nodes:,} nodes, {graph.entries:,} entries, {format_bytes(written['bytes'])}"
    typer.echo(json.dumps(written) if as_json else text)
