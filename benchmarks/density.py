"""How long does the density of states of a graph of the size of ogbn-arxiv take?

python -m benchmarks.density [--moments 400] [--probes 32] [--out results/benchmarks.jsonl]
"""

import argparse

from adaptkry.cli.progress import progress
from adaptkry.common import timing
from adaptkry.common.rows import append, provenance
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.propagation_matrix import Propagation
from benchmarks.shapes import SHAPES, power_law


def main() -> None:
    """Measure once, append the row to a file, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=400)
    parser.add_argument("--probes", type=int, default=32)
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    arguments = parser.parse_args()
    P = Propagation(power_law(SHAPES["arxiv"]))
    densities = []
    with progress("density of states", arguments.moments // 2 + 1) as advance:
        options = {"moments": arguments.moments, "probes": arguments.probes, "on_progress": lambda *_: advance()}
        seconds = timing.seconds(lambda: densities.append(density_of_states(P, **options)))
    row = {
        "benchmark": "density_of_states",
        "graph": "arxiv",
        "settings": {
            **vars(SHAPES["arxiv"]),
            "moments": arguments.moments,
            "probes": arguments.probes,
            "bins": len(densities[0].mass),
        },
        "seed": 0,
        "seconds": {"density_of_states": seconds},
        "largest_error_bar": float(densities[0].error.max()),
        **provenance(),
    }
    append(arguments.out, [row])
    print(f"density of states, arxiv shape: {seconds:.1f} s, largest error bar {row['largest_error_bar']:.4f}")


if __name__ == "__main__":
    main()
