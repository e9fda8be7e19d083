"""`adaptkry predict`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import DataRootOption, DirectedOption, JsonOption, column_options, open_graph_or_basis

EXAMPLES = (
    "adaptkry predict runs/cora-adaptkry --out predictions.csv",
    "adaptkry predict runs/edges-adaptkry edges.csv nodes.csv",
    "adaptkry predict runs/big BASIS",
)


@column_options("features", "ignore", "categories")
def predict(
    columns: dict,
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
    from adaptkry.common.files import check_output_file
    from adaptkry.training.predict import is_predictions, training_data, write_csv
    from adaptkry.training.run_folder import load_run

    check_output_file(out, graph or [], is_predictions)  # before anything is computed
    loaded = load_run(run)
    if graph is None:
        if directed is not None:
            raise ValueError("--directed and --undirected are for your own files; got no files. Leave the option out.")
        if columns:
            raise ValueError(
                "options about columns are for your own files; got no files. Leave them out, or add files."
            )
        data = training_data(loaded, run, **({} if data_root is None else {"root": data_root}))
    else:
        data = open_graph_or_basis(graph, data_root, directed, columns, loaded.info.layout)
    count = write_csv(out, loaded, data)
    typer.echo(json.dumps({"out": str(out), "nodes": count}) if as_json else f"{count} predictions: {out}")
