"""Helpers for tests of bases on disk: small graphs, the same terms in memory, and the files of a folder."""

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


def small_graph(seed=0, n=60, m=150, d=5, **options) -> Graph:
    """A graph with isolated nodes, self-loops, unknown labels and float32 features."""
    graph = random_graph(seed, n, m, features=d, **options)
    graph.features = graph.features.float()
    return graph


def terms_in_memory(graph, taus, directions, degree) -> Tensor:
    """The terms as [T, n, d], ordered by direction, tau and hop, computed in memory."""
    parts = [
        stack(krylov(Propagation(graph, tau, direction), graph.x, degree)).transpose(0, 1)
        for direction in directions
        for tau in taus
    ]
    return torch.cat(parts)


def assert_same_bits_as_in_memory(basis: BasisFolder, graph: Graph) -> None:
    """Assert that the stored rows of every term have the same bits as those computed in memory."""
    expected = terms_in_memory(graph, basis.taus, basis.directions, basis.degree)
    assert_same_bits(basis.slab(0, basis.count), expected[:, basis.rows])


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of every file in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
