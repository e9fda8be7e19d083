import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_geometric.utils import homophily as pyg_homophily

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import MEASURES, homophily
from strategies import graphs, random_graph


def labelled_ends(graph: Graph) -> list[tuple[int, int]]:
    """Entries (i, j) of A whose two ends are both labelled."""
    pairs = zip(*(ends.tolist() for ends in graph.adjacency.nonzero()), strict=True)
    y = graph.y.tolist()
    return [(i, j) for i, j in pairs if y[i] >= 0 and y[j] >= 0]


def mean(values) -> float:
    return sum(values) / max(len(values), 1)


def brute(graph: Graph) -> dict[str, float]:
    """The five measures by their definitions, with plain loops."""
    y, ends = graph.y.tolist(), labelled_ends(graph)
    agree = [y[i] == y[j] for i, j in ends]
    of_node = [[y[i] == y[j] for i, j in ends if i == k] for k in range(graph.nodes)]
    known = [label for label in y if label >= 0]
    of_class = [[y[i] == y[j] for i, j in ends if y[i] == k] for k in range(max(known) + 1)]
    excess = [mean(agreement) - known.count(k) / len(known) for k, agreement in enumerate(of_class)]
    p = [len(agreement) / len(ends) for agreement in of_class]  # classes of sources
    q = [mean([y[j] == k for _, j in ends]) for k in range(len(p))]  # classes of targets
    chance = sum(a * b for a, b in zip(p, q, strict=True))
    pairs = [(y[i], y[j]) for i, j in ends]
    joint = {pair: mean([other == pair for other in pairs]) for pair in set(pairs)}
    return {
        "edge": mean(agree),
        "node": mean([mean(agreement) for agreement in of_node if agreement]),
        "class_insensitive": sum(max(0, value) for value in excess) / (len(p) - 1),
        "adjusted": (mean(agree) - chance) / (1 - chance),
        "label_informativeness": sum(share * math.log(share / (p[a] * q[b])) for (a, b), share in joint.items())
        / -sum(share * math.log(share) for share in p if share),
    }


@given(graphs(min_nodes=4))
def test_all_five_measures_equal_their_definitions(graph):
    assume(len({int(graph.y[i]) for i, _ in labelled_ends(graph)}) > 1)
    assert homophily(graph) == pytest.approx(brute(graph), abs=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("edge", "edge"), ("node", "node"), ("class_insensitive", "edge_insensitive")]
)
@given(seed=st.integers(0, 999), directed=st.booleans())
def test_measures_equal_those_of_pyg(ours, theirs, seed, directed):
    random = random_graph(seed, connected=True, directed=directed)  # PyG counts a node without neighbours as 0
    graph = Graph.from_scipy(random.adjacency, labels=random.y.clamp(min=0), directed=directed)
    # PyG looks at the sources of each target; ours at the targets of each source.
    sources, targets = (torch.from_numpy(ends).long() for ends in graph.adjacency.nonzero())
    expected = pyg_homophily(torch.stack([targets, sources]), graph.y, method=theirs)
    assert MEASURES[ours](graph) == pytest.approx(expected, abs=1e-6)  # theirs is float32


@pytest.mark.parametrize(
    ("theirs", "labels", "expected"),
    [
        pytest.param(nx.caveman_graph(2, 4), [0] * 4 + [1] * 4, [1, 1, 1, 1, 1], id="two cliques, one class each"),
        pytest.param(nx.complete_bipartite_graph(3, 5), [0] * 3 + [1] * 5, [0, 0, 0, -1, 1], id="bipartite"),
        pytest.param(nx.from_numpy_array(np.ones((6, 6))), [0, 0, 1, 1, 2, 2], [1 / 3, 1 / 3, 0, 0, 0], id="complete"),
    ],
)
def test_known_graphs_have_their_known_values(theirs, labels, expected):
    graph = Graph.from_networkx(theirs, labels=labels)
    assert list(homophily(graph).values()) == pytest.approx(expected, abs=1e-12)


def test_unknown_labels_and_weights_do_not_count():
    plain = Graph([[0, 1, 2, 3], [1, 2, 3, 3]], labels=[0, 0, 1, 1])
    with_unknown = Graph([[0, 1, 2, 3, 0, 1, 4], [1, 2, 3, 3, 4, 4, 5]], labels=[0, 0, 1, 1, -1, -1])
    weighted = Graph([[0, 1, 2, 3], [1, 2, 3, 3]], labels=[0, 0, 1, 1], weights=[9, 1, 5, 0.5])
    assert homophily(with_unknown) == homophily(weighted) == homophily(plain)


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("graph", [Graph([[0, 1], [1, 2]], labels=[0, -1, 1]), Graph([], labels=[0, 1])])
def test_a_graph_without_edges_between_labelled_nodes_is_refused(name, graph):
    with pytest.raises(ValueError, match=f"none of {graph.entries} entries has both ends labelled"):
        MEASURES[name](graph)


def test_one_class_has_edge_and_node_homophily_only():
    graph = Graph([[0, 1], [1, 2]], labels=[0, 0, 0])
    assert MEASURES["edge"](graph) == MEASURES["node"](graph) == 1
    with pytest.raises(ValueError, match=r"needs at least 2 classes; got 1\.( |$)"):
        MEASURES["class_insensitive"](graph)
    for name in ("adjusted", "label_informativeness"):
        with pytest.raises(ValueError, match="at least 2 classes; all edges are of one class"):
            MEASURES[name](graph)
