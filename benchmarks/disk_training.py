"""How fast is an epoch from disk compared with the same epoch in memory, and how much memory does each need?

    python -m benchmarks.disk_training [--rows 200000 2000000] [--splits 1] [--rounds 5] [--device cpu]
                                       [--out results/outofcore.jsonl]

Each runs in a child process with the same folder, splits, batches and seeds; they train one epoch each in turn, so that
other processes on the machine slow both alike. An epoch is training and validation; the first, with a cold page cache,
is not counted. Peak memory is that of the whole process (VmHWM), including Python and torch. The baseline ("bare" in
the rows) is a process that opens the folder and draws the splits, but does not train. Bytes: a pass over the basis
reads rows * (K + 1) * d * 4, and an epoch has two passes, or one if the validation rows fit in `memory` and are kept.
"read" is the time of one pass without training, which no epoch can be faster than. On a GPU "memory" is the memory of
the GPU.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
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
from adaptkry.training.batches import SlabBatches
from adaptkry.training.data import BatchOptions, FolderData
from adaptkry.training.fit import make_members
from adaptkry.training.loop import GradientDescent

ROWS_AT_ONCE = 50_000  # rows written at once
TIMED = ("memory", "disk", "read")


def write_basis(path: Path, rows: int, degree: int, features: int, width: int, classes: int = 10) -> BasisFolder:
    """Write a basis folder of random numbers around class centres; training from a folder needs no graph."""
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
                    classes_of_rows = labels[start : start + ROWS_AT_ONCE]
                    noise = random.standard_normal((len(classes_of_rows), last - first), dtype=np.float32)
                    file.write(noise + centres[classes_of_rows])
        sums[f"{block_name(first, last)}.npy"] = file.checksum
        blocks.append((first, last))
    kind = {"kind": "basis", "format": FORMATS["basis"], "name": "random", "metric": "accuracy", "classes": classes}
    shape = {"nodes": rows, "rows": rows, "features": features, "degree": degree, "dtype": "float32", "blocks": blocks}
    request = {"row_selection": "all", "graph": "", "seed": 0, "taus": [1.0], "directions": ["both"]}
    write_manifest(path, kind | shape | request | {"xxh128": sums})
    return BasisFolder.open(path)


def child(mode: str, path: str, count: int, batch: int | None, device: str, limit: str) -> None:
    """Train one epoch for every line on stdin, and print its seconds and the peak memory so far.

    Args:
        mode: "memory", "disk", "read" (a pass over the basis, without training), or "bare" (only the peak memory).
        path: the basis folder.
        count: number of splits.
        batch: rows per step; None for the default.
        device: "cpu" or "cuda".
        limit: `memory` of the training from disk.
    """
    folder = BasisFolder.open(path)
    data = FolderData(folder)
    splits = data.splits("uniform", count)
    if mode == "bare":
        sys.stdin.readline()
        print(json.dumps({"peak_bytes": memory.peak_resident_bytes()}), flush=True)
        return
    recipe = data.recipe("adaptkry", epochs=1000, patience=1000)
    members = make_members([recipe], splits, 1)
    options = BatchOptions(torch.device(device), batch, 2**50 if mode == "memory" else limit)
    prepared = data.prepare(recipe, members, splits, options)
    if mode == "read":
        assert isinstance(prepared.batches, SlabBatches)
        source, plan = prepared.batches.source, prepared.batches.plan
        bounds = [plan.bounds(slab) for slab in range(plan.slabs)]
        for _ in sys.stdin:
            seconds = timing.seconds(lambda: deque(source.ranges(bounds, options.device), maxlen=0), options.device)
            print(json.dumps({"seconds": seconds, "peak_bytes": memory.peak_resident_bytes()}), flush=True)
        return
    training = GradientDescent(prepared.shape, prepared.batches, members)
    train_epoch = training.epoch_function()
    for number, _ in enumerate(sys.stdin):
        seconds = timing.seconds(lambda: train_epoch(number), device)  # noqa: B023
        loss = float(training.state["curve/loss"][number].mean())
        result = {
            "seconds": seconds,
            "peak_bytes": memory.peak_resident_bytes(),
            "loss": loss,
            "slabs": prepared.batching["slabs"],
        }
        print(json.dumps(result), flush=True)


class ChildProcess:
    """A process that trains one epoch on request."""

    def __init__(self, mode: str, path: Path, args: argparse.Namespace):
        command = [sys.executable, "-m", "benchmarks.disk_training", "--child", mode, "--folder", str(path)]
        command += ["--splits", str(args.splits), "--device", args.device, "--memory", args.memory]
        command += ["--batch", str(args.batch)] if args.batch else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.epochs: list[dict] = []  # what it printed after each epoch

    def train_epoch(self) -> None:
        """Train one epoch and record its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.epochs.append(json.loads(self.process.stdout.readline()))

    def end(self) -> None:
        """Close its input, and wait until it has ended."""
        self.process.communicate(timeout=60)


