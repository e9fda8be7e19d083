"""How close is an epoch of AdaptKry on a GPU to what its memory traffic and its products allow?

    python -m benchmarks.epoch_floor [--device cuda] [--graphs cora ...] [--epochs 300] [--dtype bfloat16]
                                    [--out results/epoch-floor.jsonl]

Ten splits as one batch, the published settings, on the paper's six graphs. The time of an epoch is the difference
between a training of `epochs` and one of a third of them, divided by the difference of epochs: compiling kernels and
recording the epoch are not in it. The floor counts the bytes that must cross memory at least once (terms once for the
forward pass, once for the gradient, once for validation; activations between layers; weights and moments) divided by
`bandwidth`, and the operations of the dense products divided by the peak rate of the type.
"""

import argparse
from dataclasses import replace
from itertools import pairwise
from statistics import median

from adaptkry.common import timing
from adaptkry.common.rows import append, provenance
from adaptkry.graphs import splits
from adaptkry.graphs.load import load
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.training.fit import choose_device, fit
from adaptkry.training.loop import GradientDescent
from benchmarks.ensemble import products
from benchmarks.six import SIX

BANDWIDTH = 4.3e12  # bytes per second of an H200, measured
RATES = {"float32": 4.95e14, "bfloat16": 9.9e14}  # operations per second of an H200; float32 is computed in TF32


def floor_of(settings: Recipe, terms: tuple[int, ...], classes: int, rows: dict[str, int], members: int) -> dict:
    """Return the bytes and operations of an epoch that cannot be avoided."""
    T, n, d = terms
    sizes = products(settings, d, classes, rows)
    widths = [d, *[settings.hidden] * (settings.layers - 1), classes]
    weights = T + sum(a * b for a, b in pairwise(widths))
    activations = rows["train"] * (4 * d + 6 * sum(widths[1:])) + rows["validation"] * (2 * d + 2 * sum(widths[1:]))
    decisions = rows["train"] * d * T / 8 if settings.filter_dropout else 0
    stored = 2 if settings.dtype == "bfloat16" else 4
    operations = 2 * members * sum(m * k * n for m, k, n in sizes)
    numbers = stored * (3 * T * n * d + members * activations) + 4 * members * 7 * weights
    return {"bytes": numbers + 2 * members * decisions, "operations": operations}


def seconds_of_training(graph, settings: Recipe, device) -> float:
    """Return the seconds of the training loop alone."""
    original, seconds = GradientDescent.run, []

    def run(trainer, callbacks):
        states = []
        seconds.append(timing.seconds(lambda: states.append(original(trainer, callbacks)), device))
        return states[0]

    GradientDescent.run = run  # type: ignore[method-assign]
    try:
        fit(graph, settings, splits.class_balanced(graph.y), device=str(device))
    finally:
        GradientDescent.run = original
    return seconds[0]


def measure(name: str, epochs: int, rounds: int, device, bandwidth: float, dtype: str) -> dict:
    """Return one row."""
    graph = load(name)
    settings, rate = replace(recipe("adaptkry", name), stop="never", dtype=dtype), RATES[dtype]
    split = splits.class_balanced(graph.y)
    rows = {part: int(getattr(split, part).sum(1).max()) for part in ("train", "validation")}
    floor = floor_of(settings, tuple(model_inputs(graph, settings).terms.shape), graph.classes, rows, len(split))
    third = max(1, epochs // 3)
    seconds_of_training(graph, replace(settings, epochs=2), device)  # compiles the kernels
    pairs = [
        [seconds_of_training(graph, replace(settings, epochs=count), device) for count in (third, epochs)]
        for _ in range(rounds)
    ]
    epoch = median((long - short) / (epochs - third) for short, long in pairs)
    least = floor["bytes"] / bandwidth + floor["operations"] / rate
    return {
        "benchmark": "epoch_floor", "graph": name, "seed": 0, "split": "class_balanced, ten",
        "settings": {"epochs": epochs, "rounds": rounds, "dtype": dtype},
        "milliseconds": 1e3 * epoch, "floor_milliseconds": 1e3 * least, "times_floor": epoch / least,
        "bandwidth": bandwidth, "rate": rate, **floor, **provenance(device),
    }  # fmt: skip


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--graphs", nargs="+", default=list(SIX))
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bandwidth", type=float, default=BANDWIDTH)
    parser.add_argument("--dtype", choices=RATES, default="float32", help="type of terms and activations")
    parser.add_argument("--out", default="results/epoch-floor.jsonl")
    options = parser.parse_args()
    device = choose_device(options.device)
    for name in options.graphs:
        row = measure(name, options.epochs, options.rounds, device, options.bandwidth, options.dtype)
        append(options.out, [row])
        print(
            f"{name:10} {row['milliseconds']:.2f} ms per epoch, floor {row['floor_milliseconds']:.2f} ms: "
            f"{row['times_floor']:.1f} times the floor"
        )


if __name__ == "__main__":
    main()
