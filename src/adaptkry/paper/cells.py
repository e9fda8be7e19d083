"""From rows to cells: the newest measurement of every cell of an item, with its mean and interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common.rows import created_of, lines
from adaptkry.selection.compare import half_width, test_scores

RESULT_KEYS = ("value", "test", "text")  # every row has one of them
REQUIRED_KEYS = ("item", "row", "column", "created", "quick", "commit", "device")


@dataclass(frozen=True)
class MeasuredCell:
    """The rows of one cell, and the mean and 95 % half-width of their numbers (test scores in per cent)."""

    rows: tuple[dict, ...]

    @property
    def text(self) -> str | None:
        """The measured text of a cell that holds no number."""
        return self.rows[0].get("text")

    @property
    def numbers(self) -> np.ndarray:
        """The values, or the test scores in per cent of the chosen trainings that succeeded."""
        if "value" in self.rows[0]:
            return np.array([row["value"] for row in self.rows], dtype=float)
        scores = test_scores([row for row in self.rows if row.get("chosen", True)])
        return 100 * scores[~np.isnan(scores)]

    @property
    def has_result(self) -> bool:
        """Whether there is something to show: False where every training failed."""
        return self.text is not None or len(self.numbers) > 0

    @property
    def mean(self) -> float:
        """The mean of the numbers; NaN without any."""
        return float(self.numbers.mean()) if len(self.numbers) else float("nan")

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval of the mean; 0 for a single number."""
        return half_width(self.numbers)

    def mean_text(self, decimals: int = 2) -> str:
        """Mean and interval; a count is printed as an integer."""
        if isinstance(self.rows[0].get("value"), int):
            return f"{self.rows[0]['value']:,}"
        spread = f" ± {self.half_width:.{decimals}f}" if len(self.numbers) > 1 else ""
        return f"{self.mean:,.{decimals}f}{spread}"


Cells = dict[tuple[str, str], MeasuredCell]  # (row, column) -> cell


def read(path: Path, item: str) -> tuple[list[dict], list[str]]:
    """The item's rows of a file, and a message for every line that is damaged or belongs to something else."""
    if not path.exists():
        return [], []
    good, bad = [], []
    for number, row in lines(path):
        if isinstance(row, dict) and created_of(row) is not None:
            row = row | {"created": created_of(row)}  # rows of version 0.1 call it otherwise
        reason = problem(row, item)
        if reason is None:
            good.append(row)
        else:
            bad.append(f"{path.name}, line {number}: {reason}")
    return good, bad


def problem(row: Any, item: str) -> str | None:
    """Why a line of results cannot be used for an item; None if it can."""
    if isinstance(row, ValueError):
        return "not JSON"
    missing = [name for name in REQUIRED_KEYS if name not in row] if isinstance(row, dict) else REQUIRED_KEYS
    if missing:
        return f"no {missing[0]!r}"
    if not set(RESULT_KEYS) & set(row):
        return f"neither {' nor '.join(map(repr, RESULT_KEYS))}"
    return None if row["item"] == item else f"a row of {row['item']!r}"


def newest(rows: Sequence[dict[str, Any]], quick: bool) -> Cells:
    """The rows of each cell's last measurement; quick and complete runs are never mixed."""
    found: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        if row["quick"] == quick:
            key = (row["row"], row["column"])
            same = found.get(key, [])
            found[key] = [*same, row] if same and same[0]["created"] == row["created"] else [row]
    return {key: MeasuredCell(tuple(same)) for key, same in found.items()}
