"""How much faster are ten splits trained as one batch than a loop over splits, as in the published program?

    python -m benchmarks.ensemble [--epochs 50] [--rounds 1] [--graphs cora chameleon] [--out results/benchmarks.jsonl]

Both have the same settings, basis (its time is not included), splits and number of epochs.
"""

import argparse
from dataclasses import replace
from itertools import pairwise

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
from adaptkry.training.fit import fit
from benchmarks import keep_memory


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


def measure(name: str, epochs: int, rounds: int) -> dict:
    """Return one row: seconds and accuracies of both, with interleaved rounds."""
    graph = load(name)
    settings = replace(recipe("adaptkry", name), epochs=epochs, patience=epochs + 1)
    split, scores = splits.class_balanced(graph.y), {}
    basis = model_inputs(graph, settings).terms
    jobs = {
        "batched": lambda: scores.update(batched=[r.test for r in fit(graph, settings, split, device="cpu").results]),
        "basis": lambda: model_inputs(graph, settings),
        "loop": lambda: scores.update(loop=loop(settings, basis, graph.y, split, epochs)),
    }
    first = splits.Splits(split.train[:1], split.validation[:1], split.test[:1])
    loop(settings, basis, graph.y, first, 1)  # warm up with one epoch of each: a whole round takes minutes
    fit(graph, replace(settings, epochs=1), split, device="cpu")
    with progress(name, len(jobs) * rounds) as advance:
        seconds = timing.interleaved(jobs, rounds, on_job=advance, warm=False)
    return {
        "benchmark": "ensemble", "graph": name, "seed": 0, "split": "class_balanced, ten",
        "settings": {"epochs": epochs, "rounds": rounds, "members": len(split)}, "seconds": seconds,
        "speedup": seconds["loop"] / (seconds["batched"] - seconds["basis"]),
        "test_batched": float(np.mean(scores["batched"])), "test_loop": float(np.mean(scores["loop"])),
        **provenance(),
    }  # fmt: skip


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--graphs", nargs="+", default=["cora", "chameleon"])
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    arguments = parser.parse_args()
    for name in arguments.graphs:
        row = measure(name, arguments.epochs, arguments.rounds)
        append(arguments.out, [row])
        print({k: row[k] for k in ("graph", "seconds", "speedup", "test_batched", "test_loop")})


if __name__ == "__main__":
    main()
