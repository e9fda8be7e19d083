from dataclasses import replace

import numpy as np
import pytest
import torch

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.outofcore.propagate import propagate
from adaptkry.report.run_report import write_pages
from adaptkry.training.data import FolderData
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

GRAPH = csbm(nodes=120, phi=-0.7, seed=0)
DIRECTED = directed_csbm(nodes=120, seed=0)
SPLITS = splits.stratified(GRAPH.y, count=2)
QUICK = recipe("adaptkry", degree=2, hidden=8, epochs=6, structure=5)
LAYER = replace(QUICK, structure=0, structure_layer=True)
RECIPES = pytest.mark.parametrize("used", [QUICK, LAYER], ids=["columns", "layer"])


def larger(graph: Graph, new: int) -> Graph:
    """The graph with new nodes, of which every one is linked to two of the others."""
    edges = torch.stack([torch.from_numpy(part).long() for part in graph.adjacency.nonzero()])
    added = torch.arange(graph.nodes, graph.nodes + new)
    links = torch.cat([torch.stack([added, added - new]), torch.stack([added - 2 * new, added])], 1)
    return Graph(torch.cat([edges, links], 1), torch.cat([graph.x, graph.x[:new]]), directed=graph.is_directed)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_on_structure_columns(method):
    run = fit(GRAPH, method, SPLITS, device="cpu", structure=4, hidden=8, epochs=2)
    assert all(result.failed is None for result in run.results)
    assert (run.features, run.shape.features) == (GRAPH.x.shape[1], GRAPH.x.shape[1] + 4)


@RECIPES
@pytest.mark.parametrize("graph", [GRAPH, DIRECTED], ids=["undirected", "directed"])
def test_a_saved_run_predicts_the_same_and_new_nodes_too(graph, used, tmp_path):
    run = fit(graph, used, splits.stratified(graph.y, count=2), device="cpu", out=tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert loaded.saved_inputs.keys() == run.saved_inputs.keys()  # type: ignore[attr-defined]
    assert ("structure_both" in run.saved_inputs) == (used is QUICK)
    assert torch.equal(loaded.probabilities(graph), run.probabilities(graph))
    one = loaded.only([1])  # type: ignore[attr-defined]
    assert torch.equal(one.member_probabilities(graph)[0], run.member_probabilities(graph)[1])
    assert one.parameters == run.parameters == sum(w[0].numel() for w in run.weights.values())
    assert loaded.probabilities(larger(graph, 3)).shape == (123, 2)
    smaller = Graph([[0], [1]], graph.x[:50], directed=graph.is_directed)
    with pytest.raises(ValueError, match="the 120 training nodes, and possibly more; got 50 nodes"):
        loaded.probabilities(smaller)
    with pytest.raises(ValueError, match=rf"trained on {graph.x.shape[1]} features; got a graph with 1"):
        loaded.probabilities(Graph([[0], [1]], graph.x[:, :1], directed=graph.is_directed))


@RECIPES
def test_scores_are_those_of_the_saved_run(used):
    run = fit(GRAPH, used, SPLITS, device="cpu")
    predicted = run.member_probabilities(GRAPH).argmax(-1)
    for i, result in enumerate(run.results):
        test = SPLITS.test[result.split]
        assert result.test == pytest.approx(float((predicted[i] == GRAPH.y)[test].float().mean()), abs=1e-6)


@RECIPES
def test_a_member_alone_equals_the_same_member_in_a_batch(used):
    both = fit(GRAPH, used, SPLITS, device="cpu")
    alone = fit(GRAPH, used, splits.from_masks(SPLITS.train[:1], SPLITS.validation[:1], SPLITS.test[:1]), device="cpu")
    for name, w in alone.weights.items():
        torch.testing.assert_close(w[0], both.weights[name][0])


def test_mini_batches_from_memory_train_on_structure_columns():
    run = fit(GRAPH, QUICK, SPLITS, device="cpu", batch_size=32)
    assert run.shape.features == GRAPH.x.shape[1] + 5
    assert np.isfinite(run.test_scores).all()


def test_structure_alone_learns_the_communities_of_a_graph_without_features(tmp_path):
    graph = csbm(nodes=200, degree=20, phi=1.0, seed=0)  # the edges tell the classes
    edges = torch.stack([torch.from_numpy(part).long() for part in graph.adjacency.nonzero()])
    bare = Graph(edges, labels=graph.y)
    used = replace(QUICK, epochs=60, degree=0, mlp_lr=0.05)
    run = fit(bare, used, splits.stratified(graph.y, count=2), device="cpu", out=tmp_path / "run")
    assert float(np.mean(run.test_scores)) > 0.9
    assert run.features == 0
    write_pages(run, bare, tmp_path / "run", splits.stratified(graph.y, count=2))
    assert "0 features" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_more_columns_than_nodes_mini_batches_of_a_layer_and_basis_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="structure must be at most the number of nodes, 120; got 121"):
        fit(GRAPH, QUICK, SPLITS, device="cpu", structure=121)
    with pytest.raises(ValueError, match="adaptkry with structure_layer needs all nodes at once, so batch_size must"):
        fit(GRAPH, LAYER, SPLITS, device="cpu", batch_size=32)
    folder = propagate(GRAPH, tmp_path / "basis", taus=(0.5,), degree=2)
    with pytest.raises(ValueError, match="structure_layer must be False with a basis folder; got True"):
        FolderData(folder).check_recipe(LAYER)
    with pytest.raises(ValueError, match="structure must be 0 with a basis folder; got 5"):
        FolderData(folder).check_recipe(QUICK)
    with pytest.raises(ValueError, match="structure must be 0 or more"):
        recipe("adaptkry", structure=-1)


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"gat"}))
def test_every_method_but_gat_trains_on_mixed_directions(method):
    run = fit(DIRECTED, method, SPLITS, device="cpu", directions=("in-out", "out-in"), hidden=8, epochs=2)
    assert all(result.failed is None for result in run.results)


