"""Suggested settings: figures compared with dense formulas, and which settings win."""

import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models import suggest as module
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.models.suggest import explain, suggest
from adaptkry.training.data import GraphData

RANDOM = np.random.default_rng(0)
EDGES = RANDOM.integers(0, 50, (2, 120))
NORMAL = RANDOM.standard_normal((50, 4))


def with_features(x, sparse: bool = False) -> Graph:
    return Graph(EDGES, sp.csr_array(x) if sparse else torch.as_tensor(x), np.arange(50) % 2, nodes=50)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("x", "settings", "words"),
    [
        ((RANDOM.random((50, 80)) < 0.05) * 1.0, module.WORDS, "binary, "),
        ((RANDOM.random((50, 80)) < 0.05) * 3.0, module.WORDS, "counts, "),
        ((RANDOM.random((50, 80)) < 0.05) * 0.3, module.WORDS, "real numbers, "),
        ((RANDOM.random((50, 80)) < 0.05) * -1.0, module.OTHER_SCALES, "standardised"),
        ((RANDOM.random((50, 40)) < 0.5) * 1.0, module.SIMILAR_SCALES, "binary"),
        (np.eye(7)[np.arange(50) % 7], module.SIMILAR_SCALES, "binary"),
        (NORMAL, module.SIMILAR_SCALES, "standard deviations"),
        (NORMAL * [1, 1, 1, 100], module.OTHER_SCALES, "standardised"),
        (NORMAL * 1e-3, module.OTHER_SCALES, "standardised"),
        (np.ones((50, 2)) * 0.1, module.SIMILAR_SCALES, "1 to 1"),
    ],
    ids=["words", "counts", "tf-idf", "negative", "binary", "categories", "normal", "one-large", "small", "constant"],
)
def test_features_are_scaled_by_their_kind(x, settings, words, sparse):
    (reason,) = explain(with_features(x, sparse), "gcn")
    if sparse and settings == module.OTHER_SCALES:  # standardised columns would be dense
        settings, words = module.SIMILAR_SCALES, "sparse"
    assert reason.settings == settings
    assert words in reason.why


@pytest.mark.parametrize("weight", [1e-3, 1e3])
def test_edges_per_node_do_not_depend_on_the_weights_of_edges(weight):
    for make in (csbm, directed_csbm):
        graph = make(nodes=300, seed=0)
        edges = graph.adjacency.nonzero()
        weights = np.full(len(edges[0]), weight)
        weighted = Graph(edges, graph.x, graph.y, weights=weights, directed=graph.is_directed)
        assert module.by_columns(weighted) == module.by_columns(graph)


def test_numbers_as_targets_get_little_dropout_and_a_narrow_model():
    graph = csbm(nodes=1000, seed=0)
    edges, y = graph.adjacency.nonzero(), graph.x[:, 0]
    classes, labels, numbers = (
        suggest(graph),
        *(
            suggest(Graph(edges, graph.x, truth, task=task))
            for truth, task in (((y > 0).long()[:, None], "multilabel"), (y, "regression"))
        ),
    )
    assert (numbers.mlp_dropout, numbers.hidden, numbers.layers) == (0.1, 64, 3)
    wide = suggest(Graph(edges, torch.cat([graph.x] * 5, 1), y, task="regression"))
    for other in (classes, labels, wide):
        assert (other.mlp_dropout, other.hidden) == (module.GENERAL["mlp_dropout"], 256)


@pytest.mark.parametrize("sparse", [False, True])
def test_scales_are_the_standard_deviations_of_columns_that_are_not_constant(sparse):
    x = np.column_stack([NORMAL * [1, 2, 3, 100] + 5, np.ones(50)])
    std = x.std(0)[:4]
    (reason,) = explain(with_features(x, sparse), "gcn")
    assert f"{std.min():.2g} to {std.max():.2g}" in reason.why


def test_direction_is_used_unless_most_edges_exist_in_reverse():
    arcs = Graph([[0, 1, 2, 0], [1, 0, 3, 2]], torch.eye(4), [0, 1, 0, 1], directed=True)
    reason = module.by_direction(arcs)
    assert (reason.settings, "50 %" in reason.why) == (module.DIRECTED, True)
    both_ways = Graph([[0, 1, 2, 3], [1, 0, 3, 2]], torch.eye(4), [0, 1, 0, 1], directed=True)
    assert module.by_direction(both_ways).settings == module.UNDIRECTED
    assert module.by_direction(both_ways.undirected()).settings == module.UNDIRECTED


