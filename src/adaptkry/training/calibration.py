r"""Calibrated probabilities: temperature scaling, the expected calibration error, and conformal prediction sets.

The models of a run are its chosen members, or the splits of an ensemble; each has validation and test nodes of its own.
A random half of a model's validation nodes chooses its temperature; the other half chooses the thresholds of its
prediction sets. Test nodes only measure both.

* Temperature scaling (Guo et al., ICML 2017) divides all logits of a model by one number, which minimises the negative
  log-likelihood of float64 logits. The most probable class of each node stays the same.
* The expected calibration error is the mean of \|accuracy - confidence\| over 15 bins of equal width of the confidence
  (the largest probability of a node), weighted by the number of nodes.
* A prediction set holds every class whose score is at most a threshold: of m scores of true classes, the
  ceil((m + 1) level)-th smallest. If nodes are exchangeable, sets hold the true class with a probability of at least
  the level (Vovk et al., 2005; Romano et al., NeurIPS 2020). Validation nodes also chose the epoch, so the guarantee is
  not exact; the coverage that was measured on test nodes is stored with the run.

Shapes: v models, m nodes, c classes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import pick

RELIABILITY_BINS = 15
MEASURED_LEVELS = (0.8, 0.9, 0.95)
MOST_NODES = 20_000  # validation and test nodes of a model that are used, evenly spaced among all of them
FEWEST_NODES = 20  # with fewer, the temperature is 1
TEMPERATURES = (0.05, 20.0)  # the range


@dataclass(frozen=True)
class Predictions:
    """The predictions of one model for nodes with known classes."""

    numbers: Tensor  # [m] numbers of the nodes
    classes: Tensor  # [m]
    logits: Tensor  # [m, c] float64

    def at(self, places: Tensor) -> "Predictions":
        """Return some of the nodes."""
        return Predictions(self.numbers[places], self.classes[places], self.logits[places])


@dataclass(frozen=True)
class Calibration:
    """The temperatures of the models of a run, the scores that give their thresholds, and what was measured."""

    temperatures: Tensor  # [v] float64
    scores: dict[str, Tensor]  # kind of set -> scores of true classes [v, m + 1] in ascending order, padded with inf
    facts: dict[str, Any]  # see `measured`

    def thresholds(self, level: float, kind: str = "threshold") -> Tensor:
        """Return the threshold of each model [v]; infinity if there are too few nodes for the level."""
        return conformal_quantiles(self.scores[checked_kind(kind)], level)

    def sets(self, models: Tensor, numbers: Tensor, level: float, kind: str = "threshold") -> Tensor:
        """Return the prediction sets of nodes as bool [m, c]: the classes that most models have in their sets.

        Args:
            models: uncalibrated probabilities [v, m, c].
            numbers: numbers of the nodes [m], which decide the random part of the kind "randomised".
            level: such as 0.9.
            kind: see `SET_SCORES`.
        """
        scores = set_scores(kind, tempered(models.double(), self.temperatures), numbers)  # [v, m, c]
        return (scores <= self.thresholds(level, kind)[:, None, None]).double().mean(0) > 0.5


def calibrate(validation: Sequence[Predictions], test: Sequence[Predictions]) -> Calibration:
    """Choose temperature and thresholds of every model on its validation nodes, and measure them on its test nodes."""
    temperatures, held_out = [], []
    for model in validation:
        order = torch.randperm(len(model.classes), generator=torch.Generator().manual_seed(0))
        first, second = (model.at(part.sort().values) for part in order.chunk(2)) if len(order) > 1 else (model, model)
        temperatures.append(best_temperature(first.logits, first.classes))
        held_out.append(second)
    scores = {}
    for kind in SET_SCORES:
        found = [true_scores(kind, model, T) for model, T in zip(held_out, temperatures, strict=True)]
        scores[kind] = torch.full((len(found), 1 + max((len(one) for one in found), default=0)), torch.inf).double()
        for row, one in zip(scores[kind], found, strict=True):
            row[: len(one)] = one.sort().values
    calibration = Calibration(torch.tensor(temperatures, dtype=torch.float64), scores, {})
    calibration.facts.update(measured(calibration, test))
    return calibration


def best_temperature(logits: Tensor, classes: Tensor) -> float:
    """Return the temperature that minimises the negative log-likelihood of logits [m, c]; 1 with few nodes.

    Targets are smoothed by 1 / (m + 1), as in Platt scaling: otherwise a model that is right at all nodes would have
    the temperature 0. With beta = 1 / T the loss is convex; its derivative is the mean of E_p[z] - E_target[z] with
    p = softmax(beta z), whose root is found by bisection.
    """
    if len(classes) < FEWEST_NODES:
        return 1.0
    z, smoothing = logits.double(), 1 / (len(classes) + 1)
    true = ((1 - smoothing) * z.gather(1, classes[:, None])[:, 0] + smoothing * z.mean(1)).mean()
    low, high = 1 / TEMPERATURES[1], 1 / TEMPERATURES[0]
    for _ in range(60):
        middle = math.sqrt(low * high)
        slope = ((middle * z).softmax(1) * z).sum(1).mean() - true
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / math.sqrt(low * high)


def tempered(models: Tensor, temperatures: Tensor) -> Tensor:
    """Return probabilities [v, m, c] after the logits of each model were divided by its temperature [v]."""
    logits = models.clamp(min=torch.finfo(models.dtype).tiny).log()
    return (logits / temperatures.to(models.dtype)[:, None, None]).softmax(-1)


def reliability(probabilities: Tensor, classes: Tensor, bins: int = RELIABILITY_BINS) -> list[dict[str, Any]]:
    """Return the bins of a reliability diagram: low, high, count, and mean confidence and accuracy (None if empty).

    >>> p = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]])
    >>> [(b["count"], b["accuracy"]) for b in reliability(p, torch.tensor([0, 0, 0]), bins=4)]
    [(0, None), (0, None), (1, 0.0), (2, 1.0)]
    """
    confidence, predicted = probabilities.double().max(1)
    is_right = (predicted == classes).double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1  # a bin includes its upper end
    count, right, sure = (
        torch.zeros(bins, dtype=torch.float64).index_add_(0, place, value)
        for value in (torch.ones_like(is_right), is_right, confidence)
    )
    return [
        {
            "low": i / bins, "high": (i + 1) / bins, "count": int(count[i]),
            "confidence": float(sure[i] / count[i]) if count[i] else None,
            "accuracy": float(right[i] / count[i]) if count[i] else None,
        }
        for i in range(bins)
    ]  # fmt: skip


def expected_calibration_error(probabilities: Tensor, classes: Tensor, bins: int = RELIABILITY_BINS) -> float:
    """Return the mean of |accuracy - confidence| over bins of equal width, weighted by their counts.

    >>> round(expected_calibration_error(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([0, 0])), 6)
    0.4
    """
    found = [one for one in reliability(probabilities, classes, bins) if one["count"]]
    return sum(one["count"] * abs(one["accuracy"] - one["confidence"]) for one in found) / max(1, len(classes))


def threshold_scores(p: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001  one signature for all kinds
    """1 - p of each class: the smallest sets on average, with fewer classes where the model is sure."""
    return 1 - p


def adaptive_scores(p: Tensor, u: Tensor) -> Tensor:  # noqa: ARG001
    """The sum of the probabilities of all more probable classes: a model's set is never empty, and often too large."""
    ordered, order = p.sort(dim=-1, descending=True, stable=True)
    return torch.empty_like(p).scatter_(-1, order, ordered.cumsum(-1) - ordered)


