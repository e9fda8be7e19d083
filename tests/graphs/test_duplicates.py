import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.graphs.duplicates import duplicate_nodes, shared_neighbours
from adaptkry.graphs.graph import Graph


def duplicates_one_by_one(graph: Graph) -> int:
    """The number of duplicates, by comparing each node with all earlier ones."""
    earlier, duplicates = set(), 0
    for node in range(graph.nodes):
        neighbours = tuple(graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist())
        key = neighbours, None if graph.features is None else tuple(graph.x[node].tolist())
        duplicates += bool(neighbours) and key in earlier
        earlier.add(key)
    return duplicates


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["none", "dense", "sparse"]))
def test_duplicates_agree_with_a_count_one_by_one(seed, directed, kind):
    random = np.random.default_rng(seed)
    edges = random.integers(0, random.integers(2, 9), (2, random.integers(0, 20)))
    x = random.integers(0, 2, (12, 2)) * random.choice([-1.0, 1.0], (12, 2))  # zeros of both signs
    features = {"none": None, "dense": torch.from_numpy(x), "sparse": sp.csr_array(x)}[kind]
    graph = Graph(edges, features, nodes=12, directed=directed)
    assert duplicate_nodes(graph) == duplicates_one_by_one(graph)


def test_leaves_of_a_star_are_duplicates_only_with_the_same_features():
    star = [[0, 0, 0, 0], [1, 2, 3, 4]]
    assert duplicate_nodes(Graph(star)) == 3
    assert duplicate_nodes(Graph(star, torch.tensor([[9.0], [1], [1], [2], [2]]))) == 2
    assert duplicate_nodes(Graph(star, torch.arange(5.0)[:, None])) == 0


def test_isolated_nodes_are_not_duplicates():
    assert duplicate_nodes(Graph(np.empty((2, 0), int), torch.ones(3, 1))) == 0


def test_the_share_of_nodes_with_the_neighbours_of_another_node():
    assert shared_neighbours(Graph([[0, 0, 0, 0], [1, 2, 3, 4]])) == 0.8
    assert shared_neighbours(Graph([[0, 1, 2], [1, 2, 3]], nodes=10)) == 0  # isolated nodes have no neighbours
    assert shared_neighbours(Graph([[0, 1], [2, 2]], directed=True)) == 2 / 3