@pytest.mark.parametrize("phi", [0.9, -0.9])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_homophilous_graphs_whose_features_are_words_have_settings_of_their_own(phi, is_sparse):
    graph = csbm(nodes=300, phi=phi)
    words = torch.zeros(300, 80)
    words[torch.arange(300), torch.arange(300) % 80] = 1
    graph = Graph(
        torch.from_numpy(np.stack(graph.adjacency.nonzero())).long(), words if is_sparse else graph.x, graph.y
    )
    found = suggest(graph)
    expected = module.HOMOPHILOUS_WORDS if phi > 0 else module.GENERAL | module.OTHER_WORDS
    expected = expected if is_sparse else module.GENERAL | module.FEW_COLUMNS
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(("labels", "expected"), [(199, "OTHER_WORDS_FEW_LABELS"), (200, "OTHER_WORDS")])
def test_words_of_heterophilous_graphs_are_learned_with_larger_steps_from_few_labels(labels, expected):
    graph = csbm(nodes=300, phi=-0.9)
    words = torch.eye(80).repeat(4, 1)[:300]
    graph = Graph(torch.from_numpy(np.stack(graph.adjacency.nonzero())).long(), words, graph.y)
    train = torch.arange(300) < labels
    found, reasons = suggest(graph, train=train), explain(graph, train=train)
    assert {"mlp_lr": found.mlp_lr, "mlp_decay": found.mlp_decay} == getattr(module, expected)
    assert any("few labels" in one.why for one in reasons) == (labels == 199)
    unlinked = Graph([[0], [0]], words, graph.y)
    assert suggest(unlinked, train=train).mlp_lr == found.mlp_lr  # homophily is unknown


