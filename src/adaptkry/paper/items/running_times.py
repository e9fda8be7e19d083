"""Running times of AdaptKry and OrthKry against K, basis and training apart."""

from dataclasses import replace

import torch

from adaptkry.common import timing
from adaptkry.graphs.graph import Graph
from adaptkry.models.inputs import basis_terms, propagation, scaled_features
from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Job, RunOptions
from adaptkry.report import elements as experiments
from adaptkry.training import fit as fitting

METHODS = ("adaptkry", "orthkry")
WARM = 5  # epochs before the clock runs


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """One job a graph and degree times both methods in turns."""
    own = item["quick"] if how.quick else item["ours"] | item["paper"]
    return [
        Job(graph, graph, f"{degree}", lambda g, degree=degree: measured(g, degree, own, how))
        for graph in item["paper"]["adaptkry"] for degree in own["degrees"]
    ]  # fmt: skip


def measured(graph: Graph, degree: int, own: dict, how: RunOptions) -> list[dict]:
    """Milliseconds of the basis and seconds of the training, of both methods."""
    device = fitting.choose_device(how.device)
    made = {name: recipe(name, graph.info.name, degree=degree, taus=(0.8,)) for name in METHODS}
    P, x = propagation(graph, made["adaptkry"], 0.8, "both").to(device), scaled_features(graph, made["adaptkry"])
    x = x.to(device)
    bases = {name: lambda one=one: basis_terms(P, x, one) for name, one in made.items()}
    spent = timing.interleaved(bases, own["rounds"], device)
    rows = [cell(f"basis {name}", degree, 1e3 * spent[name]) for name in METHODS]
    split = how.split(graph)
    for name, one in made.items():
        short = replace(one, epochs=own["epochs"], stop="never", patience=own["epochs"])
        fitting.fit(graph, replace(short, epochs=WARM), split, device=how.device)  # kernels are compiled by then
        # The basis is part of `fit` and is taken off again: what is left is training and testing.
        whole = timing.seconds(lambda made=short: fitting.fit(graph, made, split, device=how.device), device)
        rows.append(cell(f"training {name}", degree, max(0.0, whole - spent[name])))
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [{**row, "row": f"{graph.info.name} {row['row']}"} for row in rows]


def cell(row: str, degree: int, value: float) -> dict:
    """One figure."""
    return {"row": row, "column": f"{degree}", "value": value}


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """Times, ratios beside the printed ones, and whether the basis keeps to its limit."""
    degrees = item["paper"]["degrees"]
    tables = [times(cells, graph, degrees, item) for graph in item["paper"]["adaptkry"]]
    found = [row for row in ratios(cells, item) if row[2] is not None]
    worst = max((row[2] for row in found), default=None)
    notes = []
    if worst is not None:
        word = "holds" if worst <= item["most"] else "does not hold"
        notes = [f"The orthonormal basis takes at most {worst:.2f} times as long as the Krylov basis "
                 f"(our own limit: {item['most']}): {word}."]  # fmt: skip
    shown = experiments.table(
        "OrthKry / AdaptKry", ["graph", "K", "basis, ours", "training, ours", "paper"], ratios(cells, item)
    )
    charts = [drawn(cells, graph, degrees) for graph in item["paper"]["adaptkry"]]
    return {"tables": [*tables, shown], "charts": [one for one in charts if one["series"]], "notes": notes}


def times(cells: Cells, graph: str, degrees: list[int], item: dict) -> dict:
    """Four lines a graph."""
    unit = {"basis": "ms", "training": "s"}
    rows = [
        [f"{part} {name} ({unit[part]})", *(value(cells, f"{graph} {part} {name}", k) for k in degrees)]
        for part in unit for name in METHODS
    ]  # fmt: skip
    for name in METHODS:
        rows.append([f"paper, {name} (s)", *item["paper"][name][graph]])
    return experiments.table(graph, ["", *(f"K = {k}" for k in degrees)], rows)


def value(cells: Cells, row: str, degree: int) -> float | None:
    """A measured time, or nothing."""
    own = cells.get((row, f"{degree}"))
    return None if own is None else float(f"{own.mean:.3g}")


def ratios(cells: Cells, item: dict) -> list[list]:
    """OrthKry over AdaptKry, ours and printed."""
    lines = []
    for graph, printed in item["paper"]["adaptkry"].items():
        for i, k in enumerate(item["paper"]["degrees"]):
            ours = []
            for part in ("basis", "training"):
                both = [cells.get((f"{graph} {part} {name}", f"{k}")) for name in METHODS]
                ours.append(both[1].mean / both[0].mean if both[0] and both[1] and both[0].mean else None)
            paper = item["paper"]["orthkry"][graph][i] / printed[i]
            lines.append([graph, k, *(None if r is None else round(r, 2) for r in ours), round(paper, 2)])
    return lines


def drawn(cells: Cells, graph: str, degrees: list[int]) -> dict:
    """Basis times against K."""
    lines = []
    for name in METHODS:
        own = [(k, v) for k in degrees if (v := value(cells, f"{graph} basis {name}", k)) is not None]
        if own:
            lines.append(experiments.series(name, [k for k, _ in own], [v for _, v in own]))
    return experiments.chart(f"{graph}, basis", lines, x="K", y="milliseconds", log=True)
