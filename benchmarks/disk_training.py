"""How fast is an epoch from disk against the same epoch in memory, and how much memory does each take?

    python -m benchmarks.disk_training [--rows 200000 2000000] [--splits 1] [--rounds 5] [--device cpu]
                                       [--out results/outofcore.jsonl]

Both are child processes with the same folder, splits, plan and seeds; they alternate in training an epoch (training
and validation; the first, with a cold page cache, does not count), so other processes disturb both alike. Peak memory
is that of the whole process (VmHWM), including Python and torch. "Bare" is a process that has opened the folder and
drawn the splits, and trains nothing: what is needed per row beside the basis. Bytes: a pass over the basis reads
rows * (K + 1) * d * 4, and an epoch has two passes. On a GPU "memory" is the memory of the GPU.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from adaptkry.common import memory, timing
from adaptkry.common.rows import append, provenance
from adaptkry.outofcore import BasisFolder
from adaptkry.outofcore.basis_folder import block_name
from adaptkry.outofcore.manifest import FORMATS, write_manifest
from adaptkry.outofcore.npy_files import npy_writer, save
from adaptkry.training.data import BatchOptions, FolderData
from adaptkry.training.fit import make_members
from adaptkry.training.loop import GradientDescent

ROWS_AT_ONCE = 50_000  # rows written at once


def write_basis(path: Path, rows: int, degree: int, features: int, width: int, classes: int = 10) -> BasisFolder:
    """Write a basis folder of random numbers with planted classes: training time does not depend on the edges."""
    path.mkdir(parents=True)
    random = np.random.default_rng(0)
    labels, sums, blocks = random.integers(0, classes, rows), {}, []
    sums["rows.npy"] = save(path / "rows.npy", random.permutation(rows))
    sums["labels.npy"] = save(path / "labels.npy", labels)
    for first in range(0, features, width):
        last = min(first + width, features)
        centres = 0.2 * random.standard_normal((classes, last - first), dtype=np.float32)
        with npy_writer(
            path / f"{block_name(first, last)}.npy", (1, degree + 1, rows, last - first), "float32"
        ) as file:
            for _ in range(degree + 1):
                for start in range(0, rows, ROWS_AT_ONCE):
                    some = labels[start : start + ROWS_AT_ONCE]
                    file.write(random.standard_normal((len(some), last - first), dtype=np.float32) + centres[some])
        sums[f"{block_name(first, last)}.npy"] = file.checksum
        blocks.append((first, last))
    about = {"kind": "basis", "format": FORMATS["basis"], "name": "random", "metric": "accuracy", "classes": classes}
    shape = {"nodes": rows, "rows": rows, "features": features, "degree": degree, "dtype": "float32", "blocks": blocks}
    request = {"row_selection": "all", "graph": "", "seed": 0, "taus": [1.0], "directions": ["both"]}
    write_manifest(path, about | shape | request | {"xxh128": sums})
    return BasisFolder.open(path)


def child(where: str, path: str, count: int, batch: int | None, device: str) -> None:
    """Train an epoch for every line on stdin, and print its seconds and the peak memory so far."""
    folder = BasisFolder.open(path)
    data = FolderData(folder)
    splits = data.splits("uniform", count)
    if where == "bare":
        sys.stdin.readline()
        print(json.dumps({"peak_bytes": memory.peak_resident_bytes()}), flush=True)
        return
    recipe = data.recipe("adaptkry", epochs=1000, patience=1000)
    members = make_members([recipe], splits, 1)
    options = BatchOptions(torch.device(device), batch, 0 if where == "disk" else 2**60)
    prepared = data.prepare(recipe, members, splits, options)
    training = GradientDescent(prepared.shape, prepared.batches, members)
    gradients = training.gradient_function()
    for number, _ in enumerate(sys.stdin):
        spent = timing.seconds(lambda: training.one_epoch(number, gradients), device)  # noqa: B023
        loss = float(training.state["curve/loss"][number].mean())
        result = {
            "seconds": spent,
            "peak_bytes": memory.peak_resident_bytes(),
            "loss": loss,
            "slabs": prepared.batching["slabs"],
        }
        print(json.dumps(result), flush=True)


class Child:
    """A process that trains an epoch on request."""

    def __init__(self, where: str, path: Path, args: argparse.Namespace):
        words = [sys.executable, "-m", "benchmarks.disk_training", "--child", where, "--folder", str(path)]
        words += ["--splits", str(args.splits), "--device", args.device]
        words += ["--batch", str(args.batch)] if args.batch else []
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.printed: list[dict] = []

    def epoch(self) -> dict:
        """Train one epoch and return what it printed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.printed.append(json.loads(self.process.stdout.readline()))
        return self.printed[-1]

    def end(self) -> None:
        """Wait for the process to end."""
        self.process.communicate(timeout=60)


