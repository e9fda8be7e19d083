"""Properties of a graph, before anything is trained on it (`adaptkry inspect`)."""

from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.graphs.duplicates import duplicate_nodes
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import defined_measures
from adaptkry.models.suggest import explain
from adaptkry.report.elements import counted
from adaptkry.spectral import spectrum, theory
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.training.data import GraphData, open_graph

MIN_CLASS_SIZE = 10  # nodes; a smaller class may be absent from the validation or test nodes


def inspect_graph(data: Any) -> dict:
    """Return size, components, homophily, spectrum, mixing bound, suggested settings and warnings as plain data.

    Args:
        data: everything that `fit` accepts except basis folders.
    """
    source = open_graph(data, "inspect")
    graph = source.graph
    undirected = graph.undirected()
    components, _ = undirected.components()
    degree = undirected.degree()
    P = Propagation(undirected)
    low, high = (float(end[0]) for end in spectrum.extremes(P))
    facts = {
        "nodes": graph.nodes,
        "entries": graph.entries,
        "direction": "directed" if graph.is_directed else "undirected",
        "self-loops": int((undirected.adjacency.diagonal() > 0).sum()),
        "isolated nodes": int(graph.isolated().sum()),
        "components": components,
        "degree (mean, max)": f"{float(degree.mean()):.2f}, {float(degree.max()):.0f}",
        "features": 0 if graph.features is None else graph.features.shape[1],
        "classes": graph.classes,
        "unknown labels": int((graph.y < 0).sum()),
        "spectrum of P_1": f"{low:.4f} .. {high:.4f}",
    }
    for tau in (0.5, 1.0):
        bound, slowest = theory.mixing_bound(undirected, tau=tau)
        facts[f"lambda* (tau {tau:g})"] = f"{slowest:.5f}"
        facts[f"mixing bound (tau {tau:g})"] = f"{bound:.0f} hops" if np.isfinite(bound) else "none: no convergence"
    facts |= {f"homophily, {name}": f"{value:.3f}" for name, value in defined_measures(graph).items()}
    return {
        "graph": f"{graph.info.name}: {graph}",
        "facts": facts,
        "density": asdict(density_of_states(P, moments=200, probes=16)),
        "suggested": [asdict(reason) for reason in explain(graph, train=training_nodes(source))],
        "published": source.has_published("adaptkry"),  # `fit` uses those instead
        "warnings": warnings(graph),
    }


def training_nodes(source: GraphData) -> Tensor | None:
    """Return the mask [n] of the training nodes of the first default split; None if no split can be drawn."""
    try:
        return source.splits(count=1).train[0]
    except ValueError:  # no labels, or too few
        return None


def warnings(graph: Graph) -> list[str]:
    """Return properties of the graph that may distort results."""
    found = []
    duplicates, isolated = duplicate_nodes(graph), int(graph.isolated().sum())
    if duplicates:
        found.append(
            f"{counted(duplicates, 'node has', 'nodes have')} the same neighbours and features as another node: "
            f"training nodes may reveal test labels"
        )
    if isolated:
        found.append(f"{counted(isolated, 'node has', 'nodes have')} no edges: propagation does not change features")
    if graph.features is not None and graph.features.shape[1] and not sp.issparse(graph.features):
        empty = int((torch.as_tensor(graph.features).abs().sum(1) == 0).sum())
        if empty:
            found.append(f"{counted(empty, 'node has', 'nodes have')} all-zero features")
    known = graph.y[graph.y >= 0]
    if len(known) and int(torch.bincount(known).min()) < MIN_CLASS_SIZE:
        found.append(f"a class has fewer than {MIN_CLASS_SIZE} nodes: validation or test nodes may not include it")
    return found
