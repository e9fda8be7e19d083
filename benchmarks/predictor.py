"""How fast does a predictor answer for one node, and follow new nodes, compared with computing its basis again?

    python -m benchmarks.predictor [--rounds 5] [--out results/predictor.jsonl]

The graphs have the size of Actor (7,600 nodes, 932 columns), and there are ten splits. In every round one per cent of
new nodes, with four edges each, are added to the same graph; the same run then computes a predictor of the grown graph
from the beginning. Both are timed in turn, and their predictions and bases must agree to 1e-6. (Rows of earlier commits
kept the nodes of earlier rounds, so that an update changed more rows in each.)

An update computes the rows within K hops of the changes. On a graph in which all nodes are within a few hops of each
other, such as a random one, that is soon every row: the benchmark therefore has a random graph and a grid, new nodes
that are scattered or in one place, and several K.
"""

import argparse
import itertools

import numpy as np
import torch

from adaptkry.common.rows import append, provenance
from adaptkry.common.timing import seconds
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import stratified
from adaptkry.training.fit import fit
from adaptkry.training.predictor import Predictor, UpdatedTerms
from benchmarks import keep_memory

NODES, COLUMNS, CLASSES, SIDE = 7600, 932, 5, 76
NEW = NODES // 100
DEGREES = (2, 4, 10)


def graph_of(kind: str) -> Graph:
    """A grid of 76 x 100 nodes, or a random graph with as many entries as Actor."""
    rng = np.random.default_rng(0)
    if kind == "grid":
        number = np.arange(NODES).reshape(SIDE, -1)
        pairs = [(number[1:], number[:-1]), (number[:, 1:], number[:, :-1])]
        edges = np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in pairs], 1)
    else:
        edges = rng.integers(0, NODES, (2, 26_700))
    x = torch.from_numpy(rng.normal(size=(NODES, COLUMNS)).astype(np.float32))
    return Graph(edges, x, rng.integers(0, CLASSES, NODES))


def new_nodes(graph: Graph, place: str, rng: np.random.Generator) -> tuple[torch.Tensor, np.ndarray]:
    """Features of new nodes, and four edges of each: to nodes all over the graph, or to the 100 nodes of a corner."""
    first = graph.nodes
    corner = np.arange(NODES).reshape(SIDE, -1)[:10, :10].ravel()
    ends = rng.choice(corner if place == "corner" else NODES, 4 * NEW)
    x = torch.from_numpy(rng.normal(size=(NEW, COLUMNS)).astype(np.float32))
    return x, np.stack([np.repeat(np.arange(first, first + NEW), 4), ends])


def largest_difference(one: Predictor, other: Predictor) -> float:
    """The largest difference of probabilities and of terms, relative to the largest term."""
    (a, _), (b, _) = one._parts[0], other._parts[0]
    assert isinstance(a, UpdatedTerms)
    assert isinstance(b, UpdatedTerms)
    numbers = torch.arange(one.graph.nodes)
    found, expected = a.rows(numbers), b.rows(numbers)
    terms = float((found - expected).abs().max() / expected.abs().max())
    return max(terms, float((one() - other()).abs().max()))


def measure(kind: str, place: str, degree: int, rounds: int) -> dict:
    """Return one row."""
    graph, rng = graph_of(kind), np.random.default_rng(1)
    splits = stratified(graph.y, count=10)
    run = fit(graph, "adaptkry", splits, degree=degree, epochs=1, device="cpu")
    predictor = run.predictor(graph)
    predictor([0])
    one_node = float(np.median([seconds(lambda i=i: predictor([i])) for i in range(200)]))
    updates, again, difference, rows = [], [], 0.0, 0
    for _ in range(rounds):
        predictor = run.predictor(graph)
        grown = new_nodes(graph, place, rng)
        updates.append(seconds(lambda it=predictor, grown=grown: it.update(*grown)))
        full = predictor.graph  # features are joined outside of both times
        again.append(seconds(lambda full=full: run.predictor(full)))
        difference = max(difference, largest_difference(predictor, run.predictor(full)))
    predictor = run.predictor(graph)
    rows = len(predictor.update(*new_nodes(graph, place, rng))) / predictor.graph.nodes
    if not difference < 1e-6:
        raise RuntimeError(f"an update must agree with a new predictor to 1e-6; got {difference:.1e}. Fix it first.")
    update, recompute = float(np.median(updates)), float(np.median(again))
    return {
        "benchmark": "predictor", "graph": kind, "place": place, "degree": degree, "nodes": NODES, "columns": COLUMNS,
        "new_nodes": NEW, "splits": 10, "rounds": rounds, "seed": 0,
        "settings": {"degree": degree, "epochs": 1}, "one_node_ms": 1e3 * one_node, "update_ms": 1e3 * update,
        "recompute_ms": 1e3 * recompute, "ratio": recompute / update, "rows_changed": rows, "difference": difference,
        **provenance(),
    }  # fmt: skip


def main() -> None:
    """Measure all cases, print them and append their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default="results/predictor.jsonl")
    options = parser.parse_args()
    keep_memory()
    for kind, place, degree in itertools.product(("grid", "random"), ("corner", "scattered"), DEGREES):
        row = measure(kind, place, degree, options.rounds)
        print(
            f"{kind:7} {place:10} K = {degree:2}: one node {row['one_node_ms']:.2f} ms, update {row['update_ms']:.0f} "
            f"ms, again {row['recompute_ms']:.0f} ms, {row['ratio']:.1f}x, {row['rows_changed']:.0%} of the rows, "
            f"difference {row['difference']:.0e}"
        )
        append(options.out, [row])


if __name__ == "__main__":
    main()
