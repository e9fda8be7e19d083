import torch
from torch_geometric.data import Data

from adaptkry.integrations.pyg import KrylovBasis, KrylovConv
from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.propagation_matrix import Propagation
from strategies import random_graph


def data():
    graph = random_graph(0, 30, 80, directed=False, weighted=False)
    matrix = graph.adjacency.tocoo()
    edges = torch.stack([torch.from_numpy(matrix.row), torch.from_numpy(matrix.col)]).long()
    return graph, Data(x=graph.x.float(), edge_index=edges, num_nodes=30)


def test_the_transform_adds_the_basis_to_data():
    graph, pyg_data = data()
    found = KrylovBasis(taus=(0.8,), degree=4)(pyg_data).basis
    torch.testing.assert_close(found, stack(krylov(Propagation(graph, 0.8), graph.x.float(), 4)))


def test_the_layer_and_its_gradients_equal_the_dense_filter():
    graph, pyg_data = data()
    layer = KrylovConv(degree=3, tau=0.8)
    x = graph.x.float().requires_grad_()
    out = layer(x, pyg_data.edge_index)
    P = Propagation(graph, 0.8).to_dense().float()
    powers = torch.stack([torch.linalg.matrix_power(P, k) for k in range(4)])
    expected = torch.einsum("k,kij,jd->id", layer.filter.coefficients, powers, x)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    cotangent = torch.randn_like(out)
    gradients = torch.autograd.grad((out * cotangent).sum(), [x, layer.filter.theta], retain_graph=True)
    expected_gradients = torch.autograd.grad((expected * cotangent).sum(), [x, layer.filter.theta])
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-4)
