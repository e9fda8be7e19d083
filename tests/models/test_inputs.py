from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.load import normalised
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models import inputs
from adaptkry.models.inputs import column_count, input_columns, model_inputs, with_loops
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.models.training_nodes import training_places
from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.propagation_matrix import MixedPropagation, Propagation
from adaptkry.spectral.structure import structure_columns, structure_maps

GRAPHS = pytest.mark.parametrize("make", [csbm, directed_csbm])
RECIPE = Recipe(degree=3, structure=6)


def edges_of(graph: Graph) -> torch.Tensor:
    return torch.stack([torch.from_numpy(part).long() for part in graph.adjacency.nonzero()])


@GRAPHS
def test_structure_columns_follow_the_features_with_the_same_norm_and_are_propagated_with_them(make):
    graph = make(nodes=60, seed=0)
    d = graph.x.shape[1]
    found = model_inputs(graph, RECIPE)
    x = found.terms[0]
    assert x.shape == (60, d + 6) == (60, column_count(graph, RECIPE))
    assert column_count(graph, replace(RECIPE, directions=("out", "in"))) == d + 6 * (1 + graph.is_directed)
    assert torch.equal(x[:, :d], graph.x)
    torch.testing.assert_close(x[:, d:].norm(), graph.x.norm())
    columns = structure_columns(graph, structure_maps(graph, 6, ("both",)))
    torch.testing.assert_close(x[:, d:], columns * graph.x.norm() / columns.norm())
    torch.testing.assert_close(found.terms, stack(krylov(Propagation(graph, 0.5), x, 3)).transpose(0, 1))


@pytest.mark.parametrize("settings", [{"normalise": True}, {"standardise": True}])
def test_features_are_scaled_before_structure_columns_are_appended(settings):
    graph = csbm(nodes=60, seed=0)
    d = graph.x.shape[1]
    x, _ = input_columns(graph, Recipe(structure=4, **settings))
    features = normalised(graph).x if "normalise" in settings else (graph.x - graph.x.mean(0)) / graph.x.std(0, False)
    torch.testing.assert_close(x[:, :d], features)
    torch.testing.assert_close(x[:, d:].norm(), features.norm())


@pytest.mark.parametrize("standardise", [False, True])  # True is the default for a user's files
def test_degrees_and_structure_columns_serve_as_features(standardise):
    graph = csbm(nodes=60, seed=0)
    bare = Graph(edges_of(graph), labels=graph.y)
    x = model_inputs(bare, Recipe(structure=5, degree=2, standardise=standardise)).terms[0]
    assert x.shape == (60, 6)
    degrees = np.log1p(np.asarray(bare.adjacency.sum(1)))
    np.testing.assert_allclose(x[:, 0], (degrees - degrees.mean()) / degrees.std(), rtol=1e-5, atol=1e-6)
    assert float(x[:, 1:].square().mean()) == pytest.approx(1)
    assert column_count(bare, Recipe(structure=5)) == 6
    with pytest.raises(ValueError, match="no features"):
        model_inputs(bare, Recipe(degree=2))


def test_degrees_of_another_graph_are_scaled_as_those_of_the_training_graph():
    graph = directed_csbm(nodes=60, seed=0)
    recipe = Recipe(structure=3, directions=("out", "in"))
    bare = Graph(edges_of(graph), labels=graph.y, directed=True)
    x, saved = input_columns(bare, recipe)
    assert x.shape == (60, 2 + 2 * 3) == (60, column_count(bare, recipe))
    more = Graph(torch.cat([edges_of(graph), torch.tensor([[60, 60], [0, 1]])], 1), directed=True)
    degrees = np.stack([np.log1p(np.asarray(bare.adjacency.sum(axis))) for axis in (1, 0)], 1)
    new = np.stack([np.log1p(np.asarray(more.adjacency.sum(axis))) for axis in (1, 0)], 1)
    found, _ = input_columns(more, recipe, saved=saved)
    np.testing.assert_allclose(found[:, :2], (new - degrees.mean(0)) / degrees.std(0), rtol=1e-5, atol=1e-6)


def test_self_loops_of_the_recipe_are_those_of_the_structure_columns():
    graph = csbm(nodes=60, seed=0)
    columns = {loops: input_columns(graph, Recipe(structure=4, self_loops=loops))[0] for loops in ("keep", "add")}
    expected = structure_columns(graph.with_self_loops(), structure_maps(graph.with_self_loops(), 4, ("both",)))
    d = graph.x.shape[1]
    torch.testing.assert_close(columns["add"][:, d:], expected * graph.x.norm() / expected.norm())
    assert not torch.allclose(columns["add"], columns["keep"])


