import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk_metrics

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import load
from adaptkry.graphs.readers.arrays import write_npz
from adaptkry.graphs.synthetic import csbm, directed_csbm
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import recipe
from adaptkry.outofcore.propagate import propagate
from adaptkry.report.run_report import write_pages
from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.training.data import GraphData, open_data
from adaptkry.training.fit import fit
from adaptkry.training.results import Result
from adaptkry.training.run_folder import load_run

GRAPH = csbm(nodes=200, phi=-0.7, seed=0)
QUICK = recipe("adaptkry", degree=3, hidden=16, epochs=40, taus=(0.5, 1.0))


@pytest.fixture(scope="module")
def split():
    return splits.stratified(GRAPH.y, count=3)


@pytest.fixture(scope="module")
def run(split):
    return fit(GRAPH, QUICK, split, device="cpu")


def test_fit_learns_and_its_rows_have_settings_and_provenance(run):
    scores = [result.test for result in run.results]
    assert np.mean(scores) > 0.75
    for row in [result.to_row() for result in run.results]:
        expected = {
            "settings",
            "seed",
            "split",
            "metric",
            "version",
            "device",
            "commit",
            "graph",
            "scheme",
            "validation",
        }
        assert expected <= row.keys()
    assert "adaptkry on" in run.summary()


def test_a_run_without_test_scores_is_not_reported_as_failed(split):
    run = fit(GRAPH, replace(QUICK, epochs=3), split, device="cpu", test=False)
    assert all(result.test is None and result.failed is None for result in run.results)
    assert "3 not tested" in run.summary()
    assert "failed" not in run.summary()


def test_scores_are_those_of_the_best_weights_on_the_test_nodes_of_each_member(run, split):
    predicted = run.member_probabilities(GRAPH).argmax(-1)
    for i, result in enumerate(run.results):
        test = split.test[result.split]
        assert result.test == pytest.approx(float((predicted[i] == GRAPH.y)[test].float().mean()), abs=1e-6)


def test_a_loaded_run_has_the_same_predictions_rows_and_curves(run, tmp_path):
    run.save(tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert torch.equal(loaded.probabilities(GRAPH), run.probabilities(GRAPH))
    assert [result.to_row() for result in loaded.results] == json.loads(
        json.dumps([result.to_row() for result in run.results])
    )
    assert loaded.info == run.info
    assert loaded.shape == run.shape  # type: ignore[attr-defined]
    assert loaded.recipes == run.recipes  # type: ignore[attr-defined]
    np.testing.assert_allclose(loaded.curves["loss"], run.curves["loss"], rtol=1e-5)  # type: ignore[attr-defined]


def test_predictions_for_a_graph_with_new_nodes(run):
    bigger = csbm(nodes=260, phi=-0.7, seed=0)
    assert run.predict(bigger).shape == (260,)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "mlp"},
        {"method": "lowpass"},
        {"method": "orthkry", "degree": 4},
        {"combine_hops": "concat", "degree": 2},
        {"combine_hops": "gate", "degree": 2},
        {"combine_hops": "maps", "degree": 2, "layer_norm": True},
        {"per_channel": True, "degree": 2},
        {"method": "lowpass", "per_channel": True},
        {"tied": False, "taus": (0.5, 1.2), "degree": 2},
        {"hop_norm": True, "batch_norm": True, "layers": 3},
    ],
    ids=lambda changes: "-".join(map(str, changes)),
)
def test_every_variant_is_trained_and_reported(changes, split, tmp_path):
    used = recipe(**{"hidden": 8, "epochs": 5, **changes})
    found = fit(GRAPH, used, split, device="cpu")
    assert found.probabilities(GRAPH).shape == (200, 2)
    write_pages(found, GRAPH, tmp_path, split)
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_both_directions_of_a_directed_graph_train_and_predict():
    graph = directed_csbm(nodes=200, seed=0)
    found = fit(graph, "adaptkry", "stratified", count=2, directions=("out", "in"), degree=2, hidden=8, epochs=5,
                combine_hops="sum")  # fmt: skip
    assert found.weights["filter/weights"].shape == (2, 12)  # two directions, two taus, three hops
    assert found.probabilities(graph).shape == (200, 2)


