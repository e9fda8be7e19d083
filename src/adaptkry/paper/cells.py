"""Read result rows, and group the newest rows of each table cell, with their mean and confidence interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common.intervals import corrected_half_width, half_width, nodes_ratio
from adaptkry.common.rows import created_of, lines
from adaptkry.selection.compare import test_scores

RESULT_KEYS = ("value", "test", "text")  # every row has at least one of them
FORMER_ITEMS = {"split-schemes": "protocol"}  # names of items in older rows -> current names
REQUIRED_KEYS = ("item", "row", "column", "created", "quick", "commit", "device")


@dataclass(frozen=True)
class MeasuredCell:
    """The rows of one cell, with the mean and the 95 % confidence interval of their numbers."""

    rows: tuple[dict, ...]
    earlier: tuple["MeasuredCell", ...] = ()  # older measurements of the same cell, oldest first

    @property
    def text(self) -> str | None:
        """The measured text, for cells without numbers; None for the others."""
        return self.rows[0].get("text")

    @property
    def numbers(self) -> np.ndarray:
        """The values; or the test scores, in per cent, of the chosen trainings that did not fail."""
        if "value" in self.rows[0]:
            return np.array([row["value"] for row in self.rows], dtype=float)
        scores = test_scores([row for row in self.rows if row.get("chosen", True)])
        return 100 * scores[~np.isnan(scores)]

    def scores(self, score: str = "test") -> dict[int, float]:
        """Return the validation or test score, in per cent, of the chosen trainings that did not fail, by split."""
        chosen = (row for row in self.rows if row.get("chosen", True))
        return {row["split"]: 100 * row[score] for row in chosen if row[score] is not None}

    @property
    def split_seeds(self) -> dict[int, int | None]:
        """The seed of every split; None if it is not known or the split is fixed."""
        return {row["split"]: row.get("split_seed") for row in self.rows if "split" in row}

    @property
    def has_result(self) -> bool:
        """Whether the cell has a text or a number: False if every training failed."""
        return self.text is not None or len(self.numbers) > 0

    @property
    def mean(self) -> float:
        """The mean of the numbers; NaN if there are none."""
        return float(self.numbers.mean()) if len(self.numbers) else float("nan")

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % confidence interval of the mean; 0 for a single number."""
        return half_width(self.numbers)

    @property
    def validation(self) -> float:
        """The mean validation score of the chosen trainings, in per cent; one that failed counts as 0."""
        chosen = [row for row in self.rows if row.get("chosen", True)]
        return 100 * sum(row["validation"] or 0.0 for row in chosen) / len(chosen)

    def mean_text(self, decimals: int = 2) -> str:
        """Format the mean with half the width of its interval; counts are formatted as integers."""
        if isinstance(self.rows[0].get("value"), int):
            return f"{self.rows[0]['value']:,}"
        spread = f" ± {self.half_width:.{decimals}f}" if len(self.numbers) > 1 else ""
        return f"{self.mean:,.{decimals}f}{spread}"


def paired_differences(cell: MeasuredCell, base: MeasuredCell, score: str = "test") -> np.ndarray:
    """Return the scores of a cell minus those of another on the same splits, in points.

    Splits with the same number but another seed are not the same: two lists of published seeds differ in three places.
    """
    ours, theirs, seeds, other_seeds = cell.scores(score), base.scores(score), cell.split_seeds, base.split_seeds
    same = [split for split in ours if split in theirs and len({seeds[split], other_seeds[split]} - {None}) < 2]
    return np.array([ours[split] - theirs[split] for split in same])


def difference_half_width(cell: MeasuredCell, base: MeasuredCell, score: str = "test") -> float:
    """Return half the width of the corrected 95 % interval of the mean of `paired_differences`, in points."""
    return corrected_half_width(paired_differences(cell, base, score), nodes_ratio(cell.rows, score))


Cells = dict[tuple[str, str], MeasuredCell]  # (row, column) -> cell


def read(path: Path, item: str) -> tuple[list[dict], list[str]]:
    """Read the rows of an item from a file; also returns a message for every line that cannot be used."""
    if not path.exists():
        return [], []
    rows, messages = [], []
    for number, row in lines(path):
        if isinstance(row, dict) and created_of(row) is not None:
            row = row | {"created": created_of(row)}  # version 0.1 used another name
        reason = problem(row, item)
        if reason is None:
            rows.append(row)
        else:
            messages.append(f"{path.name}, line {number}: {reason}")
    return rows, messages


def problem(row: Any, item: str) -> str | None:
    """Return why a line cannot be used as a row of an item; None if it can."""
    if isinstance(row, ValueError):
        return "not JSON"
    missing = [name for name in REQUIRED_KEYS if name not in row] if isinstance(row, dict) else REQUIRED_KEYS
    if missing:
        return f"no {missing[0]!r}"
    if not set(RESULT_KEYS) & set(row):
        return f"neither {' nor '.join(map(repr, RESULT_KEYS))}"
    return None if FORMER_ITEMS.get(row["item"], row["item"]) == item else f"a row of {row['item']!r}"


def newest(rows: Sequence[dict[str, Any]], quick: bool) -> Cells:
    """Group the rows of the last measurement of each cell; either those of quick runs or the others."""
    groups: dict[tuple[str, str], list[list[dict]]] = {}
    for row in rows:
        if row["quick"] == quick:
            measured = groups.setdefault((row["row"], row["column"]), [])
            if measured and measured[-1][0]["created"] == row["created"]:
                measured[-1].append(row)
            else:
                measured.append([row])
    return {
        key: MeasuredCell(tuple(last), tuple(MeasuredCell(tuple(group)) for group in earlier))
        for key, (*earlier, last) in groups.items()
    }
