"""Results: one row per training, with its settings, its split and its scores.

A column is a field of `Result`, filled in `make_results`. The report page shows those that are
annotated with a heading.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Annotated, Any, get_origin, get_type_hints

from torch import Tensor

from adaptkry.common import rows
from adaptkry.common.lookup import shortened, some
from adaptkry.graphs.splits import Splits
from adaptkry.training.metrics import pick_metric
from adaptkry.training.state import Member, TrainingState


@dataclass
class Result:
    """The result of one training: its settings, its split and its scores; one row of `rows.jsonl`."""

    graph: str
    settings: dict[str, Any]
    split: Annotated[int, "split"]
    split_seed: int | None
    scheme: str
    seed: Annotated[int, "seed"]
    metric: str
    validation: Annotated[float | None, "validation %"]  # at the best epoch; None: failed
    test: Annotated[float | None, "test %"]  # None: not evaluated, or failed
    epoch: Annotated[int, "epoch"]  # the best epoch; -1 if there is none
    failed: Annotated[str | None, "failed"]  # the reason; None: did not fail
    version: str
    commit: str
    device: str
    torch: str
    python: str
    chosen: Annotated[bool, "chosen"] = True  # the best on validation among the restarts of its split
    train_nodes: int | None = None  # sizes of the parts of its split; None in rows of older versions
    validation_nodes: int | None = None
    test_nodes: int | None = None
    validation_scores: dict[str, float] | None = None  # of every metric, by name; None: failed, or an older version
    test_scores: dict[str, float] | None = None  # None: not evaluated, or failed

    def to_row(self) -> dict[str, Any]:
        """Return plain data that can be written as JSON."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Result":
        """Read a row, also of an older version; unknown columns are ignored."""
        if not isinstance(row, Mapping):
            raise TypeError(f"a row must be a mapping of columns to values; got {shortened(row)}.")
        missing = [one.name for one in fields(cls) if one.default is MISSING and one.name not in {*row, "settings"}]
        if missing:
            raise ValueError(f"a row must have the columns of results; it lacks {some(missing, 3)}.")
        data = {**row, "settings": rows.settings_of(dict(row))}
        return cls(**{one.name: data[one.name] for one in fields(cls) if one.name in data})

    @classmethod
    def headings(cls) -> dict[str, str]:
        """Return the columns that the report page shows: name -> heading."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


def make_results(
    state: TrainingState,
    members: Sequence[Member],
    validation: Mapping[str, Tensor],
    test: Mapping[str, Tensor],
    splits: Splits,
    graph: str,
    metric: str,
    provenance: dict[str, Any],
) -> list[Result]:
    """Return the result of each member from the trained state and its scores (metric -> [b]).

    The validation score of `metric` is that of the best epoch, in the state; `validation` may have further metrics.
    """
    validation = {metric: state["best_score"], **{name: v for name, v in validation.items() if name != metric}}
    failed, epoch, best = (state[name].tolist() for name in ("failed_epoch", "best_epoch", "best_score"))
    results = []
    for i, member in enumerate(members):
        has_failed = epoch[i] < 0  # no epoch was kept
        results.append(
            Result(
                graph=graph,
                settings=member.recipe.to_dict(),
                split=member.split,
                split_seed=splits.seeds[member.split] if member.split < len(splits.seeds) else None,
                scheme=splits.scheme,
                seed=member.seed,
                metric=metric,
                validation=None if has_failed else best[i],
                test=None if has_failed or not test else float(test[metric][i]),
                epoch=epoch[i],
                failed=f"loss was not finite in epoch {int(failed[i])}" if failed[i] >= 0 else None,
                **splits.sizes(member.split),
                validation_scores=None if has_failed else {name: float(v[i]) for name, v in validation.items()},
                test_scores=None if has_failed or not test else {name: float(v[i]) for name, v in test.items()},
                **provenance,
            )
        )
    return results


def rank_value(result: Result) -> float:
    """Return the validation score of a result as a number of which the greatest is best; a failed one is worst."""
    value, task = result.validation, result.settings.get("task", "classification")
    if value is None or math.isnan(value):
        return -math.inf
    return value if pick_metric(result.metric, task).greater_is_better else -value


def mark_chosen(results: Sequence[Result], restarts: int, splits: int) -> None:
    """Mark the best of the restarts of each split, by validation score only; the earliest of equally good ones.

    Results are in the order of `make_members`: the restarts of a split are `splits` apart.
    """
    for start in range(0, len(results), restarts * splits):
        for s in range(splits):
            group = results[start + s : start + restarts * splits : splits]
            scores = [rank_value(result) for result in group]
            for i, result in enumerate(group):
                result.chosen = i == scores.index(max(scores))
