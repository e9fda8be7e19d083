"""What does a basis cost from disk to disk, against the same products in memory? And how does its time grow?

    python -m benchmarks.outofcore basis  [--nodes 1e7 --entries 1e8 --features 64 --degree 10 --rows labelled|all]
    python -m benchmarks.outofcore slopes [--nodes 2.5e5 --entries 1e7 --features 32 --degree 8]

`basis` makes the graph once (in --work), then runs the command in a process of its own and watches the most memory it
holds (VmHWM), start of Python and all; then the same products block by block with edges and features in memory and
nothing written, in a process of its own too. Stored rows must agree to the bit, or no row is written.
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
from adaptkry.common import rows as results
from adaptkry.common import timing
from adaptkry.graphs.graph import Graph, Info
from adaptkry.outofcore import BasisFolder, GraphFolder, propagate
from adaptkry.outofcore.memory_plan import format_bytes, parse_bytes
from adaptkry.outofcore.random_graph import generate
from adaptkry.spectral.propagation import Propagation

PYTHON = [sys.executable, "-m"]
LABELLED = 0.01


def watched(words: list[str]) -> tuple[float, int, str]:
    """Run a program: seconds, the most memory it held, what it printed."""
    begun, highest = time.perf_counter(), 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            highest = max(highest, held(process.pid))
            time.sleep(0.05)
        printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return time.perf_counter() - begun, highest, printed


def held(pid: int) -> int:
    """VmHWM of a process, 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def graph_of(asked, n: int, m: int, d: int) -> GraphFolder:
    """A graph of n nodes, m entries and d features, made once."""
    path = Path(asked.work) / f"graph-{n}-{m}-{d}"
    return generate(path, nodes=n, entries=m, features=d, labelled=LABELLED)


def in_memory(graph: str, basis: str) -> None:
    """The reference: seconds of the same products, and whether the last hop of the last block is the stored one."""
    folder, made = GraphFolder.open(graph), BasisFolder.open(basis)
    x = torch.from_numpy(folder.array("features").read())
    P = Propagation(as_graph(folder), made.taus)
    P._prepare(torch.float32)  # type: ignore[attr-defined]  scalings are made beforehand, for the reference only
    begun, last = time.perf_counter(), x
    for start, stop in made.blocks:
        for which in range(len(made.taus)):
            last = x[:, start:stop].contiguous()
            one = P if len(made.taus) == 1 else Propagation(as_graph(folder), made.taus[which])
            for _ in range(made.degree):
                last = (one @ last[None])[0] if one.is_batched else one @ last
    seconds = time.perf_counter() - begun
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


def basis(asked) -> dict:
    """One row: the command against the reference, in turns, medians."""
    folder = graph_of(asked, asked.nodes, asked.entries, asked.features)
    out = Path(asked.work) / f"basis-{asked.rows}"
    words = ["propagate", str(folder.path), "--taus", asked.taus, "--degree", str(asked.degree), "--rows", asked.rows]
    words += ["--memory", asked.memory, "--dtype", asked.dtype, "--out", str(out), "--json"]
    spent: dict[str, list[float]] = {"command": [], "inside": [], "in_memory": []}
    peak, told = 0, {}
    for _ in range(asked.rounds):
        remove(out)
        seconds, highest, printed = watched([*PYTHON, "adaptkry", *words])
        told, peak = json.loads(printed), max(peak, highest)
        _, _, printed = watched([*PYTHON, "benchmarks.outofcore", "reference", str(folder.path), str(out)])
        reference = json.loads(printed)
        if not reference["agrees"] and asked.dtype == "float32":
            raise RuntimeError("the basis on disk is not the one in memory; a time would mean nothing")
        for name, value in (("command", seconds), ("inside", told["seconds"]), ("in_memory", reference["seconds"])):
            spent[name].append(value)
    made, middle = BasisFolder.open(out), {name: float(np.median(values)) for name, values in spent.items()}
    hops = made.degree * len(made.taus)
    moved = sum(hops * (folder.entries * (4 * (b - a) + 4) + 2 * 4 * folder.nodes * (b - a)) for a, b in made.blocks)
    row = {
        "benchmark": "outofcore_basis",
        "config": {
            "nodes": folder.nodes, "entries": folder.entries, "features": folder.features, "degree": made.degree,
            "taus": list(made.taus), "rows": asked.rows, "stored_rows": made.count, "dtype": made.dtype,
            "memory": parse_bytes(asked.memory), "blocks": len(made.blocks),
        },
        "seed": 0,
        "seconds": middle,
        "ratio": middle["command"] / middle["in_memory"],
        "rounds": spent,
        "peak_bytes": peak,
        "basis_bytes": told["bytes"],
        "graph_bytes": sum(path.stat().st_size for path in folder.path.iterdir()),
        "gathered_bytes": moved,
        **results.provenance(),
    }  # fmt: skip
    if not asked.keep:
        remove(out)
    return row


