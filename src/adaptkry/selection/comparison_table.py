"""The table of a comparison for a paper: methods on graphs, with paired tests and ranks, in several formats."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from adaptkry.common.intervals import corrected_p_value, half_width, holm, nodes_ratio
from adaptkry.common.lookup import pick
from adaptkry.common.tables import escaped, latex_table, markdown_table

LEVEL = 0.05
BETTER, WORSE, SIMILAR = "+", "-", "≈"  # compared with the reference, at that level
CSV_NAMES = {"adjusted": "p_holm", "reference": "compared_with"}


@dataclass(frozen=True)
class ComparedScore:
    """The score of a method on a graph, and how it compares with the reference method of that graph.

    Args:
        graph: name of the graph.
        method: name of the method.
        metric: metric of the graph.
        mean: mean test score over the splits; None if the method could not run.
        half_width: half the width of Student's 95 % interval of the mean; None for a single split.
        splits: number of tested splits.
        rank: rank of the mean on this graph, 1 is best; ties share their mean rank, methods that failed the last ones.
        reference: the method that it is compared with.
        difference: mean difference to the reference over the same splits.
        p_value: of the corrected paired t-test of Nadeau and Bengio; None if it cannot be tested.
        adjusted: p-value with Holm's correction for all tests of the table.
    """

    graph: str
    method: str
    metric: str
    mean: float | None
    half_width: float | None
    splits: int
    rank: float
    reference: str | None
    difference: float | None = None
    p_value: float | None = None
    adjusted: float | None = None

    @property
    def mark(self) -> str:
        """Return whether it differs significantly from its reference; "" for the reference and if not tested."""
        if self.adjusted is None or self.difference is None:
            return ""
        return SIMILAR if self.adjusted > LEVEL else BETTER if self.difference > 0 else WORSE


@dataclass(frozen=True)
class ComparisonTable:
    """Scores of methods (rows, best mean rank first) on graphs (columns); `str` is its Markdown.

    Args:
        scores: the score of each method on each graph.
        methods: names of the methods, best mean rank first.
        graphs: names of the graphs.
        mean_ranks: mean rank of each method over the graphs.
        friedman: p-value of Friedman's test that all methods have the same ranks; None if there are fewer than two
            graphs or three methods, or if a method could not run.
        baseline: the method that all are compared with; None compares with the best of each graph.
    """

    scores: Mapping[tuple[str, str], ComparedScore] = field(repr=False)
    methods: tuple[str, ...]
    graphs: tuple[str, ...]
    mean_ranks: Mapping[str, float]
    friedman: float | None
    baseline: str | None

    def __str__(self) -> str:
        return self.markdown()

    def columns(self) -> list[str]:
        """Return the headings."""
        return ["method", *self.graphs, *(["mean rank"] if len(self.graphs) > 1 else [])]

    def rows(self, style: Any = None) -> list[list[str]]:
        """Return the cells of every line as text, written by `style(mean, half-width, is best, mark)`."""
        return [
            [
                method,
                *(self._cell(method, graph, style or plain) for graph in self.graphs),
                *([f"{self.mean_ranks[method]:.2f}"] if len(self.graphs) > 1 else []),
            ]
            for method in self.methods
        ]

    def _cell(self, method: str, graph: str, style: Any) -> str:
        score = self.scores.get((method, graph))
        if score is None or score.mean is None:
            return "-"
        width = "" if score.half_width is None else f"{100 * score.half_width:.2f}"
        means = [other.mean for other in self.scores.values() if other.graph == graph and other.mean is not None]
        is_best = score.mean == max(means)
        is_marked = self.baseline or (score.mark == SIMILAR and not is_best)  # all others are worse than the best
        mark = score.mark if is_marked else ""
        return style(f"{100 * score.mean:.2f}", width, is_best, mark)

    def note(self) -> str:
        """Return what the cells, the marks and the ranks mean."""
        scores = [score for score in self.scores.values() if score.mean is not None]
        tests = sum(score.p_value is not None for score in scores)
        metrics = "; ".join(
            f"{metric} on {', '.join(dict.fromkeys(s.graph for s in scores if s.metric == metric))}"
            for metric in dict.fromkeys(score.metric for score in scores)
        )
        splits = sorted({score.splits for score in scores})
        over = " or ".join(map(str, splits)) + (" split" if splits == [1] else " splits")
        parts = [f"Mean test score (%) ± half the 95 % confidence interval over {over} ({metrics}). Bold: best mean."]
        meaning = f"{SIMILAR}: not significantly worse than the best, which the same scores choose"
        if self.baseline:
            others = f"{WORSE}: worse, {SIMILAR}: no significant difference"
            meaning = f"{BETTER}: significantly better than {self.baseline}, {others}"
        if tests:
            parts.append(
                f"{meaning} (level {LEVEL}, paired t-test on the same splits, corrected for nodes that splits share "
                f"(Nadeau and Bengio), with Holm's correction for the {tests} comparisons of this table)."
            )
        if len(self.graphs) > 1:
            parts.append("Mean rank: over the graphs, 1 is best.")
        if self.friedman is not None:
            parts.append(f"Friedman's test of equal ranks: p = {self.friedman:.2g}.")
        return " ".join(parts)

    def markdown(self) -> str:
        """Return the table and its note in Markdown."""
        rows = self.rows(lambda mean, width, best, mark: markdown_cell(plain(mean, width), best, mark))
        return f"{markdown_table(self.columns(), rows)}\n\n{self.note()}\n"

    def latex(self) -> str:
        """Return a `table` with the note as caption; it needs the package booktabs."""
        rows = [[escaped(method), *cells] for method, *cells in self.rows(latex_cell)]
        body = latex_table([escaped(name) for name in self.columns()], rows)
        parts = [r"\begin{table}", r"\centering", f"\\caption{{{escaped(self.note())}}}", r"\label{tab:comparison}"]
        return "\n".join([*parts, body, r"\end{table}", ""])

    def csv(self) -> str:
        """Return one line per graph and method, as fractions and with all digits."""
        file = io.StringIO()
        names = [part.name for part in fields(ComparedScore)]
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([CSV_NAMES.get(name, name) for name in names])
        for graph in self.graphs:
            found = [self.scores[key] for key in self.scores if key[1] == graph]
            writer.writerows([getattr(score, name) for name in names] for score in sorted(found, key=lambda s: s.rank))
        return file.getvalue()


def plain(mean: str, width: str, is_best: bool = False, mark: str = "") -> str:  # noqa: ARG001  as of `latex_cell`
    """Return a cell for a terminal."""
    return " ".join(part for part in (f"{mean} ± {width}" if width else mean, mark) if part)


def markdown_cell(text: str, is_best: bool, mark: str) -> str:
    """Return a cell in Markdown."""
    return " ".join(part for part in (f"**{text}**" if is_best else text, mark) if part)


def latex_cell(mean: str, width: str, is_best: bool, mark: str) -> str:
    """Return a cell in LaTeX."""
    text = rf"{mean} \pm {width}" if width else mean
    bold = rf"\mathbf{{{text}}}" if is_best else text
    sign = {SIMILAR: r"\approx"}.get(mark, mark)
    return f"${bold}^{{{sign}}}$" if mark else f"${bold}$"


class Comparison(list[dict[str, Any]]):
    """The entries of `compare`, graph by graph, best mean first, as a list; `table` makes a table of them."""

    def table(self, baseline: str | None = None) -> ComparisonTable:
        """Return a table for a paper: `print` it, or use its methods `markdown`, `latex` and `csv`.

        Args:
            baseline: the method that all others are compared with; by default the best of each graph.
        """
        return comparison_table(self, baseline)


def comparison_table(entries: Sequence[Mapping[str, Any]], baseline: str | None = None) -> ComparisonTable:
    """Make the table of the entries of `compare`.

    Args:
        entries: entries of one or several graphs; each has the name of its graph.
        baseline: the method that all others are compared with; by default the best of each graph.
    """
    methods = dict.fromkeys(entry["method"] for entry in entries)
    if baseline is not None:
        pick(methods, baseline, "baseline among the methods of the comparison")
    by_graph: dict[str, list] = {}
    for entry in entries:
        by_graph.setdefault(entry["graph"], []).append(entry)
    found = [score for group in by_graph.values() for score in compared(group, baseline)]
    adjusted = iter(holm([score.p_value for score in found if score.p_value is not None]))
    found = [score if score.p_value is None else replace(score, adjusted=next(adjusted)) for score in found]
    scores = {(score.method, score.graph): score for score in found}
    ranks = {name: float(np.mean([score.rank for score in found if score.method == name])) for name in methods}
    best_first = tuple(sorted(methods, key=lambda name: ranks[name]))
    means = [[scores[name, graph].mean if (name, graph) in scores else None for graph in by_graph] for name in methods]
    return ComparisonTable(scores, best_first, tuple(by_graph), ranks, friedman_p_value(means), baseline)


def compared(entries: Sequence[Mapping[str, Any]], baseline: str | None) -> list[ComparedScore]:
    """Return the scores of the entries of one graph, compared with the baseline or the best."""
    means = [entry["mean"] for entry in entries]
    known = [entry for entry in entries if entry["mean"] is not None]
    best = max(known, key=lambda entry: entry["mean"], default=None)
    reference = next((entry for entry in known if entry["method"] == baseline), None) if baseline else best
    found = []
    for entry, rank in zip(entries, ranks_of(means), strict=True):
        tests = np.array([row["test"] for row in entry["rows"] if row["test"] is not None])
        score = ComparedScore(
            entry["graph"], entry["method"], entry["metric"], entry["mean"],
            half_width(tests) if len(tests) > 1 else None, len(tests), rank,
            None if reference is None else reference["method"],
        )  # fmt: skip
        if reference is not None and entry is not reference and entry["mean"] is not None:
            differences = paired_differences(entry, reference)
            if len(differences):
                p_value = corrected_p_value(differences, nodes_ratio(entry["rows"]))
                score = replace(score, difference=float(differences.mean()), p_value=p_value)
        found.append(score)
    return found


def paired_differences(entry: Mapping[str, Any], reference: Mapping[str, Any]) -> np.ndarray:
    """Return the differences of the test scores of two methods on the splits that both were tested on."""
    pairs = zip(entry["rows"], reference["rows"], strict=True)
    return np.array([a["test"] - b["test"] for a, b in pairs if a["test"] is not None and b["test"] is not None])


def ranks_of(means: Sequence[float | None]) -> list[float]:
    """Return ranks, 1 for the highest mean; ties share their mean rank, and missing means are last.

    >>> ranks_of([0.5, 0.9, None, 0.5])
    [2.5, 1.0, 4.0, 2.5]
    """
    from scipy.stats import rankdata  # it takes half a second

    return rankdata([np.inf if mean is None else -mean for mean in means]).tolist()


def friedman_p_value(means: Sequence[Sequence[float | None]]) -> float | None:
    """Return the p-value of Friedman's test, from the mean of each method on each graph [methods, graphs].

    None if it cannot be computed: fewer than three methods or two graphs, a missing mean, or no differences at all.
    """
    from scipy.stats import friedmanchisquare

    is_complete = all(mean is not None for line in means for mean in line)
    if len(means) < 3 or len(means[0]) < 2 or not is_complete or (np.ptp(np.array(means), axis=0) == 0).all():
        return None
    return float(friedmanchisquare(*means).pvalue)
