"""How long does the density of states of an ogbn-arxiv-shaped graph take?

python -m benchmarks.density [--out results/benchmarks.jsonl]
"""

import argparse

from adaptkry.cli.progress import progress
from adaptkry.common import timing
from adaptkry.common.rows import append, provenance
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.propagation_matrix import Propagation
from benchmarks.shapes import SHAPES, power_law


def main() -> None:
    """Measure once, print, append the row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=400)
    parser.add_argument("--probes", type=int, default=32)
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    arguments = parser.parse_args()
    P = Propagation(power_law(SHAPES["arxiv"]))
    found = []
    with progress("density of states", arguments.moments // 2 + 1) as advance:
        settings = {"moments": arguments.moments, "probes": arguments.probes, "on_progress": lambda *_: advance()}
        spent = timing.seconds(lambda: found.append(density_of_states(P, **settings)))
    row = {
        "benchmark": "density_of_states",
        "graph": "arxiv",
        "settings": {
            **vars(SHAPES["arxiv"]),
            "moments": arguments.moments,
            "probes": arguments.probes,
            "bins": len(found[0].mass),
        },
        "seed": 0,
        "seconds": {"density_of_states": spent},
        "largest_error_bar": float(found[0].error.max()),
        **provenance(),
    }
    append(arguments.out, [row])
    print(f"density of states, arxiv shape: {spent:.1f} s, largest error bar {row['largest_error_bar']:.4f}")


if __name__ == "__main__":
    main()
