"""Tables of comparisons: paired tests, Holm's correction, ranks and formats, against hand computations and SciPy."""

import csv
import io

import numpy as np
import pytest
from scipy import stats

from adaptkry.common.intervals import half_width
from adaptkry.selection.comparison_table import Comparison, comparison_table, friedman_p_value, ranks_of

RATIO = 20 / 60  # test nodes per training node
SCORES = {  # graph -> method -> test scores over splits
    "g_1": {"a": [0.90, 0.91, 0.92, 0.90], "b": [0.89, 0.905, 0.915, 0.90], "c": [0.60, 0.62, 0.59, 0.61]},
    "g_2": {"a": [0.70, 0.72, 0.71, 0.73], "b": [0.80, 0.83, 0.81, 0.82], "c": [0.70, 0.72, 0.71, 0.73]},
}


def entry(graph, method, scores, metric="accuracy"):
    rows = [{"test": score, "train_nodes": 60, "test_nodes": 20} for score in scores]
    known = [score for score in scores if score is not None]
    return {"graph": graph, "method": method, "metric": metric, "mean": float(np.mean(known)) if known else None,
            "rows": rows}  # fmt: skip


ENTRIES = Comparison(entry(graph, name, one) for graph, group in SCORES.items() for name, one in group.items())


def p_value(a, b):
    d = np.array(a) - np.array(b)
    return 2 * stats.t.sf(abs(d.mean()) / np.sqrt((1 / len(d) + RATIO) * d.var(ddof=1)), len(d) - 1)


def test_each_method_is_tested_against_the_best_of_its_graph_with_holms_correction():
    found = ENTRIES.table().scores
    one, two = SCORES["g_1"], SCORES["g_2"]
    expected = {
        ("b", "g_1"): p_value(one["b"], one["a"]), ("c", "g_1"): p_value(one["c"], one["a"]),
        ("a", "g_2"): p_value(two["a"], two["b"]), ("c", "g_2"): p_value(two["c"], two["b"]),
    }  # fmt: skip
    assert {key: score.p_value for key, score in found.items() if score.p_value is not None} == pytest.approx(expected)
    adjusted, last = {}, 0.0
    for step, key in enumerate(sorted(expected, key=lambda key: expected[key])):
        last = adjusted[key] = max(last, min(1, (4 - step) * expected[key]))
    assert {key: found[key].adjusted for key in expected} == pytest.approx(adjusted)
    assert found["b", "g_1"].mark == "≈"
    assert found["c", "g_1"].mark == "-"
    assert found["a", "g_2"].difference == pytest.approx(-0.1)
    assert found["a", "g_1"].half_width == pytest.approx(half_width(np.array(one["a"])))


def test_with_a_baseline_every_other_method_is_tested_against_it():
    found = ENTRIES.table("c")
    assert {score.reference for score in found.scores.values()} == {"c"}
    assert [found.scores[key].mark for key in (("a", "g_1"), ("b", "g_2"), ("a", "g_2"), ("c", "g_1"))] == [
        "+", "+", "≈", "",
    ]  # fmt: skip
    assert found.scores["a", "g_2"].p_value == 1.0  # the same scores
    assert "**90.75 ± 1.52** +" in found.markdown()
    with pytest.raises(ValueError, match="unknown baseline among the methods of the comparison 'd'"):
        ENTRIES.table("d")


def test_ranks_are_those_of_scipy_and_ties_share_them():
    means = [0.5, 0.7, 0.5, 0.9, None]
    assert ranks_of(means) == [*stats.rankdata([-0.5, -0.7, -0.5, -0.9]), 5.0]
    found = ENTRIES.table()
    assert found.scores["a", "g_2"].rank == found.scores["c", "g_2"].rank == 2.5
    assert found.mean_ranks == {"a": 1.75, "b": 1.5, "c": 2.75}
    assert found.methods == ("b", "a", "c")


def test_friedmans_test_is_that_of_scipy():
    means = np.random.default_rng(0).random((4, 6)).tolist()
    assert friedman_p_value(means) == stats.friedmanchisquare(*means).pvalue
    assert friedman_p_value(means[:2]) is None
    assert friedman_p_value([[0.5], [0.6], [0.7]]) is None
    assert friedman_p_value([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]) is None
    assert friedman_p_value([[0.5, 0.5], [0.5, None], [0.5, 0.5]]) is None


def test_markdown_marks_the_best_and_those_that_are_not_significantly_worse():
    text = str(ENTRIES.table())
    lines = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines()[:5]]
    assert lines[0] == ["method", "g_1", "g_2", "mean rank"]
    assert lines[2] == ["b", "90.25 ± 1.66 ≈", "**81.50 ± 2.05**", "1.50"]
    assert lines[3] == ["a", "**90.75 ± 1.52**", "71.50 ± 2.05", "1.75"]
    assert "Holm's correction for the 4 comparisons" in text
    assert "over 4 splits (accuracy on g_1, g_2)" in text
    assert f"p = {ENTRIES.table().friedman:.2g}" in text


def test_latex_escapes_names_and_marks_the_best():
    text = ENTRIES.table().latex()
    assert r"method & g\_1 & g\_2 & mean rank \\" in text
    assert r"b & $90.25 \pm 1.66^{\approx}$ & $\mathbf{81.50 \pm 2.05}$ & 1.50 \\" in text
    assert r"accuracy on g\_1, g\_2" in text
    assert [part in text for part in (r"\toprule", r"\bottomrule", r"\end{table}")] == [True] * 3
    assert r"$\mathbf{81.50 \pm 2.05}^{+}$" in ENTRIES.table("c").latex()


def test_csv_has_all_digits():
    lines = list(csv.DictReader(io.StringIO(ENTRIES.table().csv())))
    assert [(line["graph"], line["method"]) for line in lines[:3]] == [("g_1", "a"), ("g_1", "b"), ("g_1", "c")]
    score = ENTRIES.table().scores["b", "g_1"]
    assert (float(lines[1]["p_value"]), float(lines[1]["p_holm"])) == (score.p_value, score.adjusted)
    assert (lines[0]["compared_with"], lines[0]["p_value"]) == ("a", "")


def test_a_method_that_could_not_run_has_an_empty_cell_and_the_last_rank():
    table = comparison_table([entry("g", "a", [None, None]), entry("g", "b", [0.5, 0.6])])
    assert table.rows() == [["b", "55.00 ± 63.53"], ["a", "-"]]
    assert table.scores["a", "g"].rank == 2.0
    assert "a | - |" in table.markdown()
    assert "Holm" not in table.note()  # there is nothing to test


def test_one_split_has_neither_an_interval_nor_a_test():
    table = comparison_table([entry("g", "a", [0.5]), entry("g", "b", [0.6])])
    assert table.rows() == [["b", "60.00"], ["a", "50.00"]]
    assert "over 1 split " in table.note()
    assert "significantly" not in table.note()


def test_splits_without_a_score_are_left_out_of_the_pairs():
    table = comparison_table([entry("g", "a", [0.9, None, 0.8, 0.7]), entry("g", "b", [0.5, 0.5, None, 0.5])])
    score = table.scores["b", "g"]
    assert score.difference == pytest.approx(((0.5 - 0.9) + (0.5 - 0.7)) / 2)
    assert score.p_value == pytest.approx(p_value([0.5, 0.5], [0.9, 0.7]))
