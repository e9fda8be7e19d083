"""A run: trained members with their settings, weights, curves and results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import shortened, some
from adaptkry.common.tables import number_text
from adaptkry.graphs.graph import Graph
from adaptkry.models.inputs import Inputs, SavedInputs, Scaling, model_inputs
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import ModelShape
from adaptkry.models.training_nodes import at_places, training_places
from adaptkry.training.batches import term_chunks
from adaptkry.training.calibration import Calibration
from adaptkry.training.data import open_graph, task_of_files
from adaptkry.training.losses import chunk_logits
from adaptkry.training.memory_estimate import check_prediction
from adaptkry.training.metrics import pick_metric
from adaptkry.training.results import Result
from adaptkry.training.state import Member
from adaptkry.training.tasks import FIXED_STATISTICS, predictions
from adaptkry.training.trained_model import TrainedModel, WeightedPart

# prefixes of names that are saved with the weights, but not learned
STATISTICS = ("norm", "basis_mix", "labels", *FIXED_STATISTICS)


@dataclass
class RunInfo:
    """What all results of a run share: the data, the splits, and the versions and device of the training."""

    graph: str
    metric: str
    scheme: str
    warnings: list[str]
    nodes: int
    entries: int | None  # adjacency entries; None for a basis folder
    class_names: list[str] | None
    feature_names: list[str] | None
    version: str
    commit: str
    device: str
    torch: str
    python: str
    hop_scale: list[float]  # [T] the factor that hop normalisation applied to each term
    scaling: list[list[float]] | None = None  # [2][d] mean and standard deviation of feature columns, if standardised
    confusion: list[list[int]] | None = None  # test nodes of chosen members [true class][predicted class]
    basis_folder: str | None = None
    stored_rows: int | None = None
    stored_dtype: str | None = None
    data_digest: str | None = None  # checksum of the data; None if no run folder was requested
    known_as: str | None = None  # the name by which `load` finds the graph; None for files and graphs of users
    metrics: list[str] | None = None  # all that are reported; None: `metric` only
    features: int | None = None  # columns of the data; the model may have further inputs, such as structure columns
    layout: dict[str, Any] | None = None  # of the tables of a user: names of columns, categories, means (`Layout`)
    created: str | None = None  # when the training ended; None in runs of version 0.1
    command: str | None = None  # the command line; None if Python code called `fit`


@dataclass(repr=False)
class Run(TrainedModel):
    """Trained members; `fit` returns one, `save` writes it to a folder and `load_run` reads it."""

    members: list[Member]
    shape: ModelShape
    weights: dict[str, Tensor]  # name -> [b, ...], at the best epoch of each member
    curves: dict[str, np.ndarray]  # name -> [epochs, b]
    results: list[Result]
    info: RunInfo
    predicted: Tensor | None = None  # class probabilities of all nodes [b, n, c], if `fit` was asked to keep them
    saved_inputs: SavedInputs = field(default_factory=dict)
    calibration: Calibration | None = None  # of the chosen members; None if `fit` was called with test=False

    @property
    def main(self) -> "Run":
        """The run itself; the main part of an `Ensemble`."""
        return self

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.shape.classes

    @property
    def task(self) -> str:
        """What is predicted: "classification", "multilabel" or "regression"."""
        return self.shape.recipe.task

    @property
    def features(self) -> int:
        """Number of feature columns of the training data, without columns that were computed from the graph."""
        return self.shape.features if self.info.features is None else self.info.features

    @property
    def recipes(self) -> list[Recipe]:
        """The recipe of each member."""
        return [member.recipe for member in self.members]

    @property
    def chosen(self) -> list[int]:
        """Numbers of the members that did not fail and are the best on validation among the restarts of their split."""
        return [i for i, result in enumerate(self.results) if result.chosen and result.validation is not None]

    @property
    def trainings(self) -> int:
        """Number of chosen members."""
        return len(self.chosen)

    @property
    def test_scores(self) -> np.ndarray:
        """Test score of each member [b]; NaN if it failed or was not evaluated."""
        return np.array([np.nan if result.test is None else result.test for result in self.results])

    @property
    def parameters(self) -> int:
        """Number of learned parameters of one member."""
        return sum(w[0].numel() for name, w in self.weights.items() if not name.startswith(STATISTICS))

    def summary(self, warnings: bool = True) -> str:
        """Return one line per recipe: mean and standard deviation of the test score over its chosen members."""
        lines = [f"warning: {text}" for text in self.info.warnings] if checks.flag(warnings, "warnings") else []
        for recipe in dict.fromkeys(self.recipes):
            members = zip(self.members, self.results, strict=True)
            chosen = [result for member, result in members if member.recipe == recipe and result.chosen]
            lines.append(summary_line(recipe.method, chosen, self.info))
        return "\n".join(lines)

    def only(self, indices: Iterable[int]) -> "Run":
        """Return the same run with these members only."""
        if isinstance(indices, str) or not isinstance(indices, Iterable):
            raise TypeError(f"members are chosen by a list of numbers; got {shortened(indices)}. Use only([0]).")
        keep = [checks.count(i, "the number of a training", len(self.members) - 1) for i in indices]
        return replace(
            self,
            members=[self.members[i] for i in keep],
            weights={name: w[keep] for name, w in self.weights.items()},
            curves={name: curve[:, keep] for name, curve in self.curves.items()},
            results=[self.results[i] for i in keep],
            info=replace(self.info, confusion=None),  # which counts all members
            predicted=None if self.predicted is None else self.predicted[keep],
            calibration=None,  # it is that of the chosen members
        )

    @torch.no_grad()
    def member_probabilities(self, data: Any) -> Tensor:
        """Predict class probabilities (of other tasks: label probabilities, or values) with every member: [b, n, c].

        Args:
            data: a graph in memory, possibly with new nodes, or anything else that `fit` accepts except basis folders.
                If the run uses structure columns, a structure layer or training labels, it has all training nodes;
                they are found by id, or come first in the same order if there are no ids.
        """
        graph = self._opened(data)
        inputs, weights = self.inputs(graph), self.weights_at(graph)
        chunks = term_chunks(inputs.terms.float(), inputs.operator, "cpu")
        parts = [logits for logits, _ in chunk_logits(self.shape, weights, chunks, inputs.operator)]
        return predictions(self.task, torch.cat(parts, 1), self.weights)

    def inputs(self, data: Any) -> Inputs:
        """Compute the inputs of the model for a graph, with the scaling of the training graph."""
        graph, scaling = self.checked(self._opened(data))
        return model_inputs(graph, self.shape.recipe, scaling=scaling, saved=self.saved_inputs)

    def weights_at(self, graph: Graph) -> dict[str, Tensor]:
        """Return the weights for a graph: labels and vectors of training nodes at the numbers that these have in it."""
        places = training_places(graph, self.saved_inputs)
        of_nodes = {"labels": -1.0} | {name: 0.0 for name in self.weights if name.endswith("/structure")}
        return self.weights | {
            name: at_places(self.weights[name], places, graph.nodes, dim=1, fill=fill)
            for name, fill in of_nodes.items()
            if name in self.weights
        }

    def _opened(self, data: Any) -> Graph:
        """Return a graph in memory."""
        return open_graph(data, "predict", self.info.layout, task=task_of_files(data, self.task)).graph

    def checked(self, graph: Graph) -> tuple[Graph, Scaling | None]:
        """Return what `matched` does; refuse a graph whose predictions do not fit in memory."""
        ordered, scaling = self.matched(graph)
        check_prediction(ordered, self.shape.recipe, len(self.members))
        return ordered, scaling

    def matched(self, graph: Graph) -> tuple[Graph, Scaling | None]:
        """Return a graph with columns in the order of training, and their scaling; refuse other columns and classes."""
        ordered = self._with_columns_in_order(graph)
        width = 0 if graph.features is None else graph.features.shape[1]
        if width != self.features:
            raise ValueError(
                f"this run was trained on {self.features} features{self._names()}; got a graph with {width}. Use the "
                "same features."
            )
        if graph.outputs > self.shape.classes:
            raise ValueError(
                f"this run has {self.shape.classes} classes; got a graph with {graph.outputs}. Train on all classes."
            )
        saved = None if self.info.scaling is None else torch.tensor(self.info.scaling, dtype=torch.float64)  # [2, d]
        return ordered, None if saved is None else (saved[0], saved[1])

    def _names(self) -> str:
        """Return the first names of features, if they are known, for a message."""
        return "" if self.info.feature_names is None else f" ({some(self.info.feature_names, 5)})"

    def _with_columns_in_order(self, graph: Graph) -> Graph:
        """Return the graph with feature columns in the order of the training graph, if both name their columns."""
        names, given = self.info.feature_names, graph.info.feature_names
        if names is None or given is None or list(given) == names:
            return graph
        if sorted(given) != sorted(names):
            missing, unknown = sorted(set(names) - set(given)), sorted(set(given) - set(names))
            texts = [f"{what}: {some(found)}" for what, found in (("missing", missing), ("unknown", unknown)) if found]
            raise ValueError(
                f"this run needs the {len(names)} feature columns it was trained on; got {len(given)} columns "
                f"({'; '.join(texts) or 'one name is repeated'}). Use the same columns."
            )
        return graph.with_columns([list(given).index(name) for name in names])

    def __repr__(self) -> str:
        return f"Run({len(self.members)} trainings)\n{self.summary()}"

    def weighted_parts(self) -> list[WeightedPart]:
        """Return the chosen members, each of which is a model of its own."""
        chosen = require_success(self.results, self.chosen)
        return [(self.only(chosen), torch.eye(len(chosen)))]


def join_splits(first: Run, second: Run, offset: int) -> Run:
    """Return one run of the members of both, which have the same recipe.

    Args:
        first: trained on the splits 0 .. offset - 1.
        second: trained on the splits from `offset` on, which it numbers from 0.
        offset: number of splits of the first.
    """
    epochs = max(len(curve) for run in (first, second) for curve in run.curves.values())

    def longest(curve: np.ndarray) -> np.ndarray:  # [epochs, b]
        return np.pad(curve, ((0, epochs - len(curve)), (0, 0)), constant_values=np.nan)

    predicted = [run.predicted for run in (first, second) if run.predicted is not None]
    return replace(
        first,
        members=first.members + [replace(member, split=member.split + offset) for member in second.members],
        weights={name: torch.cat([w, second.weights[name]]) for name, w in first.weights.items()},
        curves={name: np.hstack([longest(c), longest(second.curves[name])]) for name, c in first.curves.items()},
        results=first.results + [replace(result, split=result.split + offset) for result in second.results],
        info=replace(first.info, confusion=None),
        predicted=torch.cat(predicted) if len(predicted) == 2 else None,
        calibration=None,
    )


def require_success(results: Sequence[Result], chosen: list[int]) -> list[int]:
    """Return the numbers of the chosen results; raise an error if every training failed."""
    if not chosen:
        raise ValueError(
            f"at least one training must have succeeded; all {len(results)} failed. See `failed` in the results."
        )
    return chosen


def summary_line(name: str, chosen: Sequence[Result], info: RunInfo) -> str:
    """Return one line: the mean and standard deviation of the test scores of the chosen results."""
    scores = [(result.test_scores or {}) | {info.metric: result.test} for result in chosen if result.test is not None]
    names = info.metrics or [info.metric]
    task = chosen[0].settings.get("task", "classification") if chosen else "classification"
    means = [f"{name} {mean_text([one[name] for one in scores if name in one], name, task)}" for name in names]
    splits = len({result.split for result in chosen})
    count = "one training" if len(scores) == 1 else f"mean ± std over {len(scores)} trainings"
    count = "" if name.startswith("ensemble") else f"{count}, "  # an ensemble has one result per split
    failures = sum(result.validation is None for result in chosen)
    untested = len(chosen) - len(scores) - failures
    notes = [f"{number} {text}, " for number, text in ((failures, "failed"), (untested, "not tested")) if number]
    over = f"{count}{''.join(notes)}{splits} {info.scheme} split{'s' * (splits != 1)}"
    return f"{name} on {info.graph}: test {', '.join(means)} ({over})"


def mean_text(scores: Sequence[float | None], metric: str = "accuracy", task: str = "classification") -> str:
    """Return mean and standard deviation of scores as text: shares in per cent, other metrics as they are.

    >>> mean_text([0.5, 0.7]), mean_text([]), mean_text([2.5], "rmse", "regression")
    ('60.00 ± 14.14 %', '- %', '2.5')
    """
    is_share = pick_metric(metric, task).is_share
    known = np.array([score for score in scores if score is not None]) * (100 if is_share else 1)
    as_text, unit = ("{:.2f}".format, " %") if is_share else (number_text, "")
    spread = f" ± {as_text(known.std(ddof=1))}" if len(known) > 1 else ""
    return (f"{as_text(known.mean())}{spread}" if len(known) else "-") + unit
