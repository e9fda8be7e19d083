"""OrthKry against AdaptKry for several degrees."""

from adaptkry import experiments
from adaptkry.recipes import recipe
from adaptkry.reproduction.cells import Cells
from adaptkry.reproduction.core import How, Job, training
from adaptkry.reproduction.grids import Published, grid, reasons

METHODS = ("orthkry", "adaptkry")


def jobs(item: dict, how: How) -> list[Job]:
    """Both methods on every graph for every degree, one tau."""
    degrees = (item["quick"] if how.quick else item["paper"])["degrees"]
    return [
        training(how, f"{graph} {method}", f"K = {degree}", graph,
                 [recipe(method, graph, degree=degree, taus=(item["ours"]["taus"][graph],))])
        for graph in item["graphs"] for method in METHODS for degree in degrees
    ]  # fmt: skip


def known(item: dict) -> Published:
    """The printed accuracies of both tables."""
    return {
        (f"{graph} {method}", f"K = {degree}"): value
        for method in METHODS
        for graph, values in item["paper"][method].items()
        for degree, value in zip(item["paper"]["degrees"], values, strict=True)
    }


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """One table, and a chart a graph."""
    rows = [f"{graph} {method}" for graph in item["graphs"] for method in METHODS]
    columns = [f"K = {degree}" for degree in item["paper"]["degrees"]]
    table = grid("test accuracy (%)", cells, rows, columns, item, known(item))
    charts = [drawn(cells, graph, item["paper"]["degrees"]) for graph in item["graphs"]]
    return {
        "tables": [table],
        "charts": [one for one in charts if one["series"]],
        "notes": [*claims(cells, item), *reasons(cells, known(item), item, phrases)],
    }


def drawn(cells: Cells, graph: str, degrees: list[int]) -> dict:
    """Accuracy against K."""
    lines = []
    for method in METHODS:
        own = [(k, cells[key]) for k in degrees if (key := (f"{graph} {method}", f"K = {k}")) in cells]
        if own:
            low, high = [c.mean - c.half for _, c in own], [c.mean + c.half for _, c in own]
            lines.append(experiments.series(method, [k for k, _ in own], [c.mean for _, c in own], low, high))
    return experiments.chart(graph, lines, x="K", y="test accuracy (%)")


def claims(cells: Cells, item: dict) -> list[str]:
    """Who wins how often, graph by graph: the paper's claim is that neither always does."""
    said = []
    for graph in item["graphs"]:
        pairs = [
            (cells[f"{graph} orthkry", f"K = {k}"].mean, cells[f"{graph} adaptkry", f"K = {k}"].mean)
            for k in item["paper"]["degrees"]
            if all((f"{graph} {method}", f"K = {k}") in cells for method in METHODS)
        ]
        if pairs:
            said.append(f"{graph} {sum(a > o for o, a in pairs)} of {len(pairs)}")
    return [f"AdaptKry is ahead of OrthKry on: {', '.join(said)}."] if said else []
