"""How fast is a whole Krylov basis against torch's CSR product and SciPy's, in the same run?

    python -m benchmarks.basis [--device cuda] [--rounds 7] [--out results/benchmarks.jsonl]

Every contender keeps all K + 1 hops; ours includes scaling, panels and the stacked result, the others start from the
finished matrix P_tau. Medians of interleaved rounds, memory kept by the process (see `keep_memory`). Bytes count every
gathered row once: entries * (4 d + 4) + 2 * 4 n d for each hop (columns as int32, the node's row read, the result
written).
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
    """x, Px, ..., P^K x, one product after the other, all kept."""
    kept = [x]
    for _ in range(DEGREE):
        kept.append(P @ kept[-1])
    return kept


def in_scipy(matrix: torch.Tensor) -> sp.csr_array:
    """A torch CSR matrix as a SciPy matrix."""
    parts = (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    return sp.csr_array(tuple(part.numpy() for part in parts), shape=tuple(matrix.shape))


def contenders(shape: Shape, device: str) -> dict:
    """The functions that are timed on one graph."""
    graph, x = power_law(shape), features(shape)
    P, many = Propagation(graph, TAU), Propagation(graph, TAUS)
    P, many, x = P.to(device), many.to(device), x.to(device)
    rival = P.to_csr()
    error = (stack(krylov(P, x, 3))[:, 3] - hops(rival, x)[3]).norm() / x.norm()
    if not error < 1e-5:
        raise RuntimeError(f"contenders must agree to 1e-5; they differ by {float(error):.1e}. Repair them first.")
    jobs = {
        "adaptkry": lambda: stack(krylov(P, x, DEGREE)),
        "adaptkry_products": lambda: hops(P, x),
        "adaptkry_3_taus": lambda: stack(average(krylov, many, x, DEGREE)),
        "torch_csr": lambda: hops(rival, x),
    }
    if device == "cpu":
        array, matrix = x.numpy(), in_scipy(rival)
        jobs["scipy"] = lambda: hops(matrix, array)
    return jobs


def measure(name: str, device: str, rounds: int) -> dict:
    """One row: medians, ratios and gathered bytes per second."""
    shape = SHAPES[name]
    jobs = contenders(shape, device)
    with progress(f"{name} on {device}", len(jobs) * (rounds + 1)) as tick:
        spent = timing.interleaved(jobs, rounds, device, tick)
    moved = DEGREE * (shape.entries * (4 * shape.features + 4) + 2 * 4 * shape.nodes * shape.features)
    ratios = {
        f"speedup_over_{rival}": spent[rival] / spent["adaptkry"] for rival in ("torch_csr", "scipy") if rival in spent
    }
    return {
        "benchmark": "basis",
        "graph": name,
        "settings": {**vars(shape), "degree": DEGREE, "tau": TAU, "taus": TAUS, "dtype": "float32", "rounds": rounds},
        "seed": 0,
        "seconds": spent,
        **ratios,
        "products_over_torch_csr": spent["torch_csr"] / spent["adaptkry_products"],
        "three_taus_over_one": spent["adaptkry_3_taus"] / spent["adaptkry"],
        "terabytes_per_second": moved / spent["adaptkry_products"] / 1e12,
        **provenance(device),
    }


def main() -> None:
    """Measure, print, append the rows."""
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
        for what, value in row["seconds"].items():
            print(f"  {what:28} {value * 1e3:10.1f} ms")
        for what in sorted(what for what in row if "_over_" in what or "terabytes" in what):
            print(f"  {what:28} {row[what]:10.2f}")


if __name__ == "__main__":
    main()
