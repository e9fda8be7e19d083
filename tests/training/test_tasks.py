"""Class weights, several labels per node, and regression."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import f1_score, mean_absolute_error, r2_score
from sklearn.utils.class_weight import compute_class_weight
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, l1_loss, mse_loss

from adaptkry.graphs import splits as schemes
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.load import load
from adaptkry.graphs.readers.arrays import write_npz
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.selection.tune import tune
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.training.data import GraphData, open_data
from adaptkry.training.fit import fit
from adaptkry.training.losses import mean_loss
from adaptkry.training.predict import predict_frame, write_predictions
from adaptkry.training.results import mark_chosen
from adaptkry.training.run_folder import load_run
from adaptkry.training.tasks import class_weights, predictions, scaled

CLASSES = csbm(nodes=200, phi=-0.6, classes=3, seed=0)
EDGES = torch.from_numpy(np.stack(CLASSES.adjacency.nonzero())).long()
P = Propagation(CLASSES, 0.5)
FILTERED = (P @ (P @ CLASSES.x.double()))[:, :2]  # two targets that are filtered features
UNKNOWN = torch.arange(200) < 5
TARGETS = torch.where(UNKNOWN[:, None], torch.nan, 5000 + 100 * FILTERED)
LABELS = torch.where(UNKNOWN[:, None], -1, (FILTERED.mean(0) < FILTERED).long())
REGRESSION = Graph(EDGES, CLASSES.x, TARGETS, task="regression")
MULTILABEL = Graph(EDGES, CLASSES.x, LABELS, task="multilabel", info=Info("two", class_names=("warm", "new")))
QUICK: dict[str, Any] = {"count": 2, "epochs": 80, "device": "cpu", "degree": 3, "hidden": 32}


@pytest.fixture(scope="module")
def regression():
    return fit(REGRESSION, metrics=["r2", "mae"], **QUICK)


@pytest.fixture(scope="module")
def multilabel():
    return fit(MULTILABEL, **QUICK)


# class weights


@pytest.mark.parametrize("smoothing", [None, 0.2])
def test_the_weighted_loss_and_its_gradient_are_those_of_torch(smoothing):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 9, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    truth, weight = torch.randint(0, 3, (2, 9), generator=generator), torch.tensor([[0.2, 1, 3], [1, 2, 0.1]]).double()
    row_mask = torch.ones(2, 9, dtype=torch.float64)
    row_mask[1, 6:] = 0
    smooth = None if smoothing is None else torch.full((2,), smoothing, dtype=torch.float64)
    found = mean_loss("cross_entropy", logits, truth, row_mask, smooth, weight)
    expected = [
        cross_entropy(logits[b, :rows], truth[b, :rows], weight=weight[b], label_smoothing=smoothing or 0.0)
        for b, rows in enumerate((9, 6))
    ]
    torch.testing.assert_close(found, torch.stack(expected))
    gradients = [
        torch.autograd.grad(loss.sum(), logits, retain_graph=True)[0] for loss in (found, torch.stack(expected))
    ]
    torch.testing.assert_close(*gradients)


def test_balanced_weights_are_those_of_scikit_learn_on_the_training_nodes_of_each_split():
    skewed = CLASSES.relabelled(torch.where(torch.arange(200) % 3 == 0, CLASSES.y, 0))
    splits = schemes.uniform(skewed, count=2)
    run = fit(skewed, "mlp", splits, class_weight="balanced", epochs=3, device="cpu")
    for b, train in enumerate(splits.train):
        y = skewed.y[train].numpy()
        expected = compute_class_weight("balanced", classes=np.arange(3), y=y)
        np.testing.assert_allclose(run.weights["class_weight"][b], expected, rtol=1e-6)
    assert run.results[0].settings["class_weight"] == ("balanced",)


def test_weights_are_read_from_lists_mappings_and_text():
    labels, names = torch.tensor([0, 1, 1, 2]), ["a=b", "c", "d"]
    every = labels >= 0
    for given, expected in (([3, 1, 0.5], [3, 1, 0.5]), ({"a=b": 2}, [2, 1, 1]), (("c=4", "d=0.5"), [1, 4, 0.5])):
        entries = recipe("gcn", class_weight=given).class_weight
        assert class_weights(entries, labels, every, names).tolist() == expected
    assert class_weights(["balanced"], labels, labels < 2).tolist()[2] == 1  # no training node


def test_weights_of_one_change_nothing_and_others_do():
    weights: list[dict[str, Any]] = [{}, {"class_weight": [1, 1, 1]}, {"class_weight": [1, 9, 1]}]
    plain, ones, others = (fit(CLASSES, "mlp", count=1, epochs=5, device="cpu", **settings) for settings in weights)
    name = "mlp/1/weight" if "mlp/1/weight" in plain.weights else next(n for n in plain.weights if "weight" in n)
    torch.testing.assert_close(plain.weights[name], ones.weights[name])
    assert not torch.allclose(plain.weights[name], others.weights[name])


# losses of the other tasks


def test_losses_of_labels_and_targets_are_those_of_torch():
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(2, 7, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    row_mask = torch.ones(2, 7, dtype=torch.float64)
    row_mask[1, 4:] = 0
    labels = torch.randint(0, 2, (2, 7, 3), generator=generator).double()
    targets = torch.randn(2, 7, 3, generator=generator, dtype=torch.float64)
    references = {"binary": binary_cross_entropy_with_logits, "mse": mse_loss, "mae": l1_loss}
    for kind, truth in (("binary", labels), ("mse", targets), ("mae", targets)):
        found = mean_loss(kind, outputs, truth, row_mask)
        expected = torch.stack([references[kind](outputs[b, :m], truth[b, :m]) for b, m in enumerate((7, 4))])
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(loss.sum(), outputs, retain_graph=True)[0] for loss in (found, expected)]
        torch.testing.assert_close(*gradients)


def test_scaled_targets_are_undone_exactly_also_if_they_are_large():
    statistics = {"target_mean": torch.tensor([[1e8]]), "target_std": torch.tensor([[0.25]])}
    truth = 1e8 + torch.tensor([[[0.5], [-0.25]]], dtype=torch.float64)
    z = scaled(truth, statistics)
    assert z.flatten().tolist() == [2, -1]
    assert torch.equal(predictions("regression", z.float(), statistics), truth)


# regression


def test_targets_that_are_filtered_features_are_recovered():
    settings: dict[str, Any] = {"taus": (0.5,), "degree": 3, "layers": 1, "mlp_dropout": 0.0, "mlp_decay": 0.0}
    settings |= {"combine_hops": "sum", "tied": True, "standardise": False, "hop_norm": False}
    run = fit(REGRESSION, count=2, epochs=400, device="cpu", mlp_lr=0.05, filter_lr=0.05, **settings)
    assert min(run.test_scores) > 0.9


def test_a_linear_target_is_learned_in_60_epochs_with_suggested_settings():
    rng = np.random.default_rng(0)
    x, pairs = rng.normal(size=(1000, 20)), rng.integers(0, 1000, (2, 2000))
    graph = Graph(pairs, x * np.geomspace(0.1, 1000, 20))
    means = (graph.adjacency @ x) / np.maximum(graph.adjacency.sum(1), 1)[:, None]
    y = x @ rng.normal(size=20) + means @ rng.normal(size=20)
    own = Graph(pairs, graph.x, 1e5 + 1e4 * y + rng.normal(size=1000), task="regression")
    assert fit(own, count=1, epochs=60, device="cpu").test_scores[0] > 0.8


def test_scores_of_a_regression_are_those_of_its_predictions(regression):
    splits = schemes.make(REGRESSION, count=2)
    values = regression.member_probabilities(REGRESSION)
    for result, found in zip(regression.results, values, strict=True):
        for part, scores in (("validation", result.validation_scores), ("test", result.test_scores)):
            mask = getattr(splits, part)[result.split]
            assert not (mask & UNKNOWN).any()
            assert scores["r2"] == pytest.approx(r2_score(TARGETS[mask], found[mask]), rel=1e-4)
            assert scores["mae"] == pytest.approx(mean_absolute_error(TARGETS[mask], found[mask]), rel=1e-4)
    assert regression.predict(REGRESSION).shape == (200, 2)
    torch.testing.assert_close(regression.predict(REGRESSION), values.mean(0))


def test_targets_are_scaled_by_the_training_nodes_of_each_split(regression):
    for b, train in enumerate(schemes.make(REGRESSION, count=2).train):
        part = TARGETS[train]
        torch.testing.assert_close(regression.weights["target_mean"][b], part.mean(0).float())
        torch.testing.assert_close(regression.weights["target_std"][b], part.std(0, correction=0).float())


def test_the_smallest_error_chooses_epochs_restarts_and_trials():
    run = fit(REGRESSION, metrics=["rmse", "r2"], restarts=3, count=2, epochs=30, device="cpu")
    curves = run.curves["validation"]
    for b, result in enumerate(run.results):
        assert result.validation == pytest.approx(float(np.nanmin(curves[:, b])))
        assert result.epoch == int(np.nanargmin(curves[:, b]))
    for split in range(2):
        of_split = [result for result in run.results if result.split == split]
        chosen = [result for result in of_split if result.chosen]
        assert [result.validation for result in chosen] == [min(result.validation or 0.0 for result in of_split)]
    failed = replace(run.results[0], validation=None)
    mark_chosen(results := [failed, *run.results[2:4:2]], 2, 1)
    assert [result.chosen for result in results] == [False, True]
    found, trials = tune(REGRESSION, trials=3, metrics="mae", count=2, epochs=20, device="cpu")
    scores = [trial["validation"] for trial in trials]
    best = trials[int(np.argmin(scores))]
    assert found.recipes[0].to_dict() == best["settings"]
    assert " %" not in run.summary().partition("(")[0]


@pytest.mark.parametrize("graph", [REGRESSION, MULTILABEL], ids=["regression", "multilabel"])
def test_a_member_alone_equals_the_member_in_company(graph):
    splits = schemes.make(graph, count=3)
    together = fit(graph, "gcn", splits, epochs=15, device="cpu")
    for split in range(3):
        alone = fit(graph, "gcn", splits.only([split]), epochs=15, device="cpu")
        if split == 0:  # the seed of a member is its number of the split
            for name, weight in alone.weights.items():
                assert torch.equal(weight[0], together.weights[name][0]), name
            assert alone.results[0].test == together.results[0].test


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_runs_of_other_tasks_are_saved_and_loaded(task, request, tmp_path):
    run, graph = request.getfixturevalue(task), REGRESSION if task == "regression" else MULTILABEL
    loaded = load_run(run.save(tmp_path / "run"))
    assert loaded.task == task
    assert torch.equal(loaded.predict(graph), run.predict(graph))
    assert [one.test_scores for one in loaded.results] == [one.test_scores for one in run.results]


# several labels


def test_labels_are_predicted_by_probabilities_above_one_half(multilabel):
    probabilities, predicted = multilabel.probabilities(MULTILABEL), multilabel.predict(MULTILABEL)
    assert torch.equal(predicted, (probabilities > 0.5).long())
    mask = schemes.make(MULTILABEL, count=2).test[0]
    own = multilabel.member_probabilities(MULTILABEL)[0][mask] > 0.5
    expected = f1_score(LABELS[mask], own, average="micro")
    assert multilabel.results[0].test == pytest.approx(expected, abs=1e-6)
    assert multilabel.results[0].metric == "micro_f1"
    assert multilabel.results[0].test > 0.7


def test_an_ensemble_averages_probabilities_of_labels_and_values():
    for graph in (MULTILABEL, REGRESSION):
        ensemble = fit(graph, restarts=2, combine="mean", **QUICK)
        members = ensemble.parts[0].member_probabilities(graph)
        mean = members.mean(0)
        found = ensemble.predict(graph)
        expected = (mean > 0.5).long() if graph is MULTILABEL else mean
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_predictions_of_other_tasks_are_tables_with_a_column_per_label_or_target(task, request, tmp_path):
    run, graph = request.getfixturevalue(task), REGRESSION if task == "regression" else MULTILABEL
    names = ["0", "1"] if task == "regression" else ["warm", "new"]
    for path in (tmp_path / "p.csv", tmp_path / "p.parquet"):
        assert write_predictions(path, run, graph) == write_predictions(path, run, graph) == 200
        table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
        assert (table["label"] == "predicted").tolist() == UNKNOWN.tolist()
        what = "value" if task == "regression" else "class"
        np.testing.assert_allclose(table[[f"{what}({n})" for n in names]], run.predict(graph), rtol=1e-9)
        if task == "multilabel":
            np.testing.assert_allclose(table[["p(warm)", "p(new)"]], run.probabilities(graph), atol=1e-6)
    assert write_predictions(tmp_path / "p.csv", run, graph, unlabelled_only=True) == 5


def test_other_tasks_have_no_calibration(regression, multilabel):
    assert regression.calibration is None
    assert multilabel.calibration is None


# graphs and readers


@pytest.fixture
def tables(tmp_path):
    """The graph as edges.csv and nodes.csv, with two columns of targets and two of labels."""
    pd.DataFrame(EDGES.T.numpy(), columns=["source", "target"]).to_csv(tmp_path / "edges.csv", index=False)
    nodes = pd.DataFrame(CLASSES.x.numpy(), columns=[f"f{i}" for i in range(CLASSES.x.shape[1])])
    nodes.insert(0, "id", range(200))
    targets = pd.DataFrame(TARGETS.numpy(), columns=["price", "area"])
    labels = pd.DataFrame(torch.where(LABELS < 0, torch.nan, LABELS).numpy(), columns=["warm", "new"])
    nodes.join(targets).join(labels).to_csv(tmp_path / "nodes.csv", index=False)
    return [tmp_path / "edges.csv", tmp_path / "nodes.csv"]


def test_targets_are_read_from_columns_of_tables(tables):
    for task, columns, others, truth in (
        ("regression", "price,area", ["warm", "new"], TARGETS),
        ("regression", "price", ["area", "warm", "new"], TARGETS[:, [0]]),
        ("multilabel", "warm,new", ["price", "area"], torch.where(LABELS < 0, torch.nan, LABELS)),
    ):
        graph = load(tables, task=task, label_column=columns, ignore=others)
        assert graph.targets is not None
        torch.testing.assert_close(graph.targets, truth.double(), equal_nan=True)
        assert graph.info.class_names == tuple(columns.split(","))
        assert graph.x.shape == CLASSES.x.shape


def test_a_run_predicts_tables_with_and_without_their_targets(tables, tmp_path):
    graph = load(tables, task="regression", label_column="price", ignore=["area", "warm", "new"])
    loaded = load_run(fit(graph, **QUICK).save(tmp_path / "run"))
    expected = loaded.predict(graph)
    torch.testing.assert_close(loaded.predict(tables), expected)
    pd.read_csv(tables[1]).drop(columns=["price"]).to_csv(tables[1], index=False)
    torch.testing.assert_close(loaded.predict(tables), expected)
    assert set(predict_frame(loaded, tables)["label"]) == {"predicted"}


def test_the_default_splits_of_other_tasks_are_uniform_over_known_nodes():
    for graph in (MULTILABEL, REGRESSION):
        splits = schemes.make(graph)
        assert (splits.scheme, len(splits)) == ("uniform", 5)
        assert not (splits.train | splits.validation | splits.test)[:, :5].any()


@pytest.mark.parametrize("graph", [REGRESSION, MULTILABEL], ids=["regression", "multilabel"])
def test_an_npz_keeps_task_and_targets(graph, tmp_path):
    found = load(write_npz(graph, tmp_path / "g.npz"))
    assert found.task == graph.task
    assert found.targets is not None
    torch.testing.assert_close(found.targets, graph.targets, equal_nan=True)


def test_targets_are_read_from_arrays_and_objects(tmp_path):
    import networkx as nx
    from torch_geometric.data import Data

    y = TARGETS[:, 0]
    np.savez(tmp_path / "g.npz", edges=EDGES, x=CLASSES.x, y=y)
    data = Data(x=CLASSES.x, edge_index=EDGES, y=y)
    graph = nx.Graph(EDGES.T.tolist())
    graph.add_nodes_from((node, {"x": CLASSES.x[node].tolist()}) for node in range(200))
    graph.add_nodes_from((node, {"y": float(y[node])}) for node in range(5, 200))
    for given in (tmp_path / "g.npz", data):
        source = open_data(given, task="regression")
        assert isinstance(source, GraphData)
        assert source.graph.targets is not None
        torch.testing.assert_close(source.graph.targets[:, 0], y, equal_nan=True)
        assert source.info.metric == "r2"
    found = load(graph, task="regression")
    assert found.targets is not None
    order = [int(name) for name in found.info.node_ids or ()]
    torch.testing.assert_close(found.targets, y[order][:, None], equal_nan=True)
