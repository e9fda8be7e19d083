"""Training nodes are found by id in a graph with new nodes: in files, data frames and graphs, in any order."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from adaptkry.cli.app import app
from adaptkry.graphs.load import load
from adaptkry.models.recipe import recipe
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

OLD, NEW = 60, 12
BASE = recipe("adaptkry", degree=2, hidden=4, epochs=20, mlp_lr=0.05)
SETTINGS = {
    "columns": {"structure": 3},
    "layer": {"structure_layer": True},
    "labels": {"similar_nodes": 4},
}


def tables(nodes: int = OLD + NEW) -> list[pd.DataFrame]:
    """Edges and nodes with random features; new nodes follow the others."""
    random = np.random.default_rng(0)
    ids = [f"n{i}" for i in range(OLD + NEW)]
    ends = random.integers(0, OLD + NEW, (2, 300))
    ends = ends[:, (ends < nodes).all(0)]
    edges = pd.DataFrame({"source": [ids[i] for i in ends[0]], "target": [ids[i] for i in ends[1]]})
    columns = {f"f{k}": random.normal(size=OLD + NEW) for k in range(3)}
    labels = ["yes" if x > 0 else "no" for x in columns["f0"][:OLD]] + [None] * NEW
    return [edges, pd.DataFrame({"id": ids, **columns, "label": labels}).head(nodes)]


def shuffled(data: list[pd.DataFrame]) -> list[pd.DataFrame]:
    edges, nodes = data
    return [edges.sample(frac=1, random_state=1), nodes.sample(frac=1, random_state=2).reset_index(drop=True)]


def by_id(frame: pd.DataFrame, ids) -> np.ndarray:
    """The probabilities of nodes in the order of these ids."""
    return frame.set_index("id").loc[list(ids), ["p(no)", "p(yes)"]].to_numpy()


@pytest.fixture(scope="module", params=[*SETTINGS, "ensemble"])
def run(request, tmp_path_factory):
    """A run, or an ensemble of two trainings per split, that was written and read."""
    folder, data = tmp_path_factory.mktemp("runs") / "run", load(tables(OLD))
    is_ensemble = request.param == "ensemble"
    used = replace(BASE, **SETTINGS["columns" if is_ensemble else request.param])
    options = {"restarts": 2, "combine": "mean"} if is_ensemble else {}
    fit(data, used, "stratified", count=2, device="cpu", **options).save(folder)
    loaded = load_run(folder)
    assert isinstance(loaded, Ensemble) == is_ensemble
    return loaded


def test_predictions_do_not_depend_on_the_order_of_a_file(run):
    ordered, mixed = tables(), shuffled(tables())
    ids = mixed[1]["id"]
    expected = by_id(run.predict_frame(ordered), ids)
    assert expected[:, 0].std() > 0.01
    found = run.predict_frame(mixed)
    assert list(found["id"]) == list(ids)
    np.testing.assert_allclose(by_id(found, ids), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(run.probabilities(mixed), expected, rtol=0, atol=1e-6)
    assert run.predict(mixed).tolist() == expected.argmax(1).tolist()
    np.testing.assert_allclose(run.predictor(mixed)(), expected, rtol=0, atol=1e-6)
    some = run.predict_frame(mixed, nodes=["n70", "n3"])
    np.testing.assert_allclose(by_id(some, ["n70", "n3"]), by_id(found, ["n70", "n3"]), rtol=0, atol=1e-6)


def test_the_command_finds_training_nodes_by_id_too(run, tmp_path):
    run.save(tmp_path / "run")
    for name, data in (("ordered", tables()), ("mixed", shuffled(tables()))):
        paths = [str(tmp_path / f"{name}-{table}.csv") for table in ("edges", "nodes")]
        for path, table in zip(paths, data, strict=True):
            table.to_csv(path, index=False)
        out = ["--out", str(tmp_path / f"{name}.csv")]
        result = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), *paths, *out], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    found, expected = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("mixed", "ordered"))
    assert list(found["id"]) == list(shuffled(tables())[1]["id"])
    np.testing.assert_allclose(
        by_id(found, expected["id"]), by_id(expected, expected["id"]), rtol=0, atol=2e-6
    )  # 6 digits


def test_a_predictor_of_a_shuffled_graph_follows_changes(run):
    mixed = shuffled(tables())
    predictor = run.predictor(mixed)
    predictor.update(torch.ones(1, 3), [["new"], ["n3"]], ids=["new"])
    edges = pd.concat([mixed[0], pd.DataFrame({"source": ["new"], "target": ["n3"]})])
    nodes = pd.concat([tables()[1], pd.DataFrame({"id": ["new"], "f0": 1.0, "f1": 1.0, "f2": 1.0})])
    expected = run.predict_frame([edges, nodes], nodes=["new", "n3"])
    np.testing.assert_allclose(predictor(["new", "n3"]), by_id(expected, ["new", "n3"]), rtol=0, atol=1e-6)


def test_a_graph_without_some_training_nodes_is_refused(run):
    edges, nodes = tables()
    gone = ["n5", "n7"]
    edges = edges[~edges["source"].isin(gone) & ~edges["target"].isin(gone)]
    with pytest.raises(ValueError, match=r"missing are 'n5', 'n7'\. Give old and new nodes together"):
        run.predict([edges, nodes[~nodes["id"].isin(gone)]])


def test_a_nodes_file_of_new_nodes_alone_is_refused_with_what_to_do(run):
    edges, nodes = tables()
    message = (
        r"must hold ids of the nodes file .* Give old and new nodes together.* use --nodes FILE \(nodes=\[...\] in"
    )
    with pytest.raises(ValueError, match=message):
        run.predict([edges, nodes[OLD:]])
    with pytest.raises(ValueError, match=r"or delete their edges\.$"):  # nothing about predictions without a run
        load([edges, nodes[OLD:]])


def test_a_folder_with_a_digest_of_ids_is_read_and_needs_their_order(tmp_path):
    run = fit(load(tables(OLD)), replace(BASE, structure=3), "stratified", count=2, device="cpu")
    expected = run.probabilities(tables())
    ids = json.loads(bytes(run.saved_inputs.pop("training_ids").tolist()))
    digest = hashlib.sha256("\n".join(ids).encode()).digest()
    run.saved_inputs["node_ids"] = torch.tensor(list(digest), dtype=torch.uint8)
    run.save(tmp_path / "run")
    earlier = load_run(tmp_path / "run")
    torch.testing.assert_close(earlier.probabilities(tables()), expected)
    with pytest.raises(ValueError, match="the first 60 nodes must be the training nodes in the same order"):
        earlier.probabilities(shuffled(tables()))


def test_a_folder_with_fewer_ids_than_training_nodes_is_refused(tmp_path):
    run = fit(load(tables(OLD)), replace(BASE, structure=3), "stratified", count=2, device="cpu")
    run.saved_inputs["training_ids"] = torch.tensor(list(b'["a"]'), dtype=torch.uint8)
    run.save(tmp_path / "run")
    with pytest.raises(ValueError, match="it must have an id of each training node"):
        load_run(tmp_path / "run")
