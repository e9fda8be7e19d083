"""`adaptkry predict`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from adaptkry.cli.options import DataRootOption, DirectedOption, JsonOption, column_options, open_graph_or_basis
from adaptkry.common.choices import SetKind

EXAMPLES = (
    "adaptkry predict runs/cora-adaptkry --out predictions.csv",
    "adaptkry predict runs/edges-adaptkry edges.csv nodes.csv --unlabelled-only --sets 0.9",
    "adaptkry predict runs/edges-adaptkry edges.csv nodes.csv --nodes new-ids.txt --out new.parquet",
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
    out: Annotated[Path, typer.Option(help="The file: .csv, or .parquet.")] = Path("predictions.csv"),
    nodes: Annotated[
        Path | None,
        typer.Option(help="Predict these nodes only: a text file with one id per line, or a table with the id column."),
    ] = None,
    unlabelled_only: Annotated[
        bool, typer.Option("--unlabelled-only", help="Leave out nodes whose label is known.")
    ] = False,
    sets: Annotated[
        float | None,
        typer.Option(metavar="LEVEL", help="Add a set of classes that holds the right one with this probability."),
    ] = None,
    kind: Annotated[
        SetKind | None,
        typer.Option(
            "--set-kind",
            help="Kind of sets: the smallest (threshold, the default), adaptive or randomised.",
        ),
    ] = None,
    calibrated: Annotated[
        bool, typer.Option("--calibrated/--uncalibrated", help="Apply temperature scaling to probabilities.")
    ] = True,
    directed: DirectedOption = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the predicted class and the class probabilities of every node (of every stored row of a basis folder)."""
    from adaptkry.training.predict import check_predictions_file, read_node_ids, training_data, write_predictions
    from adaptkry.training.run_folder import load_run

    if kind is not None and sets is None:
        raise ValueError(f"--set-kind is about prediction sets; got {kind} without --sets. Add for example --sets 0.9.")
    inputs = [*(graph or []), *([] if nodes is None else [nodes])]
    check_predictions_file(out, inputs)  # before anything is computed
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
        data = open_graph_or_basis(graph, data_root, directed, columns, loaded.info.layout, loaded.task)
    ids = None if nodes is None else read_node_ids(nodes, data.info)
    count = write_predictions(
        out,
        loaded,
        data,
        nodes=ids,
        unlabelled_only=unlabelled_only,
        calibrated=calibrated,
        sets=sets,
        kind=kind or "threshold",
    )
    typer.echo(json.dumps({"out": str(out), "nodes": count}) if as_json else f"{count} predictions: {out}")