def test_the_weights_of_the_fixed_low_pass_filter_do_not_change(split):
    found = fit(GRAPH, recipe("lowpass", hidden=8, epochs=10), split, device="cpu")
    torch.testing.assert_close(found.weights["filter/weights"], torch.ones(3, 1))
    expected = stack(krylov(Propagation(GRAPH, 0.3), GRAPH.x, 6))[:, 6]
    torch.testing.assert_close(model_inputs(GRAPH, recipe("lowpass")).terms[0], expected)


def test_several_settings_train_as_one_batch_and_must_share_the_basis(split):
    pair = [QUICK, replace(QUICK, mlp_lr=0.05)]
    found = fit(GRAPH, pair, split, device="cpu")
    separate = fit(GRAPH, pair[1], split, device="cpu")
    assert len(found.results) == 6
    assert [result.test for result in found.results[3:]] == [result.test for result in separate.results]
    with pytest.raises(ValueError, match="agree in degree"):
        fit(GRAPH, [QUICK, replace(QUICK, degree=2)], split)


@pytest.mark.parametrize("per_channel", [False, True])
def test_members_with_different_taus_train_as_one_batch_as_they_would_separately(split, per_channel):
    trio = [replace(QUICK, taus=taus, per_channel=per_channel) for taus in ((0.5, 1.0), (0.8,), (0.5, 0.8, 1.2))]
    found = fit(GRAPH, trio, split, device="cpu")
    for i, one in enumerate(trio):
        separate = fit(GRAPH, one, split, device="cpu")
        np.testing.assert_allclose(found.curves["loss"][:5, 3 * i : 3 * i + 3], separate.curves["loss"][:5], rtol=1e-3)
    torch.testing.assert_close(found.weights["basis_mix"][6], torch.tensor([1 / 3, 1 / 3, 0, 1 / 3]))


def test_term_count_is_the_number_of_computed_terms():
    for changes in ({}, {"tied": False}, {"directions": ("out", "in")}, {"degree": 0}, {"method": "gcn"}):
        used = recipe(**{"taus": (0.5, 1.0), "degree": 3, **changes})
        assert used.term_count == len(model_inputs(GRAPH, used).terms)


def test_standardised_features_do_not_depend_on_units_and_use_the_scale_of_the_training_graph(split):
    used = replace(QUICK, standardise=True, epochs=10)
    run = fit(GRAPH, used, split, device="cpu")
    units = torch.linspace(0.01, 300, 16)
    other = csbm(nodes=200, phi=-0.7, seed=0)
    other.features = GRAPH.x * units + 5
    again = fit(other, used, split, device="cpu")
    torch.testing.assert_close(again.probabilities(other), run.probabilities(GRAPH), rtol=0, atol=1e-3)
    shifted = csbm(nodes=200, phi=-0.7, seed=0)
    shifted.features = GRAPH.x * 2  # not the scale of the training: predictions must differ
    assert not torch.allclose(run.probabilities(shifted), run.probabilities(GRAPH), atol=1e-3)


def test_feature_columns_are_matched_by_name(split):
    named = csbm(nodes=200, phi=-0.7, seed=0)
    names = [f"c{k}" for k in range(16)]
    named.info = replace(named.info, feature_names=names)
    run = fit(named, replace(QUICK, epochs=5), split, device="cpu")
    reordered = csbm(nodes=200, phi=-0.7, seed=0)
    reordered.features = named.x.roll(3, 1)  # not its own inverse
    reordered.info = replace(reordered.info, feature_names=names[-3:] + names[:-3])
    torch.testing.assert_close(run.probabilities(reordered), run.probabilities(named))
    reordered.info = replace(reordered.info, feature_names=[*names[1:], "else"])
    with pytest.raises(ValueError, match="missing: 'c0'"):
        run.predict(reordered)


def test_the_best_restart_on_validation_is_chosen(split):
    found = fit(GRAPH, QUICK, split, device="cpu", restarts=4)
    assert len(found.results) == 12
    assert len(found.chosen) == 3
    for i in found.chosen:
        restarts = [result for result in found.results if result.split == found.results[i].split]
        assert found.results[i].validation == max(result.validation or 0 for result in restarts)
    assert "over 3 trainings" in found.summary()
    mean = found.member_probabilities(GRAPH)[found.chosen].mean(0)
    torch.testing.assert_close(found.probabilities(GRAPH, calibrated=False), mean)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Graph([[0], [1]], torch.ones(4, 3)), "16 features; got a graph with 3"),
        (Graph([[0], [1]], torch.ones(4, 16), [0, 1, 2, 3]), "has 2 classes; got a graph with 4"),
    ],
)
def test_a_graph_that_does_not_fit_the_run_is_refused(run, graph, message):
    with pytest.raises(ValueError, match=message):
        run.predict(graph)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes"):
        fit(Graph([[0], [1]], torch.ones(4, 3), [0, 0, 0, 0]), QUICK)


