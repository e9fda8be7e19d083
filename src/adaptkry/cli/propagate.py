"""The commands for graphs larger than memory: make one, and propagate on it from disk to disk."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.signals import stoppable
from adaptkry.cli.terminal import Json
from adaptkry.common import memory as memory_
from adaptkry.common import timing
from adaptkry.outofcore.executors import ENGINES
from adaptkry.outofcore.folders import DTYPES
from adaptkry.outofcore.memory_plan import show_bytes
from adaptkry.outofcore.propagate import propagate
from adaptkry.outofcore.random_graph import generate, steps
from adaptkry.outofcore.request import work_of

app = typer.Typer()


def news(text: str) -> None:
    """A sentence on stderr, since stdout is for results."""
    typer.echo(text, err=True)


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


@app.command(
    "propagate",
    epilog="Examples:  adaptkry propagate csbm --taus 0.5,1.0 --degree 10 --out basis"
    "  |  adaptkry propagate big --taus 1 --degree 4 --out basis --memory 2GiB --rows labelled --dtype bfloat16"
    "  |  adaptkry propagate big --taus 1 --degree 4 --out basis --engine dask --scheduler tcp://10.0.0.1:8786",
)
def propagate_(
    graph: Annotated[list[str], typer.Argument(help="A graph folder, a name (see `adaptkry datasets`) or file(s).")],
    taus: Annotated[str, typer.Option(help="Above 0, with commas between.")],
    degree: Annotated[int, typer.Option(help="Hops K.")],
    out: Annotated[Path, typer.Option(help="The basis folder.")],
    directions: Annotated[str, typer.Option(help="both, out, in, with commas between.")] = "both",
    rows: Annotated[str, typer.Option(help="all, labelled, or a file of node numbers (.npy, or one a line).")] = "all",
    dtype: Annotated[str, typer.Option(help=f"What is stored: {' or '.join(DTYPES)}.")] = "float32",
    memory: Annotated[str, typer.Option(help="The most that a process may hold. It decides the width of blocks.")] = (
        "4GiB"
    ),
    columns: Annotated[
        int | None, typer.Option(min=1, help="Columns of a block at most; narrower blocks share out better.")
    ] = None,
    features: Annotated[str | None, typer.Option(help="An .npy or .parquet file in place of the graph's own.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the order in which rows are stored.")] = 0,
    engine: Annotated[str, typer.Option(help=f"Who does it: {', '.join(ENGINES)}.")] = "here",
    workers: Annotated[int | None, typer.Option(min=1, help="How many, each with --memory; all cores by default.")] = (
        None
    ),
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask cluster; without it one is started.")] = None,
    as_json: Json = False,
) -> None:
    """Write x, Px, ..., P^K x of a graph to a folder, in blocks of columns that fit in memory.

    Killed at any moment, the same command goes on with the blocks that are finished.
    """
    begun = time.monotonic()
    say = (lambda _: None) if as_json else news
    options = {"memory": memory, "columns": columns, "features": features, "seed": seed, "dtype": dtype}
    with stoppable(lambda: f"the same command goes on with what is finished in {out}"), memory_.peak() as peak:
        made = propagate(
            graph[0] if len(graph) == 1 else graph, out, taus=numbers(taus), degree=degree, rows=rows,
            directions=words(directions), engine=engine, workers=workers, scheduler=scheduler, say=say, quiet=as_json,
            **options,
        )  # fmt: skip
    seconds, size = time.monotonic() - begun, size_of(out)
    if as_json:
        shape = {"terms": made.terms, "rows": made.count, "features": made.features, "blocks": len(made.blocks)}
        told = {"folder": str(out), "bytes": size, "seconds": seconds, "peak_bytes": peak.bytes, **shape}
        typer.echo(json.dumps(told))
        return
    whose = "peak memory" if engine == "here" else "peak memory (without the workers)"
    held = "" if peak.bytes is None else f", {whose} {show_bytes(peak.bytes)}"
    beside = f"\nmade on the way, not needed any more: {work_of(out)}" if work_of(out).exists() else ""
    typer.echo(f"basis folder: {out}, {show_bytes(size)}, {seconds:.1f} s{held}\n{made!r}{beside}")


def words(text: str) -> list[str]:
    """Words with commas between."""
    return [word.strip() for word in text.split(",")]


def numbers(text: str) -> list[float]:
    """Numbers with commas between."""
    try:
        return [float(word) for word in words(text)]
    except ValueError:
        raise ValueError(f"taus are numbers with commas between, such as 0.5,1.0, but {text!r} came.") from None


def whole(text: str) -> int:
    """A whole number, also as 1e7."""
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"a whole number such as 1000000 or 1e6 is wanted, but {text!r} came.") from None
    if value != int(value):
        raise typer.BadParameter(f"a whole number is wanted, but {text} came.")
    return int(value)


@app.command("generate", epilog="Examples:  adaptkry generate big --nodes 1e6 --entries 1e7 --labelled 0.01")
def generate_(
    out: Annotated[Path, typer.Argument(help="The graph folder.")],
    nodes: Annotated[int, typer.Option(parser=whole, metavar="NUMBER", help="Number of nodes, such as 1e6.")],
    entries: Annotated[
        int,
        typer.Option(parser=whole, metavar="NUMBER", help="About so many; an undirected edge counts twice."),
    ],
    features: Annotated[int, typer.Option(min=1, help="Number of features.")] = 64,
    classes: Annotated[int, typer.Option(min=2, help="Number of classes.")] = 10,
    homophily: Annotated[float, typer.Option(min=0, max=1, help="Share of edges within a class.")] = 0.7,
    labelled: Annotated[float, typer.Option(min=0, max=1, help="Share of nodes whose label is given.")] = 1.0,
    directed: Annotated[bool, typer.Option("--directed", help="Each edge one way only.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same graph.")] = 0,
    as_json: Json = False,
) -> None:
    """Write a random graph with power-law degrees and planted classes, of any size, to a graph folder."""
    with timing.progress("pieces", steps(nodes, entries, features, directed), quiet=as_json) as tick:
        made = generate(
            out, nodes=nodes, entries=entries, features=features, classes=classes, homophily=homophily,
            labelled=labelled, directed=directed, seed=seed, tick=tick,
        )  # fmt: skip
    told = {"folder": str(out), "nodes": made.nodes, "entries": made.entries, "bytes": size_of(out)}
    text = f"graph folder: {out}, {made.nodes:,} nodes, {made.entries:,} entries, {show_bytes(told['bytes'])}"
    typer.echo(json.dumps(told) if as_json else text)
