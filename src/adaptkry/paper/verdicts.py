"""Whether a printed value or a claim of the paper holds. Every verdict of the documents is decided here.

A printed number holds if ours differs by at most the item's margin, or by at most half the width of our own 95 %
interval where that is larger. Text holds if it is the same.
"""

from collections.abc import Sequence
from typing import Any

from adaptkry.paper.cells import MeasuredCell

HOLDS, ABOVE, BELOW = "holds", "above", "below"


def verdict(cell: MeasuredCell, printed: Any, margin: float) -> str:
    """Whether a printed value holds, or ours is above or below it.

    Args:
        cell: what was measured.
        printed: the printed number or text.
        margin: how far a number may differ and still hold.
    """
    if cell.text is not None:
        return text_verdict(cell.text, printed)
    if abs(cell.mean - printed) <= max(margin, cell.half_width):
        return HOLDS
    return ABOVE if cell.mean > printed else BELOW


def text_verdict(measured: str, printed: str) -> str:
    """Whether a printed text holds: only if ours is the same."""
    return HOLDS if measured == printed else BELOW


def claim_verdict(is_true: bool) -> str:
    """Whether a claim in words holds, given whether its rule is satisfied."""
    return HOLDS if is_true else "does not hold"


def is_reached(cell: MeasuredCell, printed: Any, margin: float) -> bool:
    """Whether ours is at most the margin below the printed number, without regard to our interval; text always is."""
    return cell.text is not None or cell.mean >= printed - margin


def rank_correlation(name: str, first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's or Kendall's correlation ("spearmanr", "kendalltau"); 0 where one side is constant."""
    from scipy import stats  # half a second to import

    is_constant = len(set(first)) == 1 or len(set(second)) == 1
    return 0.0 if is_constant else float(getattr(stats, name)(first, second)[0])
