"""Tables of predictions: class, probabilities and agreement of every node, as CSV, Parquet or DataFrame."""

import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.files import check_output_file, replacing
from adaptkry.common.frames import parquet_columns, to_frame, write_parquet
from adaptkry.common.lookup import check_options, shortened, some
from adaptkry.graphs.graph import Info
from adaptkry.graphs.readers.paths import TABLES, check_file
from adaptkry.graphs.readers.table_files import open_table
from adaptkry.graphs.readers.texts import texts
from adaptkry.outofcore.basis_folder import BasisFolder
from adaptkry.outofcore.basis_reader import BasisReader
from adaptkry.training.batches import FolderTerms, SlabBatches, SlabPlan
from adaptkry.training.calibration import checked_kind, checked_level
from adaptkry.training.data import FolderData, GraphData, TrainingData, open_data, task_of_files
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.folder_recipe import stored_terms
from adaptkry.training.losses import chunk_logits
from adaptkry.training.run import Run
from adaptkry.training.trained_model import (
    as_predictions,
    averaged,
    model_probabilities,
    refuse_sets,
    require_calibration,
)

PARQUET = ".parquet"
OTHER_SUFFIXES = (  # not written
    ".json", ".jsonl", ".xlsx", ".xls", ".feather", ".npz", ".npy", ".tsv", ".html", ".gz", ".bz2", ".xz", ".zip",
)  # fmt: skip
SET_SEPARATOR = " | "
VALUE = "value("  # columns of predicted targets begin with it


def training_data(run: Run | Ensemble, folder: Path | str, **load_options) -> TrainingData:
    """Open the data that a run was trained on; they must be there, and unchanged.

    Args:
        run: the run.
        folder: its folder, for messages.
        load_options: options of `load`, such as `root`.
    """
    info, advice = run.info, f"Pass the graph: `adaptkry predict {folder} edges.csv nodes.csv`."
    if info.basis_folder is None and info.known_as is None:
        raise ValueError(
            f"without GRAPH, the run must be of a graph of `adaptkry datasets`; {folder} was trained on files or on a "
            f"graph of your own ({info.graph!r}). {advice}"
        )
    if info.data_digest is None:
        raise ValueError(
            f"without GRAPH, the run must have a checksum of its data, as fit(..., out=FOLDER) records it; {folder} "
            f"has none. {advice}"
        )
    data = open_data(info.basis_folder or info.known_as, **load_options)
    if data.data_digest() != info.data_digest:
        raise ValueError(
            f"without GRAPH, the data of the run must be unchanged; {info.basis_folder or info.known_as} is not what "
            f"{folder} was trained on. {advice}"
        )
    return data


def is_predictions(head: bytes) -> bool:
    """Return whether a file that begins with these bytes has the header of `write_predictions`, also of version 0.1.

    >>> is_predictions(b"node,class,p(even),p(odd)"), is_predictions(b"id,class,x")
    (True, False)
    """
    names = head.partition(b"\n")[0].decode(errors="replace").split(",")
    return _are_predictions([name.strip('"') for name in names])


def _are_predictions(names: Sequence[str]) -> bool:
    has_values = "label" in names and any(name.startswith(VALUE) for name in names)
    has_class = any(name == "class" or name.startswith("class(") for name in names)
    return has_values or (has_class and any(name.startswith("p(") for name in names))


def check_predictions_file(path: Path | str, inputs: Iterable[Path | str]) -> Path:
    """Return the path of a file for predictions, which must be new or hold predictions, and be none of the inputs."""
    suffix = Path(path).suffix.lower()

    def is_ours(head: bytes) -> bool:
        is_parquet = suffix == PARQUET and head.startswith(b"PAR1")
        return _are_predictions(parquet_columns(Path(path))) if is_parquet else is_predictions(head)

    path = check_output_file(path, inputs, is_ours)
    if suffix in OTHER_SUFFIXES:
        raise ValueError(f"predictions are written as CSV or Parquet; got {path}. Use .csv or .parquet.")
    return path


def write_predictions(path: Path | str, run: Run | Ensemble, data: Any, **options: Any) -> int:
    """Write a table of predictions as CSV, or as Parquet if the path ends in .parquet; return the number of nodes.

    Args:
        path: the file to write. A file that is there must hold predictions, and must not be one of the data.
        run: the trained run or ensemble.
        data: everything that `fit` accepts. Rows of a basis folder are streamed in the order in which they are stored.
        options: options of `prediction_columns`.
    """
    given = [data] if isinstance(data, str | Path) else data
    inputs = [item for item in given if isinstance(item, str | Path)] if isinstance(given, list | tuple) else []
    path = check_predictions_file(path, inputs)
    chunks = prediction_columns(run, data, **options)
    first = next(chunks, None)  # bad options are refused before the file is created
    if first is None:
        raise ValueError("predictions need at least one node; all nodes that were asked for have labels. Add others.")
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0

    def counted() -> Iterator[dict[str, list]]:
        nonlocal count
        for columns in itertools.chain([first], chunks):
            count += len(columns["label"])
            yield columns

    with replacing(path) as file:
        if path.suffix.lower() == PARQUET:
            write_parquet(file, counted())
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            table = csv.writer(text, lineterminator="\n")
            table.writerow(first)
            for columns in counted():
                table.writerows(zip(*(_cells(name, values) for name, values in columns.items()), strict=True))
            text.detach()  # the file is closed by `replacing`
    return count