def test_a_missing_gpu_is_an_error(split):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="needs a CUDA GPU"):
        fit(GRAPH, QUICK, split, device="cuda")


def test_damaged_run_folders_and_those_of_another_format_are_refused(run, tmp_path):
    folder = run.save(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match=r"must hold run\.json"):
        load_run(tmp_path)
    weights = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(weights[:-8] + bytes(8))  # still a well-formed file
    with pytest.raises(ValueError, match="checksum"):
        load_run(folder)
    (folder / "weights.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ValueError, match="damaged"):
        load_run(folder)
    page = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(page | {"format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        load_run(folder)


def test_a_checkpoint_of_other_settings_is_refused(split, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(GRAPH, QUICK, split, device="cpu", out=tmp_path, callbacks=[interrupt])
    assert (tmp_path / "checkpoint.safetensors").exists()
    with pytest.raises(ValueError, match="other settings"):
        fit(GRAPH, replace(QUICK, mlp_lr=0.3), split, device="cpu", out=tmp_path, resume=True)


def test_a_checkpoint_of_other_splits_and_a_damaged_one_are_refused(split, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(GRAPH, QUICK, split, device="cpu", out=tmp_path, callbacks=[interrupt])
    other = splits.uniform(GRAPH.y, count=3)
    with pytest.raises(ValueError, match="scheme was stratified, now uniform"):
        fit(GRAPH, QUICK, other, device="cpu", out=tmp_path, resume=True)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="damaged"):
        fit(GRAPH, QUICK, split, device="cpu", out=tmp_path, resume=True)


def test_a_checkpoint_of_another_training_that_was_copied_into_the_folder_is_refused(split, tmp_path):
    for name, used in (("one", QUICK), ("other", replace(QUICK, mlp_lr=0.3))):
        with pytest.raises(KeyboardInterrupt):
            fit(GRAPH, used, split, device="cpu", out=tmp_path / name, callbacks=[interrupt])
    shutil.copy(tmp_path / "other" / "checkpoint.safetensors", tmp_path / "one")
    with pytest.raises(ValueError, match="must belong to this training; got one of other settings"):
        fit(GRAPH, QUICK, split, device="cpu", out=tmp_path / "one", resume=True)


def test_the_digest_of_a_graph_depends_on_all_of_its_data_and_on_the_splits(split):
    edges = torch.from_numpy(np.stack(GRAPH.adjacency.nonzero()))
    weights, x, y = torch.ones(edges.shape[1]), GRAPH.x, GRAPH.y
    others = [
        Graph(edges, x, y, weights=2 * weights),
        Graph(edges[:, (edges != 7).all(0)], x, y),
        Graph(edges, x + (torch.arange(200) == 7)[:, None], y),
        Graph(edges, None, y),
        Graph(edges, x, torch.where(torch.arange(200) == 7, 1 - y, y)),
    ]
    digests = [GraphData(graph).digest(split) for graph in (Graph(edges, x, y), *others)]
    exchanged = splits.Splits(split.train, split.test, split.validation)
    digests += [GraphData(others[0]).digest(one) for one in (split.take(2), exchanged)]
    assert len(set(digests)) == len(digests)


def interrupt(_):
    raise KeyboardInterrupt


PROGRAM = """
import sys, time
from pathlib import Path
from adaptkry.training.fit import fit
from adaptkry.graphs import splits
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
graph = csbm(nodes=200, phi=-0.7, seed=0)
used = recipe("adaptkry", degree=3, hidden=16, epochs=200, patience=400, filter_dropout=0.2)
pause = lambda state: (print(state.epoch, flush=True), time.sleep(float(sys.argv[2])))
fit(graph, used, splits.stratified(graph.y, count=3), device="cpu", out=sys.argv[1], resume=True, callbacks=[pause])
"""


def test_a_killed_run_resumes_to_the_same_results(tmp_path):
    def start(folder, pause):
        return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), pause], stdout=subprocess.PIPE, text=True)

    whole = start(tmp_path / "whole", "0")
    killed = start(tmp_path / "killed", "0.3")
    assert killed.stdout is not None
    while int(killed.stdout.readline()) < 60:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "killed" / "run.json").exists()
    again = start(tmp_path / "killed", "0")
    for process in (whole, again):
        process.communicate(timeout=120)
        assert process.returncode == 0
    one, other = (load_run(tmp_path / name) for name in ("whole", "killed"))
    assert [result.test for result in one.results] == [result.test for result in other.results]
    assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)  # type: ignore[attr-defined]


