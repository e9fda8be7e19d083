"""`adaptkry export`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import JsonOption, log

EXAMPLES = (
    "adaptkry export runs/cora-adaptkry",
    "adaptkry export runs/cora-adaptkry --out cora.pt2",
)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as written by `adaptkry fit` or `auto`.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The file: .onnx, which needs the packages onnx and onnxscript, or .pt2 of torch.export.",
        ),
    ] = Path("head.onnx"),
    as_json: JsonOption = False,
) -> None:
    """Write the head of a run, from the basis of a graph to class probabilities, for use without adaptkry.

    In Python, `run.head_inputs(graph)` computes the basis. Only models that predict from a basis alone can be exported.
    """
    from adaptkry.training.export import input_shapes, output_name
    from adaptkry.training.run_folder import load_run

    loaded = load_run(run)
    log.info(f"tracing {loaded.trainings} trainings, which may take half a minute")
    path, shapes = loaded.export(out), input_shapes(loaded)
    if as_json:
        typer.echo(json.dumps({"out": str(path), "inputs": shapes, "classes": loaded.classes}))
        return
    inputs = ", ".join(f"{name} [rows, {terms}, {columns}]" for name, (_, terms, columns) in shapes.items())
    typer.echo(f"{inputs} -> {output_name(loaded.task)} [rows, {loaded.classes}]: {path}")
