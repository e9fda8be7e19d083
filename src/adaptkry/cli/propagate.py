"""`adaptkry propagate`."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from adaptkry.cli.options import TAUS_HELP, DirectionsOption, JsonOption, column_options, comma_separated
from adaptkry.common.choices import EXECUTORS, STORED_DTYPES

EXAMPLES = (
    "adaptkry propagate csbm --taus 0.5,1 --degree 10 --out basis",
    "adaptkry propagate big --taus 1 --degree 4 --out basis --memory 2GiB --rows labelled --dtype bfloat16",
    "adaptkry propagate big --taus 1 --degree 4 --out basis --executor dask --scheduler tcp://10.0.0.1:8786",
)


@column_options("features")
def propagate(
    graph: Annotated[
        list[str],
        typer.Argument(
            metavar="GRAPH", help="A graph folder, a name (see `adaptkry datasets`), or paths of your own files."
        ),
    ],
    taus: Annotated[str, typer.Option(metavar="NUMBERS", help=TAUS_HELP)],
    degree: Annotated[int, typer.Option(help="Number of hops K, the degree of the polynomial.")],
    out: Annotated[Path, typer.Option(help="The basis folder.")],
    columns: dict,
    directions: DirectionsOption = "both",
    rows: Annotated[
        str,
        typer.Option(help="Nodes to store: all, labelled, or a file of node numbers (.npy, or text, one per line)."),
    ] = "all",
    dtype: Annotated[str, typer.Option(help=f"Type of the stored numbers: {' or '.join(STORED_DTYPES)}.")] = "float32",
    memory: Annotated[
        str, typer.Option(help="Maximum memory per process. It determines the width of the blocks.")
    ] = "4GiB",
    block_columns: Annotated[
        int | None,
        typer.Option(
            "--columns", min=1, help="Maximum number of columns per block. Narrow blocks divide better among workers."
        ),
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="An .npy or .parquet file to use instead of the features of the graph.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order in which rows are stored.")] = 0,
    executor: Annotated[str, typer.Option(help=f"What computes the blocks: {', '.join(EXECUTORS)}.")] = "inline",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of worker processes; --memory applies to each. Default: one per core."),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler. Default: a new cluster on this machine.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write x, Px, ..., P^K x of a graph to a basis folder, in blocks of columns that fit in memory.

    An interrupted command can be run again: it keeps the blocks that are finished.
    """
    from adaptkry.cli.progress import byte_progress
    from adaptkry.cli.signals import interruptible
    from adaptkry.cli.terminal import size_of
    from adaptkry.common.memory import peak
    from adaptkry.outofcore.memory_plan import format_bytes
    from adaptkry.outofcore.propagate import propagate as compute_basis
    from adaptkry.outofcore.work_folder import work_folder

    start = time.monotonic()
    with (
        interruptible(lambda: f"finished blocks are saved in {out}; run the same command to continue"),
        peak() as memory_used,
        byte_progress(quiet=as_json) as on_progress,
    ):
        basis = compute_basis(
            named_graph(graph, columns), out, taus=numbers(taus), degree=degree, rows=rows, dtype=dtype,
            directions=comma_separated(directions or "both"), memory=memory, columns=block_columns, features=features,
            seed=seed, executor=executor, workers=workers, scheduler=scheduler, on_progress=on_progress,
        )  # fmt: skip
    seconds, size = time.monotonic() - start, size_of(out)
    if as_json:
        shape = {"terms": basis.terms, "rows": basis.count, "features": basis.features, "blocks": len(basis.blocks)}
        peak_bytes = memory_used.bytes
        written = {"folder": str(out), "bytes": size, "seconds": seconds, "peak_bytes": peak_bytes, **shape}
        typer.echo(json.dumps(written))
        return
    scope = "" if executor == "inline" else " (without the workers)"
    memory_text = "" if memory_used.bytes is None else f", peak memory{scope} {format_bytes(memory_used.bytes)}"
    work = f"\nintermediate files, no longer needed: {work_folder(out)}" if work_folder(out).exists() else ""
    typer.echo(f"basis folder: {out}, {format_bytes(size)}, {seconds:.1f} s{memory_text}\n{basis!r}{work}")


def named_graph(names: list[str], columns: dict) -> Any:
    """The name, path or paths of a graph; the graph itself if it is read with options about columns."""
    from adaptkry.cli.options import open_graph

    return open_graph(names, None, columns=columns).graph if columns else names[0] if len(names) == 1 else names


def numbers(text: str) -> list[float]:
    """The numbers in a comma-separated list."""
    try:
        return [float(part) for part in comma_separated(text)]
    except ValueError:
        raise ValueError(f"--taus must be comma-separated positive numbers; got {text!r}. Try 0.5,1.") from None
