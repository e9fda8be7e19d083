import copy
import io
from typing import Any

import pytest
import torch
from torch_geometric import typing as pyg_typing
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GCNConv, Sequential, SGConv
from torch_geometric.transforms import ToSparseTensor
from torch_geometric.utils import is_sparse, to_torch_coo_tensor, to_torch_csr_tensor

from adaptkry.graphs.graph import Graph
from adaptkry.integrations.pyg import KrylovBasis, KrylovConv
from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.propagation_matrix import Propagation
from strategies import random_graph

# Torch says that sparse matrices are new whenever PyG makes one.
SPARSE = pytest.mark.filterwarnings("ignore:Sparse")


def data():
    """A graph without self-loops: layers of PyG do not add a loop where there is one, the paper does."""
    graph = random_graph(0, 30, 80, directed=False, weighted=False).without_self_loops()
    matrix = graph.adjacency.tocoo()
    edges = torch.stack([torch.from_numpy(matrix.row), torch.from_numpy(matrix.col)]).long()
    return graph, Data(x=graph.x.float(), edge_index=edges, num_nodes=30)


def data_in_double():
    graph, pyg_data = data()
    assert pyg_data.x is not None
    return graph, pyg_data.x.double(), pyg_data.edge_index


def directed(loops: bool = True):
    """Edges with weights, self-loops, nodes without edges, and nodes with edges in one direction only."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 28, (2, 60), generator=generator).unique(dim=1)
    edges = edges if loops else edges[:, edges[0] != edges[1]]
    assert bool((edges[0] == edges[1]).any()) == loops
    weights = 1 + torch.rand(edges.shape[1], generator=generator, dtype=torch.float64)
    return torch.randn(30, 5, generator=generator, dtype=torch.float64), edges, weights


def test_the_transform_adds_the_basis_to_data():
    graph, pyg_data = data()
    found = KrylovBasis(taus=(0.8,), degree=4)(pyg_data).basis
    torch.testing.assert_close(found, stack(krylov(Propagation(graph, 0.8), graph.x.float(), 4)))


def test_the_transform_reads_the_direction_of_edges_from_their_list_alone():
    x, edges, weights = directed()
    for direction in ("out", "in"):
        P = Propagation(Graph(edges, nodes=30, weights=weights, directed=True), 0.8, direction)  # type: ignore[arg-type]
        pyg_data = Data(x=x, edge_index=edges, edge_weight=weights, edge_attr=torch.rand(edges.shape[1], 3))
        found = KrylovBasis(0.8, 3, direction)(pyg_data).basis
        torch.testing.assert_close(found, stack(krylov(P, x, 3)))


@SPARSE
@pytest.mark.parametrize("layout", [None, torch.sparse_coo])
def test_the_transform_reads_a_sparse_matrix(layout: Any):
    _, pyg_data = data()
    expected = KrylovBasis(0.8, 3)(copy.copy(pyg_data)).basis
    sparse = ToSparseTensor(layout=layout)(copy.copy(pyg_data))
    assert sparse.edge_index is None
    torch.testing.assert_close(KrylovBasis(0.8, 3)(sparse).basis, expected)


def test_the_transform_takes_sparse_features():
    x, edges = torch.eye(5), torch.tensor([[0, 1], [1, 2]])
    found, expected = (KrylovBasis(0.5, 2)(Data(x=part, edge_index=edges)).basis for part in (x.to_sparse(), x))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("tau", [0.5, 1.0, 1.4])
@pytest.mark.parametrize("per_channel", [False, True])
def test_the_layer_is_the_polynomial_of_the_dense_matrix(tau, per_channel):
    x, edges, weights = directed()
    layer = KrylovConv(5, 4, degree=3, tau=tau, per_channel=per_channel).double()
    torch.nn.init.normal_(layer.filter.theta)
    torch.nn.init.normal_(layer.bias)  # type: ignore[arg-type]
    graph = Graph(edges, nodes=30, weights=weights, directed=True)
    P = Propagation(graph, tau, "in").to_dense()
    powers = torch.stack([torch.linalg.matrix_power(P, k) for k in range(4)])
    w = layer.filter.theta if per_channel else layer.filter.theta.expand(4, -1)
    expected = torch.einsum("dk,kij,jd->id", w, powers, x @ layer.lin.weight.T) + layer.bias  # type: ignore[operator]
    torch.testing.assert_close(layer(x, edges, weights), expected)


def test_edges_are_used_as_given_and_repeated_ones_are_added():
    x, edges, weights = directed()
    layer = KrylovConv(5, 2, degree=2, tau=0.8).double()
    repeated = layer(x, torch.cat([edges, edges], 1), torch.cat([weights, weights]) / 2)
    torch.testing.assert_close(repeated, layer(x, edges, weights))
    assert not torch.allclose(layer(x, edges.flip(0), weights), repeated)


@pytest.mark.parametrize("loops", [False, True])
def test_gradients_of_signal_edge_weights_hop_weights_and_tau_equal_finite_differences(loops):
    x, edges, weights = directed(loops)
    layer = KrylovConv(5, 2, degree=3, tau=0.7, learn_tau=True).double()
    given = [t.clone().requires_grad_() for t in (x, weights, *layer.parameters())]
    names = [name for name, _ in layer.named_parameters()]
    assert {"log_tau", "filter.theta", "lin.weight", "bias"} == set(names)

    def output(x, weights, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, edges, weights))

    assert torch.autograd.gradcheck(output, given)


def value(tau) -> float:
    return float(tau.detach())


def test_tau_stays_positive_however_large_a_step_is():
    x, edges, weights = directed()
    layer = KrylovConv(5, 2, degree=3, tau=0.7, learn_tau=True).double()
    loss = layer(x, edges, weights).square().sum()
    (gradient,) = torch.autograd.grad(loss, layer.log_tau)  # type: ignore[arg-type]
    assert gradient != 0
    with torch.no_grad():
        layer.log_tau -= 10 * gradient.sign()  # type: ignore[operator]
    assert value(layer.tau) == pytest.approx(0.7 * float(torch.exp(-10 * gradient.sign())))
    assert KrylovConv(5, 2).log_tau is None
    assert KrylovConv(5, 2, tau=0.7).tau == 0.7


def same_weights(layer: KrylovConv, other) -> KrylovConv:
    """The layer with the dense layer and the bias of a layer of PyG."""
    with torch.no_grad():
        layer.lin.weight.copy_(other.lin.weight)
        layer.bias.copy_(other.bias if getattr(other, "bias", None) is not None else other.lin.bias)  # type: ignore
    return layer


@pytest.mark.parametrize(("tau", "add_self_loops"), [(0.5, True), (1.0, False)])
def test_one_hop_is_gcn_and_hop_k_is_sgc(tau, add_self_loops):
    graph, x, edges = data_in_double()
    connected = graph.degree() > 0  # at tau 1 PyG gives other nodes the value 0, and this layer their signal
    assert connected.sum() > 20
    d = x.shape[1]
    gcn = GCNConv(d, 3, add_self_loops=add_self_loops).double()
    torch.nn.init.normal_(gcn.bias)
    one_hop = same_weights(KrylovConv(d, 3, 1, tau, initial_weights="spike", alpha=1).double(), gcn)
    torch.testing.assert_close(one_hop(x, edges)[connected], gcn(x, edges)[connected])
    sgc = SGConv(d, 3, K=4, add_self_loops=add_self_loops).double()
    four = same_weights(KrylovConv(d, 3, 4, tau, initial_weights="spike", alpha=4).double(), sgc)
    torch.testing.assert_close(four(x, edges)[connected], sgc(x, edges)[connected])


def test_personalised_pagerank_weights_are_appnp():
    _, x, edges = data_in_double()
    layer = KrylovConv(x.shape[1], 3, 6, 0.5, initial_weights="ppr", alpha=0.2, bias=False).double()
    expected = APPNP(K=6, alpha=0.2)(layer.lin(x), edges)
    torch.testing.assert_close(layer(x, edges), expected, rtol=1e-6, atol=1e-7)  # initial weights are float32


class SparseTensor(pyg_typing.SparseTensor):
    """The documented part of torch_sparse's class, which is not installed: row, column and value of each entry."""

    def __init__(self, row, col, value, size):
        self.parts, self.sizes = (row, col, value), size

    def coo(self):
        return self.parts

    def size(self, axis: int) -> int:  # type: ignore[override]
        return self.sizes[axis]