def _cells(name: str, values: list) -> list:
    """Return values as they are written to CSV: shares with six decimals, targets with 12 digits, others unchanged."""
    form = ".12g" if name.startswith(VALUE) else ".6f"
    return [f"{value:{form}}" if isinstance(value, float) else value for value in values]


def predict_frame(run: Run | Ensemble, data: Any, **options: Any) -> Any:
    """Return a pandas DataFrame of predictions with one row per node; `options` are those of `prediction_columns`."""
    check_options(prediction_columns, options)
    chunks = list(prediction_columns(run, data, **options))
    return to_frame({name: [value for columns in chunks for value in columns[name]] for name in chunks[0]})


def prediction_columns(
    run: Run | Ensemble,
    data: Any,
    *,
    models: Callable[[Tensor], Tensor] | None = None,
    nodes: Sequence[str | int] | None = None,
    unlabelled_only: bool = False,
    calibrated: bool = True,
    sets: float | None = None,
    kind: str = "threshold",
) -> Iterator[dict[str, list]]:
    """Yield the columns of predictions, some nodes at a time.

    The columns are the node's id (with the name of the user's column, otherwise `node`), `class` (predicted),
    `probability` (of that class), `p(NAME)` of every class, `label` ("known" if the label of the node was given,
    otherwise "predicted"), `agreement` (the share of the trainings, or of the splits of an ensemble, that predict this
    class) and, with `sets`, `set` (names of classes with " | " between them). For other tasks see `task_columns`.

    Args:
        run: the trained run or ensemble.
        data: everything that `fit` accepts.
        models: function from node numbers [m] to the probabilities of every model [v, m, c], if it is known already.
        nodes: ids of the nodes to predict (numbers, if the graph has no ids), in this order; None: all.
        unlabelled_only: leave out nodes whose label is known.
        calibrated: whether to apply temperature scaling, if the run has it.
        sets: the level of prediction sets, such as 0.9; None: no sets.
        kind: the kind of prediction sets, see `Run.prediction_sets`.
    """
    checks.flag(unlabelled_only, "unlabelled_only")
    if sets is not None:
        refuse_sets(run.task)
        sets, kind = checked_level(sets), checked_kind(kind)
        require_calibration(run.calibration)
    source = open_data(data, run.info.layout, task=task_of_files(data, run.task))
    if unlabelled_only and not (source.labels < 0).any():
        raise ValueError(f"unlabelled_only needs nodes without a label; all of {source.name} have one. Leave it out.")
    names = (run.info.class_names or [str(c) for c in range(run.classes)])[: run.classes]
    layout = source.info.layout
    column = "node" if layout is None else layout.id_column
    column = "node" if column in ("class", "probability", "label", "agreement", "set") else column
    for ids, numbers, known, chunk in _model_chunks(run, source, models, nodes):
        kept = (~known).nonzero()[:, 0] if unlabelled_only else torch.arange(len(known))
        if not len(kept) and len(known):
            continue
        ids, numbers, known, chunk = [ids[i] for i in kept.tolist()], numbers[kept], known[kept], chunk[:, kept]
        p = averaged(chunk, run.calibration, calibrated)  # [m, c]
        if run.task != "classification":
            label = ["known" if is_known else "predicted" for is_known in known.tolist()]
            yield {column: ids, **task_columns(run.task, names, p), "label": label}
            continue
        highest, predicted = p.max(1)
        agreement = (chunk.argmax(-1) == predicted).double().mean(0)
        columns: dict[str, list] = {column: ids, "class": [names[c] for c in predicted.tolist()]}
        columns["probability"] = highest.tolist()
        columns |= {f"p({name})": p[:, c].tolist() for c, name in enumerate(names)}
        columns["label"] = ["known" if is_known else "predicted" for is_known in known.tolist()]
        columns["agreement"] = agreement.tolist()
        if sets is not None:
            inside = require_calibration(run.calibration).sets(chunk, numbers, sets, kind)
            columns["set"] = [SET_SEPARATOR.join(itertools.compress(names, row)) for row in inside.tolist()]
        yield columns


def task_columns(task: str, names: Sequence[str], p: Tensor) -> dict[str, list]:
    """Return a column of 0 and 1 and one of the probability of each label; or one of the values of each target.

    >>> task_columns("multilabel", ["a", "b"], torch.tensor([[0.75, 0.25]]))
    {'class(a)': [1], 'class(b)': [0], 'p(a)': [0.75], 'p(b)': [0.25]}
    >>> task_columns("regression", ["price"], torch.tensor([[2.5]]))
    {'value(price)': [2.5]}
    """
    if task == "regression":
        return {f"{VALUE}{name})": p[:, t].tolist() for t, name in enumerate(names)}
    has = as_predictions(task, p)
    columns = {f"class({name})": has[:, c].tolist() for c, name in enumerate(names)}
    return columns | {f"p({name})": p[:, c].tolist() for c, name in enumerate(names)}


