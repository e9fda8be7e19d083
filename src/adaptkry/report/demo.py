"""What `make run` shows: one method for both kinds of graph, and the mathematics behind it, on built-in graphs."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import homophily
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.report import html as reports
from adaptkry.report import learned_filter as pictures
from adaptkry.report.run_report import facts
from adaptkry.spectral import spectrum, theory
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.lanczos import orthonormal
from adaptkry.spectral.propagation import Propagation
from adaptkry.training import fit as fitting

TAUS = (0.5, 0.8, 1.0, 1.5)


def built_in(nodes: int, phi: float, seed: int) -> Graph:
    """The graph of the demo."""
    return csbm(nodes=nodes, phi=phi, degree=14, seed=seed)


def reshaping(graph: Graph, degree: int = 10) -> list[dict]:
    """One row a tau: the spectrum, lambda*, Theorem 1's bound, and the angles between hops."""
    rows = []
    for tau in TAUS:
        P = Propagation(graph, tau)
        low, high = (float(end[0]) for end in spectrum.extremes(P))
        bound, slowest = theory.mixing_bound(graph, tau=tau)
        turn = spectrum.angles(krylov(P, graph.x, degree)).tolist()
        square = spectrum.angles(orthonormal(P, graph.x, 2)).tolist()
        rows.append(
            {
                "tau": tau,
                "lowest": low,
                "highest": high,
                "lambda_star": slowest,
                "mixing_bound": bound,
                "angles": turn,
                "orthonormal_angle": square[0],
            }
        )
    return rows


def tour(nodes: int, phi: float, seed: int) -> dict:
    """Everything the demo shows, as data."""
    graph = built_in(nodes, phi, seed)
    return {
        "graph": repr(graph),
        "homophily": homophily(graph),
        "taus": reshaping(graph),
        "density": asdict(density_of_states(Propagation(graph), bins=31)),
        "theory": [asdict(check) for check in theory.check_all(graph)],
    }


CONTENDERS = {
    "mlp": "features alone, no edges",
    "lowpass": "a fixed low-pass filter P^6",
    "adaptkry": "a learned filter over taus 0.5, 1, 1.5",
}


def contest(folder: Path, tick: Callable[[], object] = lambda: None) -> list[dict]:
    """Three methods where neighbours agree and where they differ; run folders and pictures go below `folder`."""
    rows = []
    for kind, phi in (("homophilous", 0.6), ("heterophilous", -0.6)):
        graph = csbm(nodes=800, phi=phi, degree=6, information=0.5, features=32, seed=0)
        graph.info = replace(graph.info, name=f"{kind} graph")  # in the pictures' titles
        split = splits.stratified(graph.y, count=5)
        for method, what in CONTENDERS.items():
            own = {"taus": (0.5, 1.0, 1.5), "degree": 6} if method == "adaptkry" else {}
            made = recipe(method, hidden=32, epochs=150, patience=60, **own)
            out = folder / f"{kind}-{method}"
            run = fitting.fit(graph, made, split, device="cpu", out=out)
            picture = pictures.picture(run, graph, out, split)
            reports.write_facts(out, facts(run, graph, split))
            scores = np.array([row["test"] for row in run.rows])
            figures = {"mean": float(scores.mean()), "std": float(scores.std(ddof=1))}
            files = {"folder": str(out), "picture": str(picture)}
            rows.append({"graph": kind, "method": method, "what": what, **figures, **files})
            tick()
    reports.write([Path(row["folder"]) for row in rows], folder / "report.html")
    return rows
