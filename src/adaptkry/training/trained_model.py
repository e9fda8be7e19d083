"""What a run and an ensemble have in common: predictions, saving and export of trained models."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.training.calibration import Calibration, checked_kind, checked_level, tempered
from adaptkry.training.data import open_graph, task_of_files

if TYPE_CHECKING:
    from adaptkry.training.ensemble import Ensemble
    from adaptkry.training.predictor import Predictor
    from adaptkry.training.run import Run

WeightedPart = tuple["Run", Tensor]  # members, and the weight of each of them in each model of the run [v, b]


class TrainedModel(ABC):
    """Models that were trained on the splits of one graph: a `Run` or an `Ensemble`."""

    calibration: Calibration | None

    @property
    @abstractmethod
    def task(self) -> str:
        """What is predicted: "classification", "multilabel" or "regression"."""

    @abstractmethod
    def weighted_parts(self) -> list[WeightedPart]:
        """Return runs, and the weight of each of their members in each model."""

    def _either(self) -> "Run | Ensemble":
        """Return the object itself: there are no other trained models."""
        return self  # type: ignore[return-value]

    def probabilities(self, data: Any, *, calibrated: bool = True) -> Tensor:
        """Predict class probabilities, averaged over the chosen members or the splits: [n, c].

        For the task multilabel they are the probabilities of labels; for regression use `predict`.

        Args:
            data: as in `fit`.
            calibrated: whether to apply temperature scaling (see `training/calibration.py`), if the run has it.
        """
        refuse_values(self.task)
        return averaged(model_probabilities(self.weighted_parts(), data), self.calibration, calibrated)

    def predict(self, data: Any) -> Tensor:
        """Predict the most probable class of every node: [n]; `run.info.class_names` has the names of classes.

        For the task multilabel the labels as 0 and 1 [n, c]; for regression the values [n, t], or [n] of one target.
        """
        return as_predictions(self.task, averaged(model_probabilities(self.weighted_parts(), data), self.calibration))

    def prediction_sets(self, data: Any, level: float = 0.9, kind: str = "threshold") -> Tensor:
        """Predict a set of classes for every node, which holds its class with about this probability: bool [n, c].

        Args:
            data: as in `fit`.
            level: such as 0.9.
            kind: "threshold" (the smallest sets), "adaptive" (no model's set is empty), or "randomised" adaptive.
        """
        return prediction_sets(self, data, level, kind)

    def predictor(self, data: Any) -> "Predictor":
        """Return a predictor, which keeps the basis of a graph: it answers for some nodes and follows changes."""
        from adaptkry.training.predictor import Predictor  # it imports this module

        return Predictor(self._either(), data)

    def predict_frame(self, data: Any, **options: Any) -> Any:
        """Return a pandas DataFrame of predictions; `options` are those of `predict.prediction_columns`."""
        from adaptkry.training.predict import predict_frame  # it imports this module

        return predict_frame(self._either(), data, **options)

    def save(self, folder: Path | str) -> Path:
        """Write the run folder, which must be new, empty or written by `save` before, and return its path."""
        from adaptkry.training.run_folder import save  # it imports this module

        return save(self._either(), folder)

    def head_inputs(self, data: Any) -> dict[str, Tensor]:
        """Return the inputs of the exported head for all nodes of a graph: name -> basis [n, T, d]."""
        from adaptkry.training.export import head_inputs  # it imports this module

        return head_inputs(self._either(), data)

    def export(self, path: Path | str) -> Path:
        """Write the head, which maps a basis to class probabilities, as ONNX (.onnx) or torch.export (.pt2)."""
        from adaptkry.training.export import export  # it imports this module

        return export(self._either(), path)


def model_probabilities(parts: Sequence[WeightedPart], data: Any) -> Tensor:
    """Predict class probabilities with every model (chosen member, or split of an ensemble): [v, n, c]."""
    first = parts[0][0]
    graph = open_graph(data, "predict", first.info.layout, task=task_of_files(data, first.task))
    found = [(w, part.member_probabilities(graph)) for part, w in parts]
    return torch.stack([torch.einsum("vb,bnc->vnc", w.to(p.dtype), p) for w, p in found]).sum(0)


def averaged(models: Tensor, calibration: Calibration | None, calibrated: bool = True) -> Tensor:
    """Average the probabilities of all models [v, n, c]: [n, c]; if they are `calibrated`, with their temperatures."""
    if checks.flag(calibrated, "calibrated") and calibration is not None:
        models = tempered(models, calibration.temperatures)
    return models.mean(0)


def require_calibration(calibration: Calibration | None) -> Calibration:
    """Return the calibration of a run; raise an error if it has none."""
    if calibration is None:
        raise ValueError(
            "prediction sets need a run that was tested, since its calibration is measured then; got a run with "
            "test=False, or some members of a run. Use the run that `fit` or `auto` returned, with test=True."
        )
    return calibration


def prediction_sets(run: TrainedModel, data: Any, level: float, kind: str) -> Tensor:
    """Return the prediction sets of a run or an ensemble: bool [n, c]."""
    refuse_sets(run.task)
    level, kind = checked_level(level), checked_kind(kind)
    calibration = require_calibration(run.calibration)
    models = model_probabilities(run.weighted_parts(), data)
    return calibration.sets(models, torch.arange(models.shape[1]), level, kind)


def as_predictions(task: str, found: Tensor) -> Tensor:
    """Turn mean probabilities or values [n, c] into classes [n], labels [n, c] or values [n, t] (or [n])."""
    if task == "classification":
        return found.argmax(1)
    if task == "multilabel":
        return (found > 0.5).long()
    return found[:, 0] if found.shape[1] == 1 else found


def refuse_sets(task: str) -> None:
    """Refuse prediction sets of other tasks than classification."""
    if task != "classification":
        raise ValueError(f"prediction sets are sets of classes; got a run of the task {task}. Leave them out.")


def refuse_values(task: str) -> None:
    """Refuse probabilities of a regression."""
    if task == "regression":
        raise ValueError("probabilities are of classes or labels; got a run of the task regression. Use predict.")
