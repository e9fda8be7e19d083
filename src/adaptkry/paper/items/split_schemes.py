"""Beyond the paper: the effect of the split scheme on results and ranking."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import result_table
from adaptkry.paper.verdicts import rank_correlation


def schemes(item: dict, graph: str) -> list[str]:
    """Return the schemes that can be compared on this graph."""
    return [s for s in item["ours"]["schemes"] if s != "fixed" or graph not in item["ours"]["without_fixed"]]


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph, scheme and method."""
    methods = (item["quick"] if options.quick else item["ours"])["methods"]
    return [
        training(options, method, f"{graph}, {scheme}", graph, [recipe(method, graph)], scheme)
        for graph in item["graphs"] for scheme in schemes(item, graph) for method in methods
    ]  # fmt: skip


def section(cells: Cells, item: dict) -> dict:
    """Return one table per graph, and the rank correlation between schemes."""
    tables, notes = [], []
    methods = [m for m in item["ours"]["methods"] if any(row == m for row, _ in cells)]
    for graph in item["graphs"]:
        columns = [f"{graph}, {scheme}" for scheme in schemes(item, graph)]
        tables.append(result_table(graph, cells, methods, columns, item, {}))
        complete = [c for c in columns if all((m, c) in cells for m in methods)] if methods else []
        for column in complete[1:]:
            ours, reference = ([cells[m, c].mean for m in methods] for c in (column, complete[0]))
            shift = sum(ours) / len(ours) - sum(reference) / len(reference)
            agreement = rank_correlation("kendalltau", ours, reference)
            notes.append(f"{column}: {shift:+.2f} points on average compared with {complete[0].split(', ')[1]}; rank "
                         f"correlation (Kendall) {agreement:.2f}.")  # fmt: skip
    return {"tables": tables, "notes": notes}