def measure(rows: int, args: argparse.Namespace, place: Path) -> dict:
    """One row: seconds per epoch and peak memory of both."""
    path = place / f"basis-{rows}"
    folder = write_basis(path, rows, args.degree, args.features, args.width)
    children = {name: Child(name, path, args) for name in ("bare", "memory", "disk")}
    for turn in range(args.rounds + 1):
        for name in ("memory", "disk") if turn % 2 else ("disk", "memory"):
            children[name].epoch()
    children["bare"].epoch()
    for one in children.values():
        one.end()
    shutil.rmtree(path)
    trained = {name: children[name].printed for name in ("memory", "disk")}
    each = {name: [epoch["seconds"] for epoch in epochs[1:]] for name, epochs in trained.items()}
    spent = {name: median(times) for name, times in each.items()}
    gap = max(abs(a["loss"] - b["loss"]) for a, b in zip(trained["disk"], trained["memory"], strict=True))
    size = rows * folder.terms * folder.features * 4
    return {
        "benchmark": "disk_training",
        "config": {
            "rows": rows, "degree": args.degree, "features": args.features, "width": args.width,
            "splits": args.splits, "batch": args.batch or 8192, "rounds": args.rounds, "dtype": "float32",
            "slabs": children["disk"].printed[0]["slabs"],
        },
        "seed": 0,
        "basis_bytes": size,
        "epoch_bytes": 2 * size,
        "seconds": spent,
        "seconds_each": each,
        "epochs_per_second": {name: 1 / value for name, value in spent.items()},
        "disk_over_memory": spent["memory"] / spent["disk"],
        "peak_bytes": {name: one.printed[-1]["peak_bytes"] for name, one in children.items()},
        "largest_loss_difference": gap,
        **provenance(args.device),
    }  # fmt: skip


def main() -> None:
    """Measure, print, append the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 2_000_000])
    parser.add_argument("--degree", type=int, default=4)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--width", type=int, default=32, help="columns per block")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--place", default=None, help="folder for temporary files")
    parser.add_argument("--out", default="results/outofcore.jsonl")
    parser.add_argument("--child", choices=("bare", "memory", "disk"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.folder, args.splits, args.batch, args.device)
        return
    for rows in args.rows:
        start_time = time.monotonic()
        with tempfile.TemporaryDirectory(dir=args.place) as place:
            row = measure(rows, args, Path(place))
        append(args.out, [row])
        show(row, time.monotonic() - start_time)


def show(row: dict, took: float) -> None:
    """Print a row."""
    config, peak = row["config"], row["peak_bytes"]
    print(
        f"{config['rows']:,} rows, basis {row['basis_bytes'] / 2**20:.0f} MiB, {config['slabs']} slabs ({took:.0f} s)"
    )
    for name in ("memory", "disk"):
        print(f"  {name:8} {row['seconds'][name]:8.3f} s per epoch, peak {peak[name] / 2**20:6.0f} MiB")
    print(f"  bare     {'':8}             peak {peak['bare'] / 2**20:6.0f} MiB")
    gap = row["largest_loss_difference"]
    print(f"  rate from disk / in memory {row['disk_over_memory']:.3f}, loss differs by {gap:.1e}")


if __name__ == "__main__":
    main()