def remove(out: Path) -> None:
    """Delete a basis folder of an earlier run, and nothing else."""
    if (out / "manifest.json").is_file():
        for path in out.iterdir():
            path.unlink()
        out.rmdir()


def slopes(asked) -> list[dict]:
    """Rows of seconds against entries, hops, features, taus and size, each doubled three times, the others as asked.

    Size is nodes and entries together. Rounds go over all points in turn, so that a slow minute of the machine hits one
    round of every point; and what counts is the least of all runs of a point, since other people's work only ever adds.
    """
    start = {
        "entries": asked.entries, "degree": asked.degree, "features": asked.features, "taus": 1, "nodes": asked.nodes
    }  # fmt: skip
    together = {"size": ("nodes", "entries")}
    points = [
        (name, start | {each: 2**i * start[each] for each in together.get(name, (name,))})
        for name in asked.varied for i in range(4)
    ]  # fmt: skip
    spent: list[list[float]] = [[] for _ in points]
    with progress("runs", len(points) * asked.rounds) as tick:
        for _ in range(asked.rounds):
            for times, (_, point) in zip(spent, points, strict=True):
                times.extend(_twice(asked, point, tick))
    return [
        {
            "benchmark": "outofcore_slope",
            "varied": name,
            "value": point.get(name, point["entries"]),
            "config": {**point, "rows": "labelled", "rounds": asked.rounds},
            "seed": 0,
            "seconds": min(times),
            "rounds": times,
            **results.provenance(),
        }
        for times, (name, point) in zip(spent, points, strict=True)
    ]


def _twice(asked, point: dict, tick) -> list[float]:
    """Two whole calls, without the start of Python: a larger point may have left memory cold for the first one."""
    folder, out = graph_of(asked, point["nodes"], point["entries"], point["features"]), Path(asked.work) / "slope"
    taus = np.linspace(0.5, 1.2, point["taus"]).tolist()
    options = {"taus": taus, "degree": point["degree"], "rows": "labelled", "memory": asked.memory, "columns": 16}
    spent = []
    for _ in range(2):
        remove(out)
        spent.append(timing.seconds(lambda: propagate(folder, out, **options)))
    remove(out)
    tick()
    return spent


def parsed() -> argparse.Namespace:
    """The arguments."""
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
    parser.add_argument("--work", default="runs/outofcore", help="where graphs and bases go")
    parser.add_argument("--keep", action="store_true", help="leave the basis there")
    parser.add_argument("--out", default="results/outofcore.jsonl")
    asked = parser.parse_args()
    sizes = {"basis": (10**7, 10**8, 64, 10), "slopes": (250_000, 10**7, 32, 8)}.get(asked.what, (0, 0, 0, 0))
    for name, size in zip(("nodes", "entries", "features", "degree"), sizes, strict=True):
        setattr(asked, name, size if getattr(asked, name) is None else getattr(asked, name))
    return asked


def main() -> None:
    """Measure, print, append the rows."""
    asked = parsed()
    if asked.what == "reference":
        in_memory(*asked.paths)
        return
    rows = [basis(asked)] if asked.what == "basis" else slopes(asked)
    results.append(asked.out, rows)
    for row in rows:
        if asked.what == "slopes":
            print(f"{row['varied']:10} {row['value']:>12,} {row['seconds']:8.2f} s")
            continue
        times = row["seconds"]
        print(f"command {times['command']:.1f} s, in memory {times['in_memory']:.1f} s, ratio {row['ratio']:.2f}")
        print(f"peak memory {format_bytes(row['peak_bytes'])}, basis {format_bytes(row['basis_bytes'])}")


if __name__ == "__main__":
    main()
