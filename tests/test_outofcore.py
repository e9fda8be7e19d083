import numpy as np
import pytest
import torch

from adaptkry.bases import krylov, stack
from adaptkry.operators import Propagation
from adaptkry.outofcore import BasisFolder, GraphFolder, propagate, write_graph
from contracts import assert_same_bits
from strategies import random_graph


def small(seed=0, n=60, m=150, d=5, **options):
    graph = random_graph(seed, n, m, features=d, **options)
    graph.features = graph.features.float()
    return graph


def in_memory(graph, taus, directions, degree):
    """What training's terms hold: directions, taus, hops; [T, n, d]."""
    parts = [
        stack(krylov(Propagation(graph, tau, direction), graph.x, degree)).transpose(0, 1)
        for direction in directions
        for tau in taus
    ]
    return torch.cat(parts)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("columns", [1, 3, None])
def test_basis_on_disk_is_the_one_in_memory_to_the_bit(tmp_path, weighted, columns):
    graph = small(weighted=weighted)
    assert graph.isolated().any()
    made = propagate(graph, tmp_path / "b", taus=[0.5, 1.0, 1.4], degree=4, columns=columns)
    slab = made.slab(0, made.count)
    assert_same_bits(slab, in_memory(graph, made.taus, made.directions, 4)[:, made.rows])
    assert sorted(made.rows.tolist()) == list(range(60))
    assert_same_bits(made.labels, graph.y[made.rows])
    assert_same_bits(made.slab(7, 13), slab[:, 7:13])
