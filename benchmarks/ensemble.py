"""How much faster are ten splits as one batch than a loop over splits, written as the published program is?

    python -m benchmarks.ensemble [--epochs 50] [--graphs cora chameleon] [--out results/benchmarks.jsonl]

Same settings, same basis (computed once, outside the clock), same ten splits, the same number of epochs for all.
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
from adaptkry.training import fit as fitting
from benchmarks import keep_memory


class Straightforward(nn.Module):
    """AdaptKry as one would write it for one split: all nodes, hop after hop, layer after layer."""

    def __init__(self, made: Recipe, terms: int, features: int, classes: int):
        super().__init__()
        self.made = made
        widths = [features, *[made.hidden] * (made.layers - 1), classes]
        shapes = pairwise(widths)
        self.dense = nn.ParameterList([torch.empty(a, b).uniform_(-(b**-0.5), b**-0.5) for a, b in shapes])
        self.filter = nn.Parameter(torch.full((terms,), 1 / terms))

    def forward(self, hops: list[torch.Tensor]) -> torch.Tensor:
        """Logits of all nodes."""
        kept = [dropout(hop, self.made.filter_dropout, self.training) for hop in hops]
        z = torch.stack([w * hop for w, hop in zip(self.filter, kept, strict=True)]).sum(0)
        for i, weight in enumerate(self.dense):
            fed = dropout(z, self.made.mlp_dropout, self.training)
            z = fed @ weight
            z = z + fed if z.shape == fed.shape else z
            z = z if i == len(self.dense) - 1 else torch.relu(z)
        return z


def loop(made: Recipe, basis, y, split, epochs: int) -> list[float]:
    """Train split after split; returns test accuracies with the best weights by validation."""
    found, hops = [], list(basis)
    for s in range(len(split)):
        torch.manual_seed(s)
        model = Straightforward(made, len(basis), basis.shape[2], int(y.max()) + 1)
        groups = [
            {"params": list(model.dense), "lr": made.mlp_lr, "weight_decay": made.mlp_decay},
            {"params": [model.filter], "lr": made.filter_lr, "weight_decay": made.filter_decay},
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
                right = model(hops).argmax(1) == y
            if float(right[split.validation[s]].float().mean()) > best:
                best = float(right[split.validation[s]].float().mean())
                test = float(right[split.test[s]].float().mean())
        found.append(test)
    return found


def measure(name: str, epochs: int, rounds: int) -> dict:
    """One row: seconds and accuracies of both, taken in turns."""
    graph = load(name)
    made = replace(recipe("adaptkry", name), epochs=epochs, patience=epochs + 1)
    split, kept = splits.class_balanced(graph.y), {}
    basis = model_inputs(graph, made).terms
    jobs = {
        "batched": lambda: kept.update(batched=[r.test for r in fitting.fit(graph, made, split, device="cpu").results]),
        "basis": lambda: model_inputs(graph, made),
        "loop": lambda: kept.update(loop=loop(made, basis, graph.y, split, epochs)),
    }
    first = splits.Splits(split.train[:1], split.validation[:1], split.test[:1])
    loop(made, basis, graph.y, first, 1)  # warm up: an epoch of each, not a whole round of minutes
    fitting.fit(graph, replace(made, epochs=1), split, device="cpu")
    with progress(name, len(jobs) * rounds) as tick:
        spent = timing.interleaved(jobs, rounds, on_job=tick, warm=False)
    return {
        "benchmark": "ensemble", "graph": name, "seed": 0, "split": "class_balanced, ten",
        "config": {"epochs": epochs, "rounds": rounds, "members": len(split)}, "seconds": spent,
        "speedup": spent["loop"] / (spent["batched"] - spent["basis"]),
        "test_batched": float(np.mean(kept["batched"])), "test_loop": float(np.mean(kept["loop"])),
        **provenance(),
    }  # fmt: skip


def main() -> None:
    """Measure, print, append the rows."""
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--graphs", nargs="+", default=["cora", "chameleon"])
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    asked = parser.parse_args()
    for name in asked.graphs:
        row = measure(name, asked.epochs, asked.rounds)
        append(asked.out, [row])
        print({k: row[k] for k in ("graph", "seconds", "speedup", "test_batched", "test_loop")})


if __name__ == "__main__":
    main()
