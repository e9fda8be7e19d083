"""How much faster are ten splits trained as one batch than a loop over splits, as in the published program?

    python -m benchmarks.ensemble [--epochs 50] [--rounds 1] [--loop-splits 4] [--graphs cora chameleon]
                                  [--out results/benchmarks.jsonl]

Both have the same settings, basis (its time is not included), splits and number of epochs. The batch is trained by
`fit` in a process without settings of malloc, and by the command; the loop takes `loop-splits` of the ten splits, and
its time is scaled to ten. The floor is the time of bare products of the same sizes as those of the dense layers, in
the same run. Page faults are minor ones per epoch, after the first check of the training (2 seconds or 20 epochs).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout

from adaptkry.cli.progress import progress
from adaptkry.common import timing
from adaptkry.common.rows import append, provenance
from adaptkry.graphs import splits
from adaptkry.graphs.load import load
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.spectral.kernels import onednn
from adaptkry.training.fit import fit
from adaptkry.training.loop import GradientDescent
from benchmarks import KEEP_MEMORY, fit_overhead, keep_memory


class PlainModel(nn.Module):
    """AdaptKry for one split in plain PyTorch, without batching of splits."""

    def __init__(self, settings: Recipe, terms: int, features: int, classes: int):
        super().__init__()
        self.recipe = settings
        widths = [features, *[settings.hidden] * (settings.layers - 1), classes]
        shapes = pairwise(widths)
        self.dense = nn.ParameterList([torch.empty(a, b).uniform_(-(b**-0.5), b**-0.5) for a, b in shapes])
        self.filter = nn.Parameter(torch.full((terms,), 1 / terms))

    def forward(self, hops: list[torch.Tensor]) -> torch.Tensor:
        """Return the logits of all nodes."""
        hops = [dropout(hop, self.recipe.filter_dropout, self.training) for hop in hops]
        z = torch.stack([w * hop for w, hop in zip(self.filter, hops, strict=True)]).sum(0)
        for i, weight in enumerate(self.dense):
            inputs = dropout(z, self.recipe.mlp_dropout, self.training)
            z = inputs @ weight
            z = z + inputs if z.shape == inputs.shape else z
            z = z if i == len(self.dense) - 1 else torch.relu(z)
        return z


def loop(settings: Recipe, basis, y, split, epochs: int) -> list[float]:
    """Train one split after the other; returns the test accuracy of each at its best epoch on validation nodes."""
    accuracies, hops = [], list(basis)
    for s in range(len(split)):
        torch.manual_seed(s)
        model = PlainModel(settings, len(basis), basis.shape[2], int(y.max()) + 1)
        groups = [
            {"params": list(model.dense), "lr": settings.mlp_lr, "weight_decay": settings.mlp_decay},
            {"params": [model.filter], "lr": settings.filter_lr, "weight_decay": settings.filter_decay},
        ]
        optimiser = torch.optim.Adam(groups)
        best, test = -1.0, 0.0
        for _ in range(epochs):
            model.train()
            optimiser.zero_grad()
            cross_entropy(model(hops)[split.train[s]], y[split.train[s]]).backward()
            optimiser.step()
            model.eval()
            with torch.no_grad():
                is_correct = model(hops).argmax(1) == y
            validation = float(is_correct[split.validation[s]].float().mean())
            if validation > best:
                best, test = validation, float(is_correct[split.test[s]].float().mean())
        accuracies.append(test)
    return accuracies


def child(name: str, epochs: int) -> None:
    """Train ten splits in this process as a user of the library does, and print seconds and page faults as JSON."""
    graph, checks = load(name), []
    settings = replace(recipe("adaptkry", name), epochs=epochs, patience=epochs + 1)

    def on_check(state) -> None:
        checks.append((state.epoch, resource.getrusage(resource.RUSAGE_SELF).ru_minflt))

    timed_run, seconds = GradientDescent.run, []

    def run(trainer, callbacks):
        states = []
        seconds.append(timing.seconds(lambda: states.append(timed_run(trainer, callbacks))))
        return states[0]

    GradientDescent.run = run  # type: ignore[method-assign]
    found = fit(graph, settings, splits.class_balanced(graph.y), device="cpu", callbacks=[on_check])
    (first, before), (last, after) = checks[0], checks[-1]
    faults = (after - before) / max(1, last - first)
    tests = [result.test for result in found.results]
    print(json.dumps({"seconds": seconds[0], "faults": faults, "test": tests}))


def from_python(name: str, epochs: int) -> dict:
    """Train in a new process that has no settings of malloc."""
    environment = {key: value for key, value in os.environ.items() if key not in KEEP_MEMORY}
    program = [sys.executable, "-m", "benchmarks.ensemble", "--child", name, str(epochs)]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def products(settings: Recipe, features: int, classes: int, rows: dict[str, int]) -> list[tuple[int, int, int]]:
    """Return the sizes (m, k, n) of all dense products of an epoch of one member."""
    widths = [features, *[settings.hidden] * (settings.layers - 1), classes]
    m, found = rows["train"], []
    for k, n in pairwise(widths):
        found += [(m, k, n), (k, m, n), (m, n, k), (rows["validation"], k, n)]
    return found


def floor_of(sizes: list[tuple[int, int, int]], members: int) -> float:
    """Return the seconds of bare products of these sizes for all members, by torch or oneDNN if that is faster."""
    total = 0.0
    for m, k, n in sizes:
        a, b, out = torch.randn(members, m, k), torch.randn(members, k, n), torch.empty(members, m, n)
        jobs: dict[str, Callable] = {"bmm": partial(torch.bmm, a, b, out=out)}
        if onednn.is_faster(a[:1], b[:1]):
            jobs["onednn"] = lambda a=a, b=b: [onednn.product(x, y.t()) for x, y in zip(a, b, strict=True)]
        total += min(timing.interleaved(jobs, rounds=3).values())
    return total


def measure(name: str, epochs: int, rounds: int, loop_splits: int) -> dict:
    """Return one row: seconds of both for ten splits, accuracies, page faults, and the floor; rounds alternate."""
    graph = load(name)
    settings = replace(recipe("adaptkry", name), epochs=epochs, patience=epochs + 1)
    split, trained, accuracies = splits.class_balanced(graph.y), [], []
    inputs = model_inputs(graph, settings)
    rows = {part: int(getattr(split, part).sum(1).max()) for part in ("train", "validation")}
    sizes = products(settings, inputs.terms.shape[2], graph.classes, rows)
    loop(settings, inputs.terms, graph.y, split.take(1), 1)  # warm up
    seconds: dict[str, list[float]] = {"batched": [], "command": [], "loop": [], "floor": []}
    with progress(name, 3 * rounds) as advance:
        for _ in range(rounds):
            trained.append(from_python(name, epochs))
            seconds["batched"].append(trained[-1]["seconds"])
            advance()
            options = ("--no-report", "--set", f"patience={epochs + 1}")
            seconds["command"].append(fit_overhead.run_child(name, epochs, *options)["training"])
            advance()
            job = partial(loop, settings, inputs.terms, graph.y, split.take(loop_splits), epochs)
            looped = timing.seconds(lambda: accuracies.append(job()))  # noqa: B023
            seconds["loop"].append(looped * len(split) / loop_splits)
            advance()
            seconds["floor"].append(epochs * floor_of(sizes, len(split)))
    medians = {part: median(values) for part, values in seconds.items()}
    return {
        "benchmark": "ensemble", "graph": name, "seed": 0, "split": "class_balanced, ten",
        "settings": {"epochs": epochs, "rounds": rounds, "members": len(split), "loop_splits": loop_splits},
        "seconds": medians,
        "speedup": medians["loop"] / medians["batched"],
        "speedup_command": medians["loop"] / medians["command"],
        "share_of_floor": medians["floor"] / medians["batched"],
        "operations_per_epoch": 2 * len(split) * sum(m * k * n for m, k, n in sizes),
        "page_faults_per_epoch": median(one["faults"] for one in trained),
        "test_batched": float(np.mean(trained[-1]["test"][:loop_splits])), "test_loop": float(np.mean(accuracies[-1])),
        **provenance(),
    }  # fmt: skip


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], int(sys.argv[3]))
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--loop-splits", type=int, default=4)
    parser.add_argument("--graphs", nargs="+", default=["cora", "chameleon"])
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    arguments = parser.parse_args()
    for name in arguments.graphs:
        row = measure(name, arguments.epochs, arguments.rounds, arguments.loop_splits)
        append(arguments.out, [row])
        keys = ("graph", "seconds", "speedup", "speedup_command", "share_of_floor", "page_faults_per_epoch")
        print({k: row[k] for k in (*keys, "test_batched", "test_loop")})
    return None


if __name__ == "__main__":
    main()
