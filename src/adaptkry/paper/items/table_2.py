"""Table 2: twelve methods on six graphs."""

import numpy as np

from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import Published, grid, measured, published, reaches, reasons
from adaptkry.report import elements as experiments
from adaptkry.selection import grid as tuning

SEEDS = ("class_balanced", "class_balanced_bernnet")
PROBES: dict[str, dict] = {
    "other seeds": {}, "torch's splits": {}, "arcs out": {"directions": ("out",)}, "arcs in": {"directions": ("in",)},
}  # fmt: skip


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """Every method on every graph, with its own published seeds and settings where there are any; then the probes."""
    usual = [one(item, how, method, graph) for graph in item["graphs"] for method in item["paper"]]
    return usual + ([] if how.quick else [one(item, how, *probe) for probe in item["ours"]["probes"]])


def one(item: dict, how: RunOptions, method: str, graph: str, probe: str | None = None) -> Job:
    """A cell, or a probe of it; a quick run tries the first settings only."""
    changes = PROBES[probe] if probe else {}
    made = [recipe(method, graph)] if how.quick else tuning.alternatives(method, graph, **changes)
    is_bernnet = (method in item["ours"]["bernnet_seeds"]) != (probe == "other seeds")
    scheme = "class_permuted" if probe == "torch's splits" else SEEDS[is_bernnet]
    return training(how, method, f"{graph}, {probe}" if probe else graph, graph, made, scheme)


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, the probes, where settings come from, and why cells lie below."""
    known = published(item["paper"], item["graphs"])
    tables = [grid("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, known)]
    probed = probes(cells, item, known)
    if probed:
        names = ["cell", "printed", "ours", "difference (both intervals together)", *PROBES]
        tables.append(experiments.table("cells that lie below, measured in other ways (%)", names, probed))
    tables.append(experiments.table("settings", ["method", "taken from", "tried"], settings(item)))
    return {"tables": tables, "notes": [*reached(cells, known, item), *reasons(cells, known, item, phrases)]}


def probes(cells: Cells, item: dict, known: Published) -> list[list]:
    """A line for every cell that lies below: how far, both intervals together, and what it is measured otherwise."""
    lines = []
    for key, half in item["printed-half"].items():
        method, graph = key.split("/")
        if not measured(cells, (method, graph)):
            continue
        own, printed = cells[method, graph], known[method, graph]
        apart = f"{own.mean - printed:+.2f} (± {np.hypot(own.half, half):.2f})"
        others = [cells.get((method, f"{graph}, {probe}")) for probe in PROBES]
        shown = [other.text() if other else None for other in others]
        lines.append([f"{method}, {graph}", f"{printed:.2f} ± {half:.2f}", own.text(), apart, *shown])
    return lines


def settings(item: dict) -> list[list[str]]:
    """Whose settings every method has, and on which graphs how many are tried because none were published."""
    lines = []
    for method in item["paper"]:
        tried = {graph: len(tuning.alternatives(method, graph)) for graph in item["graphs"]}
        some = ", ".join(f"{count} on {graph}" for graph, count in tried.items() if count > 1)
        said = f"{min(tried.values())} on every graph" if 1 < min(tried.values()) == max(tried.values()) else some
        lines.append([method, METHODS[method].source, said or "-"])
    return lines


def reached(cells: Cells, known: Published, item: dict) -> list[str]:
    """How many cells of the methods that the paper compares with come up to what is printed."""
    own = {key: value for key, value in known.items() if key[0] != "adaptkry" and measured(cells, key)}
    good = sum(reaches(cells[key], value, item) for key, value in own.items())
    return [f"{good} of {len(own)} cells of the baselines are within {item['margin']:.1f} point of the printed figure "
            "or above it."]  # fmt: skip
