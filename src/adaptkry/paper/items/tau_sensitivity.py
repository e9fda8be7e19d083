"""Accuracy against tau, on to 1.9."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import Published, grid, published, reasons
from adaptkry.report import elements as experiments

GRAPHS = ("cora", "squirrel")
END = 1.0  # the paper's last tau


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """Both graphs at every tau."""
    taus = (item["quick"] if how.quick else item["ours"])["taus"]
    return [
        training(how, graph, f"{tau:g}", graph, [recipe("adaptkry", graph, taus=(tau,))])
        for graph in GRAPHS for tau in taus
    ]  # fmt: skip


def known(item: dict) -> Published:
    """The figure's values."""
    columns = [f"{tau:g}" for tau in item["paper"]["taus"]]
    return published({graph: item["paper"][graph] for graph in GRAPHS}, columns)


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, the chart and the paper's two claims."""
    columns = [f"{tau:g}" for tau in item["ours"]["taus"]]
    return {
        "tables": [turned(grid("test accuracy (%)", cells, GRAPHS, columns, item, known(item)), columns)],
        "charts": [drawn(cells, item)],
        "notes": [*claims(cells, item), *reasons(cells, known(item), item, phrases)],
    }


def turned(table: dict, taus: list[str]) -> dict:
    """Nineteen columns as nineteen lines."""
    lines = [[tau, *cells] for tau, *cells in zip(taus, *(row[1:] for row in table["rows"]), strict=True)]
    return experiments.table(table["title"], ["tau", *GRAPHS], lines, note=table["note"])


def along(cells: Cells, graph: str, upto: float = 9.0) -> tuple[list[float], list]:
    """Taus that were measured, and their cells."""
    own = sorted((float(tau), cell) for (name, tau), cell in cells.items() if name == graph and float(tau) <= upto)
    return [tau for tau, _ in own], [cell for _, cell in own]


def drawn(cells: Cells, item: dict) -> dict:
    """Ours with intervals, the printed values dashed."""
    lines = []
    for graph in GRAPHS:
        taus, own = along(cells, graph)
        if own:
            low, high = [c.mean - c.half for c in own], [c.mean + c.half for c in own]
            lines.append(experiments.series(graph, taus, [c.mean for c in own], low, high))
        lines.append(experiments.series(f"{graph}, paper", item["paper"]["taus"], item["paper"][graph], dashed=True))
    return experiments.chart("accuracy against tau", lines, x="tau", y="test accuracy (%)")


def claims(cells: Cells, item: dict) -> list[str]:
    """The paper's two claims, with the rule by which each is judged."""
    from scipy import stats  # half a second to import

    said = []
    taus, own = along(cells, "cora", END)
    if own:
        spread = max(c.mean for c in own) - min(c.mean for c in own)
        word = "holds" if spread <= item["ours"]["flat"] else "does not hold"
        said.append(f"Claim: Cora is flat for tau up to 1. Best minus worst tau: {spread:.2f} points "
                    f"(at most {item['ours']['flat']} counts as flat): {word}.")  # fmt: skip
    taus, own = along(cells, "squirrel", END)
    if len(own) > 1:
        means = [c.mean for c in own]
        best, is_flat = taus[means.index(max(means))], len(set(means)) == 1  # a flat line has no order
        order = 0.0 if is_flat else float(stats.spearmanr(taus, means)[0])  # type: ignore[arg-type]
        word = "holds" if best >= 0.8 and order >= 0.8 else "does not hold"
        said.append(f"Claim: Squirrel rises with tau and is best at 0.8 to 1. Best tau up to 1: {best:g}; rank "
                    f"correlation of tau and accuracy {order:.2f} (0.8 or more counts as rising): {word}.")  # fmt: skip
    return said