def randomised_scores(p: Tensor, u: Tensor) -> Tensor:
    """The same plus a share u of the probability of the class itself, so that the coverage is that of the level."""
    return adaptive_scores(p, u) + u[..., None] * p


SET_SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "threshold": threshold_scores,
    "adaptive": adaptive_scores,
    "randomised": randomised_scores,
}


def set_scores(kind: str, probabilities: Tensor, numbers: Tensor) -> Tensor:
    """Return the scores of all classes [..., m, c]; u depends on the number of the node only."""
    u = ((numbers.double() + 1) * 0.6180339887498949) % 1  # evenly spread, and the same in every call
    return SET_SCORES[kind](probabilities, u)


def true_scores(kind: str, model: Predictions, temperature: float) -> Tensor:
    """Return the scores of the true classes [m]."""
    scores = set_scores(kind, (model.logits / temperature).softmax(1), model.numbers)
    return scores.gather(1, model.classes[:, None])[:, 0]


def conformal_quantiles(scores: Tensor, level: float) -> Tensor:
    """Return the ceil((m + 1) level)-th smallest score of each row [v, m + 1], whose m scores end with inf: [v].

    >>> conformal_quantiles(torch.tensor([[1.0, 2.0, 3.0, 4.0, torch.inf]]), 0.8), 4 == -(-5 * 0.8 // 1)
    (tensor([4.]), True)
    """
    counts = scores.isfinite().sum(1)  # [v]
    rank = ((counts + 1) * level - 1e-9).ceil().long().clamp(min=1)
    return scores.gather(1, rank[:, None] - 1)[:, 0]


