"""How much longer does the orthonormal basis take than the Krylov basis on a GPU, in device time?

    python -m benchmarks.orthonormal [--degree 10] [--rounds 5] [--out results/benchmarks.jsonl]

`reproduce running-times` measures wall time, in which the launch of kernels hides some of the difference on small
graphs. This benchmark sums the times of the kernels (torch's profiler). A hop of the Krylov basis is read or written at
least four times (product and copy), one of the orthonormal basis nine times (product, and seven times in
`spectral/kernels/triton_lanczos.py`).
"""

import argparse

import torch
from torch.profiler import ProfilerActivity, profile

from adaptkry.common import timing
from adaptkry.common.rows import append, provenance
from adaptkry.graphs.load import load
from adaptkry.models.inputs import basis_terms, propagation, scaled_features
from adaptkry.models.recipe import recipe

GRAPHS = ("citeseer", "pubmed", "actor", "squirrel")
METHODS = ("adaptkry", "orthkry")


def device_seconds(job, rounds: int) -> float:
    """Return the device time of the kernels and copies of one call, averaged over rounds."""
    job()  # compiles the kernels
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(rounds):
            job()
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in profiler.key_averages()) / rounds / 1e6


def measure(name: str, degree: int, rounds: int) -> dict:
    """Return one row: device time and wall time of both bases."""
    graph = load(name)
    recipes = {method: recipe(method, name, degree=degree, taus=(0.8,)) for method in METHODS}
    P = propagation(graph, recipes["adaptkry"], 0.8, "both").to("cuda")
    x = scaled_features(graph, recipes["adaptkry"]).cuda()
    jobs = {method: lambda settings=settings: basis_terms(P, x, settings) for method, settings in recipes.items()}
    device = {method: device_seconds(job, rounds) for method, job in jobs.items()}
    clock = timing.interleaved(jobs, max(7, rounds), "cuda")
    into = torch.empty_like(x)
    return {
        "benchmark": "orthonormal", "graph": name, "settings": {"degree": degree, "rounds": rounds}, "seed": 0,
        "seconds": device, "device_ratio": device["orthkry"] / device["adaptkry"],
        "clock_seconds": clock, "clock_ratio": clock["orthkry"] / clock["adaptkry"],
        "copy_of_a_hop_seconds": device_seconds(lambda: into.copy_(x), 20), "hop_bytes": x.numel() * 4,
        **provenance("cuda"),
    }  # fmt: skip


def main() -> None:
    """Measure, append the rows to a file, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degree", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default="results/benchmarks.jsonl")
    arguments = parser.parse_args()
    for name in GRAPHS:
        row = measure(name, arguments.degree, arguments.rounds)
        append(arguments.out, [row])
        times = ", ".join(f"{method} {1e3 * seconds:.3f} ms" for method, seconds in row["seconds"].items())
        print(f"{name}: {times}; ratio {row['device_ratio']:.2f} in device time, {row['clock_ratio']:.2f} in wall time")


if __name__ == "__main__":
    main()
