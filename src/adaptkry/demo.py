"""What `make run` shows: the mathematics at work on a built-in graph."""

from dataclasses import asdict

from adaptkry import spectrum, theory
from adaptkry.bases import krylov, orthonormal
from adaptkry.datasets.synthetic import csbm
from adaptkry.graph import Graph
from adaptkry.homophily import homophily
from adaptkry.operators import Propagation

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
        "density": asdict(spectrum.density_of_states(Propagation(graph), bins=31)),
        "theory": [asdict(check) for check in theory.check_all(graph)],
    }
