"""How fast is a Krylov basis compared with the sparse products of torch and SciPy, in the same run?

    python -m benchmarks.basis [--device cuda] [--rounds 7] [--out results/benchmarks.jsonl]

All implementations keep all K + 1 hops; ours includes scaling, panels and the stacked result, the others start from the
finished matrix P_tau. Times are medians of interleaved rounds, and the process keeps freed memory (see `keep_memory`).
Bytes count every gathered row once: entries * (4 d + 4) + 2 * 4 n d for each hop (column numbers as int32, one row read
and one row written per node).
"""

import argparse

import scipy.sparse as sp
import torch

from adaptkry.cli.progress import progress
from adaptkry.common import timing
from adaptkry.common.rows import append, provenance
from adaptkry.spectral.bases import average, krylov, stack
from adaptkry.spectral.propagation_matrix import Propagation
from benchmarks import keep_memory
from benchmarks.shapes import SHAPES, Shape, features, power_law

DEGREE, TAU, TAUS = 10, 0.8, [0.5, 0.8, 1.1]


def hops(P, x):
    """Compute x, Px, ..., P^K x, one product after the other."""
    terms = [x]
    for _ in range(DEGREE):
        terms.append(P @ terms[-1])
    return terms


def to_scipy(matrix: torch.Tensor) -> sp.csr_array:
    """Convert a torch CSR matrix to SciPy."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    return sp.csr_array(tuple(part.numpy() for part in parts), shape=tuple(matrix.shape))


def implementations(shape: Shape, device: str) -> dict:
    """Return the functions that are timed on one graph, by name."""
    graph, x = power_law(shape), features(shape)
    P, three_taus = Propagation(graph, TAU), Propagation(graph, TAUS)
    P, three_taus, x = P.to(device), three_taus.to(device), x.to(device)
    csr = P.to_csr()
    error = (stack(krylov(P, x, 3))[:, 3] - hops(csr, x)[3]).norm() / x.norm()
    if not error < 1e-5:
        raise RuntimeError(f"implementations must agree to 1e-5; they differ by {float(error):.1e}. Fix them first.")
    jobs = {
        "adaptkry": lambda: stack(krylov(P, x, DEGREE)),
        "adaptkry_products": lambda: hops(P, x),
        "adaptkry_3_taus": lambda: stack(average(krylov, three_taus, x, DEGREE)),
        "torch_csr": lambda: hops(csr, x),
    }
    if device == "cpu":
        array, matrix = x.numpy(), to_scipy(csr)
        jobs["scipy"] = lambda: hops(matrix, array)
    return jobs


def measure(name: str, device: str, rounds: int) -> dict:
    """Return one row: medians, ratios and gathered bytes per second."""
    shape = SHAPES[name]
    jobs = implementations(shape, device)
    with progress(f"{name} on {device}", len(jobs) * (rounds + 1)) as advance:
        seconds = timing.interleaved(jobs, rounds, device, advance)
    gathered = DEGREE * (shape.entries * (4 * shape.features + 4) + 2 * 4 * shape.nodes * shape.features)
    ratios = {
        f"speedup_over_{other}": seconds[other] / seconds["adaptkry"]
        for other in ("torch_csr", "scipy")
        if other in seconds
    }
    return {
        "benchmark": "basis",
        "graph": name,
        "settings": {**vars(shape), "degree": DEGREE, "tau": TAU, "taus": TAUS, "dtype": "float32", "rounds": rounds},
        "seed": 0,
        "seconds": seconds,
        **ratios,
        "products_over_torch_csr": seconds["torch_csr"] / seconds["adaptkry_products"],
        "three_taus_over_one": seconds["adaptkry_3_taus"] / seconds["adaptkry"],
        "terabytes_per_second": gathered / seconds["adaptkry_products"] / 1e12,
        **provenance(device),
    }


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    arguments = parser.parse_args()
    rows = [measure(name, arguments.device, arguments.rounds) for name in SHAPES]
    append(arguments.out, rows)
    show(rows)


def show(rows: list[dict]) -> None:
    """Print the rows as a table."""
    for row in rows:
        print(f"\n{row['graph']}, K = {DEGREE} hops, float32, {row['device']}")
        for name, value in row["seconds"].items():
            print(f"  {name:28} {value * 1e3:10.1f} ms")
        for name in sorted(name for name in row if "_over_" in name or "terabytes" in name):
            print(f"  {name:28} {row[name]:10.2f}")


if __name__ == "__main__":
    main()
