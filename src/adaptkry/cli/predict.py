"""`adaptkry predict`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptkry.cli.options import DataRootOption, DirectedOption, JsonOption, open_graph_or_basis

if TYPE_CHECKING:
    from adaptkry.training.ensemble import Ensemble
    from adaptkry.training.run import Run

EXAMPLES = (
    "adaptkry predict runs/cora-adaptkry --out predictions.csv",
    "adaptkry predict runs/edges-adaptkry edges.csv nodes.csv",
    "adaptkry predict runs/big BASIS",
)


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as written by `adaptkry fit`.")],
    graph: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GRAPH",
            help="A name (see `adaptkry datasets`), paths of your own files, or a basis folder. Default: the graph or "
            "basis folder that the run was trained on.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The CSV file.")] = Path("predictions.csv"),
    directed: DirectedOption = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the predicted class and the class probabilities of every node (of every stored row of a basis folder)."""
    from adaptkry.training.predict import write_csv
    from adaptkry.training.run_folder import load_run

    loaded = load_run(run)
    names = graph or [trained_on(run, loaded)]
    count = write_csv(out, loaded, open_graph_or_basis(names, data_root, directed))
    typer.echo(json.dumps({"out": str(out), "nodes": count}) if as_json else f"{count} predictions: {out}")


def trained_on(folder: Path, run: "Run | Ensemble") -> str:
    """The basis folder or the name of the graph that a run was trained on; paths of files are not recorded."""
    if run.info.basis_folder:
        return run.info.basis_folder
    if run.info.known_as is None:
        raise ValueError(
            f"without GRAPH, the run must be of a graph of `adaptkry datasets`; {folder} was trained on files or on a "
            f"graph of your own ({run.info.graph!r}). Pass them again: `adaptkry predict {folder} edges.csv nodes.csv`."
        )
    return run.info.known_as
