"""Built-in synthetic graphs of known structure, which need no download."""

import numpy as np
import torch

from adaptkry.common import checks
from adaptkry.common.memory import check_memory
from adaptkry.graphs.graph import Graph, Info


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
    r"""Contextual stochastic block model: labels can be learned from the edges, the features, or both.

    Args:
        nodes: number of nodes n.
        phi: from -1 (neighbours always differ) to 1 (neighbours always agree); at 0 the edges carry no information.
            The share of the information in the edges is :math:`|\sin(\phi\pi/2)|`, in the features
            :math:`\cos(\phi\pi/2)`, so the sum of their squares is the same for every phi.
        classes: number of classes c, as equal in size as possible.
        features: number of features d.
        degree: average degree.
        information: total strength of the information; larger values are easier to learn.
        seed: the same seed gives the same graph.

    >>> csbm(nodes=100, phi=-1.0, seed=1)
    Graph(nodes=100, entries=..., features=16, classes=2, undirected)
    """
    n, c = _checked("csbm", nodes, classes, features, phi, degree, information, seed)
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(n) % c)
    edges = _block_edges(labels, labels, np.sin(phi * np.pi / 2), c, round(n * degree / 2), random)
    centres = random.standard_normal((c, features))
    centres *= np.cos(phi * np.pi / 2) * information / np.linalg.norm(centres, axis=1, keepdims=True)
    x = centres[labels] + random.standard_normal((n, features)) / np.sqrt(features)
    return Graph(edges, torch.from_numpy(x.astype(np.float32)), labels, nodes=n, info=Info("csbm"))


def directed_csbm(
    nodes: int = 1000,
    phi: float = 0.4,
    *,
    classes: int = 2,
    features: int = 16,
    degree: float = 10.0,
    information: float = 1.0,
    seed: int = 0,
) -> Graph:
    r"""A directed graph whose classes can be learned only along the direction of the edges.

    Every node has a class y, to be learned, and an independent topic z, which determines its features; there are as
    many topics as classes. An edge from i leads to a node j whose topic agrees with the class of i (phi > 0) or
    differs from it (phi < 0). So the features of the nodes that i points to determine y_i. The features of the nodes
    that point to i are independent of y_i: direction "in" is pure noise, "both" adds that noise, and "out" is the
    right direction. One hop suffices; the features of a node carry no information about its own class.

    Args:
        nodes: number of nodes n.
        phi: from -1 (the topics pointed to always differ from the class) to 1 (they always agree); at 0 nothing can
            be learned. The bias of edges is :math:`\sin(\phi\pi/2)` as in `csbm`; features do not depend on phi.
        classes: number of classes, and of topics, as equal in size as possible.
        features: number of features d.
        degree: average number of edges that leave a node.
        information: distance of the topics' centres from 0; larger values are easier to learn.
        seed: the same seed gives the same graph.

    >>> directed_csbm(nodes=100, seed=1)
    Graph(nodes=100, entries=..., features=16, classes=2, directed)
    """
    n, c = _checked("directed_csbm", nodes, classes, features, phi, degree, information, seed)
    random = np.random.default_rng(seed)
    labels, topics = (random.permutation(np.arange(n) % c) for _ in range(2))
    edges = _block_edges(labels, topics, np.sin(phi * np.pi / 2), c, round(n * degree), random)
    centres = random.standard_normal((c, features))
    centres *= information / np.linalg.norm(centres, axis=1, keepdims=True)
    x = centres[topics] + random.standard_normal((n, features)) / np.sqrt(features)
    x = torch.from_numpy(x.astype(np.float32))
    return Graph(edges, x, labels, nodes=n, directed=True, info=Info("csbm-directed"))


def _checked(
    name: str, nodes: int, classes: int, features: int, phi: float, degree: float, information: float, seed: int
) -> tuple[int, int]:
    n, c = checks.count(nodes, "nodes"), checks.count(classes, "classes")
    checks.count(seed, "the seed")
    if checks.count(features, "features") == 0:
        raise ValueError(f"{name} needs at least 1 feature; got 0. Try 16.")
    for what, value in (("phi", phi), ("the average degree", degree), ("information", information)):
        if not isinstance(value, float):  # NaN and infinity are refused below
            checks.number(value, what)
    if c < 2 or n < c:
        raise ValueError(
            f"{name} needs at least 2 classes and a node for each; got {c} classes and {n} nodes. Use more nodes."
        )
    if not -1 <= phi <= 1:
        raise ValueError(f"phi must be between -1 and 1; got {phi}. Use 1 for homophily, -1 for heterophily.")
    if not 0 < degree < n:
        raise ValueError(
            f"the average degree must be above 0 and below the number of nodes, {n}; got {degree}. "
            f"Try {min(10, n / 2):g}."
        )
    check_memory(n * (12 * features + 32) + 32 * n * degree, f"{name} with {n} nodes and {features} features")
    return n, c


def _block_edges(labels: np.ndarray, groups: np.ndarray, bias: float, c: int, count: int, random) -> np.ndarray:
    """About `count` edges; with higher `bias` (-1 to 1), more of them lead to the group of their source's label."""
    n = len(labels)
    chance = 1 / c
    p_same = chance + bias * (1 - chance) if bias > 0 else chance * (1 + bias)
    source = random.integers(0, n, count)
    order = np.argsort(groups, kind="stable")
    start, size = np.searchsorted(groups[order], np.arange(c)), np.bincount(groups, minlength=c)
    other = (labels[source] + random.integers(1, c, count)) % c
    group = np.where(random.random(count) < p_same, labels[source], other)
    target = order[start[group] + (random.random(count) * size[group]).astype(np.int64)]
    is_edge = source != target
    return np.stack([source[is_edge], target[is_edge]])
