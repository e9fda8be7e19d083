"""Decide whether a printed value or a claim of the paper holds; all verdicts of the documents come from this module.

A printed number holds if ours differs from it by at most the item's margin, or by at most half the width of our 95 %
confidence interval if that is larger. A printed text holds if ours is the same.
"""

from collections.abc import Sequence
from typing import Any

from adaptkry.paper.cells import MeasuredCell

HOLDS, ABOVE, BELOW = "holds", "above", "below"


def verdict(cell: MeasuredCell, printed: Any, margin: float) -> str:
    """Return whether a printed value holds, or ours is above or below it.

    Args:
        cell: our measurement.
        printed: the printed number or text.
        margin: largest difference for which a number holds.
    """
    if cell.text is not None:
        return text_verdict(cell.text, printed)
    if abs(cell.mean - printed) <= max(margin, cell.half_width):
        return HOLDS
    return ABOVE if cell.mean > printed else BELOW


def text_verdict(measured: str, printed: str) -> str:
    """Return "holds" if our text is the printed text, otherwise "below"."""
    return HOLDS if measured == printed else BELOW


def claim_verdict(is_true: bool) -> str:
    """Return the verdict on a claim, given whether our rule for it is satisfied."""
    return HOLDS if is_true else "does not hold"


def is_within(cell: MeasuredCell, printed: Any, margin: float) -> bool:
    """Return whether ours differs from the printed number by at most the margin, ignoring our interval."""
    return abs(cell.mean - printed) <= margin


def is_reached(cell: MeasuredCell, printed: Any, margin: float) -> bool:
    """Return whether ours is at least the printed number minus the margin, ignoring our interval; True for text."""
    return cell.text is not None or cell.mean >= printed - margin


def target_reached(cell: MeasuredCell, at_least: float, aim: float) -> str:
    """Return which of two targets our mean reaches, ignoring our interval: "aim", "at least" or "below"."""
    return "aim" if cell.mean >= aim else "at least" if cell.mean >= at_least else BELOW


def rank_correlation(name: str, first: Sequence[float], second: Sequence[float]) -> float:
    """Return a rank correlation ("spearmanr" or "kendalltau" of SciPy); 0 if either sequence is constant."""
    from scipy import stats  # takes half a second to import

    is_constant = len(set(first)) == 1 or len(set(second)) == 1
    return 0.0 if is_constant else float(getattr(stats, name)(first, second)[0])
