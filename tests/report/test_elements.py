import json

import numpy as np
import pytest

from adaptkry.report.elements import cell, chart, experiment, finite, matrix, series, table


def test_nan_and_infinity_become_none():
    assert finite({"a": [float("nan"), (1.0, float("inf"))]}) == {"a": [None, [1.0, None]]}
    assert finite([np.float32(0.5), np.array([1, np.nan]), np.int64(3)]) == [0.5, [1.0, None], 3]


def test_an_experiment_can_be_written_as_json():
    drawn = chart("c", [series("s", np.arange(2), [1, np.nan], low=[0, 0], high=[2, 2])])
    found = experiment(
        "t",
        tables=[table("x", ["a"], [[np.float64(1)], [None], [cell("1", 1)]])],
        charts=[drawn, matrix("m", "ab", np.eye(2))],
    )
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["kind"] == "experiment"
    assert drawn["series"][0]["y"] == [1, None]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: cell("1", verdict="wrong"), "verdict must be one of 'holds', 'above', 'below', ''; got 'wrong'"),
        (lambda: table("T", ["a", "b"], [[1]]), "table 'T' must have 2 cells, one per column; got 1"),
        (lambda: table("T", ["a"], [[(1, 2)]]), "must be text, a number"),  # type: ignore[list-item]
        (lambda: series("S", [1, 2], [1]), "y of series 'S' must have 2 values, as many as x; got 1"),
        (lambda: series("S", [1], [1], low=[0]), "Pass low and high"),
        (lambda: chart("C", [series("S", [1], [0.0])], log=True), "must be positive; got 0.0"),
        (lambda: chart("C", [series("S", [1, "x"], [1, 2])]), "all names or all numbers; got both"),
        (
            lambda: matrix("M", ["a", "b"], [[1, 2]]),
            r"'M' must have 2 rows and columns, one per name; got rows of \[2\]",
        ),
    ],
)
def test_parts_that_a_page_cannot_draw_are_refused(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()
