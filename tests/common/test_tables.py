from adaptkry.common.tables import escaped, latex_table, markdown_table


def test_special_characters_of_latex_are_escaped():
    assert escaped("50 % & ± a_b #1 {x}") == r"50 \% \& $\pm$ a\_b \#1 \{x\}"
    assert escaped("a^b~c\\d $") == r"a\textasciicircum{}b\textasciitilde{}c\textbackslash{}d \$"


def test_a_bar_does_not_divide_a_cell_of_markdown():
    assert markdown_table(["a", "b"], [["x|y", "1"]]).splitlines() == ["| a | b |", "| --- | --- |", r"| x\|y | 1 |"]


def test_a_table_of_latex_has_the_rules_of_booktabs():
    lines = latex_table(["a", "b"], [["1", "2"]]).splitlines()
    assert lines == [r"\begin{tabular}{lr}", r"\toprule", r"a & b \\", r"\midrule", r"1 & 2 \\", r"\bottomrule",
                     r"\end{tabular}"]  # fmt: skip
