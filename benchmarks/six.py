"""The paper's six graphs, ten published splits, published settings: accuracy and time, in one process.

    python -m benchmarks.six [--device cuda] [--out results/adaptkry.jsonl]

The clock covers basis, training and evaluation. `--directed` adds Chameleon and Squirrel with direction "out", K = 4
and hop normalisation.
"""

import argparse

import numpy as np

from adaptkry import datasets, results, runs, splits, timing
from adaptkry.recipes import PUBLISHED, recipe

DIRECTED = {"directions": ("out",), "degree": 4, "taus": (1.0,), "hop_norm": True}


def main() -> None:
    """Train, print, append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--graphs", nargs="+", default=list(PUBLISHED["adaptkry"]))
    parser.add_argument("--out", default="results/adaptkry.jsonl")
    asked = parser.parse_args()
    device = runs.choose_device(asked.device)
    jobs = [(name, {}) for name in asked.graphs]
    jobs += [(name, DIRECTED) for name in ("chameleon", "squirrel")] if asked.directed else []
    total = 0.0
    for name, changes in jobs:
        graph, kept = datasets.load(name), []
        made, split = recipe("adaptkry", name, **changes), splits.class_balanced(graph.y)
        spent = timing.seconds(lambda: kept.append(runs.fit(graph, made, split, device=str(device))), device)  # noqa: B023
        rows = [{**row, "benchmark": "six", "run_seconds": spent} for row in kept[0].rows]
        results.append(asked.out, rows)
        scores = np.array([row["test"] for row in rows]) * 100
        total += 0 if changes else spent
        epochs = len(kept[0].curves["loss"])
        what = f"{name} {'out' if changes else ''}"
        print(f"{what:16} {scores.mean():.2f} ± {scores.std(ddof=1):.2f}   {spent:.1f} s, {epochs} epochs")
    print(f"all six: {total:.1f} s on {results.provenance(device)['device']}")


if __name__ == "__main__":
    main()
