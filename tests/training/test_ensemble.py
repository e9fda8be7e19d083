"""Ensembles: averages of trainings, which are saved, loaded, resumed and tested like a run."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import stratified
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.training.data import GraphData
from adaptkry.training.ensemble import Ensemble, combine_runs, mean_shares
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

GRAPH = csbm(nodes=150, phi=-0.5, information=0.8, seed=1)
SPLITS = stratified(GRAPH.y, count=2)
RECIPE = recipe("adaptkry", degree=3, hidden=8, epochs=12)


@pytest.fixture(scope="module")
def single():
    """Three trainings per split, all kept."""
    return fit(GRAPH, RECIPE, SPLITS, seeds=3, predict=True, device="cpu")


@pytest.fixture(scope="module")
def ensemble():
    return fit(GRAPH, RECIPE, SPLITS, restarts=3, combine="mean", device="cpu")


@pytest.fixture
def folder(ensemble, tmp_path):
    return ensemble.save(tmp_path / "saved")


def test_an_ensemble_is_the_mean_of_the_probabilities_of_its_trainings(single, ensemble):
    members = single.member_probabilities(GRAPH).numpy()  # [6, n, c]; the splits of one seed follow each other
    of_split = members.reshape(3, 2, GRAPH.nodes, 2).mean(0)  # [s, n, c]
    correct = of_split.argmax(-1) == GRAPH.y.numpy()
    for split, result in enumerate(ensemble.results):
        assert result.test == pytest.approx(correct[split][SPLITS.test[split]].mean(), abs=1e-6)
        assert result.validation == pytest.approx(correct[split][SPLITS.validation[split]].mean(), abs=1e-6)
    np.testing.assert_allclose(ensemble.probabilities(GRAPH, calibrated=False).numpy(), of_split.mean(0), atol=1e-6)
    assert ensemble.trainings == 6
    counts = np.array(ensemble.info.confusion)
    assert np.trace(counts) == sum(correct[split][SPLITS.test[split]].sum() for split in range(2))


def test_kept_probabilities_are_those_of_a_prediction(single):
    torch.testing.assert_close(single.predicted, single.member_probabilities(GRAPH), atol=1e-6, rtol=0)


def test_members_that_failed_have_no_share(single):
    results = [json.loads(json.dumps(result.to_row())) for result in single.results]
    broken = single.only(range(6))
    broken.results = [type(single.results[0]).from_row(row) for row in results]
    for i in (1, 3, 5):  # all trainings of split 1
        broken.results[i].validation, broken.results[i].failed = None, "loss was not finite in epoch 0"
    broken.predicted = broken.predicted.clone()
    broken.predicted[1::2] = torch.nan
    shares = mean_shares([broken], len(SPLITS))
    assert shares == [[1 / 3, 0.0] * 3]
    found = combine_runs([broken], shares, GraphData(GRAPH), SPLITS, combine="mean")
    assert found.chosen == [0]
    assert found.results[1].failed == "all members of the split failed"
    assert torch.isfinite(found.probabilities(GRAPH)).all()


def test_an_ensemble_without_a_successful_member_can_be_saved(single, tmp_path):
    results = [replace(result, validation=None) for result in single.results[:2]]
    failed = Ensemble([single], [[0.0] * 6], results, single.info)
    assert load_run(failed.save(tmp_path)).trainings == 0


def test_a_loaded_ensemble_is_the_same_and_predicts_new_nodes(ensemble, folder):
    loaded = load_run(folder)
    assert isinstance(loaded, Ensemble)
    assert loaded.results == ensemble.results
    assert (loaded.summary(), loaded.combine) == (ensemble.summary(), "mean")
    assert torch.equal(loaded.probabilities(GRAPH), ensemble.probabilities(GRAPH))
    row, column = GRAPH.adjacency.nonzero()
    edges = np.concatenate([np.stack([row, column]), [[0, 150], [150, 0]]], 1)
    grown = Graph(edges, torch.cat([GRAPH.x, GRAPH.x[:1]]))
    new = loaded.probabilities(grown)  # [151, c]
    assert new.shape == (151, 2)
    parts = [part.member_probabilities(grown) for part in loaded.parts]
    torch.testing.assert_close(new, torch.cat(parts).mean(0), atol=1e-6, rtol=0)


def test_a_smaller_ensemble_replaces_the_parts_of_a_larger_one(single, ensemble, folder):
    two = [single.only([0, 1]), single.only([2, 3])]
    combine_runs(two, mean_shares(two, len(SPLITS)), GraphData(GRAPH), SPLITS, combine="mean").save(folder)
    assert sorted(path.name for path in (folder / "members").iterdir()) == ["0", "1"]
    ensemble.save(folder)
    assert sorted(path.name for path in (folder / "members").iterdir()) == ["0"]


def test_a_damaged_or_foreign_part_is_refused(single, folder, tmp_path):
    weights = folder / "members" / "0" / "weights.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + b"\x01")
    with pytest.raises(ValueError, match="must have the checksum in run"):
        load_run(folder)
    single.save(tmp_path / "other")
    shutil.rmtree(folder / "members" / "0")
    shutil.copytree(tmp_path / "other", folder / "members" / "0")
    with pytest.raises(ValueError, match="must belong to the ensemble"):
        load_run(folder)
    shutil.rmtree(folder / "members" / "0")
    with pytest.raises(FileNotFoundError, match="must hold members/0"):
        load_run(folder)


class KilledError(Exception):
    """Stands for a kill of the process."""


def test_a_resumed_ensemble_has_the_same_bits_as_an_uninterrupted_one(tmp_path):
    settings = {"restarts": 2, "combine": "mean", "device": "cpu", "epochs": 60}
    whole = fit(GRAPH, RECIPE, SPLITS, out=tmp_path / "whole", **settings)

    def kill(state) -> None:
        if state.epoch >= 20:
            raise KilledError

    with pytest.raises(KilledError):
        fit(GRAPH, RECIPE, SPLITS, out=tmp_path / "killed", callbacks=[kill], **settings)
    assert not (tmp_path / "killed" / "run.json").exists()
    resumed = fit(GRAPH, RECIPE, SPLITS, out=tmp_path / "killed", resume=True, **settings)
    assert resumed.results == whole.results
    for name, w in whole.parts[0].weights.items():
        assert torch.equal(w, resumed.parts[0].weights[name]), name
    again = fit(GRAPH, RECIPE, SPLITS, out=tmp_path / "killed", resume=True, **settings)
    assert again.results == whole.results
    with pytest.raises(ValueError, match="other settings"):
        fit(GRAPH, RECIPE, SPLITS, out=tmp_path / "killed", resume=True, **settings | {"combine": "best"})


def test_averaging_needs_a_graph_in_memory_and_a_known_rule():
    with pytest.raises(ValueError, match="unknown way to combine trainings 'median'"):
        fit(GRAPH, RECIPE, SPLITS, combine="median")


def test_confusion_counts_of_an_ensemble_are_those_of_test_nodes_by_true_class(single, ensemble):
    predicted = single.member_probabilities(GRAPH).reshape(3, 2, GRAPH.nodes, 2).mean(0).argmax(-1)  # [s, n]
    expected = np.zeros((2, 2), dtype=int)
    for split, test in enumerate(SPLITS.test):
        np.add.at(expected, (GRAPH.y[test].numpy(), predicted[split][test].numpy()), 1)
    assert ensemble.info.confusion == expected.tolist()