@GRAPHS
def test_another_graph_has_the_maps_and_the_scale_of_the_training_graph(make):
    graph = make(nodes=60, seed=0)
    d = graph.x.shape[1]
    x, saved = input_columns(graph, RECIPE)
    again, _ = input_columns(graph, RECIPE, saved=saved)
    assert torch.equal(again, x)
    larger = Graph(edges_of(graph), torch.cat([graph.x, 9 * graph.x[:2]]), directed=graph.is_directed)
    columns, _ = input_columns(larger, RECIPE, saved=saved)
    torch.testing.assert_close(columns[:60, d:], x[:, d:])  # though the norm of the features is another one
    assert columns[60:, d:].abs().sum() == 0  # new nodes without edges


def test_the_svd_is_computed_once_per_graph_rank_and_self_loops(monkeypatch):
    calls = []
    monkeypatch.setattr(inputs, "structure_maps", lambda *given: calls.append(given[1]) or structure_maps(*given))
    graph = csbm(nodes=60, seed=0)
    for settings in ({}, {"degree": 1}, {"structure": 5}, {"self_loops": "add"}, {}):
        model_inputs(graph, Recipe(**{"structure": 4, "degree": 2} | settings))  # type: ignore[arg-type]
        model_inputs(graph.relabelled(graph.y), Recipe(**{"structure": 4, "degree": 2} | settings))  # type: ignore[arg-type]
    assert calls == [4, 5, 4]


USES_NODES = [{"structure": 2}, {"structure_layer": True}, {"similar_nodes": 4}]


@pytest.mark.parametrize("settings", USES_NODES, ids=str)
def test_training_nodes_are_found_by_id_and_all_of_them_are_needed(settings):
    def graph(names):
        return Graph([[0, 1, 2], [1, 2, 3]], torch.ones(len(names), 1), info=Info(node_ids=tuple(names)))

    _, saved = input_columns(graph("abcd"), Recipe(**settings))
    for names, places in (("abcd", None), ("abcde", None), ("xbdca", [4, 1, 3, 2])):
        input_columns(graph(names), Recipe(**settings), saved=saved)
        found = training_places(graph(names), saved)
        assert (found if found is None else found.tolist()) == places
    with pytest.raises(ValueError, match="all their ids must be in the graph; missing are 'b', 'c'"):
        input_columns(graph("adxyz"), Recipe(**settings), saved=saved)
    with pytest.raises(ValueError, match="ids of nodes must differ"):
        input_columns(graph("badcc"), Recipe(**settings), saved=saved)
    smaller = Graph([[0], [1]], torch.ones(2, 1))
    with pytest.raises(ValueError, match="needs the 4 training nodes, and possibly more; got 2 nodes"):
        input_columns(smaller, Recipe(**settings), saved=saved)


def test_mixed_directions_are_bases_of_their_own():
    graph = directed_csbm(nodes=40, seed=0)
    found = model_inputs(graph, Recipe(degree=2, taus=(0.5, 1.2), directions=("out", "out-in", "in-out"))).terms
    assert len(found) == 9
    bases = []
    for direction in ("out", "out-in", "in-out"):
        terms = []
        for tau in (0.5, 1.2):
            matrices = {each: Propagation(graph, tau, each).to_dense() for each in ("out", "in")}
            P = matrices["out"]
            if "-" in direction:
                outer, inner = direction.split("-")
                P = matrices[outer] @ matrices[inner]
            terms.append(torch.stack([torch.linalg.matrix_power(P, k) @ graph.x.double() for k in range(3)]))
        bases.append((terms[0] + terms[1]) / 2)
    torch.testing.assert_close(found.double(), torch.cat(bases), rtol=1e-4, atol=1e-5)


def test_a_model_that_propagates_has_the_mixed_operator_and_its_gradient():
    graph = directed_csbm(nodes=40, seed=0)
    used = recipe("gcn", hidden=4, directions=("in-out",))
    inputs = model_inputs(graph, used)
    assert isinstance(inputs.operator, MixedPropagation)
    x = graph.x[:, :3].double().requires_grad_()
    tau = {"isolated": used.isolated, "normalisation": used.normalisation}
    out, into = (Propagation(with_loops(graph, used), used.taus[0], each, **tau).to_dense() for each in ("out", "in"))
    torch.testing.assert_close(inputs.operator @ x, into @ out @ x)
    (gradient,) = torch.autograd.grad((inputs.operator @ x).square().sum() / 2, x)
    torch.testing.assert_close(gradient, (into @ out).mT @ into @ out @ x)


