"""Beyond the paper: what the protocol is worth, as evidence beside printed values that cannot be reproduced.

AdaptKry with its published settings is measured with the published protocol and with one change at a time: another
scheme of splits, features that are not row-normalised, and epochs chosen on test nodes. The last is not a result: it
shows what peeking at test nodes would add. Several methods are measured with several schemes, to compare the ranking.
"""

from collections.abc import Sequence

import numpy as np

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import Recipe, recipe
from adaptkry.paper.cells import Cells, MeasuredCell, difference_half_width, paired_differences
from adaptkry.paper.measure import Measurement, RunOptions, trained, training
from adaptkry.paper.published import PAPER
from adaptkry.paper.tables import result_table, score_cell
from adaptkry.paper.verdicts import rank_correlation
from adaptkry.report import elements

METHOD, SCHEME = "adaptkry", "class_balanced"  # those of the published protocol
PEEKING, RAW = "epochs chosen on test nodes", "raw features"
CHANGES = {  # name -> (row, scheme) of the cells of AdaptKry that differ from the published protocol in one respect
    "epochs chosen on test nodes (evidence, not a result)": (PEEKING, SCHEME),
    "stratified splits": (METHOD, "stratified"),
    "uniform splits": (METHOD, "uniform"),
    "features not row-normalised": (RAW, SCHEME),
}


def schemes(item: dict, graph: str) -> list[str]:
    """Return the schemes in which methods are compared on this graph."""
    return [s for s in item["ours"]["schemes"] if s != "fixed" or graph not in item["ours"]["without_fixed"]]


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph, scheme and method, then those of AdaptKry with other protocols."""
    used = item["quick"] if options.quick else item["ours"]
    cells = {
        (method, f"{graph}, {scheme}"): (graph, recipe(method, graph), scheme)
        for graph in used["ranked_graphs"] for scheme in schemes(item, graph) for method in used["methods"]
    }  # fmt: skip
    for graph in used["graphs"]:
        for row, scheme in ((METHOD, SCHEME), *CHANGES.values()):
            settings = recipe(METHOD, graph, normalise=False) if row == RAW else recipe(METHOD, graph)
            cells[row, f"{graph}, {scheme}"] = (graph, settings, scheme)
    return [measurement(options, *key, *cell) for key, cell in cells.items()]


def measurement(options: RunOptions, row: str, column: str, graph: str, settings: Recipe, scheme: str) -> Measurement:
    """Return the measurement of one cell."""
    if row != PEEKING:
        return training(options, row, column, graph, [settings], scheme)
    return Measurement(graph, row, column, lambda g: peeked(g, settings, options.split(g, scheme), options))


def peeked(graph: Graph, settings: Recipe, splits: Splits, options: RunOptions) -> list[dict]:
    """Return rows of trainings whose epochs are chosen on test nodes, where they are then scored, too.

    Test and validation nodes are exchanged for the training, so that no part of the package has such an option.
    """
    exchanged = Splits(splits.train, splits.test, splits.validation, splits.scheme, splits.seeds)
    rows = trained(graph, [settings], exchanged, options)
    note = {"epochs_chosen_on": "test nodes"}
    return [row | {"validation": row["test"], "test": row["validation"], **note} for row in rows]


def section(cells: Cells, item: dict) -> dict:
    """Return what each change of the protocol is worth, then one table per graph with the rank correlations."""
    tables, notes = [], []
    methods = [m for m in item["ours"]["methods"] if any(row == m for row, _ in cells)]
    if any((METHOD, f"{graph}, {SCHEME}") in cells for graph in item["graphs"]):
        tables.append(protocol_table(cells, item["graphs"]))
        notes += [*worth_notes(cells, item["graphs"]), *evidence_notes(cells, item["graphs"])]
    for graph in item["ours"]["ranked_graphs"]:
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


def protocol_table(cells: Cells, graphs: Sequence[str]) -> dict:
    """Return the accuracy of AdaptKry as printed, with the published protocol and with each change of it."""
    lines = [
        ["printed", *(elements.cell(f"{value:.2f}", value) for value in (printed(graph) for graph in graphs))],
        ["published protocol", *(score_cell(base_cell(cells, graph)) for graph in graphs)],
        *([name, *(changed_cell(cells, graph, name) for graph in graphs)] for name in CHANGES),
    ]
    note = (
        "ours ± 95 % half-width over splits; then the difference to the published protocol: on the same splits with "
        "its corrected interval, on other splits without interval"
    )
    return elements.table("test accuracy of AdaptKry by protocol (%)", ["", *graphs], lines, note=note)


def printed(graph: str) -> float:
    """Return the printed accuracy of AdaptKry in Table 2."""
    table = PAPER["table-2"]
    return table["paper"][METHOD][table["graphs"].index(graph)]


def base_cell(cells: Cells, graph: str) -> MeasuredCell | None:
    """Return the cell of the published protocol."""
    return cells.get((METHOD, f"{graph}, {SCHEME}"))


def changed_cell(cells: Cells, graph: str, change: str) -> dict | None:
    """Return the accuracy with a changed protocol, and the difference to the published one."""
    row, scheme = CHANGES[change]
    cell, base = cells.get((row, f"{graph}, {scheme}")), base_cell(cells, graph)
    if cell is None or base is None or not (cell.has_result and base.has_result):
        return score_cell(cell)
    spread = f" ± {difference_half_width(cell, base):.2f}" if scheme == SCHEME else ""
    return elements.cell(f"{cell.mean_text()} ({worth(cell, base, scheme):+.2f}{spread})", cell.mean)


def worth(cell: MeasuredCell, base: MeasuredCell, scheme: str) -> float:
    """Return the points that a change adds: paired on the same splits, otherwise the difference of the means."""
    differences = paired_differences(cell, base) if scheme == SCHEME else np.array([])
    return float(differences.mean()) if len(differences) else cell.mean - base.mean


def worth_notes(cells: Cells, graphs: Sequence[str]) -> list[str]:
    """Return one sentence per change: what it adds, over all graphs."""
    notes = []
    for name, (row, scheme) in CHANGES.items():
        pairs = [(graph, cells.get((row, f"{graph}, {scheme}")), base_cell(cells, graph)) for graph in graphs]
        found = {graph: worth(cell, base, scheme) for graph, cell, base in pairs
                 if cell and base and cell.has_result and base.has_result}  # fmt: skip
        if found:
            low, high = (select(found, key=lambda graph: found[graph]) for select in (min, max))
            notes.append(f"{name}: {np.mean(list(found.values())):+.2f} points on average over {len(found)} graphs, "
                         f"from {found[low]:+.2f} ({low}) to {found[high]:+.2f} ({high}).")  # fmt: skip
    return notes


def evidence_notes(cells: Cells, graphs: Sequence[str]) -> list[str]:
    """Return which printed values are above ours, and above ours even if test nodes choose the epochs."""
    measured = [graph for graph in graphs if base_cell(cells, graph) and (PEEKING, f"{graph}, {SCHEME}") in cells]
    if not measured:
        return []
    above = [graph for graph in measured if printed(graph) > cells[METHOD, f"{graph}, {SCHEME}"].mean]
    beyond = [graph for graph in above if printed(graph) > cells[PEEKING, f"{graph}, {SCHEME}"].mean]
    return [
        f"The printed accuracy of AdaptKry is above ours on {len(above)} of {len(measured)} graphs "
        f"({', '.join(above) or 'none'}), and above even what epochs chosen on test nodes give on {len(beyond)} "
        f"({', '.join(beyond) or 'none'})."
    ]
