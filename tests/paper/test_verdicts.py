"""Verdicts on printed values and claims."""

import numpy as np
import pytest

from adaptkry.paper.cells import MeasuredCell
from adaptkry.paper.items import learned_filters, table_2, tau_sensitivity
from adaptkry.paper.published import PAPER
from adaptkry.paper.tables import counts_of, verdict_notes
from adaptkry.paper.verdicts import is_reached, is_within, text_verdict, verdict


@pytest.mark.parametrize(
    ("published", "margin", "expected"),
    [(80.0, 1.0, "holds"), (81.0, 1.0, "holds"), (81.5, 1.0, "below"), (78.5, 1.0, "above"), (85.0, 5.0, "holds")],
)
def test_a_number_holds_within_the_margin(row, published, margin, expected):
    assert verdict(MeasuredCell((row(value=80.0),)), published, margin) == expected


def test_a_number_holds_within_a_wide_interval(row):
    assert verdict(MeasuredCell(tuple(row(test=t) for t in (0.7, 0.9))), 60.0, 1.0) == "holds"


def test_a_number_holds_within_the_larger_of_margin_and_interval_not_within_their_sum(row):
    cell = MeasuredCell(tuple(row(test=t) for t in (0.79, 0.80, 0.81)))
    assert cell.half_width == pytest.approx(2.484, abs=1e-3)
    assert [verdict(cell, printed, 1.0) for printed in (82.4, 82.6, 77.6, 77.4)] == ["holds", "below", "holds", "above"]


def test_a_number_is_reached_from_the_margin_below_on(row):
    cell = MeasuredCell((row(value=80.0),))
    assert [is_reached(cell, printed, 1.0) for printed in (70.0, 80.9, 81.1)] == [True, True, False]
    assert [is_within(cell, printed, 1.0) for printed in (78.9, 79.1, 80.9, 81.1)] == [False, True, True, False]


def test_text_holds_only_if_it_is_the_same(row):
    assert verdict(MeasuredCell((row(text="0.5, 0.8"),)), "0.5, 0.8", 1.0) == text_verdict("a", "a") == "holds"
    assert verdict(MeasuredCell((row(text="0.5"),)), "0.8", 1.0) == text_verdict("a", "b") == "below"


def test_the_note_on_a_cell_below_says_if_no_reason_is_known(row):
    item = {"margin": 1.0, "reasons": {"a/x": "It gives 5."}}
    found = {(name, "x"): MeasuredCell((row(value=1.0),)) for name in "ab"}
    notes = verdict_notes(found, {("a", "x"): 9.0, ("b", "x"): 9.0, ("c", "x"): 1.0}, item)
    assert notes[0] == "0 of 2 printed values hold, 0 are above and 2 are below; 1 was not run."
    assert notes[1:] == ["a, x (below): It gives 5.", "b, x (below): no reason is known to us."]


def test_verbs_are_singular_or_plural_like_their_counts():
    verdicts = ["holds"] * 26 + ["above"] + ["below"] * 3
    assert counts_of(verdicts, 30) == "26 of 30 printed values hold, 1 is above and 3 are below; 0 were not run."
    assert counts_of(["holds"], 1) == "1 of 1 printed value holds, 0 are above and 0 are below; 0 were not run."


def test_a_cell_that_holds_only_within_our_interval_is_listed_with_its_reason(row):
    wide = {("a", "g"): MeasuredCell(tuple(row(test=score) for score in (0.70, 0.84)))}
    item = {"margin": 1.0, "reasons": {"a/g": "few splits."}}
    notes = verdict_notes(wide, {("a", "g"): 80.0}, item)
    assert notes[0].startswith("1 of 1 printed value holds")
    assert notes[1:] == ["a, g (within our interval only): few splits."]
    for printed, counts in ((80.0, "0 are within"), (78.0, "1 are within")):
        assert f"Of the 1 cells of the baselines, {counts}" in table_2.baselines_note(wide, {("a", "g"): printed}, item)


def test_the_rule_for_low_pass_filters_agrees_with_the_curves_of_the_paper():
    item, frequencies = PAPER["learned-filters"], learned_filters.RESPONSE_GRID
    shapes = {
        name: learned_filters.shape(np.polynomial.polynomial.polyval(1 - frequencies, item["paper"][name]))
        for name in item["graphs"]
    }
    assert [name for name, shape in shapes.items() if shape == "low-pass"] == item["ours"]["low_pass"]


def test_a_flat_or_rising_filter_is_not_low_pass():
    assert learned_filters.shape(np.ones(101)) != "low-pass"
    assert learned_filters.shape(np.linspace(0, 1, 101)) != "low-pass"
    assert learned_filters.shape(np.linspace(1, 0, 101) ** 2) == "low-pass"


@pytest.mark.parametrize(
    ("cora", "squirrel", "verdicts"),
    [
        (0.1, 1.0, ["holds"] * 2),
        (5.0, -1.0, ["does not hold"] * 2),
        (0.0, 0.0, ["holds", "does not hold"]),  # flat: no rise
    ],
)
def test_the_two_claims_about_tau_can_hold_and_can_fail(row, cora, squirrel, verdicts):
    found = {}
    for tau in np.linspace(0.1, 1.0, 10):
        found["cora", f"{tau:g}"] = MeasuredCell((row(value=88 + cora * tau),))
        found["squirrel", f"{tau:g}"] = MeasuredCell((row(value=50 + squirrel * tau),))
    notes = tau_sensitivity.claims(found, PAPER["tau-sensitivity"])
    assert [text.rpartition(": ")[2] for text in notes] == [f"{word}." for word in verdicts]


def test_cells_above_need_a_reason_as_much_as_cells_below(row):
    found = {(name, "x"): MeasuredCell((row(value=value),)) for name, value in (("a", 1.0), ("b", 20.0), ("c", 21.0))}
    printed = {(name, "x"): 9.0 for name in "abc"}
    notes = verdict_notes(found, printed, {"margin": 1.0, "reasons": {"c/x": "It is refitted."}})
    assert notes[1:] == ["a, x (below); b, x (above): no reason is known to us.", "c, x (above): It is refitted."]
    notes = verdict_notes(found, printed, {"margin": 1.0, "reason": "No settings."})
    assert notes[1:] == ["a, x (below); b, x (above); c, x (above): No settings."]


def test_cells_of_baselines_are_counted_on_both_sides(row):
    values = {"a": 89.5, "b": 95.0, "c": 80.0, "adaptkry": 70.0}
    found = {(name, "g"): MeasuredCell((row(value=value),)) for name, value in values.items()}
    note = table_2.baselines_note(found, {key: 90.0 for key in found}, {"margin": 1.0})
    assert note == (
        "Of the 3 cells of the baselines, 1 are within 1.0 point of the printed value, 1 are above it by more, and 1 "
        "below it by more."
    )
