"""Accuracy by tau, up to 1.9."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import cell_series, printed_values, result_table, verdict_notes
from adaptkry.paper.verdicts import claim_verdict, rank_correlation
from adaptkry.report import elements

GRAPHS = ("cora", "squirrel")
LAST_TAU = 1.0  # of the paper's figure
RISING = 0.8  # a curve rises if its best tau and its rank correlation are at least this


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph and tau."""
    taus = (item["quick"] if options.quick else item["ours"])["taus"]
    return [
        training(options, graph, f"{tau:g}", graph, [recipe("adaptkry", graph, taus=(tau,))])
        for graph in GRAPHS for tau in taus
    ]  # fmt: skip


def section(cells: Cells, item: dict) -> dict:
    """Return the table with one row per tau, the chart, and verdicts on the paper's two claims."""
    taus = [f"{tau:g}" for tau in item["ours"]["taus"]]
    values = {graph: item["paper"][graph] for graph in GRAPHS}
    printed = printed_values(values, [f"{tau:g}" for tau in item["paper"]["taus"]])
    table = result_table("test accuracy (%)", cells, GRAPHS, taus, item, printed)
    rows = [[tau, *line] for tau, *line in zip(taus, *(row[1:] for row in table["rows"]), strict=True)]
    return {
        "tables": [elements.table(table["title"], ["tau", *GRAPHS], rows, note=table["note"])],
        "charts": [accuracy_chart(cells, item)],
        "notes": [*claims(cells, item), *verdict_notes(cells, printed, item)],
    }


def curve(cells: Cells, graph: str, last: float = 9.0) -> list[tuple[float, float]]:
    """Return pairs of measured tau, up to `last`, and accuracy, in ascending order."""
    return sorted((float(tau), c.mean) for (name, tau), c in cells.items() if name == graph and float(tau) <= last)


def accuracy_chart(cells: Cells, item: dict) -> dict:
    """Return the chart of accuracy by tau: ours with intervals, printed values as dashed lines."""
    lines = []
    for graph in GRAPHS:
        taus = [tau for tau, _ in curve(cells, graph)]
        lines += cell_series(graph, [(tau, cells[graph, f"{tau:g}"]) for tau in taus])
        lines.append(elements.series(f"{graph}, paper", item["paper"]["taus"], item["paper"][graph], dashed=True))
    return elements.chart("accuracy against tau", lines, x="tau", y="test accuracy (%)")


def claims(cells: Cells, item: dict) -> list[str]:
    """Return a note on each of the paper's two claims, with our rule and the verdict."""
    notes, flat = [], item["ours"]["flat"]
    if found := curve(cells, "cora", LAST_TAU):
        means = [mean for _, mean in found]
        spread = max(means) - min(means)
        notes.append(f"Claim: Cora is flat for tau up to 1. Best minus worst tau: {spread:.2f} points "
                     f"(at most {flat} counts as flat): {claim_verdict(spread <= flat)}.")  # fmt: skip
    found = curve(cells, "squirrel", LAST_TAU)
    if len(found) > 1:
        taus, means = [tau for tau, _ in found], [mean for _, mean in found]
        best, correlation = taus[means.index(max(means))], rank_correlation("spearmanr", taus, means)
        is_rising = best >= RISING and correlation >= RISING
        notes.append(f"Claim: Squirrel rises with tau and is best at 0.8 to 1. Best tau up to 1: {best:g}; rank "
                     f"correlation of tau and accuracy {correlation:.2f} (0.8 or more counts as rising): "
                     f"{claim_verdict(is_rising)}.")  # fmt: skip
    return notes
