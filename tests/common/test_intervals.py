import numpy as np
import pytest
from scipy import stats

from adaptkry.common.intervals import corrected_half_width, corrected_p_value, half_width, holm, nodes_ratio

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


@pytest.mark.parametrize("ratio", [0.0, 1 / 3, 2.0])
def test_the_corrected_test_has_the_statistic_of_nadeau_and_bengio(ratio):
    differences = NUMBERS - 0.55
    statistic = differences.mean() / np.sqrt((1 / 4 + ratio) * differences.var(ddof=1))
    assert corrected_p_value(differences, ratio) == pytest.approx(2 * stats.t.sf(abs(statistic), 3))
    assert corrected_p_value(-differences, ratio) == pytest.approx(corrected_p_value(differences, ratio))
    if ratio == 0:
        assert corrected_p_value(differences, 0.0) == pytest.approx(stats.ttest_1samp(differences, 0)[1])


def test_differences_that_cannot_be_tested_or_are_all_equal_have_plain_answers():
    assert corrected_p_value(NUMBERS[:1], 0.5) is None
    assert corrected_p_value(np.zeros(3), 0.5) == 1.0
    assert corrected_p_value(np.full(3, 0.25), 0.5) == 0.0


def test_holm_adjusts_as_computed_by_hand():
    # sorted 0.005, 0.01, 0.03, 0.04 -> times 4, 3, 2, 1 = 0.02, 0.03, 0.06, 0.04 -> never smaller than the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
