"""Predictions as a table people can open."""

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from torch import Tensor

from adaptkry.common.files import replacing
from adaptkry.graphs.graph import Graph
from adaptkry.outofcore.basis_folder import BasisFolder
from adaptkry.training import folder_fit as from_disk
from adaptkry.training.run import Run


def write_csv(path: Path | str, run: Run, data: Graph | BasisFolder) -> int:
    """Write node, predicted class and one probability a class; returns the number of nodes.

    Rows of a basis folder are streamed, in the order in which they are stored; they are numbered as in the graph.
    """
    names = run.about["class_names"] or [str(c) for c in range(run.layout.classes)]
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with replacing(path) as file:
        page = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        table = csv.writer(page, lineterminator="\n")
        table.writerow(["node", "class", *(f"p({name})" for name in names)])
        for nodes, chances in parts(run, data):
            best = chances.argmax(1).tolist()
            for node, guess, row in zip(nodes, best, chances.tolist(), strict=True):
                table.writerow([node, names[guess], *(f"{p:.6f}" for p in row)])
            count += len(best)
        page.detach()  # the file is closed by whoever opened it
    return count


def parts(run: Run, data: Graph | BasisFolder) -> Iterator[tuple[Iterable, Tensor]]:
    """Nodes and their class probabilities [m, c], some at a time."""
    if isinstance(data, Graph):
        yield data.info.node_ids or range(data.nodes), run.probabilities(data)
        return
    for nodes, chances in from_disk.probabilities(run, data):
        yield nodes.tolist(), chances