def wide(is_sparse: bool) -> Graph:
    graph = csbm(nodes=90, features=30, seed=0)
    x = sp.csr_array(graph.x.numpy() * (graph.x.numpy() > 0.2))
    return Graph(edges_of(graph), x if is_sparse else torch.from_numpy(x.toarray()), graph.y)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_wide_features_are_reduced_to_the_columns_of_a_dense_svd(is_sparse):
    graph, recipe = wide(is_sparse), Recipe(reduce=29, degree=2)
    x, saved = input_columns(graph, recipe)
    U, s, _ = np.linalg.svd(graph.x.double().numpy(), full_matrices=False)
    expected = U[:, :29] * s[:29]  # up to signs
    assert x.shape == (90, 29) == (90, column_count(graph, recipe))
    np.testing.assert_allclose(x.double().numpy() @ x.double().numpy().T, expected @ expected.T, atol=2e-4)
    np.testing.assert_allclose(x.norm(dim=0), s[:29], rtol=1e-3)
    again, _ = input_columns(graph, recipe, saved=saved)
    assert torch.equal(again, x)
    assert input_columns(graph, Recipe(reduce=30))[0].shape == (90, 30)  # not wider: kept


def test_sparse_and_dense_features_are_reduced_alike():
    found = [input_columns(wide(is_sparse), Recipe(reduce=5, normalise=True))[0] for is_sparse in (False, True)]
    torch.testing.assert_close(found[0] @ found[0].T, found[1] @ found[1].T, rtol=1e-4, atol=1e-6)


def test_reduced_features_of_another_graph_use_the_map_of_the_training_graph():
    graph = wide(False)
    _, saved = input_columns(graph, Recipe(reduce=5))
    larger = Graph(edges_of(graph), torch.cat([graph.x, graph.x[:1]]), nodes=91)
    x, _ = input_columns(larger, Recipe(reduce=5), saved=saved)
    torch.testing.assert_close(x[90], x[0])


def of_table(*columns: list[float]) -> Graph:
    """A graph with such feature columns, in float64 for models in float32, as from a table."""
    info = Info("table", feature_names=tuple("abc"[: len(columns)]), dtype=torch.float32)
    x = torch.tensor(columns, dtype=torch.float64).T
    return Graph([[0, 1], [1, 2]], x, info=info)


@pytest.mark.parametrize(
    "column",
    [
        [1_700_000_000, 1_700_000_030, 1_700_000_050],  # equal in float32
        [1e-300, 3e-300, 5e-300],  # 0 in float32, and squares are 0 in float64
        [1e300, 3e300, 5e300],  # infinite in float32, and squares in float64
        [-1e308, 0.0, 1e308],
        [1e-310, 2e-310, 0.0],
    ],
    ids=str,
)
def test_columns_of_any_size_are_standardised_before_they_become_float32(column, caplog):
    x = model_inputs(of_table(column, [1, 2, 4]), Recipe(standardise=True, degree=0)).terms[0]
    assert x.dtype == torch.float32
    exact = np.array(column, dtype=np.longdouble)
    np.testing.assert_allclose(x[:, 0], ((exact - exact.mean()) / exact.std()).astype(np.float64), rtol=1e-5, atol=1e-6)
    assert not caplog.records


def test_a_constant_column_becomes_zero_although_its_mean_is_rounded():
    graph = of_table([0.1] * 3, [1, 2, 3])
    mean, std = inputs.column_scaling(graph, Recipe(standardise=True))
    assert (float(mean[0]), float(std[0])) == (0.1, 1.0)
    assert inputs.scaled_features(graph, Recipe(standardise=True))[:, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("column", [[1_700_000_000, 1_700_000_030, 1_700_000_050], [1e-300, 2e-300, 0]], ids=str)
def test_digits_that_float32_does_not_keep_are_reported_once(column, caplog):
    graph = of_table([1, 2, 3], column)
    for _ in range(2):
        model_inputs(graph, Recipe(degree=0))
    (record,) = caplog.records
    assert record.name.startswith("adaptkry")
    assert "table: values in the columns 'b' are too close" in record.getMessage()


def test_features_above_the_range_of_float32_are_refused_unless_they_are_scaled():
    with pytest.raises(ValueError, match=r"below 3e38 after scaling, .* in the columns 'b'\. Standardise them"):
        model_inputs(of_table([1, 2, 3], [1e39, 2, 3]), Recipe(degree=0))


def test_float32_and_float64_features_that_were_not_read_from_tables_keep_their_type():
    for dtype in (torch.float32, torch.float64):
        assert model_inputs(Graph([[0], [1]], torch.eye(2, dtype=dtype)), Recipe(degree=0)).terms.dtype == dtype


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_every_hop_is_scaled_to_the_norm_of_the_features(scale):
    graph = csbm(nodes=60, seed=0)
    graph = Graph(edges_of(graph), scale * graph.x, graph.y)
    plain, found = (model_inputs(graph, Recipe(degree=3, hop_norm=hop_norm)) for hop_norm in (False, True))
    norms = torch.stack([term.norm() for term in found.terms])
    torch.testing.assert_close(norms, graph.x.norm().expand(4))
    torch.testing.assert_close(found.terms, plain.terms * found.hop_scale[:, None, None])
    assert float(found.hop_scale[0]) == pytest.approx(1)
