"""Does a change keep the bits of trainings on the CPU? Hashes of weights, scores and curves, to compare two commits.

    python -m benchmarks.bits before.json            # at one commit
    python -m benchmarks.bits after.json before.json # at the other: prints what differs

All methods on a built-in graph, then directed, mini-batch, basis folder and tuned trainings, and Cora where its files
are. Bits depend on the processor and on torch, so both files must come from the same machine.
"""

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import adaptkry as ak
from adaptkry.graphs.benchmarks import raw_files
from adaptkry.graphs.benchmarks.catalogue import CARDS
from adaptkry.models.methods import METHODS

ON_CORA = ("orthkry", "gprgnn", "bernnet", "jacobiconv", "gcn", "sgc")


def sha256(content: bytes) -> str:
    """Return the first 16 digits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]


def digest(run: ak.Run) -> dict[str, str]:
    """Return hashes of the weights (whatever their names), of the scores and of each curve."""
    weights = sorted(sha256(np.ascontiguousarray(w.numpy()).tobytes()) for w in run.weights.values())
    scores = [[one.test, one.validation, one.epoch, one.seed] for one in run.results]
    curves = {name: np.ascontiguousarray(curve).astype(np.float32) for name, curve in run.curves.items()}
    return {
        "weights": sha256("".join(weights).encode()),
        "scores": sha256(json.dumps(scores).encode()),
        **{f"curve {name}": sha256(curve.tobytes()) for name, curve in sorted(curves.items())},
    }


def trainings() -> dict[str, dict[str, str]]:
    """Train everything and return the hashes by name."""
    graph, found = ak.csbm(nodes=300, phi=-0.5, seed=3), {}
    stratified: dict[str, Any] = {"splits": "stratified", "device": "cpu"}
    for method in METHODS:
        found[f"csbm300 {method}"] = digest(ak.fit(graph, method, count=3, epochs=30, **stratified))
    found["csbm"] = digest(ak.fit("csbm", count=10, epochs=30, device="cpu"))
    settings: dict[str, Any] = {
        "directions": ("out", "in"),
        "taus": (0.5, 1.0),
        "tied": False,
        "hop_norm": True,
        "standardise": True,
    }
    settings |= {"batch_norm": True, "layers": 3, "filter_dropout": 0.3}
    found["directed"] = digest(ak.fit("csbm-directed", count=2, epochs=20, **stratified, **settings))
    found["mini-batches"] = digest(ak.fit(graph, count=3, epochs=15, restarts=2, batch_size=64, **stratified))
    with tempfile.TemporaryDirectory() as folder:
        basis = ak.propagate(graph, Path(folder) / "basis", taus=[0.5, 1.0], degree=4)
        found["basis folder"] = digest(ak.fit(basis, count=3, epochs=15, batch_size=64, **stratified))
    run, trials = ak.tune(graph, count=2, trials=6, together=3, seed=1, epochs=10, **stratified)
    validations = json.dumps([trial["validation"] for trial in trials])
    found["tune"] = digest(run) | {"trials": sha256(validations.encode())}
    if raw_files.find(CARDS["cora"]) is not None:
        found["cora adaptkry"] = digest(ak.fit("cora", count=10, epochs=30, device="cpu"))
        for method in ON_CORA:
            found[f"cora {method}"] = digest(ak.fit("cora", method, count=2, epochs=10, device="cpu"))
    return found


def main() -> None:
    """Write the hashes; with a second file, print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="JSON file to write")
    parser.add_argument("other", type=Path, nargs="?", help="JSON file of another commit")
    arguments = parser.parse_args()
    found = trainings()
    arguments.out.write_text(json.dumps(found, indent=1))
    other = json.loads(arguments.other.read_text()) if arguments.other else found
    for name in found.keys() | other.keys():
        ours, theirs = found.get(name, {}), other.get(name, {})
        different = sorted(part for part in ours.keys() | theirs.keys() if ours.get(part) != theirs.get(part))
        if different:
            print(f"{name}: {', '.join(different)}")
    print(f"{sum(found.get(name) == other.get(name) for name in found)} of {len(found)} trainings are identical")


if __name__ == "__main__":
    main()
