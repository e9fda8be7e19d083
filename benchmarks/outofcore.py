"""How long does a basis on disk take, against the same products in memory? And how does the time grow?

    python -m benchmarks.outofcore basis  [--nodes 1e7 --entries 1e8 --features 64 --degree 10 --rows labelled|all]
    python -m benchmarks.outofcore slopes [--nodes 2.5e5 --entries 1e7 --features 32 --degree 8]

`basis` writes the graph once (in --work), then runs the command in a new process and records its peak memory (VmHWM),
including the start of Python; then the same products block by block with edges and features in memory and nothing
written, in another process. Stored rows must be equal to the bit, or no row is written.
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
from adaptkry.common.rows import append, provenance
from adaptkry.graphs.graph import Graph, Info
from adaptkry.outofcore import BasisFolder, GraphFolder, propagate
from adaptkry.outofcore.memory_plan import format_bytes, parse_bytes
from adaptkry.outofcore.random_graph import generate
from adaptkry.spectral.propagation_matrix import Propagation

PYTHON = [sys.executable, "-m"]
LABELLED = 0.01


def watched(words: list[str]) -> tuple[float, int, str]:
    """Run a program; return its seconds, its peak memory and what it printed."""
    start, highest = time.perf_counter(), 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            highest = max(highest, peak_memory(process.pid))
            time.sleep(0.05)
        printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return time.perf_counter() - start, highest, printed


def peak_memory(pid: int) -> int:
    """VmHWM of a process, 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def graph_of(args, n: int, m: int, d: int) -> GraphFolder:
    """A graph of n nodes, m entries and d features, written once."""
    path = Path(args.work) / f"graph-{n}-{m}-{d}"
    return generate(path, nodes=n, entries=m, features=d, labelled=LABELLED)


def in_memory(graph: str, basis: str) -> None:
    """Print the seconds of the same products, and whether the last hop of the last block equals the stored one."""
    folder, made = GraphFolder.open(graph), BasisFolder.open(basis)
    x = torch.from_numpy(folder.array("features").read())
    operators = [Propagation(as_graph(folder), tau) for tau in made.taus]
    for operator in operators:
        _ = operator @ x[:, :1]  # scalings are not part of the measured time
    start_time, last = time.perf_counter(), x
    for start, stop in made.blocks:
        for operator in operators:
            last = x[:, start:stop].contiguous()
            for _ in range(made.degree):
                last = operator @ last
    seconds = time.perf_counter() - start_time
    some = min(1000, made.count)
    start, stop = made.blocks[-1]
    agrees = torch.equal(made.slab(0, some)[-1][:, start:stop], last[made.rows[:some]])
    print(json.dumps({"seconds": seconds, "agrees": agrees}))


def as_graph(folder: GraphFolder) -> Graph:
    """The edges as a `Graph`, without sorting a hundred million of them again."""
    graph = object.__new__(Graph)
    graph.indptr = torch.from_numpy(folder.array("indptr").read().astype(np.int32))
    graph.indices = torch.from_numpy(folder.array("indices").read())
    graph.weights, graph.features, graph.is_directed = None, None, not folder.is_symmetric
    graph.y, graph.info = torch.full((folder.nodes,), -1), Info(folder.name)
    return graph


