import json

import numpy as np
import pytest

from adaptkry.report import elements as experiments
from adaptkry.report.elements import cell, chart, experiment, series, table

ROW = {"test": 0.5}
GOOD = {
    "method": "a", "failed": None, "mean": 0.8, "std": 0.01, "low": 0.79, "high": 0.81, "seconds": 1.25,
    "parameters": 12345, "peak_bytes": 2**21, "tried": [{}], "rows": [ROW, ROW], "behind": 0.0, "behind_half": 0.0,
}  # fmt: skip
NEAR = GOOD | {"method": "b", "mean": 0.79, "behind": -0.01, "behind_half": 0.02}
FAR = GOOD | {"method": "c", "mean": 0.6, "behind": -0.2, "behind_half": 0.02, "peak_bytes": None}
FAILED = {"method": "d", "failed": "out of memory", "mean": None, "rows": [], "tried": []}


def test_numbers_that_json_lacks_become_gaps():
    assert experiments.finite({"a": [float("nan"), (1.0, float("inf"))]}) == {"a": [None, [1.0, None]]}
    assert experiments.finite([np.float32(0.5), np.array([1, np.nan]), np.int64(3)]) == [0.5, [1.0, None], 3]


def test_an_experiment_is_json_as_it_is():
    drawn = chart("c", [series("s", np.arange(2), [1, np.nan], low=[0, 0], high=[2, 2])])
    made = experiment("t", tables=[table("x", ["a"], [[np.float64(1)], [None], [cell("1", 1)]])], charts=[drawn])
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["kind"] == "experiment"
    assert drawn["series"][0]["y"] == [1, None]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: cell("1", verdict="wrong"), "verdict must be one of 'holds', 'above', 'below', ''; got 'wrong'"),
        (lambda: table("T", ["a", "b"], [[1]]), "'T' has 2 columns, but a row with 1 cells"),
        (lambda: table("T", ["a"], [[(1, 2)]]), "a cell is text, a number"),  # type: ignore[list-item]
        (lambda: series("S", [1, 2], [1]), "'S' has 2 x, but 1 y"),
        (lambda: series("S", [1], [1], low=[0]), "give low and high"),
        (lambda: chart("C", [series("S", [1], [0.0])], log=True), "is logarithmic, but holds 0.0"),
        (lambda: chart("C", [series("S", [1, "x"], [1, 2])]), "mixes names and numbers"),
    ],
)
def test_what_no_page_could_draw_is_refused(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


def test_a_comparison_names_the_best_and_who_cannot_be_told_apart():
    made = experiments.of_comparison([GOOD, NEAR, FAR, FAILED], ["few nodes"], "cora", "accuracy", {"version": "1"})
    assert made["lead"].startswith("a has the best mean: 80.00 % test accuracy over 2 split(s).")
    assert made["lead"].endswith("Not told apart from it at 95 %: b.")
    (shown,) = made["tables"]
    line = dict(zip(shown["columns"], shown["rows"][1], strict=True))
    assert line["to the best"] == {"text": "-1.00 ± 2.00", "sort": -0.01, "verdict": ""}
    assert line["parameters"]["sort"] == 12345
    assert shown["rows"][3][0] == "d"
    assert shown["rows"][3][-1] == "out of memory"
    assert made["charts"][0]["series"][0]["x"] == ["a", "b", "c"]
    assert made["notes"] == ["warning: few nodes"]


def test_a_comparison_of_one_split_or_of_nothing_still_has_a_page():
    alone = GOOD | {"std": None, "low": None, "high": None, "rows": [ROW]}
    made = experiments.of_comparison([alone, alone | {"behind": -0.1}], [], "cora", "accuracy", {})
    assert made["tables"][0]["rows"][1][3]["text"] == "-10.00"
    assert experiments.of_comparison([FAILED], [], "cora", "accuracy", {})["lead"] == "No method could run."
