r"""Numbers and tables as text: Markdown of GitHub, and LaTeX with the package booktabs.

>>> print(markdown_table(["graph", "a|b"], [["cora", "1"]]))
| graph | a\|b |
| --- | --- |
| cora | 1 |
"""

from collections.abc import Sequence

PLAIN = 1e7  # the largest number that is written without a power of ten
ESCAPES = {"\\": r"\textbackslash{}", "±": r"$\pm$", "λ": r"$\lambda$", "≈": r"$\approx$"}
ESCAPES |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {c: f"\\{c}" for c in "&%$#_{}"}


def number_text(value: float) -> str:
    """Return a number with four digits, and with all digits before the point up to ten million.

    >>> [number_text(value) for value in (36943.2, -1234.6, 999.96, 12.3456, 0.00123456, 0.0, 2.5e7)]
    ['36,943', '-1,235', '1,000', '12.35', '0.001235', '0', '2.5e+07']
    """
    return f"{value:,.0f}" if 1000 <= abs(float(f"{value:.4g}")) <= PLAIN else f"{value:.4g}"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in GitHub's Markdown."""
    lines = [[*columns], ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


def latex_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a `tabular` of LaTeX; the texts must be escaped."""
    heading, *lines = [" & ".join(row) + r" \\" for row in [columns, *rows]]
    begin, end = f"\\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}", r"\end{tabular}"
    return "\n".join([begin, r"\toprule", heading, r"\midrule", *lines, r"\bottomrule", end])


def escaped(text: str) -> str:
    r"""Escape the special characters of LaTeX.

    >>> print(escaped("ogbn_arxiv: 100 %"))
    ogbn\_arxiv: 100 \%
    """
    return "".join(ESCAPES.get(letter, letter) for letter in text)