def test_mixed_directions_are_refused_without_directions_and_on_disk(tmp_path):
    used = replace(QUICK, structure=0, directions=("out", "out-in"))
    with pytest.raises(ValueError, match="is undirected, so directions must be both; got out, out-in"):
        fit(GRAPH, used, SPLITS, device="cpu")
    with pytest.raises(
        ValueError, match="can hold the directions both, out, in; got in-out, a product of two matrices"
    ):
        propagate(DIRECTED, tmp_path / "basis", taus=(0.5,), degree=2, directions=("out", "in-out"))
    folder = propagate(DIRECTED, tmp_path / "basis", taus=(0.5,), degree=2, directions=("out",))
    with pytest.raises(
        ValueError, match="can hold the directions both, out, in; got out-in, a product of two matrices"
    ):
        FolderData(folder).check_recipe(used)


def test_a_structure_layer_learns_what_features_do_not_tell():
    graph = csbm(nodes=200, degree=20, phi=1.0, seed=0)  # the edges tell the classes, the features are noise
    noise = torch.randn(graph.x.shape, generator=torch.Generator().manual_seed(0))
    edges = torch.stack([torch.from_numpy(part).long() for part in graph.adjacency.nonzero()])
    noisy, halves = Graph(edges, noise, graph.y), splits.stratified(graph.y, count=2)
    scores = {
        layer: fit(noisy, "mlp", halves, device="cpu", epochs=60, structure_layer=layer).test_scores.mean()
        for layer in (False, True)
    }
    assert scores[False] < 0.7
    assert scores[True] > 0.9


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    def interrupt(state):
        raise KeyboardInterrupt(state.epoch)

    used = replace(LAYER, epochs=40, patience=40)
    with pytest.raises(KeyboardInterrupt):
        fit(GRAPH, used, SPLITS, device="cpu", out=tmp_path / "run", callbacks=[interrupt])
    resumed = fit(GRAPH, used, SPLITS, device="cpu", out=tmp_path / "run", resume=True)
    whole = fit(GRAPH, used, SPLITS, device="cpu")
    for name, w in whole.weights.items():
        assert torch.equal(resumed.weights[name], w)
