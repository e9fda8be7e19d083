"""GCN, GraphSAGE and GAT are compared with PyG's layers, undirected and directed, at any depth."""

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched
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
)
from adaptkry.training.fit import fit

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

    def logits(self) -> torch.Tensor:
        rows = torch.arange(N).expand(B, -1)
        row_mask = torch.ones(B, N, 1, dtype=torch.float64)
        terms = self.inputs.terms.double()
        return batched.logits(self.shape, self.weights, {}, terms, rows, row_mask, self.inputs.operator)

    def weight(self, name: str, member: int) -> torch.Tensor:
        return self.weights[f"mlp/2/{name}"][member]

    def pyg_layer(self, kind: str, layer: int, member: int) -> torch.nn.Module:
        """Return PyG's layer with the weights of one member."""
        weight, bias = self.weight(f"weight{layer}", member), self.weight(f"bias{layer}", member)[0]
        inputs, is_last = len(weight), layer == self.recipe.layers - 1
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
            conv.lin.weight.data = weight.T
            attention = self.weight(f"attention{layer}", member)  # [heads, f, 2]
            conv.att_src.data, conv.att_dst.data = attention[None, :, :, 0], attention[None, :, :, 1]
        conv.bias.data = bias
        return conv


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


def test_gcn_with_two_layers_has_the_bits_of_its_separate_stages():
    graph = csbm(nodes=80, features=6, classes=3, seed=0)
    separate = (
        AllTerms(), Linear("hidden", bias=False, init="glorot"), Bias(), ReLU(), Dropout("mlp"),
        Linear("classes", bias=False, init="glorot"), Propagate(), Bias(), SelectRows(),
    )  # fmt: skip
    one, several = (
        fit(graph, recipe("gcn", epochs=15, **stages), splits.stratified(graph.y, count=2), device="cpu")
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


def test_hidden_must_be_a_multiple_of_heads():
    with pytest.raises(ValueError, match=r"hidden must be a multiple of heads; got hidden 20 and heads 8. .*hidden 24"):
        recipe("gat", hidden=20)