def basis(args) -> dict:
    """One row: the command against the reference, alternating; medians."""
    folder = graph_of(args, args.nodes, args.entries, args.features)
    out = Path(args.work) / f"basis-{args.rows}"
    words = [
        "propagate",
        str(folder.path),
        "--taus",
        args.taus,
        "--degree",
        str(args.degree),
        "--rows",
        args.rows,
    ]
    words += ["--memory", args.memory, "--dtype", args.dtype, "--out", str(out), "--json"]
    spent: dict[str, list[float]] = {"command": [], "inside": [], "in_memory": []}
    peak, summary = 0, {}
    for _ in range(args.rounds):
        remove(out)
        seconds, highest, printed = watched([*PYTHON, "adaptkry", *words])
        summary, peak = json.loads(printed), max(peak, highest)
        _, _, printed = watched([*PYTHON, "benchmarks.outofcore", "reference", str(folder.path), str(out)])
        reference = json.loads(printed)
        if not reference["agrees"] and args.dtype == "float32":
            raise RuntimeError(
                "the basis on disk must equal the one in memory; it does not, so its time means nothing. Report a bug."
            )
        for name, value in (("command", seconds), ("inside", summary["seconds"]), ("in_memory", reference["seconds"])):
            spent[name].append(value)
    made, middle = BasisFolder.open(out), {name: float(np.median(values)) for name, values in spent.items()}
    hops = made.degree * len(made.taus)
    moved = sum(hops * (folder.entries * (4 * (b - a) + 4) + 2 * 4 * folder.nodes * (b - a)) for a, b in made.blocks)
    row = {
        "benchmark": "outofcore_basis",
        "config": {
            "nodes": folder.nodes, "entries": folder.entries, "features": folder.features, "degree": made.degree,
            "taus": list(made.taus), "rows": args.rows, "stored_rows": made.count, "dtype": made.dtype,
            "memory": parse_bytes(args.memory), "blocks": len(made.blocks),
        },
        "seed": 0,
        "seconds": middle,
        "ratio": middle["command"] / middle["in_memory"],
        "rounds": spent,
        "peak_bytes": peak,
        "basis_bytes": summary["bytes"],
        "graph_bytes": sum(path.stat().st_size for path in folder.path.iterdir()),
        "gathered_bytes": moved,
        **provenance(),
    }  # fmt: skip
    if not args.keep:
        remove(out)
    return row


def remove(out: Path) -> None:
    """Delete a basis folder of an earlier run, and nothing else."""
    if (out / "manifest.json").is_file():
        for path in out.iterdir():
            path.unlink()
        out.rmdir()


def slopes(args) -> list[dict]:
    """Rows of seconds against entries, hops, features, taus and size, each doubled three times with the others fixed.

    Size is nodes and entries together. Rounds go over all points in turn, so that a slow minute of the machine affects
    one round of every point. The minimum of all runs of a point counts, since other processes only ever add time.
    """
    start = {
        "entries": args.entries, "degree": args.degree, "features": args.features, "taus": 1, "nodes": args.nodes
    }  # fmt: skip
    together = {"size": ("nodes", "entries")}
    points = [
        (name, start | {each: 2**i * start[each] for each in together.get(name, (name,))})
        for name in args.varied for i in range(4)
    ]  # fmt: skip
    spent: list[list[float]] = [[] for _ in points]
    with progress("runs", len(points) * args.rounds) as advance:
        for _ in range(args.rounds):
            for times, (_, point) in zip(spent, points, strict=True):
                times.extend(_twice(args, point, advance))
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
        for times, (name, point) in zip(spent, points, strict=True)
    ]


def _twice(args, point: dict, advance) -> list[float]:
    """Seconds of two calls, without the start of Python: a larger point may have left caches cold for the first one."""
    folder, out = (
        graph_of(args, point["nodes"], point["entries"], point["features"]),
        Path(args.work) / "slope",
    )
    taus = np.linspace(0.5, 1.2, point["taus"]).tolist()
    options = {"taus": taus, "degree": point["degree"], "rows": "labelled", "memory": args.memory, "columns": 16}
    spent = []
    for _ in range(2):
        remove(out)
        spent.append(timing.seconds(lambda: propagate(folder, out, **options)))
    remove(out)
    advance()
    return spent


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    whole = lambda text: int(float(text))  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["basis", "slopes", "reference"])
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--nodes", type=whole)
    parser.add_argument("--entries", type=whole)
    parser.add_argument("--features", type=whole)
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
    """Measure, print, append the rows."""
    args = parsed()
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
