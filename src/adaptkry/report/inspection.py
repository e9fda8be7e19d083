"""What a graph is like, before anything is trained on it."""

from dataclasses import asdict

import numpy as np
import scipy.sparse as sp
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import MEASURES
from adaptkry.report.elements import counted
from adaptkry.spectral import spectrum, theory
from adaptkry.spectral.density import density_of_states
from adaptkry.spectral.propagation import Propagation

SMALL_CLASS = 10  # nodes; below this, a class may be absent from validation or test


def inspect_graph(graph: Graph) -> dict:
    """Size, components, homophily, spectrum, mixing bound, a range of taus to try and warnings, as plain data."""
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
    measures = defined_measures(graph)
    facts |= {f"homophily, {name}": f"{value:.3f}" for name, value in measures.items()}
    facts["taus to try"] = suggested_taus(measures.get("adjusted"))
    density = asdict(density_of_states(P, moments=200, probes=16))
    return {"graph": f"{graph.info.name}: {graph}", "facts": facts, "density": density, "warnings": warnings(graph)}


def defined_measures(graph: Graph) -> dict[str, float]:
    """The homophily measures that are defined for this graph."""
    found = {}
    for name, measure in MEASURES.items():
        try:
            found[name] = measure(graph)
        except ValueError:  # not defined without labels, or for one class
            continue
    return found


def suggested_taus(adjusted: float | None) -> str:
    """A range of taus to try: small tau smooths, large tau sharpens; from the paper's table of best tau sets."""
    if adjusted is None:
        return "0.5 to 1.0 (there are no labels to judge by)"
    if adjusted > 0.3:
        return "0.1 to 1.1: neighbours agree, accuracy depends little on tau"
    return "0.6 to 1.8: neighbours do not agree, larger tau keeps differences"


def warnings(graph: Graph) -> list[str]:
    """What may distort a result."""
    found = []
    duplicates, isolated = duplicate_nodes(graph), int(graph.isolated().sum())
    if duplicates:
        found.append(
            f"{counted(duplicates, 'node has', 'nodes have')} the same neighbours and features as another node: "
            f"training nodes may reveal test labels"
        )
    if isolated:
        found.append(f"{counted(isolated, 'node has', 'nodes have')} no edge: propagation leaves their features as is")
    if graph.features is not None and graph.features.shape[1] and not sp.issparse(graph.features):
        empty = int((torch.as_tensor(graph.features).abs().sum(1) == 0).sum())
        if empty:
            found.append(f"{counted(empty, 'node has', 'nodes have')} all-zero features")
    known = graph.y[graph.y >= 0]
    if len(known) and int(torch.bincount(known).min()) < SMALL_CLASS:
        found.append(f"a class has fewer than {SMALL_CLASS} nodes: it may be absent from validation or test")
    return found


def duplicate_nodes(graph: Graph) -> int:
    """Number of nodes whose neighbours and features equal those of an earlier node (as in Chameleon and Squirrel)."""
    group = neighbour_groups(graph)
    nodes = np.flatnonzero((group >= 0) & (np.bincount(group + 1)[group + 1] > 1))  # only these need their features
    keys = group[nodes, None]
    if graph.features is not None and len(nodes):
        rows = graph.features[nodes].toarray() if sp.issparse(graph.features) else graph.features[nodes].numpy()
        keys = np.column_stack([keys, row_groups(rows + 0.0)])  # -0.0 becomes 0.0: bytes are compared
    return len(nodes) - len(np.unique(keys, axis=0))


def neighbour_groups(graph: Graph) -> np.ndarray:
    """A number for each node [n], equal for nodes with the same neighbours; -1 for isolated nodes."""
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    degree = np.diff(indptr)
    order = np.argsort(degree, kind="stable")
    sizes, starts = np.unique(degree[order], return_index=True)
    found, used = np.full(graph.nodes, -1), 0
    for size, nodes in zip(sizes, np.split(order, starts[1:]), strict=True):  # neighbour lists of one length: a matrix
        if size:
            found[nodes] = used + row_groups(indices[indptr[nodes, None] + np.arange(size)])
            used += len(nodes)
    return found


def row_groups(rows: np.ndarray) -> np.ndarray:
    """A number for each row [n, d], equal for rows of the same bytes."""
    as_bytes = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    return np.unique(as_bytes[:, 0], return_inverse=True)[1]
