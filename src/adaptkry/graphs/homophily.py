"""Homophily: five measures of whether neighbours have the same class, over edges between labelled nodes.

Self-loops count as edges of a node with itself, as in PyG; use `graph.without_self_loops()` to exclude them. Weights
are ignored.
"""

import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph, require_graph


def labelled_edges(graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    """Source node, class of the source and class of the target of each entry of A between labelled nodes."""
    require_graph(graph, "homophily")
    if graph.targets is not None:
        raise ValueError(f"homophily needs classes; got a graph of the task {graph.task}. They cannot be computed.")
    sources = torch.repeat_interleave(torch.arange(graph.nodes), graph.indptr.diff())
    source_class, target_class = graph.y[sources], graph.y[graph.indices.long()]
    is_labelled = (source_class >= 0) & (target_class >= 0)
    if not is_labelled.any():
        raise ValueError(
            f"homophily needs edges between labelled nodes; none of {graph.entries} entries has both ends labelled. "
            f"Label more nodes."
        )
    return sources[is_labelled], source_class[is_labelled], target_class[is_labelled]


def class_counts(graph: Graph) -> Tensor:
    """Number of entries of A from class a to class b, as float64 [c, c]."""
    _, source_class, target_class = labelled_edges(graph)
    c = graph.classes
    return torch.bincount(source_class * c + target_class, minlength=c * c).reshape(c, c).double()


def edge(graph: Graph) -> float:
    """Share of edges between nodes of the same class (the paper's h)."""
    counts = class_counts(graph)
    return float(counts.trace() / counts.sum())


def node(graph: Graph) -> float:
    """Mean over nodes of the share of their neighbours that have the same class.

    Nodes without a labelled neighbour are excluded (PyG counts them as 0).
    """
    sources, source_class, target_class = labelled_edges(graph)
    total = torch.bincount(sources, minlength=graph.nodes).double()
    agree = torch.bincount(sources[source_class == target_class], minlength=graph.nodes).double()
    return float((agree[total > 0] / total[total > 0]).mean())


def class_insensitive(graph: Graph) -> float:
    """Lim et al. 2021: excess of each class's edge homophily over its share of nodes, summed and divided by c - 1."""
    counts = class_counts(graph)
    if len(counts) < 2:
        raise ValueError(f"class-insensitive homophily needs at least 2 classes; got {len(counts)}. Label more nodes.")
    labelled = graph.y[graph.y >= 0]
    share = torch.bincount(labelled, minlength=len(counts)).double() / len(labelled)
    agreement = counts.diagonal() / counts.sum(1).clamp(min=1)
    return float((agreement - share).clamp(min=0).sum() / (len(counts) - 1))


def adjusted(graph: Graph) -> float:
    """Platonov et al. 2023: edge homophily corrected for chance; 0 for random edges, 1 for perfect agreement."""
    counts = class_counts(graph)
    chance = float(counts.sum(0) @ counts.sum(1) / counts.sum() ** 2)  # both ends drawn independently
    if chance == 1:
        raise ValueError(
            "adjusted homophily needs edges of at least 2 classes; all edges are of one class. Label more nodes."
        )
    return (edge(graph) - chance) / (1 - chance)


def label_informativeness(graph: Graph) -> float:
    """Platonov et al. 2023: mutual information of the two ends of a random edge over the entropy of one end."""
    joint = class_counts(graph)
    joint = joint / joint.sum()
    entropy = _entropy(joint.sum(1))
    if entropy == 0:
        raise ValueError(
            "label informativeness needs edges of at least 2 classes; all edges are of one class. Label more nodes."
        )
    return float((entropy + _entropy(joint.sum(0)) - _entropy(joint)) / entropy)


def _entropy(p: Tensor) -> Tensor:
    return -torch.special.xlogy(p, p).sum()


MEASURES = {
    "edge": edge,
    "node": node,
    "class_insensitive": class_insensitive,
    "adjusted": adjusted,
    "label_informativeness": label_informativeness,
}


def homophily(graph: Graph) -> dict[str, float]:
    """All five measures by name.

    >>> square = Graph([[0, 1, 2, 3], [1, 2, 3, 0]], labels=[0, 1, 0, 1])   # neighbours always differ
    >>> {name: round(value, 3) for name, value in homophily(square).items()}
    {'edge': 0.0, 'node': 0.0, 'class_insensitive': 0.0, 'adjusted': -1.0, 'label_informativeness': 1.0}
    """
    return {name: measure(graph) for name, measure in MEASURES.items()}


def defined_measures(graph: Graph) -> dict[str, float]:
    """Return the homophily measures that are defined for this graph."""
    values = {}
    for name, measure in MEASURES.items():
        try:
            values[name] = measure(graph)
        except ValueError:  # not defined without labels, or for a single class
            continue
    return values
