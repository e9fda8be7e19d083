"""What do wide sparse features need, and what does their reduction cost?

python -m benchmarks.wide_features [--epochs 20] [--out results/wide-features.jsonl]

`memory` is the peak resident memory of `adaptkry fit` with ten splits on a graph of the shape of deezer-europe, whose
dense basis would need tens of gigabytes. `reduction` trains on Citeseer with all columns and with reduced ones, on the
same splits and with the same settings.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from adaptkry.common.intervals import corrected_half_width, nodes_ratio
from adaptkry.common.rows import append, provenance
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import load
from adaptkry.graphs.readers.arrays import write_npz
from adaptkry.models.recipe import recipe
from adaptkry.training.fit import fit

RANKS = (256, 512, 1024)
CITESEER = {"normalise": True, "taus": (0.5,), "degree": 10, "hidden": 64, "layers": 2, "mlp_lr": 0.05,
            "mlp_dropout": 0.5, "mlp_decay": 1e-3}  # fmt: skip
SPLITS_OF_CITESEER = 5


@dataclass(frozen=True)
class WideShape:
    """The sizes of deezer-europe."""

    nodes: int = 28_281
    edges: int = 92_752
    columns: int = 31_241
    entries: int = 958_475


def wide_graph(shape: WideShape, seed: int = 0) -> Graph:
    """A graph of two classes: each prefers one half of the columns, and nodes of its own class as neighbours."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, shape.nodes)
    rows = np.concatenate([np.arange(shape.nodes), random.integers(0, shape.nodes, shape.entries - shape.nodes)])
    popular = (random.pareto(1.0, len(rows)) * 200).astype(np.int64) % (shape.columns // 2)  # few columns are frequent
    half = labels[rows] ^ (random.random(len(rows)) < 0.4)
    features = sp.csr_array((np.ones(len(rows), np.float32), (rows, popular * 2 + half)), (shape.nodes, shape.columns))
    features.data[:] = 1
    first, second = random.integers(0, shape.nodes, (2, 2 * shape.edges))
    kept = (labels[first] == labels[second]) | (random.random(len(first)) < 0.8)
    return Graph(np.stack([first, second])[:, kept][:, : shape.edges], features, labels, nodes=shape.nodes)


def memory_row(shape: WideShape, epochs: int) -> dict:
    """Run the command on two threads, and measure its peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        graph = wide_graph(shape)
        path = write_npz(graph, Path(folder) / "wide.npz")
        command = [sys.executable, "-m", "adaptkry", "fit", str(path), "--split", "stratified", "--splits", "10",
                   "--epochs", str(epochs), "--device", "cpu", "--no-report", "--out", f"{folder}/run"]  # fmt: skip
        start = time.perf_counter()
        done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "2"}, text=True, capture_output=True)
        seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stderr)
    print(done.stdout)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # this is the only child
    settings = {**vars(shape), "stored_entries": graph.features.nnz, "splits": 10, "epochs": epochs}
    summary = next(line for line in done.stdout.splitlines() if "test accuracy" in line)
    return {"graph": "deezer-europe shape", "settings": settings, "peak_bytes": peak, "seconds": {"fit": seconds},
            "threads": 2, "summary": summary}  # fmt: skip


def reduction_rows(epochs: int, data_root: Path | None) -> list[dict]:
    """Train on Citeseer with all columns and with reduced ones: paired differences with corrected intervals."""
    graph = load("citeseer", root=data_root)
    parts = splits.make(graph, "class_balanced", SPLITS_OF_CITESEER)
    ratio = nodes_ratio([parts.sizes(i) for i in range(len(parts))])
    full, rows = None, []
    for rank in (0, *RANKS):
        start = time.perf_counter()
        run = fit(graph, recipe("adaptkry", None, **CITESEER, epochs=epochs, reduce=rank), parts, device="cpu")
        scores = run.test_scores
        full = scores if full is None else full
        difference = scores - full
        row = {"graph": "citeseer", "settings": {**CITESEER, "epochs": epochs, "reduce": rank}, "scheme": parts.scheme,
               "splits": len(parts), "test": float(scores.mean()), "std": float(scores.std(ddof=1)),
               "difference": float(difference.mean()), "seconds": {"fit": time.perf_counter() - start}}  # fmt: skip
        rows.append(row | {"half_width": corrected_half_width(difference, ratio) if rank else 0.0})
        print(f"citeseer, {rank or 'all'} columns: {row['test']:.4f}, difference {row['difference']:+.4f}")
    return rows


def main() -> None:
    """Measure once, append the rows to a file, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="of the measurement of memory")
    parser.add_argument("--citeseer-epochs", type=int, default=60)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", default="results/wide-features.jsonl")
    arguments = parser.parse_args()
    memory = {"benchmark": "wide_features_memory", "seed": 0} | memory_row(WideShape(), arguments.epochs)
    append(arguments.out, [memory | provenance()])
    print(f"peak {memory['peak_bytes'] / 2**30:.2f} GiB")
    rows = reduction_rows(arguments.citeseer_epochs, arguments.data_root)
    append(arguments.out, [{"benchmark": "wide_features_reduction", "seed": 0} | row | provenance() for row in rows])


if __name__ == "__main__":
    main()
