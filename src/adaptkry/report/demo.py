"""The commands `adaptkry demo` (also `make run`) and `adaptkry tour`: training and theory on built-in graphs."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from adaptkry.common.files import check_output_file, checked_path, visible_names
from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import homophily
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.report.html import is_page, write_page
from adaptkry.report.run_report import write_pages
from adaptkry.spectral import spectrum, theory
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.lanczos import orthonormal
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.training.fit import fit

TOUR_TAUS = (0.5, 0.8, 1.0, 1.5)
DEMO_METHODS = {
    "mlp": "features only, no edges",
    "lowpass": "a fixed low-pass filter P^6",
    "adaptkry": "a learned filter over taus 0.5, 1, 1.5",
}
DEMO_GRAPHS = {"homophilous": 0.6, "heterophilous": -0.6}  # name -> phi


def tour(nodes: int, phi: float, seed: int) -> dict:
    """Return the effect of tau on the spectrum and the basis of a built-in graph, and the checks of the theory."""
    graph = csbm(nodes=nodes, phi=phi, degree=14, seed=seed)
    return {
        "graph": repr(graph),
        "homophily": homophily(graph),
        "taus": effect_of_tau(graph),
        "density": asdict(density_of_states(Propagation(graph), bins=31)),
        "theory": [asdict(check) for check in theory.check_all(graph)],
    }


def effect_of_tau(graph: Graph, degree: int = 10) -> list[dict]:
    """Return one row per tau: the spectrum, lambda*, the bound of Theorem 1, and the angles between hops."""
    rows = []
    for tau in TOUR_TAUS:
        P = Propagation(graph, tau)
        low, high = (float(end[0]) for end in spectrum.extremes(P))
        bound, slowest = theory.mixing_bound(graph, tau=tau)
        rows.append(
            {
                "tau": tau,
                "lowest": low,
                "highest": high,
                "lambda_star": slowest,
                "mixing_bound": bound,
                "angles": spectrum.angles(krylov(P, graph.x, degree)).tolist(),
                "orthonormal_angle": spectrum.angles(orthonormal(P, graph.x, 2)).tolist()[0],
            }
        )
    return rows


def check_demo_folder(folder: Path) -> None:
    """Refuse a folder with other files than those of an earlier demo, before anything is trained."""
    ours = {"report.html", *(f"{kind}-{method}" for kind in DEMO_GRAPHS for method in DEMO_METHODS)}
    others = [name for name in visible_names(checked_path(folder, "the output folder")) if name not in ours]
    if others:
        raise ValueError(
            f"the output folder must be new, empty or of an earlier demo; {folder} holds {others[0]}. Use another."
        )
    check_output_file(folder / "report.html", [], is_page)


def train_demo(folder: Path, on_run: Callable[[], object] = lambda: None) -> list[dict]:
    """Train three methods on a homophilous and a heterophilous graph; returns one row per graph and method.

    Args:
        folder: folder for one run folder per row and a report of all runs.
        on_run: called after every run.
    """
    check_demo_folder(folder)
    rows = []
    for kind, phi in DEMO_GRAPHS.items():
        graph = csbm(nodes=800, phi=phi, degree=6, information=0.5, features=32, seed=0)
        graph.info = replace(graph.info, name=f"{kind} graph")  # for the titles of the report
        five_splits = splits.stratified(graph.y, count=5)
        for method, description in DEMO_METHODS.items():
            settings = {"taus": (0.5, 1.0, 1.5), "degree": 6} if method == "adaptkry" else {}
            settings |= {"hidden": 32, "epochs": 150, "patience": 60}
            out = folder / f"{kind}-{method}"
            run = fit(graph, recipe(method, **settings), five_splits, device="cpu", out=out)
            scores = np.array([result.test for result in run.results])
            summary = {"mean": float(scores.mean()), "std": float(scores.std(ddof=1))}
            files = write_pages(run, graph, out, five_splits)
            rows.append({"graph": kind, "method": method, "what": description, **summary, **files})
            on_run()
    write_page([Path(row["folder"]) for row in rows], folder / "report.html")
    return rows