def test_a_row_of_an_older_version_is_read():
    old = {"config": {"method": "adaptkry", "kind": "free", "start": "uniform", "loops": "keep", "least_epochs": 0}}
    old |= {"graph": "cora", "split": 0, "split_seed": 1, "scheme": "class_balanced", "seed": 0, "metric": "accuracy"}
    old |= {"test": 0.8, "validation": 0.9, "epoch": 3, "failed": None, "chosen": True}
    old |= {"version": "0.1.0", "commit": "x", "device": "cpu", "torch": "2", "python": "3"}
    found = Result.from_row(old | {"cell_seconds": 1.0})
    assert found.settings["parametrisation"] == "free"
    assert found.settings["self_loops"] == "keep"
    assert found.test == 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gnc"}, "unknown method 'gnc'. Did you mean"),
        ({"batch": 4}, "Did you mean .*'batch_size'"),
        ({"degre": 4}, "Did you mean 'degree'"),
        ({"seeds": 0}, "seeds must be 1 or more; got 0"),
        ({"seed": -1}, "seed must be 0 or more; got -1"),
        ({"splits": 3}, "splits must be Splits or the name of a scheme; got 3. For 3 splits use count=3"),
        ({"restarts": 0}, "restarts must be 1 or more; got 0"),
        ({"method": 5}, "a Recipe or a list of recipes"),
        ({"method": []}, "a Recipe or a list of recipes"),
        ({"splits": splits.uniform(torch.arange(50) % 2, count=1)}, "splits must cover all 200 rows; got splits of 50"),
        ({"directions": ("out",)}, "directions must be both; got out"),
        ({"memory": "1KiB"}, "must fit in memory: about"),
        ({"method": "gcn", "batch_size": 10}, "gcn needs all nodes at once"),
    ],
    ids=str,
)
def test_bad_arguments_of_fit_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit(GRAPH, **{"splits": "stratified", "device": "cpu", "count": 2, **options})


def test_nodes_without_labels_are_not_scored(split):
    graph = GRAPH.relabelled(torch.where(split.test[0], -1, GRAPH.y))
    with pytest.raises(ValueError, match="test nodes must have labels; got node"):
        fit(graph, QUICK, split.take(1), device="cpu")


def test_a_finished_run_is_loaded_on_resuming_and_other_data_are_refused(split, tmp_path):
    first = fit(GRAPH, replace(QUICK, epochs=3), split, device="cpu", out=tmp_path)
    again = fit(GRAPH, replace(QUICK, epochs=3), split, device="cpu", out=tmp_path, resume=True, callbacks=[interrupt])
    assert [result.to_row() for result in again.results] == json.loads(
        json.dumps([result.to_row() for result in first.results])
    )
    changed = csbm(nodes=200, phi=-0.7, seed=1)
    with pytest.raises(ValueError, match="other settings: the data"):
        fit(changed, replace(QUICK, epochs=3), split, device="cpu", out=tmp_path, resume=True)


@pytest.mark.parametrize("kind", ["name", "pyg", "networkx"])
def test_fit_accepts_names_pyg_data_and_networkx_graphs(kind):
    import networkx as nx
    from torch_geometric.data import Data

    if kind == "name":
        data = "csbm"
    elif kind == "pyg":
        rows = torch.repeat_interleave(torch.arange(200), GRAPH.indptr.diff())
        data = Data(x=GRAPH.x, y=GRAPH.y, edge_index=torch.stack([rows, GRAPH.indices.long()]))
    else:
        data = nx.from_scipy_sparse_array(GRAPH.adjacency)
        for node in data:
            data.nodes[node].update(x=GRAPH.x[node].tolist(), y=int(GRAPH.y[node]))
    run = fit(data, "adaptkry", "stratified", count=2, degree=2, epochs=3, device="cpu")
    assert len(run.results) == 2


