"""Random graphs with the size of a benchmark graph and power-law degrees, for machines without its data."""

from dataclasses import dataclass

import numpy as np
import torch

from adaptkry.graphs.graph import Graph


@dataclass(frozen=True)
class Shape:
    """Numbers of nodes, entries and features."""

    nodes: int
    entries: int
    features: int


SHAPES = {
    "arxiv": Shape(169_343, 2_315_598, 128),
    "squirrel": Shape(5_201, 396_846, 2_089),
}


def power_law(shape: Shape, exponent: float = 2.5, seed: int = 0) -> Graph:
    """Return a Chung-Lu graph: the ends of edges are drawn in proportion to power-law weights, in random node order."""
    random = np.random.default_rng(seed)
    weight = (np.arange(shape.nodes) + 10.0) ** (-1 / (exponent - 1))
    random.shuffle(weight)
    cumulative = np.cumsum(weight / weight.sum())
    wanted, pairs = shape.entries // 2, np.empty((2, 0), dtype=np.int64)
    while pairs.shape[1] < wanted:  # repeated edges and self-loops are dropped; draw until there are enough
        drawn = np.searchsorted(cumulative, random.random((2, wanted))).clip(max=shape.nodes - 1)
        drawn = np.sort(drawn[:, drawn[0] != drawn[1]], axis=0)
        pairs = np.unique(np.concatenate([pairs, drawn], axis=1), axis=1)
    return Graph(pairs[:, random.permutation(pairs.shape[1])[:wanted]], nodes=shape.nodes)


def features(shape: Shape, seed: int = 0) -> torch.Tensor:
    """Return standard normal features [n, d] in float32."""
    return torch.randn(shape.nodes, shape.features, generator=torch.Generator().manual_seed(seed))
