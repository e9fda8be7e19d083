"""How long does a basis on disk take compared with the same products in memory? And how does the time grow?

    python -m benchmarks.outofcore basis  [--nodes 1e7 --entries 1e8 --features 64 --degree 10 --rows labelled|all]
    python -m benchmarks.outofcore slopes [--nodes 2.5e5 --entries 1e7 --features 32 --degree 8]

`basis` writes the graph once (in --work), then runs the command in a new process and records its time, including the
start of Python, and its peak memory (VmHWM). The reference is another process that computes the same products block by
block with edges and features in memory, and writes nothing. If stored rows are not equal to the bit, it is an error.
Bytes count every gathered row once: entries * (4 w + 4) + 2 * 4 n w for each hop of w columns.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from adaptkry.cli.progress import progress
from adaptkry.common import timing
from adaptkry.common.memory import format_bytes, parse_bytes
from adaptkry.common.rows import append, provenance
from adaptkry.graphs.graph import Graph, Info
from adaptkry.outofcore import BasisFolder, GraphFolder, propagate
from adaptkry.outofcore.random_graph import generate
from adaptkry.spectral.propagation_matrix import Propagation

PYTHON = [sys.executable, "-m"]
LABELLED = 0.01


def run_program(arguments: list[str]) -> tuple[float, int, str]:
    """Run a program; returns its seconds, its peak memory and its output."""
    start, peak = time.perf_counter(), 0
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, peak_memory(process.pid))
            time.sleep(0.05)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} must exit with 0; got {process.returncode}. See its messages above.")
    return time.perf_counter() - start, peak, output


def peak_memory(pid: int) -> int:
    """Return VmHWM of a process; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def random_graph(args, n: int, m: int, d: int) -> GraphFolder:
    """Return a graph of n nodes, m entries and d features; it is written once."""
    path = Path(args.work) / f"graph-{n}-{m}-{d}"
    return generate(path, nodes=n, entries=m, features=d, labelled=LABELLED)


def in_memory(graph: str, basis: str) -> None:
    """Print the seconds of the same products, and whether the last hop of the last block equals the stored one."""
    folder, stored = GraphFolder.open(graph), BasisFolder.open(basis)
    x = torch.from_numpy(folder.array("features").read())
    operators = [Propagation(as_graph(folder), tau) for tau in stored.taus]
    for operator in operators:
        _ = operator @ x[:, :1]  # computes the scalings, which are not timed
    start_time, last = time.perf_counter(), x
    for start, stop in stored.blocks:
        for operator in operators:
            last = x[:, start:stop].contiguous()
            for _ in range(stored.degree):
                last = operator @ last
    seconds = time.perf_counter() - start_time
    count = min(1000, stored.count)
    start, stop = stored.blocks[-1]
    agrees = torch.equal(stored.slab(0, count)[-1][:, start:stop], last[stored.rows[:count]])
    print(json.dumps({"seconds": seconds, "agrees": agrees}))


def as_graph(folder: GraphFolder) -> Graph:
    """Return the edges as a `Graph`, without sorting a hundred million of them again."""
    graph = object.__new__(Graph)
    graph.indptr = torch.from_numpy(folder.array("indptr").read().astype(np.int32))
    graph.indices = torch.from_numpy(folder.array("indices").read())
    graph.weights, graph.features, graph.is_directed = None, None, not folder.is_symmetric
    graph.y, graph.info = torch.full((folder.nodes,), -1), Info(folder.name)
    return graph


def basis(args) -> dict:
    """Return one row: the command and the reference, alternating; medians of rounds."""
    folder = random_graph(args, args.nodes, args.entries, args.features)
    out = Path(args.work) / f"basis-{args.rows}"
    times: dict[str, list[float]] = {"command": [], "inside": [], "in_memory": []}
    peak, summary = 0, {}
    for _ in range(args.rounds):
        remove(out)
        seconds, highest, output = run_program(propagate_command(args, folder.path, out))
        summary, peak = json.loads(output), max(peak, highest)
        reference = reference_result(folder.path, out, must_agree=args.dtype == "float32")
        for name, value in (("command", seconds), ("inside", summary["seconds"]), ("in_memory", reference["seconds"])):
            times[name].append(value)
    stored, medians = BasisFolder.open(out), {name: float(np.median(values)) for name, values in times.items()}
    row = {
        "benchmark": "outofcore_basis",
        "config": {
            "nodes": folder.nodes, "entries": folder.entries, "features": folder.features, "degree": stored.degree,
            "taus": list(stored.taus), "rows": args.rows, "stored_rows": stored.count, "dtype": stored.dtype,
            "memory": parse_bytes(args.memory), "blocks": len(stored.blocks),
        },
        "seed": 0,
        "seconds": medians,
        "ratio": medians["command"] / medians["in_memory"],
        "rounds": times,
        "peak_bytes": peak,
        "basis_bytes": summary["bytes"],
        "graph_bytes": sum(path.stat().st_size for path in folder.path.iterdir()),
        "gathered_bytes": gathered_bytes(folder, stored),
        **provenance(),
    }  # fmt: skip
    if not args.keep:
        remove(out)
    return row