def renamed(name: str, own: splits.Splits | None = None, *, is_benchmark: bool = False) -> Graph:
    graph = GRAPH.relabelled(GRAPH.y)
    masks = None if own is None else {part: getattr(own, part) for part in splits.PARTS}
    graph.info = replace(graph.info, name=name, masks=masks, known_as=name if is_benchmark else None)
    return graph


def test_default_splits_depend_on_where_the_data_come_from(tmp_path):
    data = {
        "built in": "csbm",
        "published": renamed("cora", is_benchmark=True),
        "graph of that name": renamed("cora"),
        "file read before": load(write_npz(renamed("cora", is_benchmark=True), tmp_path / "cora.npz")),
        "file": write_npz(renamed("cora"), tmp_path / "cora.npz"),
        "file with masks": write_npz(renamed("cora", splits.stratified(GRAPH.y, 2)), tmp_path / "masks.npz"),
        "folder": propagate(renamed("cora"), tmp_path / "basis", taus=[0.5], degree=2),
    }
    assert {name: open_data(item).splits().label for name, item in data.items()} == {
        "built in": "5 stratified splits",
        "published": "10 class_balanced splits",
        "graph of that name": "5 stratified splits",
        "file read before": "5 stratified splits",
        "file": "5 stratified splits",
        "file with masks": "2 fixed splits",
        "folder": "5 stratified splits",
    }


def test_the_summary_names_number_and_scheme_of_the_splits():
    run = fit(GRAPH, replace(QUICK, epochs=2), device="cpu", seeds=2)
    assert run.summary().endswith("(mean ± std over 10 trainings, 5 stratified splits)")
    assert (
        fit(GRAPH, replace(QUICK, epochs=2), "uniform", count=1, device="cpu").summary().endswith(", 1 uniform split)")
    )


def test_a_run_predicts_from_what_fit_accepts_and_refuses_a_basis_folder(tmp_path):
    run = fit("csbm", "adaptkry", "stratified", count=2, degree=2, epochs=3, device="cpu")
    assert torch.equal(run.predict("csbm"), run.predict(csbm()))
    basis = propagate(csbm(), tmp_path / "basis", taus=[0.5], degree=2)
    with pytest.raises(TypeError, match="predict needs a graph in memory; got the basis folder of csbm"):
        run.predict(basis)


def test_several_names_of_graphs_are_refused():
    with pytest.raises(ValueError, match=r"data must be one name, or paths .*; got csbm gcn, where csbm is a name"):
        fit(["csbm", "gcn"])


def test_a_part_of_a_run_does_not_keep_the_confusion_counts_of_all_members(run):
    assert run.info.confusion is not None
    assert run.only([0]).info.confusion is None


