"""Table 2: twelve methods on six graphs."""

import numpy as np

from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import Printed, printed_values, result_table, verdict_notes
from adaptkry.paper.verdicts import is_reached
from adaptkry.report import elements
from adaptkry.selection.grid import alternatives

SCHEMES_OF_SEEDS = ("class_balanced", "class_balanced_bernnet")  # seeds of AdaptKry, seeds of BernNet
PROBES: dict[str, dict] = {  # alternative measurements of a cell, and the settings that they change
    "other seeds": {}, "torch's splits": {}, "arcs out": {"directions": ("out",)}, "arcs in": {"directions": ("in",)},
}  # fmt: skip


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph and method, with published seeds and settings if there are any; then the probes.

    A quick run has no probes.
    """
    table = [measurement(item, options, method, graph) for graph in item["graphs"] for method in item["paper"]]
    return table + ([] if options.quick else [measurement(item, options, *probe) for probe in item["ours"]["probes"]])


def measurement(item: dict, options: RunOptions, method: str, graph: str, probe: str | None = None) -> Measurement:
    """Return the measurement of a cell, or of a probe of it; a quick run uses the first settings only."""
    changes = PROBES[probe] if probe else {}
    recipes = [recipe(method, graph)] if options.quick else alternatives(method, graph, **changes)
    uses_bernnet_seeds = (method in item["ours"]["bernnet_seeds"]) != (probe == "other seeds")
    scheme = "class_permuted" if probe == "torch's splits" else SCHEMES_OF_SEEDS[uses_bernnet_seeds]
    return training(options, method, f"{graph}, {probe}" if probe else graph, graph, recipes, scheme)


def section(cells: Cells, item: dict) -> dict:
    """Return the table, the probes, the sources of all settings, and the reasons for differences."""
    printed = printed_values(item["paper"], item["graphs"])
    tables = [result_table("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, printed)]
    if lines := probe_lines(cells, item, printed):
        columns = ["cell", "printed", "ours", "difference (both intervals combined)", *PROBES]
        tables.append(elements.table("cells below the printed value, and alternative measurements (%)", columns, lines))
    tables.append(elements.table("settings", ["method", "source", "settings tried"], source_lines(item)))
    return {"tables": tables, "notes": [baselines_note(cells, printed, item), *verdict_notes(cells, printed, item)]}


def probe_lines(cells: Cells, item: dict, printed: Printed) -> list[list]:
    """Return one line per probed cell: the difference, both intervals combined, and the results of its probes."""
    lines = []
    for key, half_width in item["printed-half"].items():
        method, graph = key.split("/")
        cell, value = cells.get((method, graph)), printed[method, graph]
        if cell is None or not cell.has_result:
            continue
        difference = f"{cell.mean - value:+.2f} (± {np.hypot(cell.half_width, half_width):.2f})"
        probes = [cells.get((method, f"{graph}, {probe}")) for probe in PROBES]
        shown = [None if probe is None else probe.mean_text() for probe in probes]
        lines.append([f"{method}, {graph}", f"{value:.2f} ± {half_width:.2f}", cell.mean_text(), difference, *shown])
    return lines


def source_lines(item: dict) -> list[list[str]]:
    """Return the source of each method's settings, and how many are tried on graphs without published ones."""
    lines = []
    for method in item["paper"]:
        tried = {graph: len(alternatives(method, graph)) for graph in item["graphs"]}
        fewest, most = min(tried.values()), max(tried.values())
        by_graph = ", ".join(f"{count} on {graph}" for graph, count in tried.items() if count > 1)
        text = f"{fewest} on every graph" if 1 < fewest == most else by_graph
        lines.append([method, METHODS[method].source, text or "-"])
    return lines


def baselines_note(cells: Cells, printed: Printed, item: dict) -> str:
    """Return how many cells of the baselines reach the printed value."""
    found = {key: cells[key] for key in printed if key[0] != "adaptkry" and key in cells and cells[key].has_result}
    reached = sum(is_reached(cell, printed[key], item["margin"]) for key, cell in found.items())
    verb = "is" if reached == 1 else "are"
    return (
        f"{reached} of {len(found)} cells of the baselines {verb} within {item['margin']:.1f} point of the printed "
        f"value or above it."
    )
