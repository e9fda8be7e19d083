"""Is `auto` ever below the better of GCN and MLP, and does it keep its time limit, on the development graphs?

    python -m benchmarks.auto [--time 5min] [--device cpu] [--graphs cora,own/texas] [--out results/benchmarks.jsonl]

GCN and MLP have their best trainings of the same search on validation nodes. The difference is the ensemble's test
score minus that of the better one, over the same splits, with half the width of its 95 % interval. On the CPU give it
as many cores as the claim is about: `taskset -c 0,1`.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch

from adaptkry.common import timing
from adaptkry.common.memory import keep_freed_memory
from adaptkry.common.rows import append, provenance
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import load
from adaptkry.paper.development import DEVELOPMENT, is_user_file, open_user_file
from adaptkry.paper.measure import RunOptions, development_splits
from adaptkry.selection.auto import auto
from adaptkry.selection.auto_result import REFERENCES
from adaptkry.training.data import GraphData


def open_development(name: str) -> Graph:
    """Load or generate a development graph."""
    generate = DEVELOPMENT[name].generate
    if generate is not None:
        return generate()
    return open_user_file(name, None) if is_user_file(name) else load(name)


def measure(name: str, limit: float, device: str) -> dict:
    """Return one row: scores, differences and seconds."""
    graph = open_development(name)
    splits = development_splits(graph, name, RunOptions())
    result = auto(GraphData(graph), splits, time_limit=limit, device=device)
    found = {entry["name"]: entry for entry in result.comparison()}
    better = max(REFERENCES, key=lambda method: found[method]["mean"] or 0.0)
    return {
        "benchmark": "auto", "graph": name, "settings": {"time_limit": limit}, "seed": 0, "scheme": splits.scheme,
        "test": {method: entry["mean"] for method, entry in found.items()},
        "validation": float(np.mean([one.validation or np.nan for one in result.ensemble.results])),
        "better_baseline": better, "difference": -found[better]["difference"],
        "half_width": found[better]["half_width"], "seconds": result.seconds, "trials": len(result.trials),
        "threads": torch.get_num_threads(), **provenance(device),
    }  # fmt: skip


def describe(row: dict) -> str:
    """Return what is printed of a row."""
    return (
        f"{100 * row['test']['ensemble']:.2f} %, {row['better_baseline']} "
        f"{100 * row['test'][row['better_baseline']]:.2f} %, difference {100 * row['difference']:+.2f} ± "
        f"{100 * (row['half_width'] or 0):.2f}, {row['trials']} trials, {row['seconds']:.1f} s"
    )


def measure_graphs(
    measure: Callable[[str, float, str], dict], describe: Callable[[dict], str], doc: str | None, **defaults: str
) -> None:
    """Measure the graphs that the command line names, append their rows to a file, and print them.

    Args:
        measure: returns the row of a graph, a time limit in seconds and a device.
        describe: returns what is printed of a row.
        doc: the description of the command.
        defaults: those of --time, --graphs and --out.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", default=default)
    options = parser.parse_args()
    keep_freed_memory()
    for name in options.graphs.split(","):
        row = measure(name, timing.time_limit(options.time), options.device)
        append(options.out, [row])
        print(f"{name}: {describe(row)}", flush=True)


if __name__ == "__main__":
    measure_graphs(
        measure, describe, __doc__, time="5min", graphs=",".join(DEVELOPMENT), out="results/benchmarks.jsonl"
    )
