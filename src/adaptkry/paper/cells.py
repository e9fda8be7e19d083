"""From rows to cells: the newest measurement of every cell, its mean and interval, and what to say about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adaptkry.common import rows as results
from adaptkry.selection import compare as comparison

FOUND = ("value", "test", "text")  # what was measured: one of them
NEEDED = ("item", "row", "column", "made", "quick", "commit", "device")


@dataclass(frozen=True)
class Cell:
    """One measured cell: its rows, and the mean and 95 % half-width of its numbers (scores in %)."""

    rows: tuple[dict, ...]

    @property
    def numbers(self) -> np.ndarray:
        """The values, or test scores in % of the trainings that count."""
        if "value" in self.rows[0]:
            return np.array([row["value"] for row in self.rows], dtype=float)
        scores = comparison.test_scores([row for row in self.rows if row.get("chosen", True)])
        return 100 * scores[~np.isnan(scores)]

    @property
    def mean(self) -> float:
        """NaN where every training failed."""
        return float(self.numbers.mean()) if len(self.numbers) else float("nan")

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval of the mean; 0 for a single number."""
        return comparison.half_width(self.numbers)

    def text(self, decimals: int = 2) -> str:
        """Mean and interval; a count as a count."""
        if isinstance(self.rows[0].get("value"), int):
            return f"{self.rows[0]['value']:,}"
        spread = f" ± {self.half:.{decimals}f}" if len(self.numbers) > 1 else ""
        return f"{self.mean:,.{decimals}f}{spread}"

    def verdict(self, published: float, margin: float) -> str:
        """Whether a printed value holds, or ours lies above or below it."""
        if abs(self.mean - published) <= max(margin, self.half):
            return "holds"
        return "above" if self.mean > published else "below"


Cells = dict[tuple[str, str], Cell]


def read(path: Path, item: str) -> tuple[list[dict], list[str]]:
    """The item's rows of a file, and a sentence for every line that is damaged or belongs to something else."""
    if not path.exists():
        return [], []
    good, bad = [], []
    for number, row in results.lines(path):
        missing = [name for name in NEEDED if name not in row] if isinstance(row, dict) else NEEDED
        if isinstance(row, ValueError):
            bad.append(f"{path.name}, line {number}: not JSON")
        elif missing:
            bad.append(f"{path.name}, line {number}: no {missing[0]!r}")
        elif not set(FOUND) & set(row):
            bad.append(f"{path.name}, line {number}: neither {' nor '.join(map(repr, FOUND))}")
        elif row["item"] != item:
            bad.append(f"{path.name}, line {number}: a row of {row['item']!r}")
        else:
            good.append(row)
    return good, bad


def newest(rows: Sequence[dict[str, Any]], quick: bool) -> Cells:
    """The rows of each cell's last measurement; quick ones and real ones never mix."""
    found: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        if row["quick"] == quick:
            key = (row["row"], row["column"])
            same = found.get(key, [])
            found[key] = [*same, row] if same and same[0]["made"] == row["made"] else [row]
    return {key: Cell(tuple(own)) for key, own in found.items()}
