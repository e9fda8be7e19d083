"""What a report shows of a run, as plain data: computed while the graph is at hand, kept in the run folder."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import homophily
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import Recipe, features_of
from adaptkry.report import learned_filter as pictures
from adaptkry.spectral import spectrum
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.propagation import Propagation
from adaptkry.training.run import Run

TAUS = tuple(round(0.1 * k, 1) for k in range(1, 20))  # where the tau explorer has densities
BINS = 41
OF_GRAPH = ("homophily", "explorer", "angles")
LARGE = 1_000_000  # entries from which the explorer takes every third tau only


def facts(run: Run, graph: Graph | None, split: Splits) -> dict:
    """Everything the page draws, as lists and numbers; None where it needs a graph and there is none."""
    return {
        "about": run.about | {"features": run.layout.features, "classes": run.layout.classes},
        "settings": run.rows[0]["config"],
        "rows": [brief(row) for row in run.rows],
        "curves": {name: thinned(curve) for name, curve in run.curves.items()},
        "filter": learned(run, graph),
        "hop_weights": hop_weights(run),
        **(of_graph(graph, run.recipes[0]) if graph is not None else dict.fromkeys(OF_GRAPH)),
        "confusion": pictures.confusion(run, graph, split).tolist(),
        "names": [str(name) for name in run.about["class_names"] or range(run.layout.classes)],
    }


def of_graph(graph: Graph, made: Recipe) -> dict:
    """What is shown of the graph itself."""
    taus = usable_taus(graph)[:: 1 if graph.entries < LARGE else 3]
    found = (homophily(graph), explorer(graph, taus), angles(graph, made))
    return dict(zip(OF_GRAPH, found, strict=True))


def brief(row: dict) -> dict:
    """What a table of trainings shows."""
    names = ("split", "seed", "split_seed", "validation", "test", "epoch", "chosen", "failed")
    return {name: row[name] for name in names}


def thinned(curve: np.ndarray, most: int = 250) -> dict:
    """Mean, lowest and highest over members, at no more than `most` epochs."""
    epochs = np.unique(np.linspace(0, len(curve) - 1, min(most, len(curve))).astype(int)) if len(curve) else []
    lines = [curve[epoch][~np.isnan(curve[epoch])] for epoch in epochs]
    kept = [(int(e), line) for e, line in zip(epochs, lines, strict=True) if len(line)]
    return {
        "epoch": [e for e, _ in kept],
        "mean": [float(line.mean()) for _, line in kept],
        "low": [float(line.min()) for _, line in kept],
        "high": [float(line.max()) for _, line in kept],
    }


def learned(run: Run, graph: Graph | None) -> dict | None:
    """The learned response of each chosen member on a grid of eigenvalues."""
    grid = torch.linspace(-1.0, 1.0, 101)
    found = pictures.learned_response(run, graph, grid)
    if found is None:
        return None
    return {"grid": grid.tolist(), "responses": found[:, run.chosen].T.tolist()}


def usable_taus(graph: Graph) -> list[float]:
    """The taus the graph allows: weighted degrees below 1 set an upper end."""
    usable = []
    for tau in TAUS:
        try:
            Propagation(graph, tau)
        except ValueError:
            break
        usable.append(tau)
    return usable


def explorer(graph: Graph, taus: Sequence[float]) -> list[dict]:
    """For every tau where the eigenvalues of P_tau are: quantiles, and a histogram."""
    found = []
    for tau in taus:
        density = density_of_states(Propagation(graph, tau), moments=100, probes=8, bins=BINS)
        mass = np.clip(np.asarray(density.mass), 0, None)
        edges = np.asarray(density.edges)
        below = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
        quantiles = np.interp(np.linspace(0, 1, 101), below, edges)
        found.append({"tau": tau, "edges": edges.tolist(), "mass": mass.tolist(), "quantiles": quantiles.tolist()})
    return found


def hop_weights(run: Run) -> list[list[float]] | None:
    """Weights over the hops of each chosen member, [members, hops]; one filter a channel is averaged."""
    if "filter" not in run.weights:
        return None
    w: Tensor = run.weights["filter"][run.chosen]
    return w.reshape(len(w), -1, w.shape[-1]).mean(1).tolist()


def angles(graph: Graph, made) -> dict[str, list[float]]:
    """Angles between consecutive hops of the features, tau by tau, in degrees."""
    x = features_of(graph, made)[:, :256]
    return {
        f"{tau:g}": spectrum.angles(krylov(Propagation(graph, tau), x, max(made.degree, 1))).tolist()
        for tau in made.taus
    }