@SPARSE
def test_sparse_matrices_give_the_output_of_their_edges_and_gradients_of_their_values():
    x, edges, weights = directed()
    layer = KrylovConv(5, 2, degree=3, tau=0.8).double()
    leaf = weights.clone().requires_grad_()
    expected = layer(x, edges, leaf)
    (gradient,) = torch.autograd.grad(expected.square().sum(), leaf)
    for make in (to_torch_csr_tensor, to_torch_coo_tensor):
        leaf = weights.clone().requires_grad_()
        found = layer(x, make(edges.flip(0), leaf, size=(30, 30)))
        torch.testing.assert_close(found, expected)
        found.square().sum().backward()
        torch.testing.assert_close(leaf.grad, gradient)
    layouts: list[Any] = [None, torch.sparse_coo]
    for layout in layouts:
        converted = ToSparseTensor(layout=layout)(Data(x=x, edge_index=edges, edge_weight=weights))
        torch.testing.assert_close(layer(x, converted.adj_t), expected)
    stand_in = SparseTensor(edges[1], edges[0], weights, (30, 30))
    assert is_sparse(stand_in)
    torch.testing.assert_close(layer(x, stand_in), expected)
    halves = torch.sparse_coo_tensor(torch.cat([edges.flip(0)] * 2, 1), torch.cat([weights] * 2) / 2, (30, 30))
    torch.testing.assert_close(layer(x, halves), expected)  # entries that are not merged yet


