from adaptkry.report.comparison_report import CORRECTED, comparison_report

ROW = {"test": 0.5, "scheme": "stratified"}
GOOD = {
    "method": "a", "failed": None, "mean": 0.8, "std": 0.01, "low": 0.79, "high": 0.81, "seconds": 1.25,
    "parameters": 12345, "peak_bytes": 2**21, "tried": [{}], "rows": [ROW, ROW],
    "difference": 0.0, "difference_half_width": 0.0,
}  # fmt: skip
NEAR = GOOD | {"method": "b", "mean": 0.79, "difference": -0.01, "difference_half_width": 0.02}
FAR = GOOD | {"method": "c", "mean": 0.6, "difference": -0.2, "difference_half_width": 0.02, "peak_bytes": None}
FAILED = {"method": "d", "failed": "out of memory", "mean": None, "rows": [], "tried": []}


def test_a_comparison_names_the_best_and_those_not_significantly_worse():
    found = comparison_report([GOOD, NEAR, FAR, FAILED], ["few nodes"], "cora", "accuracy", {"version": "1"})
    assert found["lead"].startswith("a has the best mean: 80.00 % test accuracy over 2 stratified splits.")
    assert found["lead"].endswith(f"Not significantly worse (95 %, {CORRECTED}): b.")
    (shown,) = found["tables"]
    line = dict(zip(shown["columns"], shown["rows"][1], strict=True))
    assert line["to the best"] == {"text": "-1.00 ± 2.00", "sort": -0.01, "verdict": ""}
    assert line["parameters"]["sort"] == 12345
    assert shown["rows"][3][0] == "d"
    assert shown["rows"][3][-1] == "out of memory"
    assert found["charts"][0]["series"][0]["x"] == ["a", "b", "c"]
    assert found["notes"] == ["warning: few nodes"]


def test_a_comparison_of_one_split_or_without_results_has_a_report():
    single = GOOD | {"std": None, "low": None, "high": None, "rows": [ROW]}
    found = comparison_report([single, single | {"difference": -0.1}], [], "cora", "accuracy", {})
    assert found["tables"][0]["rows"][1][3]["text"] == "-10.00"
    assert found["lead"].endswith("over 1 stratified split.")
    assert comparison_report([FAILED], [], "cora", "accuracy", {})["lead"] == "No method could run."
