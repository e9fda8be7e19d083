"""Is an ensemble better if its members are chosen on the validation nodes of all splits, not only of its own?

    python -m benchmarks.selection [--time 1min] [--device cpu] [--graphs cora,own/texas] [--out FILE]

One search per graph trains the candidates, among which both ways choose. Half of the validation nodes of each split are
held out, twice, and score the ensembles. Scores on test nodes stand beside them.
"""

import time
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from adaptkry.common.intervals import corrected_half_width, nodes_ratio
from adaptkry.common.rows import provenance
from adaptkry.graphs.splits import Splits
from adaptkry.paper.measure import RunOptions, development_splits
from adaptkry.selection.auto_search import AutoSearch
from adaptkry.selection.ensemble_selection import SELECTION_NODES, greedy_shares
from adaptkry.training.data import GraphData
from adaptkry.training.ensemble import score, split_probabilities
from adaptkry.training.run import Run
from benchmarks.auto import measure_graphs, open_development

GRAPHS = "own/texas,own/wisconsin,own/cornell,cora,citeseer"
WAYS = {"own": 0, "all": SELECTION_NODES}  # the number of validation nodes up to which those of other splits are used


def halves(splits: Splits, seed: int) -> tuple[Tensor, Tensor]:
    """Return masks of the two random halves of the validation nodes of each split: [s, n]."""
    drawn = torch.rand(splits.validation.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    return splits.validation & drawn, splits.validation & ~drawn


def scores(parts: list[Run], data: GraphData, splits: Splits, nodes: int, masks: Tensor) -> np.ndarray:
    """Return the scores [s] on the nodes of masks [s, n] of ensembles that are chosen on validation nodes."""
    metric = data.info.metric
    shares = greedy_shares(parts, data.labels, splits, metric, nodes=nodes)
    return np.array(score(metric, split_probabilities(parts, shares, len(splits)), data.labels, masks))


def measure(name: str, limit: float, device: str) -> dict:
    """Return one row: scores of both ways on held-out validation nodes and on test nodes."""
    graph = open_development(name)
    splits = development_splits(graph, name, RunOptions())
    data = GraphData(graph)
    search = AutoSearch(data, splits, device, 0, {}, time.monotonic(), limit, False)
    search.run()
    parts = [trained.run for trained in search.trained if trained.run is not None]
    found = {way: {"test": scores(parts, data, splits, nodes, splits.test)} for way, nodes in WAYS.items()}
    folds = [pair for seed in range(2) for pair in (halves(splits, seed), halves(splits, seed)[::-1])]
    for way, nodes in WAYS.items():
        held_out = [
            scores(parts, data, replace(splits, validation=used, test=splits.test | held), nodes, held)
            for used, held in folds
        ]
        found[way]["held_out"] = np.mean(held_out, 0)
    sizes = [splits.sizes(split) for split in range(len(splits))]
    differences = {part: found["all"][part] - found["own"][part] for part in ("held_out", "test")}
    return {
        "benchmark": "selection", "graph": name, "settings": {"time_limit": limit}, "seed": 0, "scheme": splits.scheme,
        "candidates": len(parts), "validation_nodes": int(splits.validation.sum(1).max()),
        "scores": {way: {part: values.tolist() for part, values in parts.items()} for way, parts in found.items()},
        "difference": {part: float(values.mean()) for part, values in differences.items()},
        "half_width": {
            "held_out": corrected_half_width(differences["held_out"], nodes_ratio(sizes, "validation")),
            "test": corrected_half_width(differences["test"], nodes_ratio(sizes)),
        },
        **provenance(device),
    }  # fmt: skip


def describe(row: dict) -> str:
    """Return what is printed of a row."""
    texts = [
        f"{part} {100 * row['difference'][part]:+.2f} ± {100 * (row['half_width'][part] or np.nan):.2f}"
        for part in ("held_out", "test")
    ]
    return f"{row['candidates']} candidates; all splits minus own: {', '.join(texts)}"


if __name__ == "__main__":
    measure_graphs(measure, describe, __doc__, time="1min", graphs=GRAPHS, out="results/selection.jsonl")
