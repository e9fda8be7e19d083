"""The head of a trained model, from a basis to predictions, as ONNX or as a program of torch.export.

Predictions are probabilities of classes, of other tasks probabilities of labels, or values.

The basis of a graph does not depend on trained weights, so it is computed once (`run.head_inputs(graph)`), and the head
predicts for any rows of it without adaptkry.
"""

import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from adaptkry.common.files import check_output_file, write
from adaptkry.common.lookup import pick
from adaptkry.models import batched
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import FixedNoise
from adaptkry.training.calibration import Calibration, tempered
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.run import Run
from adaptkry.training.tasks import predictions
from adaptkry.training.trained_model import WeightedPart


class Head(nn.Module):
    """The members of one part: basis [m, T, d] -> their share [v, b] of the predictions of each model [v, m, c]."""

    def __init__(self, part: Run, shares: Tensor):
        super().__init__()
        self.shape = part.shape
        self.names = {name: f"weight{number}" for number, name in enumerate(part.weights)}
        for name, buffer in self.names.items():
            self.register_buffer(buffer, part.weights[name].float())
        self.register_buffer("shares", shares.float())

    def forward(self, basis: Tensor) -> Tensor:
        """Compute the share of each model's predictions [v, m, c]."""
        shares = self.get_buffer("shares")
        weights = {name: self.get_buffer(buffer) for name, buffer in self.names.items()}
        rows = torch.arange(basis.shape[0], device=basis.device).expand(shares.shape[1], -1)  # [b, m]
        mask = torch.ones_like(rows, dtype=basis.dtype)[:, :, None]
        logits = batched.logits(self.shape, weights, weights, basis.transpose(0, 1), rows, mask)  # [b, m, c]
        found = predictions(self.shape.recipe.task, logits, weights)
        return torch.einsum("vb,bmc->vmc", shares.to(found.dtype), found)


class Heads(nn.Module):
    """The heads of all parts, each with a basis of its own: bases [m, T, d] -> (calibrated) predictions [m, c]."""

    temperatures: Tensor | None

    def __init__(self, parts: Sequence[WeightedPart], calibration: Calibration | None):
        super().__init__()
        self.heads = nn.ModuleList(Head(part, shares) for part, shares in parts)
        self.register_buffer("temperatures", None if calibration is None else calibration.temperatures.float())

    def forward(self, *bases: Tensor) -> Tensor:
        """Predict probabilities or values [m, c]."""
        models = torch.stack([head(basis) for head, basis in zip(self.heads, bases, strict=True)]).sum(0)
        temperatures = self.temperatures
        return (models if temperatures is None else tempered(models, temperatures)).mean(0).float()


def head_inputs(run: Run | Ensemble, data: Any) -> dict[str, Tensor]:
    """Return the inputs of the exported head for all nodes of a graph: name -> basis [n, T, d]."""
    parts = exported_parts(run)
    bases = [part.inputs(data).terms.float().transpose(0, 1).contiguous() for part, _ in parts]
    return dict(zip(input_names(len(bases)), bases, strict=True))


def input_shapes(run: Run | Ensemble) -> dict[str, tuple[None, int, int]]:
    """Return the shapes of the inputs of the exported head: name -> (any number of rows, T, d)."""
    shapes = [(None, part.shape.terms, part.shape.features) for part, _ in exported_parts(run)]
    return dict(zip(input_names(len(shapes)), shapes, strict=True))


def export(run: Run | Ensemble, path: Path | str) -> Path:
    """Write the head of a run or ensemble, and return the path of the file.

    Args:
        run: trained members, whose predictions are averaged as in `run.probabilities`.
        path: a file .onnx or .pt2, which is new or an earlier export. It holds the names of classes, labels or targets,
            too: ONNX as metadata "classes", torch.export as the extra file "classes.json".
    """
    path = check_output_file(path, [], is_export)
    write_as = pick({".onnx": onnx_bytes, ".pt2": program_bytes}, path.suffix, "kind of file")
    module = Heads(exported_parts(run), run.calibration).eval()
    example = tuple(torch.zeros(3, terms, columns) for _, terms, columns in input_shapes(run).values())
    names = run.info.class_names or [str(c) for c in range(run.classes)]
    content = write_as(module, example, json.dumps(list(names)[: run.classes]), output_name(run.task))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, content)
    return path


def exported_parts(run: Run | Ensemble) -> list[WeightedPart]:
    """Return the parts of a run; one that predicts from more than the basis is refused."""
    parts = run.weighted_parts()
    for part, _ in parts:
        if reason := why_not(part.shape.recipe):
            raise ValueError(
                f"only models that predict from a basis alone can be exported; {part.shape.recipe.method} {reason}. "
                "Train a decoupled method, such as adaptkry, without these inputs."
            )
    return parts


def why_not(recipe: Recipe) -> str | None:
    """Return why a model cannot be exported; None if it can."""
    if recipe.similar_nodes:
        return "uses the labels of training nodes as inputs"
    if recipe.structure_layer:
        return "has a structure layer, which multiplies by the matrix of the graph"
    if recipe.propagates:
        return "propagates its hidden units over the edges of the graph"
    return "adds noise to each node" if any(isinstance(stage, FixedNoise) for stage in recipe.stages) else None


def input_names(count: int) -> list[str]:
    """Return the names of the inputs of a head: basis, or basis_0, basis_1, ... of an ensemble."""
    return ["basis"] if count == 1 else [f"basis_{number}" for number in range(count)]


def dynamic_rows(example: tuple[Tensor, ...]) -> tuple[tuple[dict[int, Any], ...]]:
    """Return the number of rows as the only size that may change; it is the same in all inputs."""
    rows = torch.export.Dim("rows", min=1)
    return (tuple({0: rows} for _ in example),)


def program_bytes(module: nn.Module, example: tuple[Tensor, ...], classes: str, output: str) -> bytes:  # noqa: ARG001
    """Return the content of a file of torch.export."""
    with torch.no_grad():
        program = torch.export.export(module, example, dynamic_shapes=dynamic_rows(example))
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={"classes.json": classes})
    return file.getvalue()


def output_name(task: str) -> str:
    """Return the name of the output of a head: "probabilities", or "values" of the task regression."""
    return "values" if task == "regression" else "probabilities"


def onnx_bytes(module: nn.Module, example: tuple[Tensor, ...], classes: str, output: str) -> bytes:
    """Return the content of an ONNX file."""
    try:
        import onnxscript  # noqa: F401  torch.onnx needs it
    except ImportError as error:
        raise ImportError(
            "ONNX files need the packages onnx and onnxscript. Install them (pip install 'adaptkry[onnx]'), or write a "
            ".pt2 file.",
            name="onnxscript",
        ) from error
    with torch.no_grad(), without_warnings():
        found = torch.onnx.export(
            module,
            example,
            dynamo=True,
            verbose=False,
            input_names=input_names(len(example)),
            output_names=[output],
            dynamic_shapes=dynamic_rows(example),
        )
    assert found is not None
    model = found.model_proto
    model.metadata_props.add(key="classes", value=classes)
    return model.SerializeToString()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Hide what torch.onnx says about its own deprecated calls, and about packages that it does not find."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def is_export(head: bytes) -> bool:
    r"""Return whether a file that begins with these bytes is an ONNX file of torch, or an archive of torch.export.

    >>> is_export(b"PK\x03\x04"), is_export(b"\x08\x0a\x12\x07pytorch"), is_export(b"node,class")
    (True, True, False)
    """
    return head.startswith(b"PK\x03\x04") or (head[:1] == b"\x08" and b"pytorch" in head[:20])
