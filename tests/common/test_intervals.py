import numpy as np
import pytest
from scipy import stats

from adaptkry.common.intervals import corrected_half_width, half_width, nodes_ratio

NUMBERS = np.array([0.5, 0.7, 0.65, 0.61])


def test_half_widths_are_those_of_students_t():
    low, high = stats.t.interval(0.95, 3, NUMBERS.mean(), stats.sem(NUMBERS))
    assert half_width(NUMBERS) == pytest.approx((high - low) / 2)
    assert half_width(NUMBERS[:1]) == corrected_half_width(NUMBERS[:1], 0.5) == 0.0


@pytest.mark.parametrize("ratio", [0.0, 1 / 3, 2.0])
def test_the_corrected_variance_is_that_of_nadeau_and_bengio(ratio):
    variance = (1 / 4 + ratio) * NUMBERS.var(ddof=1)
    assert corrected_half_width(NUMBERS, ratio) == pytest.approx(stats.t.ppf(0.975, 3) * variance**0.5)
    assert (corrected_half_width(NUMBERS, ratio) > half_width(NUMBERS)) == (ratio > 0)


def test_the_ratio_of_nodes_is_that_of_the_rows_or_of_the_usual_fractions():
    rows = [{"train_nodes": 60, "validation_nodes": 30, "test_nodes": 20}, {"train_nodes": 50, "test_nodes": 20}]
    assert nodes_ratio(rows) == pytest.approx((20 / 60 + 20 / 50) / 2)
    assert nodes_ratio(rows, "validation") == pytest.approx(0.5)
    assert nodes_ratio([{"scheme": "class_balanced"}]) == pytest.approx(1 / 3)
    assert nodes_ratio([{"scheme": "fixed"}]) == pytest.approx(20 / 48)
    assert nodes_ratio([{"scheme": "fixed"}], "validation") == pytest.approx(32 / 48)
