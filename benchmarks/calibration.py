"""How well are probabilities calibrated, before and after temperature scaling, and do prediction sets keep their level?

    python -m benchmarks.calibration [--graphs cora citeseer] [--epochs 200] [--count 10] [--out ROWS]

For each graph AdaptKry is trained with its published settings on the published splits (`class_balanced`: as many
training nodes of each class, so that the classes have other shares among test nodes than among validation nodes) and on
stratified splits. Temperature and thresholds come from validation nodes; calibration errors, coverage and sizes of sets
are those of the test nodes, averaged over the splits.
"""

import argparse

from adaptkry.common.rows import append, provenance
from adaptkry.graphs.load import load
from adaptkry.training.fit import fit
from benchmarks import keep_memory

GRAPHS = ("cora", "citeseer", "chameleon", "squirrel", "actor", "pubmed")
SCHEMES = ("class_balanced", "stratified")


def measure(name: str, scheme: str, epochs: int, count: int) -> dict:
    """Return one row."""
    run = fit(load(name), "adaptkry", scheme, count=count, epochs=epochs, device="cpu")
    assert run.calibration is not None
    facts = {key: value for key, value in run.calibration.facts.items() if not key.startswith("reliability")}
    return {
        "benchmark": "calibration", "graph": name, "scheme": scheme, "epochs": epochs, "splits": count, "seed": 0,
        "settings": {"method": "adaptkry", "epochs": epochs},
        "validation_nodes": run.results[0].validation_nodes, "test_nodes": run.results[0].test_nodes,
        "test": float(run.test_scores.mean()), **facts, **provenance("cpu"),
    }  # fmt: skip


def main() -> None:
    """Measure all graphs and schemes, print them and append their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--out", default="results/calibration.jsonl")
    options = parser.parse_args()
    keep_memory()
    for name in options.graphs:
        for scheme in SCHEMES:
            row = measure(name, scheme, options.epochs, options.count)
            append(options.out, [row])
            print(
                f"{name} {scheme}: test {row['test']:.3f}, error {row['error_before']:.3f} -> {row['error_after']:.3f}"
            )
            for one in row["sets"]:
                if one["level"] == 0.9:
                    shown = {key: f"{one[key]:.3f}" for key in ("coverage", "size", "empty")}
                    print(f"  {one['kind']}", shown)


if __name__ == "__main__":
    main()