def run_children(path: Path, args: argparse.Namespace) -> dict[str, list[dict]]:
    """Train epochs in memory and from disk in turn; returns what each child process printed."""
    children = {mode: ChildProcess(mode, path, args) for mode in ("bare", *TIMED)}
    for number in range(args.rounds + 1):
        for mode in TIMED if number % 2 else reversed(TIMED):
            children[mode].train_epoch()
    children["bare"].train_epoch()
    for process in children.values():
        process.end()
    return {mode: process.epochs for mode, process in children.items()}


def measure(rows: int, args: argparse.Namespace, parent: Path) -> dict:
    """Return one row: seconds per epoch and peak memory, in memory and from disk."""
    path = parent / f"basis-{rows}"
    folder = write_basis(path, rows, args.degree, args.features, args.width)
    epochs = run_children(path, args)
    shutil.rmtree(path)
    times = {mode: [epoch["seconds"] for epoch in epochs[mode][1:]] for mode in TIMED}
    medians = {mode: median(values) for mode, values in times.items()}
    losses = zip(epochs["disk"], epochs["memory"], strict=True)
    size = rows * folder.terms * folder.features * 4
    return {
        "benchmark": "disk_training",
        "config": {
            "rows": rows, "degree": args.degree, "features": args.features, "width": args.width,
            "splits": args.splits, "batch": args.batch or 8192, "rounds": args.rounds, "dtype": "float32",
            "memory": args.memory, "slabs": epochs["disk"][0]["slabs"],
        },
        "seed": 0,
        "basis_bytes": size,
        "epoch_bytes": 2 * size,
        "seconds": medians,
        "seconds_each": times,
        "epochs_per_second": {mode: 1 / value for mode, value in medians.items()},
        "disk_over_memory": medians["memory"] / medians["disk"],
        "peak_bytes": {mode: printed[-1]["peak_bytes"] for mode, printed in epochs.items()},
        "largest_loss_difference": max(abs(a["loss"] - b["loss"]) for a, b in losses),
        **provenance(args.device),
    }  # fmt: skip


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 2_000_000])
    parser.add_argument("--degree", type=int, default=4)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--width", type=int, default=32, help="columns per block")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory", default="0", help="memory of the training from disk, as for `adaptkry fit`")
    parser.add_argument("--place", default=None, help="folder for temporary files")
    parser.add_argument("--out", default="results/outofcore.jsonl")
    parser.add_argument("--child", choices=("bare", *TIMED), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.folder, args.splits, args.batch, args.device, args.memory)
        return
    for rows in args.rows:
        start_time = time.monotonic()
        with tempfile.TemporaryDirectory(dir=args.place) as parent:
            row = measure(rows, args, Path(parent))
        append(args.out, [row])
        show(row, time.monotonic() - start_time)


def show(row: dict, seconds: float) -> None:
    """Print a row, and how long it took to measure."""
    config, peak, size = row["config"], row["peak_bytes"], row["basis_bytes"] / 2**20
    print(f"{config['rows']:,} rows, basis {size:.0f} MiB, {config['slabs']} slabs (measured in {seconds:.0f} s)")
    for name in ("memory", "disk"):
        print(f"  {name:8} {row['seconds'][name]:8.3f} s per epoch, peak {peak[name] / 2**20:6.0f} MiB")
    print(f"  one pass {row['seconds']['read']:8.3f} s, {row['basis_bytes'] / row['seconds']['read'] / 1e9:.1f} GB/s")
    print(f"  baseline {'':8}             peak {peak['bare'] / 2**20:6.0f} MiB")
    difference = row["largest_loss_difference"]
    print(f"  rate from disk / in memory {row['disk_over_memory']:.3f}, losses differ by at most {difference:.1e}")


if __name__ == "__main__":
    main()
