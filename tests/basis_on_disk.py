"""Graphs and bases on disk for tests of several folders, and what they must equal."""

from pathlib import Path

import torch
from torch import Tensor

from adaptkry.graphs.graph import Graph
from adaptkry.outofcore import BasisFolder
from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.propagation_matrix import Propagation
from contracts import assert_same_bits
from strategies import random_graph

TAUS = [0.5, 1.0, 1.4]


def small(seed=0, n=60, m=150, d=5, **options) -> Graph:
    """A graph with isolated nodes, loops, unknown labels and float32 features."""
    graph = random_graph(seed, n, m, features=d, **options)
    graph.features = graph.features.float()
    return graph


def in_memory(graph, taus, directions, degree) -> Tensor:
    """The terms of a training: directions, taus, hops; [T, n, d]."""
    parts = [
        stack(krylov(Propagation(graph, tau, direction), graph.x, degree)).transpose(0, 1)
        for direction in directions
        for tau in taus
    ]
    return torch.cat(parts)


def same_bits_as_memory(made: BasisFolder, graph: Graph) -> None:
    """Assert that the stored rows of every term are those computed in memory."""
    wanted = in_memory(graph, made.taus, made.directions, made.degree)
    assert_same_bits(made.slab(0, made.count), wanted[:, made.rows])


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of every file in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
