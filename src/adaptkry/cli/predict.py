"""`adaptkry predict`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptkry.cli.options import DataRoot, Directed, Json, open_source

if TYPE_CHECKING:
    from adaptkry.training.run import Run

EXAMPLES = (
    "adaptkry predict runs/cora-adaptkry --out predictions.csv",
    "adaptkry predict runs/own edges.csv nodes.csv",
    "adaptkry predict runs/big BASIS",
)


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    graph: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GRAPH",
            help="A name, paths of your own files, or a basis folder. Default: what the run was trained on.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The CSV file.")] = Path("predictions.csv"),
    directed: Directed = None,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Write the class and the class probabilities of every node (for a basis folder: of every stored row)."""
    from adaptkry.training.predict import write_csv
    from adaptkry.training.run import load_run

    loaded = load_run(run)
    names = graph or [trained_on(run, loaded)]
    count = write_csv(out, loaded, open_source(names, data_root, directed))
    typer.echo(json.dumps({"out": str(out), "nodes": count}) if as_json else f"{count} predictions: {out}")


def trained_on(folder: Path, run: "Run") -> str:
    """The basis folder or the name of the graph that a run was trained on; files must be given again."""
    from adaptkry.graphs.load import NAMES

    if run.info.basis_folder:
        return run.info.basis_folder
    name = run.info.graph
    if name not in NAMES:
        raise ValueError(
            f"The run's graph must be known by name; {folder} was trained on files called {name!r}. Give them again: "
            f"`adaptkry predict {folder} edges.csv nodes.csv`."
        )
    return name