@pytest.mark.parametrize(("degree", "labels", "most"), [(16, 300, 300), (4, 300, 300), (16, 150, 300), (16, 300, 299)])
def test_words_of_heterophilous_graphs_with_many_edges_have_a_structure_layer(degree, labels, most, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINKED_NODES", most)
    graph = csbm(nodes=300, phi=-0.9, degree=degree)
    graph = Graph(
        torch.from_numpy(np.stack(graph.adjacency.nonzero())).long(), torch.eye(80).repeat(4, 1)[:300], graph.y
    )
    train = torch.arange(300) < labels
    found = suggest(graph, train=train)
    is_linked = (degree, labels, most) == (16, 300, 300)
    assert found.structure_layer == is_linked
    assert (found.mlp_dropout == 0.7) == is_linked
    assert any("weights are learned for each neighbour" in one.why for one in explain(graph, train=train)) == is_linked
    assert not suggest(graph, train=train, similar_nodes=4).structure_layer
    assert not suggest(graph, train=train, layers=1).structure_layer


@pytest.mark.parametrize(("columns", "degree"), [(8, 20), (8, 4), (100, 20)])
def test_few_columns_have_a_layer_per_hop_and_structure_columns_if_degrees_are_high(columns, degree):
    found = suggest(csbm(nodes=300, features=columns, degree=degree))
    assert found.combine_hops == ("concat" if columns == 8 else "sum")
    assert found.structure == (64 if columns == 8 and degree == 20 else 0)


def test_homophily_is_unknown_without_labelled_edges():
    graph = Graph([[0], [1]], torch.eye(3), [0, -1, 1])
    (reason,) = module.by_homophily(graph, False)
    assert ("unknown" in reason.why, reason.settings) == (True, {})


def test_the_number_of_training_labels_decides_the_size_of_the_model():
    graph = csbm(nodes=1000)
    few = torch.arange(1000) < module.MIN_LABELS - 1
    assert suggest(graph).hidden == module.MANY_LABELS["hidden"]
    assert suggest(graph, train=few).hidden == module.FEW_LABELS["hidden"]
    assert suggest(graph, train=torch.arange(1000) < module.MIN_LABELS).hidden == module.MANY_LABELS["hidden"]
    sizes = torch.bincount(graph.y[few])
    found = f"199 training labels ({sizes.min()} to {sizes.max()} per class)"
    assert found in explain(graph, train=few)[2].why


@pytest.mark.parametrize("method", ["adaptkry", "gcn"])
def test_very_many_columns_are_reduced_unless_the_user_or_published_settings_decide(method):
    wide = with_features(sp.random_array((50, module.MAX_WIDTH + 1), density=0.001, rng=RANDOM), sparse=True)
    data = GraphData(wide)
    assert suggest(wide, method).reduce == 50  # no more than nodes
    assert suggest(wide, method, reduce="auto").reduce == data.recipe(method, reduce="auto").reduce == 50
    assert suggest(wide, method, reduce="none").reduce == data.recipe(method, reduce="none").reduce == 0
    assert suggest(wide, method, reduce=7).reduce == 7
    assert suggest(with_features(wide.features[:, 1:], sparse=True), method).reduce == 0
    wide.info = replace(wide.info, known_as="citeseer")
    published = GraphData(wide)
    assert published.recipe(method).reduce == published.recipe(method, reduce="auto").reduce == 0


@pytest.mark.parametrize(("method", "terms"), [("adaptkry", 10), ("gcn", 1)])
def test_features_are_reduced_if_their_terms_would_not_fit_in_memory(monkeypatch, method, terms):
    graph = csbm(nodes=300, features=400)
    needed = 4 * 300 * 400 * terms
    for limit, reduced in ((needed / module.BASIS_SHARE + 1, 0), (needed / module.BASIS_SHARE - 1, module.REDUCED)):
        monkeypatch.setattr(module, "machine_bytes", lambda limit=limit: limit)
        assert suggest(graph, method).reduce == reduced
    assert suggest(csbm(nodes=300, features=256), method).reduce == 0  # not wider
    assert "would not fit" in explain(graph, method)[-1].why


def test_terms_that_need_too_much_memory_are_those_of_the_mean_of_taus(monkeypatch):
    graph = csbm(nodes=100, features=16)
    needed = 4 * 100 * 16 * 10  # two taus with five terms each
    assert suggest(graph).term_count == 10
    monkeypatch.setattr(module, "MAX_TERMS", needed)
    assert suggest(graph).term_count == 10
    monkeypatch.setattr(module, "MAX_TERMS", needed - 1)
    assert suggest(graph).term_count == 5


def test_labels_of_validation_and_test_nodes_change_no_suggestion():
    graph = csbm(nodes=300, phi=0.9)
    train = splits.stratified(graph.y, 1).train[0]
    other = graph.relabelled(torch.where(train, graph.y, 1 - graph.y))
    assert explain(graph, train=train) == explain(other, train=train)
    assert explain(graph) != explain(other)


@pytest.mark.parametrize("method", METHODS)
def test_other_methods_keep_their_settings_except_the_scaling_of_features(method):
    graph = directed_csbm(nodes=100)
    found, own = suggest(graph, method), recipe(method)
    if method != "adaptkry":
        assert found == replace(own, **module.OTHER_SCALES)
    assert suggest(Graph(EDGES, labels=np.arange(50) % 2, nodes=50), method).method == method  # without features


def test_given_settings_replace_suggested_ones():
    graph = csbm(nodes=400)
    found = suggest(graph, hidden=7, degree=None, layer_norm=True, normalise=True)
    assert (found.hidden, found.degree) == (7, 4)
    assert (found.layer_norm, found.batch_norm) == (True, False)  # a model has one of them
    assert (found.normalise, found.standardise) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"graph": "corra"}, ValueError, "Did you mean 'cora'"),
        ({"method": "adaptcry"}, ValueError, "Did you mean 'adaptkry'"),
        (
            {"train": torch.ones(3, dtype=torch.bool)},
            ValueError,
            r"bool mask \[50\] of the nodes; got torch.bool \[3\]",
        ),
        ({"train": torch.arange(50)}, ValueError, "got torch.int64"),
        ({"hiden": 3}, ValueError, "Did you mean 'hidden'"),
    ],
    ids=["name", "method", "size", "numbers", "setting"],
)
def test_invalid_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        suggest(**{"graph": with_features(NORMAL), **arguments})


@pytest.mark.parametrize("method", ["adaptkry", "gcn"])
def test_published_settings_win_and_a_file_is_not_known_by_its_name(method):
    graph = csbm(nodes=100)
    graph.info = Info("squirrel", known_as="squirrel")
    assert GraphData(graph).recipe(method) == recipe(method, "squirrel")
    graph.info = Info("squirrel")
    assert GraphData(graph).recipe(method) == suggest(graph, method)
    assert GraphData(csbm(nodes=100)).recipe(method) == suggest(graph, method)


def test_sparse_features_of_a_large_graph_are_never_made_dense(monkeypatch):
    n = 20_000
    x = sp.random_array((n, 4700), density=0.005, format="csr", rng=0, dtype=np.float32)
    edges = np.random.default_rng(0).integers(0, n, (2, 100_000))
    graph = Graph(edges, x, np.arange(n) % 5, directed=True)

    def refuse(*_args, **_options):
        raise AssertionError("dense")

    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    monkeypatch.setattr(sp.csr_array, "todense", refuse)
    start = time.process_time()
    reasons = explain(graph)
    assert time.process_time() - start < 2  # about 0.05 s
    assert module.WORDS in [reason.settings for reason in reasons]
