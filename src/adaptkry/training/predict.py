"""Predictions: class probabilities of all nodes, written to a CSV file."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adaptkry.common.files import check_output_file, replacing
from adaptkry.outofcore.basis_folder import BasisFolder
from adaptkry.outofcore.basis_reader import BasisReader
from adaptkry.training.batches import FolderTerms, SlabBatches, SlabPlan
from adaptkry.training.data import FolderData, GraphData, TrainingData, open_data
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.folder_recipe import stored_terms
from adaptkry.training.losses import chunk_logits
from adaptkry.training.run import Run


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
    """Return whether a file that begins with these bytes has the header of `write_csv`.

    >>> is_predictions(b"node,class,p(even),p(odd)"), is_predictions(b"id,class,x")
    (True, False)
    """
    names = head.partition(b"\n")[0].decode(errors="replace").split(",")
    return "class" in names and any(name.strip('"').startswith("p(") for name in names)


def write_csv(path: Path | str, run: Run | Ensemble, data: Any, known: Tensor | None = None) -> int:
    """Write node, predicted class and one probability per class to a CSV file; return the number of nodes.

    Args:
        path: the file to write. A file that is there must hold predictions, and must not be one of the data.
        run: the trained run or ensemble.
        data: everything that `fit` accepts. Rows of a basis folder are streamed in the order in which they are stored,
            with the ids of the user's nodes, or numbered as in the graph.
        known: class probabilities of all nodes of a graph [n, c], if they were computed before.
    """
    names = (run.info.class_names or [str(c) for c in range(run.classes)])[: run.classes]
    given = [data] if isinstance(data, str | Path) else data
    inputs = [item for item in given if isinstance(item, str | Path)] if isinstance(given, list | tuple) else []
    path = check_output_file(path, inputs, is_predictions)
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["node", "class", *(f"p({name})" for name in names)])
        for nodes, probabilities in node_probabilities(run, open_data(data, run.info.layout), known):
            classes = probabilities.argmax(1).tolist()
            for node, c, row in zip(nodes, classes, probabilities.tolist(), strict=True):
                table.writerow([node, names[c], *(f"{p:.6f}" for p in row)])
            count += len(classes)
        text.detach()  # the file is closed by `replacing`
    return count


def node_probabilities(
    run: Run | Ensemble, data: TrainingData, known: Tensor | None = None
) -> Iterator[tuple[Iterable, Tensor]]:
    """Yield nodes [m] and their class probabilities [m, c], some at a time."""
    if isinstance(data, GraphData):
        yield data.info.node_ids or range(data.graph.nodes), run.probabilities(data.graph) if known is None else known
        return
    assert isinstance(data, FolderData)
    if not isinstance(run, Run):
        raise TypeError("an ensemble predicts for graphs in memory; got a basis folder. Use the graph itself.")
    for numbers, probabilities in folder_probabilities(run, data.folder):
        yield data.folder.node_ids(numbers), probabilities


def folder_probabilities(run: Run, folder: BasisFolder) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield numbers of stored rows [m] and their class probabilities [m, c], averaged over the chosen members."""
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
    [(chosen, weights)] = run.weighted_parts()
    reader = BasisReader(folder, stored_terms(folder, run.shape.recipe))
    plan = SlabPlan.for_rows(torch.ones(folder.count, dtype=torch.bool), reader.row_bytes)
    batches = SlabBatches(FolderTerms(reader), plan, folder.labels, {}, torch.zeros(1, dtype=torch.long))
    for logits, numbers in chunk_logits(chosen.shape, chosen.weights, batches.chunks()):
        yield numbers, torch.einsum("b,bmc->mc", weights, logits.softmax(-1))
