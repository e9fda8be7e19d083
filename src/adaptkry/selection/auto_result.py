"""The result of `auto`: the ensemble, what it is compared with, and what mattered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from adaptkry.common.intervals import FORMER_RATIO, corrected_half_width, nodes_ratio
from adaptkry.graphs.splits import Splits
from adaptkry.selection.compare import summarise
from adaptkry.selection.trial import Trial
from adaptkry.training.data import GraphData
from adaptkry.training.ensemble import Ensemble, candidates_of, score
from adaptkry.training.run import Run

REFERENCES = ("gcn", "mlp")  # always tried, so that the report can say what the edges contribute
FACTORS = ("method", "directions", "taus", "degree", "normalise", "standardise", "hop_norm", "combine_hops",
           "structure", "batch_norm", "layer_norm", "similar_nodes")  # fmt: skip


@dataclass(repr=False)
class AutoResult:
    """The result of `auto`.

    Args:
        ensemble: the ensemble; it predicts, is saved and is reported like a run.
        trials: one row per recipe tried, with validation scores only.
        baselines: test scores of each split [s] by name: largest class, mlp, gcn, and the best single training.
        effects: what mattered, as differences of validation scores; see `effects_of`.
        seconds: wall time.
    """

    ensemble: Ensemble
    trials: list[Trial]
    baselines: dict[str, list[float | None]]
    effects: list[dict[str, Any]]
    seconds: float

    def predict(self, data: Any) -> torch.Tensor:
        """Predict the most probable class of every node: [n]."""
        return self.ensemble.predict(data)

    def probabilities(self, data: Any, *, calibrated: bool = True) -> torch.Tensor:
        """Predict class probabilities: [n, c]; see `Run.probabilities`."""
        return self.ensemble.probabilities(data, calibrated=calibrated)

    def prediction_sets(self, data: Any, level: float = 0.9, kind: str = "threshold") -> torch.Tensor:
        """Predict a set of classes for every node: bool [n, c]; see `Run.prediction_sets`."""
        return self.ensemble.prediction_sets(data, level, kind)

    @property
    def test_ratio(self) -> float:
        """Number of test nodes per training node."""
        return nodes_ratio([result.to_row() for result in self.ensemble.results])

    def comparison(self) -> list[dict[str, Any]]:
        """Return the test scores of the baselines and of the ensemble, which is the last entry.

        Each entry has `name`, `scores` per split [s] (None if not tested), `mean`, `std`, `low` and `high` (the 95 %
        interval of the mean), and the mean difference to the ensemble over the same splits, `difference`, with the
        `half_width` of its corrected interval (see `common.intervals`).
        """
        scores = {name: np.array(values, dtype=float) for name, values in self.baselines.items()}
        scores["ensemble"] = self.ensemble.test_scores
        found = []
        for name, of_splits in scores.items():  # [s]; NaN where nothing was tested
            differences = of_splits - scores["ensemble"]
            known = differences[~np.isnan(differences)]
            plain = [None if np.isnan(score) else float(score) for score in of_splits]  # NaN is not valid JSON
            entry = {"name": name, "scores": plain, **summarise(of_splits)}
            entry["difference"] = float(known.mean()) if len(known) else None
            found.append(entry | {"half_width": corrected_half_width(known, self.test_ratio)})
        return found

    def summary(self) -> str:
        """Return the score of the ensemble, and what it is compared with."""
        lines = [self.ensemble.summary(warnings=False)]
        lines += [
            f"  {entry['name']}: {100 * entry['mean']:.2f} %" for entry in self.comparison()[:-1] if entry["mean"]
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"AutoResult({len(self.trials)} trials, {self.seconds:.0f} s)\n{self.summary()}"


def baseline_scores(parts: Sequence[Run], data: GraphData, splits: Splits) -> dict[str, list[float | None]]:
    """Return test scores per split [s]: the largest class, each baseline and the best training on validation."""
    found: dict[str, list[float | None]] = {"largest class": list(largest_class_scores(data, splits))}
    for name in (*reversed(REFERENCES), "best single training"):
        of_method = [part for part in parts if name not in REFERENCES or part.recipes[0].method == name]
        found[name] = best_scores(of_method, data, splits)
    return found


def best_scores(parts: Sequence[Run], data: GraphData, splits: Splits) -> list[float | None]:
    """Return the test score of the best member on validation of each split [s]."""
    scores: list[float | None] = []
    for split in range(len(splits)):
        candidates = candidates_of(parts, split)
        if not candidates:
            scores.append(None)
            continue
        _, p, i = max(candidates, key=lambda candidate: candidate[0])
        predicted = parts[p].predicted
        assert predicted is not None
        mask = splits.test[split : split + 1]
        scores += score(data.info.metric, predicted[i : i + 1], data.labels, mask)
    return scores


def largest_class_scores(data: GraphData, splits: Splits) -> list[float]:
    """Return the test score per split [s] of always predicting the largest class of the training nodes."""
    labels, c = data.labels, data.graph.classes
    sizes = torch.stack([torch.bincount(labels[mask], minlength=c) for mask in splits.train])  # [s, c]
    constant = torch.nn.functional.one_hot(sizes.argmax(1), c).float()[:, None].expand(-1, len(labels), -1)
    return score(data.info.metric, constant, labels, splits.test)


def effects_of(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Compare the values of each factor that was varied: the best trial of a value with the best trial of all.

    Trainings that the time limit ended are left out, unless they are better than all others already. Factors other
    than the method are compared among trials of adaptkry. Each entry has the factor, the value, the number of trials
    with it, and the mean difference of the validation scores over the splits with half the width of its corrected 95 %
    interval; the best trial has difference 0.
    """
    complete = [trial for trial in trials if trial["state"] == "complete"]
    whole = [trial for trial in complete if trial.get("is_whole", True)]
    highest = max((trial["validation"] for trial in whole), default=float("inf"))
    good = [trial for trial in complete if trial in whole or trial["validation"] > highest]
    found = []
    for factor in FACTORS:
        # The other methods have no such settings, or do not vary them.
        compared = good if factor == "method" else [one for one in good if one["settings"]["method"] == "adaptkry"]
        values: dict[str, list[Trial]] = {}
        for trial in compared:
            values.setdefault(_text(trial["settings"][factor]), []).append(trial)
        if len(values) < 2:
            continue
        best = max(compared, key=lambda trial: trial["validation"])
        for value, having in values.items():
            top = max(having, key=lambda trial: trial["validation"])
            differences = np.array(top["validations"]) - np.array(best["validations"])
            found.append(
                {"factor": factor, "value": value, "trials": len(having), "difference": float(differences.mean()),
                 "half_width": corrected_half_width(differences, top.get("validation_ratio", FORMER_RATIO))}
            )  # fmt: skip
    return found


def _text(value: Any) -> str:
    """Return a setting as text."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
