"""GCN, GraphSAGE and GAT are compared with PyG's layers, undirected and directed, at any depth."""

import pytest
import torch
from torch.nn.functional import gelu
from torch.testing import assert_close
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched
from adaptkry.models.dropout import DropoutState
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.models.stages import (
    AllTerms,
    Bias,
    Dropout,
    Linear,
    ModelShape,
    Propagate,
    ReLU,
    SelectRows,
    initial_statistics,
)
from adaptkry.training.fit import fit
from contracts import check_members_are_independent

N, D, C, B, HEADS = 30, 5, 3, 2, 2


def directed_graph() -> Graph:
    """Return a directed graph with self-loops, isolated nodes, and nodes with edges in one direction only."""
    generator = torch.Generator().manual_seed(1)
    edges = torch.randint(0, N - 3, (2, 70), generator=generator)
    return Graph(edges, torch.rand(N, D, generator=generator).double(), torch.arange(N) % C, directed=True)


def heard_edges(graph: Graph, direction: str) -> torch.Tensor:
    """Return PyG's edge_index, (node heard, node that hears): with "out", a node hears the nodes it points to."""
    rows, columns = graph.adjacency.nonzero()
    pairs = torch.stack([torch.from_numpy(columns), torch.from_numpy(rows)]).long()
    both = torch.cat([pairs, pairs.flip(0)], 1).unique(dim=1)
    return {"out": pairs, "in": pairs.flip(0), "both": both}[direction]


