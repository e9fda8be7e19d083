"""An ensemble: trained members whose class probabilities are averaged, with one result per split.

It has the interface of a `Run`: it is saved, loaded and reported, and it predicts, also for new nodes. Its parts are
runs; the members of one part have the same shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.graphs.splits import Splits
from adaptkry.training.calibration import Calibration, Predictions, calibrate, some_nodes
from adaptkry.training.data import TrainingData
from adaptkry.training.metrics import pick_metric
from adaptkry.training.results import Result
from adaptkry.training.run import Run, RunInfo, require_success, summary_line
from adaptkry.training.trained_model import TrainedModel, WeightedPart


@dataclass(repr=False)
class Ensemble(TrainedModel):
    """Members of one or more runs, and the share of each of them in the prediction of its split."""

    parts: list[Run]
    shares: list[list[float]]  # of each member of each part; the shares of the members of a split add up to 1
    results: list[Result]  # one per split
    info: RunInfo
    combine: str = "mean"  # how the shares were chosen: "mean" or "greedy"
    predicted: Tensor | None = None  # probabilities of the training graph's nodes by each model [v, n, c], if new
    calibration: Calibration | None = None  # of the splits that did not fail; None if it was not tested

    @property
    def main(self) -> Run:
        """The part with the largest share, which stands for the ensemble where a report shows one model."""
        totals = [sum(shares) for shares in self.shares]
        return self.parts[totals.index(max(totals))]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.parts[0].shape.classes

    @property
    def task(self) -> str:
        """What is predicted: "classification", "multilabel" or "regression"."""
        return self.parts[0].task

    @property
    def features(self) -> int:
        """Number of features."""
        return self.parts[0].features

    @property
    def chosen(self) -> list[int]:
        """Numbers of the results that did not fail: the splits with at least one successful member."""
        return [i for i, result in enumerate(self.results) if result.validation is not None]

    @property
    def test_scores(self) -> np.ndarray:
        """Test score of each split [s]; NaN if it failed or was not evaluated."""
        return np.array([np.nan if result.test is None else result.test for result in self.results])

    @property
    def trainings(self) -> int:
        """Number of members with a positive share."""
        return sum(share > 0 for shares in self.shares for share in shares)

    def summary(self, warnings: bool = True) -> str:
        """Return one line: mean and standard deviation of the test score over the splits."""
        lines = [f"warning: {text}" for text in self.info.warnings] if checks.flag(warnings, "warnings") else []
        name = f"ensemble of {self.trainings} trainings ({self.combine})"
        return "\n".join([*lines, summary_line(name, self.results, self.info)])

    def weighted_parts(self) -> list[WeightedPart]:
        """Return the parts, without unused members, and the shares of their members in each split."""
        splits = {split: v for v, split in enumerate(require_success(self.results, self.chosen))}
        found = []
        for part, shares in zip(self.parts, self.shares, strict=True):
            used = [i for i, share in enumerate(shares) if share > 0]
            weights = torch.zeros(len(splits), len(used))
            for column, i in enumerate(used):
                weights[splits[part.members[i].split], column] = shares[i]
            if used:
                found.append((part.only(used), weights))
        return found

    def __repr__(self) -> str:
        return f"Ensemble({self.trainings} trainings)\n{self.summary()}"


Candidate = tuple[float, int, int]  # validation score, number of the part, number of the member in it


def candidates_of(parts: Sequence[Run], split: int) -> list[Candidate]:
    """Return the members of a split that did not fail."""
    return [
        (result.validation, p, i)
        for p, part in enumerate(parts)
        for i, (member, result) in enumerate(zip(part.members, part.results, strict=True))
        if member.split == split and result.validation is not None
    ]


def mean_shares(parts: Sequence[Run], splits: int) -> list[list[float]]:
    """Return equal shares for all members of a split that did not fail."""
    shares = [[0.0] * len(part.members) for part in parts]
    for split in range(splits):
        candidates = candidates_of(parts, split)
        for _, p, i in candidates:
            shares[p][i] = 1 / len(candidates)
    return shares


def split_probabilities(parts: Sequence[Run], shares: Sequence[Sequence[float]], splits: int) -> Tensor:
    """Average the predictions of the members of each split: [s, n, c]. The parts must have `predicted`."""
    total: Tensor | None = None
    for part, weights in zip(parts, shares, strict=True):
        assert part.predicted is not None
        if total is None:
            total = part.predicted.new_zeros(splits, *part.predicted.shape[1:])
        for i, (member, weight) in enumerate(zip(part.members, weights, strict=True)):
            if weight:
                total[member.split] += weight * part.predicted[i]
    assert total is not None
    return total


def combine_runs(
    parts: Sequence[Run],
    shares: Sequence[Sequence[float]],
    source: TrainingData,
    splits: Splits,
    *,
    combine: str,
    test: bool = True,
) -> Ensemble:
    """Return the ensemble of these members; it is scored on validation and, if `test`, on test nodes.

    Args:
        parts: runs with `predicted`, on the same data and splits.
        shares: of each member of each part.
        source: the data.
        splits: the splits.
        combine: the name of the rule that chose the shares.
        test: whether to evaluate on test nodes.
    """
    predicted = split_probabilities(parts, shares, len(splits))  # [s, n, c]
    is_used = {
        member.split
        for part, weights in zip(parts, shares, strict=True)
        for member, weight in zip(part.members, weights, strict=True)
        if weight
    }
    metric, first = source.info.metric, parts[0].info

    def scored(masks: Tensor) -> list[dict[str, float]]:  # of each split
        columns = [score(name, predicted, source.truth, masks, source.task) for name in source.metrics]
        return [dict(zip(source.metrics, row, strict=True)) for row in zip(*columns, strict=True)]

    validation, tested = scored(splits.validation), scored(splits.test) if test else None
    members = sum(weight > 0 for weights in shares for weight in weights)
    settings = {"method": "ensemble", "shares": combine, "members": members, "task": source.task}
    provenance = {name: getattr(first, name) for name in ("version", "commit", "device", "torch", "python")}
    results = [
        Result(
            graph=source.name, settings=settings, split=i, scheme=splits.scheme, seed=0, metric=metric,
            split_seed=splits.seeds[i] if i < len(splits.seeds) else None,
            validation=validation[i][metric] if i in is_used else None,
            test=tested[i][metric] if i in is_used and tested else None,
            validation_scores=validation[i] if i in is_used else None,
            test_scores=tested[i] if i in is_used and tested else None,
            epoch=-1, failed=None if i in is_used else "all members of the split failed",
            **splits.sizes(i), **provenance,
        )
        for i in range(len(splits))
    ]  # fmt: skip
    is_counted = test and source.task == "classification"
    counts = split_confusion(predicted, source.labels, splits, sorted(is_used)) if is_counted else None
    info = replace(first, metric=metric, metrics=list(source.metrics), confusion=counts)
    ensemble = Ensemble(list(parts), [list(weights) for weights in shares], results, info, combine)
    if used := ensemble.chosen:
        ensemble.predicted = predicted[used]  # [v, n, c]
        if is_counted:
            masks = (splits.validation[used], splits.test[used])
            ensemble.calibration = calibrate(*(_predictions(ensemble.predicted, source.labels, m) for m in masks))
    return ensemble


def _predictions(models: Tensor, labels: Tensor, masks: Tensor) -> list[Predictions]:
    """Return the predictions of each model [v, n, c] at its mask [v, n]."""
    found = []
    for p, mask in zip(models, some_nodes(masks), strict=True):
        numbers = mask.nonzero()[:, 0]
        found.append(Predictions(numbers, labels[numbers], p[numbers].double().clamp(min=1e-30).log()))
    return found


def score(metric: str, predicted: Tensor, truth: Tensor, masks: Tensor, task: str = "classification") -> list[float]:
    """Score probabilities or values [s, n, c] on the nodes of masks [s, n]; the truth is [n] or [n, c]."""
    of_splits = truth.expand(len(predicted), *[-1] * truth.ndim)
    return [float(value) for value in pick_metric(metric, task)(predicted, of_splits, masks)]


def split_confusion(predicted: Tensor, labels: Tensor, splits: Splits, used: Sequence[int]) -> list[list[int]]:
    """Count the test nodes of all used splits by true class (row) and predicted class (column): [c, c]."""
    c = predicted.shape[2]
    test = splits.test[list(used)]
    cells = (labels.expand(len(used), -1) * c + predicted[list(used)].argmax(-1))[test]
    return torch.bincount(cells, minlength=c * c).view(c, c).tolist()
