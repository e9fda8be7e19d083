"""Table 2: twelve methods on six graphs."""

from adaptkry import experiments, tuning
from adaptkry.recipes import recipe
from adaptkry.reproduction.cells import Cells
from adaptkry.reproduction.core import How, Job, training
from adaptkry.reproduction.grids import grid, published, reasons

SEEDS = ("class_balanced", "class_balanced_bernnet")


def jobs(item: dict, how: How) -> list[Job]:
    """Every method on every graph, with its own published seeds and settings where there are any."""
    usual = [one(item, how, method, graph) for graph in item["graphs"] for method in item["paper"]]
    others = [one(item, how, method, graph, other=True) for method, graph in item["ours"]["other_seeds"]]
    return usual + ([] if how.quick else others)


def one(item: dict, how: How, method: str, graph: str, other: bool = False) -> Job:
    """A cell, on the method's own seeds or the other ones; a quick run tries the first settings only."""
    made = [recipe(method, graph)] if how.quick else tuning.alternatives(method, graph)
    own = method in item["ours"]["bernnet_seeds"]
    return training(how, method, f"{graph}, other seeds" if other else graph, graph, made, SEEDS[own != other])


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, the same cells on other seeds, and why cells lie below."""
    known = published(item["paper"], item["graphs"])
    tables = [grid("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, known)]
    others = [[f"{m}, {g}", cells[m, f"{g}, other seeds"].text()] for m, g in item["ours"]["other_seeds"]
              if (m, f"{g}, other seeds") in cells]  # fmt: skip
    if others:
        tables.append(experiments.table("on the splits of the other seeds (%)", ["cell", "ours"], others))
    return {"tables": tables, "notes": reasons(cells, known, item, phrases)}
