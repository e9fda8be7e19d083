import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.report import inspection


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
    assert inspection.duplicate_nodes(graph) == duplicates_one_by_one(graph)


def test_leaves_of_a_star_are_duplicates_only_with_the_same_features():
    star = [[0, 0, 0, 0], [1, 2, 3, 4]]
    assert inspection.duplicate_nodes(Graph(star)) == 3
    assert inspection.duplicate_nodes(Graph(star, torch.tensor([[9.0], [1], [1], [2], [2]]))) == 2
    assert inspection.duplicate_nodes(Graph(star, torch.arange(5.0)[:, None])) == 0


def test_isolated_nodes_are_not_duplicates():
    assert inspection.duplicate_nodes(Graph(np.empty((2, 0), int), torch.ones(3, 1))) == 0


@pytest.mark.parametrize("labels", [None, [0, 1] * 10])
def test_an_inspection_has_facts_density_and_warnings(labels):
    found = inspection.inspect_graph(Graph(np.stack([np.arange(19), np.arange(1, 20)]), torch.ones(20, 2), labels))
    assert found["facts"]["nodes"] == 20
    assert ("homophily, edge" in found["facts"]) == (labels is not None)
    assert np.isclose(found["density"]["mass"].sum(), 1, atol=0.05)
    assert found["suggested"][2]["settings"]["hidden"] == 64
    assert ("12 training labels" if labels else "0 training labels") in found["suggested"][2]["why"]
    assert found["published"] is False
    assert any("fewer than 10" in text for text in inspection.inspect_graph(csbm(nodes=12))["warnings"])