def checked_level(level: Any) -> float:
    """Return the level of prediction sets; refuse values outside 0 to 1."""
    level = checks.number(level, "the level of prediction sets")
    if not 0 < level < 1:
        raise ValueError(f"the level of prediction sets must lie between 0 and 1; got {level:g}. Try 0.9.")
    return level


def checked_kind(kind: Any) -> str:
    """Return the kind of prediction sets; refuse unknown ones."""
    pick(SET_SCORES, kind, "kind of prediction sets")
    return kind


def measured(calibration: Calibration, test: Sequence[Predictions]) -> dict[str, Any]:
    """Return what the test nodes show, as plain data.

    `error_before` and `error_after` are the calibration errors, averaged over models; `reliability_before` and
    `reliability_after` the bins over the test nodes of all models; `sets` has an entry for each kind and level.
    """
    T = calibration.temperatures
    facts: dict[str, Any] = {
        "bins": RELIABILITY_BINS,
        "temperatures": T.tolist(),
        "nodes": sum(len(one.classes) for one in test),
    }
    if not facts["nodes"]:
        return facts
    classes = torch.cat([one.classes for one in test])
    for when, temperatures in (("before", torch.ones_like(T)), ("after", T)):
        found = [(one.logits / t).softmax(1) for one, t in zip(test, temperatures, strict=True)]
        errors = [expected_calibration_error(p, one.classes) for p, one in zip(found, test, strict=True)]
        facts[f"error_{when}"] = sum(errors) / len(errors)
        facts[f"reliability_{when}"] = reliability(torch.cat(found), classes)
    facts["sets"] = [row for kind in SET_SCORES for row in measured_sets(calibration, test, kind)]
    return facts


def measured_sets(calibration: Calibration, test: Sequence[Predictions], kind: str) -> list[dict[str, Any]]:
    """Return coverage, mean size and share of empty sets on the test nodes, averaged over models, for each level."""
    scores = [
        set_scores(kind, (model.logits / T).softmax(1), model.numbers)
        for model, T in zip(test, calibration.temperatures, strict=True)
    ]
    found = []
    for level in MEASURED_LEVELS:
        rows = []
        for model, of_model, q in zip(test, scores, calibration.thresholds(level, kind), strict=True):
            sets = of_model <= q  # [m, c]
            covered = sets.gather(1, model.classes[:, None]).double().mean()
            rows.append([float(covered), float(sets.sum(1).double().mean()), float((~sets.any(1)).double().mean())])
        coverage, size, empty = torch.tensor(rows).double().mean(0).tolist()
        found.append({"kind": kind, "level": level, "coverage": coverage, "size": size, "empty": empty})
    return found


def some_nodes(masks: Tensor, most: int = MOST_NODES) -> Tensor:
    """Return masks [v, n] with at most `most` of the nodes of each, evenly spaced."""
    if not (masks.sum(1) > most).any():
        return masks
    kept = torch.zeros_like(masks)
    for row, mask in zip(kept, masks, strict=True):
        nodes = mask.nonzero()[:, 0]
        row[nodes[torch.linspace(0, len(nodes) - 1, min(most, len(nodes))).long()]] = True
    return kept


def gathered(chunks: Iterator[tuple[Tensor, Tensor]], masks: Tensor, labels: Tensor) -> list[Predictions]:
    """Collect predictions from chunks of logits [v, m, c] and row numbers [m]: one entry per mask [v or more, n].

    Masks follow the models; a list of masks that is longer starts again with the first model.
    """
    found: list[list[tuple[Tensor, Tensor]]] = [[] for _ in masks]
    for logits, rows in chunks:
        for i, (parts, mask) in enumerate(zip(found, masks[:, rows], strict=True)):
            parts.append((rows[mask], logits[i % len(logits), mask].double()))
    joined = [(torch.cat([n for n, _ in parts]), torch.cat([z for _, z in parts])) for parts in found]
    return [Predictions(numbers, labels[numbers], logits) for numbers, logits in joined]