def propagate_command(args, graph: Path, out: Path) -> list[str]:
    """Return the arguments of `adaptkry propagate`."""
    return [
        *PYTHON, "adaptkry", "propagate", str(graph), "--taus", args.taus, "--degree", str(args.degree),
        "--rows", args.rows, "--memory", args.memory, "--dtype", args.dtype, "--out", str(out), "--json",
    ]  # fmt: skip


def reference_result(graph: Path, out: Path, *, must_agree: bool) -> dict:
    """Run `in_memory` in another process; returns what it prints."""
    _, _, output = run_program([*PYTHON, "benchmarks.outofcore", "reference", str(graph), str(out)])
    reference = json.loads(output)
    if must_agree and not reference["agrees"]:
        raise RuntimeError(
            "the basis on disk must equal the basis in memory; it does not, so times cannot be compared. Report a bug."
        )
    return reference


def gathered_bytes(graph: GraphFolder, stored: BasisFolder) -> int:
    """Return the bytes that the products of all blocks read and write, every gathered row counted once."""
    hops, widths = stored.degree * len(stored.taus), [stop - start for start, stop in stored.blocks]
    return sum(hops * (graph.entries * (4 * width + 4) + 2 * 4 * graph.nodes * width) for width in widths)


def remove(out: Path) -> None:
    """Delete the folder if it is a basis folder."""
    if (out / "manifest.json").is_file():
        for path in out.iterdir():
            path.unlink()
        out.rmdir()


def slopes(args) -> list[dict]:
    """Return rows of seconds by entries, hops, features, taus and size; each is doubled three times, the others fixed.

    Size is nodes and entries together. Every round measures all points, so that a period in which the machine is slow
    affects one round of every point. The minimum over all runs of a point is used, since other processes only add time.
    """
    start = {
        "entries": args.entries, "degree": args.degree, "features": args.features, "taus": 1, "nodes": args.nodes
    }  # fmt: skip
    points = [
        (name, start | {key: 2**i * start[key] for key in (("nodes", "entries") if name == "size" else (name,))})
        for name in args.varied for i in range(4)
    ]  # fmt: skip
    seconds: list[list[float]] = [[] for _ in points]
    with progress("runs", len(points) * args.rounds) as advance:
        for _ in range(args.rounds):
            for times, (_, point) in zip(seconds, points, strict=True):
                times.extend(_measure_twice(args, point))
                advance()
    return [
        {
            "benchmark": "outofcore_slope",
            "varied": name,
            "value": point.get(name, point["entries"]),
            "config": {**point, "rows": "labelled", "rounds": args.rounds},
            "seed": 0,
            "seconds": min(times),
            "rounds": times,
            **provenance(),
        }
        for times, (name, point) in zip(seconds, points, strict=True)
    ]


def _measure_twice(args, point: dict) -> list[float]:
    """Return the seconds of two calls, without the start of Python; the caches may be cold in the first one."""
    folder = random_graph(args, point["nodes"], point["entries"], point["features"])
    out, taus = Path(args.work) / "slope", np.linspace(0.5, 1.2, point["taus"]).tolist()
    options = {"taus": taus, "degree": point["degree"], "rows": "labelled", "memory": args.memory, "columns": 16}
    times = []
    for _ in range(2):
        remove(out)
        times.append(timing.seconds(lambda: propagate(folder, out, **options)))
    remove(out)
    return times


def parse_arguments() -> argparse.Namespace:
    """Parse the command line; sizes may be written like 1e7."""
    integer = lambda text: int(float(text))  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["basis", "slopes", "reference"])
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--nodes", type=integer)
    parser.add_argument("--entries", type=integer)
    parser.add_argument("--features", type=integer)
    parser.add_argument("--degree", type=int)
    parser.add_argument("--taus", default="1")
    parser.add_argument("--rows", default="labelled")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--rounds", type=int, default=3)
    varied = ["entries", "degree", "features", "taus", "size"]
    parser.add_argument("--varied", nargs="+", choices=varied, default=varied, help="for slopes")
    parser.add_argument("--work", default="runs/outofcore", help="folder for graphs and bases")
    parser.add_argument("--keep", action="store_true", help="keep the basis")
    parser.add_argument("--out", default="results/outofcore.jsonl")
    args = parser.parse_args()
    sizes = {"basis": (10**7, 10**8, 64, 10), "slopes": (250_000, 10**7, 32, 8)}.get(args.what, (0, 0, 0, 0))
    for name, size in zip(("nodes", "entries", "features", "degree"), sizes, strict=True):
        setattr(args, name, size if getattr(args, name) is None else getattr(args, name))
    return args


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    args = parse_arguments()
    if args.what == "reference":
        in_memory(*args.paths)
        return
    rows = [basis(args)] if args.what == "basis" else slopes(args)
    append(args.out, rows)
    for row in rows:
        if args.what == "slopes":
            print(f"{row['varied']:10} {row['value']:>12,} {row['seconds']:8.2f} s")
            continue
        times = row["seconds"]
        print(f"command {times['command']:.1f} s, in memory {times['in_memory']:.1f} s, ratio {row['ratio']:.2f}")
        print(f"peak memory {format_bytes(row['peak_bytes'])}, basis {format_bytes(row['basis_bytes'])}")


if __name__ == "__main__":
    main()
