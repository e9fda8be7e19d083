"""Built-in graphs: no download, known structure."""

import numpy as np
import torch

from adaptkry import checks
from adaptkry.graph import Graph


def csbm(
    nodes: int = 1000,
    phi: float = 0.5,
    *,
    classes: int = 2,
    features: int = 16,
    degree: float = 10.0,
    information: float = 1.0,
    seed: int = 0,
) -> Graph:
    r"""Contextual stochastic block model: labels show in the edges, in the features, or in both.

    Args:
        nodes: number of nodes n.
        phi: -1 (neighbours always differ) to 1 (neighbours always agree); 0 puts nothing in the edges. The share
            of the information in the edges is :math:`|\sin(\phi\pi/2)|`, in the features :math:`\cos(\phi\pi/2)`,
            so that the squares of the two add up to the same for every phi.
        classes: number of classes c, as equal in size as possible.
        features: number of features d.
        degree: average degree.
        information: total strength; larger is easier.
        seed: the same seed gives the same graph.

    >>> csbm(nodes=100, phi=-1.0, seed=1)
    Graph(nodes=100, entries=..., features=16, classes=2, undirected)
    """
    n, c = checks.count(nodes, "nodes"), checks.count(classes, "classes")
    if checks.count(features, "features") == 0:
        raise ValueError("csbm needs at least 1 feature, but 0 came.")
    if c < 2 or n < c:
        raise ValueError(f"csbm needs at least 2 classes and a node for each, but {c} classes and {n} nodes came.")
    if not -1 <= phi <= 1:
        raise ValueError(f"phi must lie in [-1, 1], but {phi} came: 1 is full homophily, -1 full heterophily.")
    if not 0 < degree < n:
        raise ValueError(f"the average degree must lie between 0 and the number of nodes, but {degree} came.")
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(n) % c)
    edges = _block_edges(labels, np.sin(phi * np.pi / 2), c, degree, random)
    centres = random.standard_normal((c, features))
    centres *= np.cos(phi * np.pi / 2) * information / np.linalg.norm(centres, axis=1, keepdims=True)
    x = centres[labels] + random.standard_normal((n, features)) / np.sqrt(features)
    return Graph(edges, torch.from_numpy(x.astype(np.float32)), labels, nodes=n)


def _block_edges(labels: np.ndarray, lean: float, c: int, degree: float, random) -> np.ndarray:
    """About n degree / 2 edges; each joins like labels with a probability that grows with `lean` in [-1, 1]."""
    n = len(labels)
    wanted = round(n * degree / 2)
    chance = 1 / c
    like = chance + lean * (1 - chance) if lean > 0 else chance * (1 + lean)
    source = random.integers(0, n, wanted)
    order = np.argsort(labels, kind="stable")
    start, size = np.searchsorted(labels[order], np.arange(c)), np.bincount(labels, minlength=c)
    other = (labels[source] + random.integers(1, c, wanted)) % c
    side = np.where(random.random(wanted) < like, labels[source], other)
    target = order[start[side] + (random.random(wanted) * size[side]).astype(np.int64)]
    kept = source != target
    return np.stack([source[kept], target[kept]])