class InitialNetwork:
    """A method with initial weights in float64, and its logits at all nodes."""

    def __init__(self, method: str, graph: Graph, **settings):
        self.recipe: Recipe = recipe(method, hidden=6, heads=HEADS, normalise=False, **settings)
        self.inputs = model_inputs(graph, self.recipe)
        self.shape = ModelShape(self.recipe, len(self.inputs.terms), D, C)
        weights = batched.initial_weights(self.shape, [(seed, self.recipe) for seed in range(B)])
        self.weights = {name: w.double() for name, w in weights.items()}

        self.statistics = {name: s.double() for name, s in initial_statistics(self.shape, B).items()}

    def logits(self, dropout: DropoutState | None = None) -> torch.Tensor:
        rows = torch.arange(N).expand(B, -1)
        row_mask = torch.zeros(B, N, 1, dtype=torch.float64)  # norms are over all nodes, whatever the rows of a member
        data = (self.inputs.terms.double(), rows, row_mask, self.inputs.operator, dropout)
        return batched.logits(self.shape, self.weights, self.statistics, *data)

    def weight(self, name: str, member: int) -> torch.Tensor:
        return self.weights[f"mlp/2/{name}"][member]

    def pyg_layer(self, kind: str, layer: int, member: int) -> torch.nn.Module:
        """Return PyG's layer with the weights of one member."""
        weight, bias = self.weight(f"weight{layer}", member), self.weight(f"bias{layer}", member)[0]
        inputs, is_last = len(weight), layer == self.recipe.layers - 1 and not self.recipe.residual
        if kind == "gcn":
            conv = GCNConv(inputs, len(bias))
            conv.lin.weight.data = weight.T
        elif kind == "sage":
            conv = SAGEConv(inputs, len(bias))
            conv.lin_l.weight.data, conv.lin_l.bias.data = weight.T, bias
            conv.lin_r.weight.data = self.weight(f"self{layer}", member).T
            return conv
        else:
            conv = GATConv(inputs, weight.shape[1] // HEADS, heads=HEADS, concat=not is_last)
            conv.lin.weight.data = weight.T  # type: ignore[union-attr]
            attention = self.weight(f"attention{layer}", member)  # [heads, f, 2]
            conv.att_src.data, conv.att_dst.data = attention[None, :, :, 0], attention[None, :, :, 1]
        conv.bias.data = bias
        return conv

    def linear(self, name: str, member: int) -> torch.nn.Linear:
        """Return a dense layer with the weights of one member."""
        weight = self.weight(f"{name}_weight", member)
        layer = torch.nn.Linear(*weight.shape)  # type: ignore[arg-type]
        layer.weight.data, layer.bias.data = weight.T, self.weight(f"{name}_bias", member)[0]
        return layer


CASES = [(kind, direction) for kind in ("sage", "gat") for direction in ("both", "out", "in")] + [("gcn", "undirected")]


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize(("kind", "direction"), CASES)
def test_networks_equal_pyg(kind, direction, layers):
    graph = directed_graph()
    if (
        direction == "undirected"
    ):  # PyG scales both sides by the degrees of rows, which is GCN on undirected graphs only
        graph, direction = graph.undirected(), "both"
    network = InitialNetwork(kind, graph, directions=(direction,), layers=layers)
    found, edges = network.logits(), heard_edges(graph, direction)
    activation = torch.nn.functional.elu if kind == "gat" else torch.relu
    for member in range(B):
        z = graph.x
        for layer in range(layers):
            z = network.pyg_layer(kind, layer, member)(z, edges)
            z = activation(z) if layer < layers - 1 else z
        assert_close(found[member], z, rtol=0, atol=1e-10)


def without_dropout() -> DropoutState:
    """Return the state of training without dropout."""
    generators = [torch.Generator() for _ in range(B)]
    rates = {"mlp_dropout": [0.0] * B, "input_dropout": [0.0] * B, "filter_dropout": [0.0] * B}
    return DropoutState(generators, rates, [N] * B)


NORMS = {"layer_norm": torch.nn.LayerNorm, "batch_norm": torch.nn.BatchNorm1d}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_residual_networks_equal_layers_of_torch_and_pyg(kind, norm):
    graph = directed_graph().undirected()
    network = InitialNetwork(kind, graph, layers=3, residual=True, batch_norm=norm == "batch_norm")
    norms = [[NORMS[norm](6).double() for _ in range(4)] for _ in range(B)]
    edges = heard_edges(graph, "out")

    def expected(member: int) -> torch.Tensor:
        z = gelu(network.linear("input", member)(graph.x))
        for layer in range(3):
            convolution = network.pyg_layer(kind, layer, member)
            hidden = gelu(convolution(norms[member][layer](z), edges))
            z = z + network.linear(f"block{layer}", member)(hidden)
        return network.linear("output", member)(norms[member][3](z))

    for member, found in enumerate(network.logits(without_dropout())):
        assert_close(found, expected(member), rtol=0, atol=1e-10)
    for member, found in enumerate(network.logits()):
        for layer in norms[member]:
            layer.eval()
        assert_close(found, expected(member), rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_norms_between_layers_equal_those_of_torch(kind, norm):
    graph = directed_graph().undirected()
    network = InitialNetwork(kind, graph, layers=3, **{norm: True})
    found, edges = network.logits(without_dropout()), heard_edges(graph, "out")
    activation = torch.nn.functional.elu if kind == "gat" else torch.relu
    for member in range(B):
        z = graph.x
        for layer in range(2):
            z = activation(NORMS[norm](6).double()(network.pyg_layer(kind, layer, member)(z, edges)))
        assert_close(found[member], network.pyg_layer(kind, 2, member)(z, edges), rtol=0, atol=1e-10)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_self_weights_add_a_dense_layer_of_the_node(kind, residual):
    graph = directed_graph().undirected()
    network = InitialNetwork(kind, graph, layers=1, self_weights=True, residual=residual)
    without = InitialNetwork(kind, graph, layers=1, self_weights=True, residual=residual)
    without.weights["mlp/2/self0"] = torch.zeros_like(network.weights["mlp/2/self0"])
    if not residual:
        assert_close(network.logits() - without.logits(), graph.x @ network.weights["mlp/2/self0"])
    plain = InitialNetwork(kind, graph, layers=1, residual=residual)
    plain.weights = {name: without.weights[name] for name in plain.weights}
    assert_close(without.logits(), plain.logits())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_a_residual_member_trained_separately_equals_the_same_member_in_a_batch(kind, norm):
    graph = csbm(nodes=60, phi=-0.5, features=4, classes=3, seed=0)
    used = recipe(kind, hidden=8, epochs=8, layers=2, residual=True, batch_norm=norm == "batch_norm")
    check_members_are_independent(graph, used)


def test_residual_sage_learns_a_heterophilous_graph():
    graph = csbm(nodes=300, phi=-0.9, information=2.5, seed=0)
    settings = {"residual": True, "layers": 3, "hidden": 16, "mlp_lr": 3e-3, "mlp_dropout": 0.2, "epochs": 60}
    run = fit(graph, "sage", splits.stratified(graph.y, count=2), device="cpu", **settings)
    assert run.test_scores.mean() > 0.9


def test_gcn_with_two_layers_has_the_bits_of_its_separate_stages():
    graph = csbm(nodes=80, features=6, classes=3, seed=0)
    separate = (
        AllTerms(), Linear("hidden", bias=False, init="glorot"), Bias(), ReLU(), Dropout("mlp"),
        Linear("classes", bias=False, init="glorot"), Propagate(), Bias(), SelectRows(),
    )  # fmt: skip
    one, several = (
        fit(graph, recipe("gcn", epochs=15, **stages), splits.stratified(graph.y, count=2), device="cpu")  # type: ignore[arg-type]
        for stages in ({}, {"stages": separate})
    )
    assert torch.equal(one.member_probabilities(graph), several.member_probabilities(graph))
    assert [row.test for row in one.results] == [row.test for row in several.results]


def test_attention_is_dropped_for_every_edge_and_during_training_only():
    graph = csbm(nodes=60, features=4, seed=0)
    split = splits.stratified(graph.y, count=2)
    dropped, again, kept = (
        fit(graph, recipe("gat", epochs=4, input_dropout=0, mlp_dropout=0, filter_dropout=rate), split, device="cpu")
        for rate in (0.9, 0.9, 0.0)
    )
    found = dropped.member_probabilities(graph)
    assert torch.equal(found, dropped.member_probabilities(graph))
    assert torch.equal(found, again.member_probabilities(graph))
    assert not torch.allclose(found, kept.member_probabilities(graph), atol=1e-4)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("adaptkry", {"residual": True}, "residual is for methods with graph convolutions, such as gcn; got adaptkry"),
        ("mlp", {"self_weights": True}, "self_weights is for methods with graph convolutions, such as gcn; got mlp"),
        ("sage", {"self_weights": True}, "self_weights is for gcn and gat, since sage always has them; got sage"),
        ("sage", {"residual": True, "layer_norm": True, "batch_norm": True}, "one of batch_norm and layer_norm"),
    ],
)
def test_settings_without_effect_are_refused(method, settings, message):
    with pytest.raises(ValueError, match=message):
        recipe(method, **settings)


def test_hidden_must_be_a_multiple_of_heads():
    with pytest.raises(ValueError, match=r"hidden must be a multiple of heads; got hidden 20 and heads 8. .*hidden 24"):
        recipe("gat", hidden=20)
