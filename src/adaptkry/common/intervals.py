r"""Confidence intervals of means over splits; intervals and tests of differences of two methods on the same splits.

Random splits of the same nodes share nodes, so that scores on them are not independent. Student's interval of a mean
over splits describes the spread over splits only, and is too narrow for claims about other splits. Differences are
therefore given the corrected interval of Nadeau and Bengio (Machine Learning 52, 2003), in which the variance of the
mean of k differences is

.. math:: \left(\frac{1}{k} + \frac{n_{evaluated}}{n_{train}}\right) s^2

>>> differences = np.array([0.01, 0.03, 0.02])
>>> round(half_width(differences), 4), round(corrected_half_width(differences, 1 / 3), 4)
(0.0248, 0.0351)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

# Evaluated nodes per training node, for rows of older versions, which have no numbers of nodes: 20/60 of random splits,
# and the 48/32/20 of the fixed splits of Geom-GCN.
FORMER_RATIO = 1 / 3
FORMER_FIXED_RATIO = {"validation": 32 / 48, "test": 20 / 48}


def half_width(numbers: np.ndarray) -> float:
    """Return half the width of Student's 95 % confidence interval of the mean; 0 for a single number."""
    return corrected_half_width(numbers, 0.0)


def corrected_half_width(differences: np.ndarray, evaluated_per_train: float) -> float:
    """Return half the width of the 95 % confidence interval of a mean difference over splits that share nodes.

    Args:
        differences: one difference per split [k].
        evaluated_per_train: number of evaluated (validation or test) nodes divided by that of training nodes.
    """
    if len(differences) < 2:
        return 0.0
    return float(special.stdtrit(len(differences) - 1, 0.975)) * corrected_error(differences, evaluated_per_train)


def corrected_error(differences: np.ndarray, evaluated_per_train: float) -> float:
    """Return the corrected standard error of a mean of at least two differences (arguments as above)."""
    return float(differences.std(ddof=1) * np.sqrt(1 / len(differences) + evaluated_per_train))


def corrected_p_value(differences: np.ndarray, evaluated_per_train: float) -> float | None:
    """Return the two-sided p-value of the corrected paired t-test that the mean difference is 0 (arguments as above).

    None for fewer than two differences, which cannot be tested.
    """
    if len(differences) < 2:
        return None
    mean, error = float(differences.mean()), corrected_error(differences, evaluated_per_train)
    if error == 0:
        return float(mean == 0)
    return float(2 * special.stdtr(len(differences) - 1, -abs(mean) / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number by Holm's step-down method (Scand. J. Statist. 6, 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, dtype=float)
    order = given.argsort(kind="stable")
    adjusted = np.empty_like(given)
    adjusted[order] = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1)).clip(max=1)
    return adjusted.tolist()


def nodes_ratio(rows: Sequence[Mapping[str, Any]], part: str = "test") -> float:
    """Return the number of evaluated nodes per training node, on average over the splits of result rows."""
    known = [row for row in rows if row.get("train_nodes") and row.get(f"{part}_nodes") is not None]
    if known:
        return float(np.mean([row[f"{part}_nodes"] / row["train_nodes"] for row in known]))
    is_fixed = any(row.get("scheme") == "fixed" for row in rows)
    return FORMER_FIXED_RATIO[part] if is_fixed else FORMER_RATIO
