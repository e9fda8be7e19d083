"""Beyond the paper: what the split scheme does to figures and ranking."""

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import grid


def schemes(item: dict, graph: str) -> list[str]:
    """The schemes that make the same task of this graph."""
    return [s for s in item["ours"]["schemes"] if s != "fixed" or graph not in item["ours"]["without_fixed"]]


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """Every method on every graph and scheme; stand-ins for graphs not at hand have no fixed splits."""
    methods = (item["quick"] if how.quick else item["ours"])["methods"]
    return [
        training(how, method, f"{graph}, {scheme}", graph, [recipe(method, graph)], scheme)
        for graph in item["graphs"] for scheme in schemes(item, graph) for method in methods
    ]  # fmt: skip


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """A table a graph, and how far two schemes agree in ranking."""
    from scipy import stats  # half a second to import

    tables, notes = [], []
    methods = [m for m in item["ours"]["methods"] if any(row == m for row, _ in cells)]
    for graph in item["graphs"]:
        columns = [f"{graph}, {scheme}" for scheme in schemes(item, graph)]
        tables.append(grid(graph, cells, methods, columns, item, {}))
        whole = [c for c in columns if all((m, c) in cells for m in methods)] if methods else []
        for column in whole[1:]:
            ours, theirs = ([cells[m, c].mean for m in methods] for c in (column, whole[0]))
            is_flat = len(set(ours)) == 1 or len(set(theirs)) == 1  # a flat line has no order
            agreement = 0.0 if is_flat else float(stats.kendalltau(ours, theirs)[0])  # type: ignore[arg-type]
            shift = sum(ours) / len(ours) - sum(theirs) / len(theirs)
            notes.append(f"{column}: {shift:+.2f} points on average against {whole[0].split(', ')[1]}; rank "
                         f"correlation (Kendall) {agreement:.2f}.")  # fmt: skip
    return {"tables": tables, "notes": notes}
