"""Table 2: twelve methods on six graphs."""

from adaptkry import tuning
from adaptkry.recipes import recipe
from adaptkry.reproduction.cells import Cells
from adaptkry.reproduction.core import How, Job, training
from adaptkry.reproduction.grids import grid, published, reasons


def jobs(item: dict, how: How) -> list[Job]:
    """Every method on every graph, with its own published seeds and settings where there are any."""
    return [one(item, how, method, graph) for graph in item["graphs"] for method in item["paper"]]


def one(item: dict, how: How, method: str, graph: str) -> Job:
    """A cell; a quick run tries the first settings only."""
    made = [recipe(method, graph)] if how.quick else tuning.alternatives(method, graph)
    scheme = "class_balanced_bernnet" if method in item["ours"]["bernnet_seeds"] else "class_balanced"
    return training(how, method, graph, graph, made, scheme)


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """The table, what it cost, and why cells lie below."""
    known = published(item["paper"], item["graphs"])
    table = grid("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, known)
    return {"tables": [table], "notes": reasons(cells, known, item, phrases)}
