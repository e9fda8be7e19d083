"""Which part of `adaptkry fit` is not training?

    python -m benchmarks.fit_overhead [--graphs cora large] [--epochs 20] [--rounds 3] [--out results/benchmarks.jsonl]

Runs the command in a process of its own and measures its parts: import (from the start of the process), load, basis,
training, score (until the score is printed), report, rest. The graph `large` is built in: 100,000 nodes and 1,000,000
edges. Times are medians over rounds; the first run, which fills the cache of parsed graphs, is not counted.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from adaptkry.common.rows import append, provenance

SIZE = {"nodes": 100_000, "degree": 20}  # of the large csbm graph: every edge adds one to two degrees
STEPS = {  # part -> the function whose time it is
    "load": ("adaptkry.training.data", "open_data"),
    "basis": ("adaptkry.training.data", "GraphData.prepare"),
    "training": ("adaptkry.training.loop", "GradientDescent.run"),
    "report": ("adaptkry.report.run_report", "write_pages"),
}


def timed(function: Callable, seconds: dict[str, float], step: str) -> Callable:
    """Return the function, whose time is added to `seconds`."""

    def call(*args, **options):
        start = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            seconds[step] = seconds.get(step, 0.0) + time.perf_counter() - start

    return call


def child(graph: str, options: list[str], start: float) -> None:
    """Run the command in this process and print the seconds of its parts as JSON; `start` is the time of its start."""
    import typer

    from adaptkry.cli import main as command
    from adaptkry.graphs import load

    seconds: dict[str, float] = {}
    for step, (module, name) in STEPS.items():
        owner = importlib.import_module(module)
        *parts, last = name.split(".")
        for part in parts:
            owner = getattr(owner, part)
        setattr(owner, last, timed(getattr(owner, last), seconds, step))
    seconds["import"] = time.time() - start
    large = load.csbm
    load.NAMES["large"] = lambda: large(**SIZE)
    echo = typer.echo

    def first_echo(message, **keywords):
        if "test accuracy" in str(message):
            seconds.setdefault("score", time.time() - start)
        echo(message, **keywords)

    typer.echo = first_echo
    sys.argv = ["adaptkry", "fit", graph, *options]
    try:
        command()
    finally:
        seconds["total"] = time.time() - start
        print(json.dumps(seconds))


def run_child(graph: str, epochs: int, *more: str) -> dict[str, float]:
    """Run the command once, with more options if any; returns the seconds of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--epochs", str(epochs), "--out", str(Path(folder) / "run"), *more]
        program = [sys.executable, "-m", "benchmarks.fit_overhead", "--child", graph, str(time.time()), *options]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    known = sum(found.get(step, 0.0) for step in ("import", *STEPS))
    return found | {"rest": found["total"] - known, "not training": found["total"] - found["training"]}


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[4:], float(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=["cora", "large"])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    arguments = parser.parse_args()
    for graph in arguments.graphs:
        runs = [run_child(graph, arguments.epochs) for _ in range(arguments.rounds + 1)][1:]
        seconds = {step: median(run[step] for run in runs) for step in runs[0]}
        settings = {"epochs": arguments.epochs, "rounds": arguments.rounds} | (SIZE if graph == "large" else {})
        row = {"benchmark": "fit_overhead", "graph": graph, "seed": 0, "settings": settings, "seconds": seconds}
        append(arguments.out, [row | provenance()])
        print(graph, {step: round(value, 2) for step, value in seconds.items()})
    return None


if __name__ == "__main__":
    main()
