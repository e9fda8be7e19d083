"""Accuracy and time of AdaptKry on the paper's six graphs, with the ten published splits and the published settings.

    python -m benchmarks.six [--device cuda] [--directed] [--restarts 2] [--dtype bfloat16]
                             [--out results/adaptkry.jsonl]

The time covers basis, training and evaluation, in one process. `--directed` adds Chameleon and Squirrel with direction
"out", K = 4, tau = 1 and every hop scaled to the norm of X.
"""

import argparse

import numpy as np
import torch

from adaptkry.common import timing
from adaptkry.common.choices import STORED_DTYPES
from adaptkry.common.rows import append, provenance
from adaptkry.graphs import splits
from adaptkry.graphs.load import load
from adaptkry.models.recipe import recipe
from adaptkry.training.fit import choose_device, fit

SIX = ("cora", "citeseer", "pubmed", "actor", "chameleon", "squirrel")
DIRECTED = {"directions": ("out",), "degree": 4, "taus": (1.0,), "hop_norm": True}


def measure(name: str, changes: dict, device: torch.device, seeds: int, restarts: int) -> list[dict]:
    """Train on one graph; every row has the time and memory of the whole fit."""
    graph, runs = load(name), []
    settings, ten_splits = recipe("adaptkry", name, **changes), splits.class_balanced(graph.y)
    is_gpu = device.type == "cuda"
    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    options = {"seeds": seeds, "restarts": restarts, "device": str(device)}
    seconds = timing.seconds(lambda: runs.append(fit(graph, settings, ten_splits, **options)), device)
    hop_bytes, members = 4 * graph.nodes * graph.features.shape[1], len(runs[0].results)
    memory = {
        "peak_bytes": torch.cuda.max_memory_allocated() if is_gpu else None,
        "basis_bytes": hop_bytes * (settings.degree + 1),
        "largest_activation_bytes": hop_bytes * members,  # weighted hops of all members, before rows are selected
    }
    epochs = len(runs[0].curves["loss"])
    extra = {"benchmark": "six", "run_seconds": seconds, "run_epochs": epochs, "members": members, **memory}
    extra |= {"restarts": restarts}
    return [{**result.to_row(), **extra} for result in runs[0].results]


def show(name: str, rows: list[dict]) -> None:
    """Print the result of one graph in one line."""
    scores, first = np.array([row["test"] for row in rows if row["chosen"]]) * 100, rows[0]
    memory = ""
    if first["peak_bytes"]:
        copies = (first["peak_bytes"] - first["basis_bytes"]) / first["largest_activation_bytes"]
        memory = f", peak {first['peak_bytes'] / 2**20:.0f} MiB = basis + {copies:.2f} activations"
    cost = f"{first['run_seconds']:.1f} s, {first['run_epochs']} epochs{memory}"
    print(f"{name:16} {scores.mean():.2f} ± {scores.std(ddof=1):.2f}   {cost}")


def main() -> None:
    """Train, append the rows to a file, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--directed", action="store_true")
    parser.add_argument("--seeds", type=int, default=1, help="trainings per split")
    parser.add_argument(
        "--restarts", type=int, default=1, help="trainings per split and seed, of which the best on validation is kept"
    )
    parser.add_argument("--dtype", choices=STORED_DTYPES, default="float32", help="type of terms and activations")
    parser.add_argument("--graphs", nargs="+", default=list(SIX))
    parser.add_argument("--out", default="results/adaptkry.jsonl")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    changes = {} if arguments.dtype == "float32" else {"dtype": arguments.dtype}
    graphs = [(name, changes) for name in arguments.graphs]
    graphs += [(name, DIRECTED) for name in ("chameleon", "squirrel")] if arguments.directed else []
    total = 0.0
    for name, changes in graphs:
        is_directed = "directions" in changes
        rows = measure(name, changes, device, arguments.seeds, arguments.restarts)
        append(arguments.out, rows)
        show(f"{name} {'out' if is_directed else ''}", rows)
        total += 0 if is_directed else rows[0]["run_seconds"]
    print(f"all six: {total:.1f} s on {provenance(device)['device']}")


if __name__ == "__main__":
    main()
