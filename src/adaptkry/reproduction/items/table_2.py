"""Table 2: twelve methods on six graphs."""

from adaptkry import experiments, methods, tuning
from adaptkry.recipes import recipe
from adaptkry.reproduction.cells import Cells
from adaptkry.reproduction.core import How, Job, training
from adaptkry.reproduction.grids import Published, grid, measured, published, reaches, reasons

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
    """The table, the same cells on other seeds, where settings come from, and why cells lie below."""
    known = published(item["paper"], item["graphs"])
    tables = [grid("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, known)]
    others = [[f"{m}, {g}", cells[m, g].text(), cells[m, f"{g}, other seeds"].text(), known[m, g]]
              for m, g in item["ours"]["other_seeds"] if (m, f"{g}, other seeds") in cells]  # fmt: skip
    if others:
        names = ["cell", "own seeds", "other seeds", "printed"]
        tables.append(experiments.table("the same on the splits of the other seeds (%)", names, others))
    tables.append(experiments.table("settings", ["method", "taken from", "tried"], settings(item)))
    return {"tables": tables, "notes": [*reached(cells, known, item), *reasons(cells, known, item, phrases)]}


def settings(item: dict) -> list[list[str]]:
    """Whose settings every method has, and on which graphs how many are tried because none were published."""
    lines = []
    for method in item["paper"]:
        tried = {graph: len(tuning.alternatives(method, graph)) for graph in item["graphs"]}
        said = ", ".join(f"{count} on {graph}" for graph, count in tried.items() if count > 1)
        lines.append([method, methods.SOURCES[method], said or "-"])
    return lines


def reached(cells: Cells, known: Published, item: dict) -> list[str]:
    """How many cells of the methods that the paper compares with come up to what is printed."""
    own = {key: value for key, value in known.items() if key[0] != "adaptkry" and measured(cells, key)}
    good = sum(reaches(cells[key], value, item) for key, value in own.items())
    return [f"{good} of {len(own)} cells of the baselines are within {item['margin']:.1f} point of the printed figure "
            "or above it."]  # fmt: skip