def _model_chunks(
    run: Run | Ensemble,
    data: TrainingData,
    models: Callable[[Tensor], Tensor] | None,
    nodes: Sequence[str | int] | None,
) -> Iterator[tuple[Sequence, Tensor, Tensor, Tensor]]:
    """Yield ids [m], numbers [m], whether labels are known [m], and probabilities of every model [v, m, c]."""
    if isinstance(data, GraphData):
        numbers = node_numbers(data.info, data.graph.nodes, nodes)
        ids = data.info.node_ids or range(data.graph.nodes)
        found = model_probabilities(run.weighted_parts(), data.graph)[:, numbers] if models is None else models(numbers)
        yield [ids[i] for i in numbers.tolist()], numbers, data.labels[numbers] >= 0, found
        return
    assert isinstance(data, FolderData)
    if run.task != "classification":
        raise TypeError(
            f"basis folders are for classification; got a run of the task {run.task}. Use the graph itself."
        )
    if not isinstance(run, Run):
        raise TypeError("an ensemble predicts for graphs in memory; got a basis folder. Use the graph itself.")
    if nodes is not None:
        raise TypeError("some nodes can be predicted for graphs in memory; got a basis folder. Leave the nodes out.")
    for numbers, probabilities in folder_probabilities(run, data.folder):
        yield data.folder.node_ids(numbers), numbers, data.labels[numbers] >= 0, probabilities


def node_places(info: Info) -> dict[str, int] | None:
    """Return the number of each node by its id; None if the graph has no ids."""
    return None if info.node_ids is None else {str(node): number for number, node in enumerate(info.node_ids)}


def node_numbers(
    info: Info, count: int, nodes: Sequence[str | int] | None, places: dict[str, int] | None = None
) -> Tensor:
    """Return the numbers of nodes that are given by id, or by number if the graph has no ids; None: all nodes.

    `places` is the result of `node_places`, if it was computed before.
    """
    if nodes is None:
        return torch.arange(count)
    if isinstance(nodes, str) or not isinstance(nodes, Iterable):
        raise TypeError(f"nodes must be a list of ids; got {shortened(nodes)}. Put it in a list.")
    given = [str(node) for node in (nodes.tolist() if isinstance(nodes, Tensor) else nodes)]
    if not given:
        raise ValueError("nodes must name at least one node; got none. Leave it out for all nodes.")
    if info.node_ids is None:
        found = [int(node) if node.isascii() and node.isdecimal() and int(node) < count else None for node in given]
        expected = f"numbers from 0 to {count - 1}, since {info.name} has no node ids"
    else:
        places = places or node_places(info) or {}
        found = [places.get(node) for node in given]
        expected = f"ids of {info.name}, such as {some(info.node_ids, 3)}"
    if unknown := [node for node, number in zip(given, found, strict=True) if number is None]:
        raise ValueError(f"nodes must be {expected}; got {some(unknown, 3)}. Correct them.")
    return torch.tensor(found)


def read_node_ids(path: Path, info: Info) -> list[str]:
    """Read ids of nodes: one per line, or the id column of a table (.csv, .tsv or .parquet)."""
    column = "id" if info.layout is None else info.layout.id_column
    if check_file(path).suffix.lower() in TABLES:
        table = open_table(path, "nodes").columns
        if column not in table:
            raise ValueError(
                f"{path} must have the column {column!r} with ids of nodes; got {some(table, 5)}. Rename one, "
                "or write one id per line to a text file."
            )
        return texts(table[column])
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be text with one id per line; got other bytes. Write it as UTF-8.") from None
    if not found:
        raise ValueError(f"{path} must list ids of nodes, one per line; got none. Add some.")
    return found


def folder_probabilities(run: Run, folder: BasisFolder) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield numbers of stored rows [m] and their class probabilities by every chosen member [v, m, c]."""
    if folder.features != run.features:
        raise ValueError(
            f"this run was trained on {run.features} features; got a folder with {folder.features}. "
            "Propagate the same features."
        )
    if run.info.feature_names and folder.feature_names and run.info.feature_names != folder.feature_names:
        raise ValueError(
            f"this run was trained on the feature columns {', '.join(run.info.feature_names)[:200]}; got a folder with "
            f"{', '.join(folder.feature_names)[:200]}. Propagate the same columns in the same order."
        )
    [(chosen, _)] = run.weighted_parts()
    reader = BasisReader(folder, stored_terms(folder, run.shape.recipe))
    plan = SlabPlan.for_rows(torch.ones(folder.count, dtype=torch.bool), reader.row_bytes)
    batches = SlabBatches(FolderTerms(reader), plan, folder.labels, {}, torch.zeros(1, dtype=torch.long))
    for logits, numbers in chunk_logits(chosen.shape, chosen.weights, batches.chunks()):
        yield numbers, logits.softmax(-1)