def test_timestamps_are_told_apart_in_training_and_in_prediction(tmp_path):
    times = [1_700_000_000 + (30 if i % 2 else 0) for i in range(60)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{i},{i}\n" for i in range(60)))
    rows = "".join(f"{i},{'ab'[i % 2]},{time}\n" for i, time in enumerate(times))
    (tmp_path / "nodes.csv").write_text(f"id,label,time\n{rows}")
    graph = load(tmp_path)
    assert graph.x[:2].flatten().tolist() == times[:2]
    run = fit(graph, "mlp", "stratified", count=1, epochs=60, device="cpu")
    assert run.test_scores.tolist() == [1.0]
    run.save(tmp_path / "run")
    assert load_run(tmp_path / "run").predict(graph).equal(graph.y)
    exact = Graph(np.stack([np.arange(60)] * 2), np.array(times, dtype=np.float64)[:, None], graph.y)
    assert load_run(tmp_path / "run").predict(exact).equal(graph.y)


@pytest.mark.parametrize(("method", "options"), [("adaptkry", {}), ("adaptkry", {"batch_size": 50}), ("asgc", {})])
def test_labels_of_test_nodes_change_no_epoch_no_weight_and_no_validation_score(method, options):
    graph = csbm(nodes=200, phi=-0.3, information=0.4, seed=0)  # hard enough for scores below 1
    single = splits.stratified(graph.y, count=1)
    other = graph.relabelled(torch.where(single.test[0], 1 - graph.y, graph.y))
    settings: dict[str, Any] = {"degree": 3, "hidden": 16, "epochs": 30} if method == "adaptkry" else {}
    one, flipped = (fit(labelled, method, single, device="cpu", **options, **settings) for labelled in (graph, other))
    assert one.results[0].test == pytest.approx(1 - flipped.results[0].test)
    assert one.results[0].test != one.results[0].validation
    for name in ("epoch", "validation"):
        assert getattr(one.results[0], name) == getattr(flipped.results[0], name)
    assert all(torch.equal(w, flipped.weights[name]) for name, w in one.weights.items())


def test_restarts_and_members_have_their_own_seeds_and_weights(split):
    found = fit(GRAPH, replace(QUICK, epochs=1), split, device="cpu", restarts=3)
    assert len({member.seed for member in found.members}) == 9
    first = found.weights["mlp/1/layer0"]
    assert min(float((first[i] - first[j]).abs().max()) for i in range(9) for j in range(i)) > 1e-3


def test_the_summary_has_the_mean_and_the_sample_deviation_of_test_scores(run):
    results = [replace(result, test=score) for result, score in zip(run.results, (0.5, 0.6, 0.8), strict=True)]
    assert "test accuracy 63.33 ± 15.28 % (" in replace(run, results=results).summary()


def test_confusion_counts_are_those_of_test_nodes_by_true_class_and_of_chosen_restarts(split):
    found = fit(GRAPH, replace(QUICK, epochs=8), split, device="cpu", restarts=2)
    predicted = found.member_probabilities(GRAPH).argmax(-1)
    expected = np.zeros((2, 2), dtype=int)
    for i in found.chosen:
        test = split.test[found.results[i].split]
        np.add.at(expected, (GRAPH.y[test].numpy(), predicted[i][test].numpy()), 1)
    assert found.info.confusion == expected.tolist()


def test_the_first_metric_chooses_and_all_are_reported():
    graph = csbm(nodes=150, phi=0.3, classes=3, seed=4)
    names = ["macro_f1", "accuracy", "roc_auc"]
    options: dict[str, Any] = {"count": 2, "epochs": 25, "device": "cpu"}
    run = fit(graph, "mlp", "stratified", metrics=names, **options)
    alone = fit(graph, "mlp", "stratified", metrics="macro_f1", **options)
    drawn = splits.make(graph, "stratified", 2)
    probabilities = run.member_probabilities(graph)
    for one, other, p in zip(run.results, alone.results, probabilities, strict=True):
        assert (one.metric, one.validation, one.epoch) == ("macro_f1", other.validation, other.epoch)
        assert one.validation_scores
        assert one.test_scores
        assert other.test_scores
        assert [*one.test_scores] == [*one.validation_scores] == names
        assert (one.test, one.validation) == (one.test_scores["macro_f1"], one.validation_scores["macro_f1"])
        assert one.test_scores["macro_f1"] == other.test_scores["macro_f1"]
        for part, scores in (("validation", one.validation_scores), ("test", one.test_scores)):
            mask = getattr(drawn, part)[one.split]
            y, predicted = graph.y[mask], p[mask].argmax(1)
            assert scores["macro_f1"] == pytest.approx(sk_metrics.f1_score(y, predicted, average="macro"), abs=1e-6)
            assert scores["accuracy"] == pytest.approx(sk_metrics.accuracy_score(y, predicted), abs=1e-6)
            areas = [sk_metrics.roc_auc_score(y == k, p[mask][:, k]) for k in range(3)]
            assert scores["roc_auc"] == pytest.approx(float(np.mean(areas)), abs=1e-6)
    assert "test macro_f1 " in run.summary()
    assert ", roc_auc " in run.summary()


def test_a_seed_decides_weights_and_dropout_but_not_the_splits(tmp_path):
    used = {"count": 2, "epochs": 3, "hidden": 4, "degree": 2, "device": "cpu"}
    zero, one, again = (fit(GRAPH, "adaptkry", "stratified", seed=seed, **used) for seed in (0, 1, 1))
    assert [member.seed for member in zero.members] == [0, 1]
    assert [member.seed for member in one.members] == [1000, 1001]
    for name, w in one.weights.items():
        assert torch.equal(w, again.weights[name])
    assert any(not torch.equal(w, zero.weights[name]) for name, w in one.weights.items())
    assert [row.split_seed for row in one.results] == [row.split_seed for row in zero.results]
    fit(GRAPH, "adaptkry", "stratified", seed=1, out=tmp_path, **used)
    with pytest.raises(ValueError, match=r"seed was 1, now 0"):
        fit(GRAPH, "adaptkry", "stratified", seed=0, out=tmp_path, resume=True, **used)
