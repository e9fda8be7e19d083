import io
import json
import sys
import zipfile
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.training import export as exports
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.fit import fit
from adaptkry.training.run_folder import load_run

GRAPH, OTHER = csbm(nodes=120, seed=0), csbm(nodes=70, seed=3)


def trained(method: str = "adaptkry", **settings: Any):
    return fit(GRAPH, method, **{"epochs": 3, "count": 2, "hidden": 8, "degree": 3, "taus": (0.5,), **settings})


def predicted(path, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The output of an exported file."""
    if path.suffix == ".pt2":
        return torch.export.load(path).module()(*inputs.values())
    session = onnxruntime.InferenceSession(path)
    assert [each.name for each in session.get_inputs()] == list(inputs)
    return torch.from_numpy(session.run(None, {name: basis.numpy() for name, basis in inputs.items()})[0])


def assert_same(path, run) -> None:
    """The file predicts as the run does: a graph with other nodes, all rows or one row of it."""
    expected, inputs = run.probabilities(OTHER), run.head_inputs(OTHER)
    torch.testing.assert_close(predicted(path, inputs), expected, rtol=0, atol=1e-5)
    one = {name: basis[5:6] for name, basis in inputs.items()}
    torch.testing.assert_close(predicted(path, one), expected[5:6], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_an_exported_run_predicts_as_the_run_does(kind, tmp_path):
    run = trained(combine_hops="sum", per_channel=True, batch_norm=True, standardise=True, hop_norm=True, restarts=2)
    assert len(run.members) == 4
    assert len(run.chosen) == 2
    assert_same(run.export(tmp_path / f"new/head.{kind}"), run)
    assert_same(load_run(run.save(tmp_path / "run")).export(tmp_path / f"again.{kind}"), run)


MODELS: dict[str, dict[str, Any]] = {
    "gate": {"combine_hops": "gate"},
    "maps": {"combine_hops": "maps", "layer_norm": True, "layers": 3},
    "taus": {"combine_hops": "sum", "taus": (0.5, 1.0), "tied": False},
    "structure": {"structure": 4, "reduce": 5},
    "mlp": {"method": "mlp", "degree": 0},
    "sgc": {"method": "sgc"},
    "sign": {"method": "sign"},
}


@pytest.mark.parametrize("name", MODELS)
def test_all_kinds_of_heads_are_exported(name, tmp_path):
    run = trained(**MODELS[name])
    inputs, expected = run.head_inputs(GRAPH), run.probabilities(GRAPH)
    torch.testing.assert_close(predicted(run.export(tmp_path / "head.pt2"), inputs), expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_all_kinds_of_heads_are_exported_to_onnx(name, tmp_path):
    run = trained(**MODELS[name])
    inputs, expected = run.head_inputs(GRAPH), run.probabilities(GRAPH)
    torch.testing.assert_close(predicted(run.export(tmp_path / "head.onnx"), inputs), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_the_parts_of_an_ensemble_have_an_input_each_and_keep_their_shares(kind, tmp_path):
    parts = [trained(), trained(taus=(1.0,), degree=1)]  # each is trained on two splits
    shares = [[0.75, 0.0], [0.25, 1.0]]
    ensemble = Ensemble(parts, shares, parts[0].results, parts[0].info)
    inputs = ensemble.head_inputs(OTHER)
    assert {name: basis.shape[1] for name, basis in inputs.items()} == {"basis_0": 4, "basis_1": 2}
    assert_same(ensemble.export(tmp_path / f"head.{kind}"), ensemble)


def test_files_hold_the_names_of_classes(tmp_path):
    run = trained()
    run.info.class_names = ["left", "right"]
    model = onnx.load(run.export(tmp_path / "head.onnx"))
    onnx.checker.check_model(model)
    assert {entry.key: json.loads(entry.value) for entry in model.metadata_props}["classes"] == ["left", "right"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param  # any number of rows
    extra = {"classes.json": ""}
    torch.export.load(run.export(tmp_path / "head.pt2"), extra_files=extra)
    assert json.loads(extra["classes.json"]) == ["left", "right"]


COUPLED = {
    "gcn": "propagates its hidden units",
    "gprgnn": "propagates its hidden units",
    "gat": "propagates its hidden units",
    "optbasis": "propagates its hidden units",
}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        *(({"method": method}, reason) for method, reason in COUPLED.items()),
        ({"similar_nodes": 2}, "uses the labels of training nodes"),
        ({"structure_layer": True}, "has a structure layer"),
    ],
)
def test_models_that_need_the_graph_are_refused(settings, reason, tmp_path):
    run = trained(**settings)
    for call in (lambda: run.export(tmp_path / "head.pt2"), lambda: run.head_inputs(GRAPH)):
        with pytest.raises(ValueError, match=f"can be exported; .* {reason}"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_other_kinds_of_files_are_not_overwritten(tmp_path):
    run = trained()
    with pytest.raises(ValueError, match=r"unknown kind of file '\.txt'"):
        run.export(tmp_path / "head.txt")
    (tmp_path / "head.pt2").write_text("mine")
    with pytest.raises(ValueError, match="is no earlier output of this kind"):
        run.export(tmp_path / "head.pt2")
    assert (tmp_path / "head.pt2").read_text() == "mine"
    first = run.export(tmp_path / "other.pt2").read_bytes()
    assert exports.is_export(first)
    run.export(tmp_path / "other.pt2")  # an earlier export
    assert zipfile.is_zipfile(io.BytesIO(first))


def test_without_the_packages_of_onnx_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"pip install 'adaptkry\[onnx\]'\), or write a \.pt2 file"):
        trained().export(tmp_path / "head.onnx")


def test_the_command_writes_the_file_and_prints_the_shapes(command, tmp_path):
    run = trained()
    run.save(tmp_path / "run")
    printed = command("export", "run", "--out", "head.pt2", cwd=tmp_path)
    assert " ".join(printed.out.split()) == "basis [rows, 4, 16] -> probabilities [rows, 2]: head.pt2"
    assert_same(tmp_path / "head.pt2", run)
    found = json.loads(command("export", "run", "--out", "head.pt2", "--json", cwd=tmp_path).out)
    assert found == {"out": "head.pt2", "inputs": {"basis": [None, 4, 16]}, "classes": 2}


@pytest.mark.parametrize("kind", ["pt2", "onnx"])
@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_heads_of_other_tasks_return_values_or_probabilities_of_labels(kind, task, tmp_path):
    y = 5000 + 100 * GRAPH.x[:, :2].double() if task == "regression" else (GRAPH.x[:, :2] > 0).long()
    graph = Graph(GRAPH.adjacency.nonzero(), GRAPH.x, y, task=task)
    run = fit(graph, epochs=20, count=2, hidden=8, degree=3, taus=(0.5,), device="cpu")
    expected = run.predict(graph) if task == "regression" else run.probabilities(graph)
    path = run.export(tmp_path / f"head.{kind}")
    found = predicted(path, run.head_inputs(graph))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)
    if kind == "onnx":
        wanted = "values" if task == "regression" else "probabilities"
        assert [each.name for each in onnxruntime.InferenceSession(path).get_outputs()] == [wanted]