def test_the_exported_layer_computes_the_same_for_other_graphs():
    x, edges, weights = directed()
    layer = KrylovConv(5, 2, degree=3, tau=0.8, learn_tau=True).double()
    nodes, count = torch.export.Dim("nodes"), torch.export.Dim("edges")
    program = torch.export.export(layer, (x, edges, weights), dynamic_shapes=({0: nodes}, {1: count}, {0: count}))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    inner = (edges < 20).all(0)
    for given in ((x, edges, weights), (x[:20], edges[:, inner], weights[inner])):
        torch.testing.assert_close(loaded(*given), layer(*given))


def assert_compiled_is_equal(backend: str) -> None:
    x, edges, weights = directed()
    layer = KrylovConv(5, 2, degree=3, tau=0.8, learn_tau=True).double()
    found, expected = [], []
    for results, module in ((found, torch.compile(layer, backend=backend, fullgraph=True)), (expected, layer)):
        leaf = weights.clone().requires_grad_()
        out = module(x, edges, leaf)
        results += [out.detach(), *torch.autograd.grad(out.square().sum(), [leaf, *layer.parameters()])]
    torch.testing.assert_close(found, expected)


def test_the_layer_compiles_in_one_graph():
    assert_compiled_is_equal("aot_eager")


@pytest.mark.slow
def test_the_layer_compiled_by_inductor_computes_the_same():
    assert_compiled_is_equal("inductor")


def test_a_compiled_layer_returns_nan_where_the_matrix_would_be_imaginary():
    x, edges, weights = directed()
    layer = KrylovConv(5, 2, degree=1, tau=5.0).double()
    with pytest.raises(ValueError, match="tau must be small enough"):
        layer(x, edges, weights / 10)
    assert torch.compile(layer, backend="eager")(x, edges, weights / 10).isnan().any()


def test_the_layer_behaves_like_those_of_pyg():
    _, x, edges = data_in_double()
    x = x.float()
    layer = KrylovConv(-1, 4, degree=2, tau=0.8, learn_tau=True)
    assert str(layer) == "KrylovConv(-1, 4, degree=2, tau=0.8, learn_tau=True)"
    out = layer(x, edges)  # takes the width from the first input
    assert out.shape == (30, 4)
    other = KrylovConv(x.shape[1], 4, degree=2, tau=0.3, learn_tau=True)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(x, edges), out)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(7)
    other.reset_parameters()
    assert value(other.tau) == pytest.approx(0.3)
    torch.testing.assert_close(other.filter.theta.detach(), torch.full((3,), 1 / 3))
    assert not other.bias.any()  # type: ignore[union-attr]
    assert other.lin.weight.std() > 0
    model = Sequential("x, edges", [(KrylovConv(x.shape[1], 8), "x, edges -> x"), (KrylovConv(8, 2), "x, edges -> x")])
    assert model(x, edges).shape == (30, 2)
