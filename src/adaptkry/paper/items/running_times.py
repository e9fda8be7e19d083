"""Running times of AdaptKry and OrthKry by degree K, for basis and training separately."""

from dataclasses import replace

import torch

from adaptkry.common import timing
from adaptkry.graphs.graph import Graph
from adaptkry.models.inputs import basis_terms, propagation, scaled_features
from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions
from adaptkry.paper.verdicts import claim_verdict
from adaptkry.report import elements
from adaptkry.training.fit import choose_device, fit

TIMED_METHODS = ("adaptkry", "orthkry")
TIMED_PARTS = {"basis": "ms", "training": "s"}
TAU = 0.8
WARM_UP_EPOCHS = 5  # epochs that are not timed


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph and degree; each times both methods in turn."""
    settings = item["quick"] if options.quick else item["ours"] | item["paper"]
    return [
        Measurement(graph, graph, f"{degree}", lambda g, degree=degree: times(g, degree, settings, options))
        for graph in item["paper"]["adaptkry"] for degree in settings["degrees"]
    ]  # fmt: skip


def times(graph: Graph, degree: int, settings: dict, options: RunOptions) -> list[dict]:
    """Measure milliseconds of the basis and seconds of the training, for both methods."""
    device, splits = choose_device(options.device), options.split(graph)
    recipes = {name: recipe(name, graph.info.name, degree=degree, taus=(TAU,)) for name in TIMED_METHODS}
    P = propagation(graph, recipes["adaptkry"], TAU, "both").to(device)
    x = scaled_features(graph, recipes["adaptkry"]).to(device)
    bases = {name: lambda one=one: basis_terms(P, x, one) for name, one in recipes.items()}
    spent = timing.interleaved(bases, settings["rounds"], device)
    found = {f"basis {name}": 1e3 * spent[name] for name in TIMED_METHODS}
    for name, one in recipes.items():
        timed = replace(one, epochs=settings["epochs"], stop="never", patience=settings["epochs"])
        fit(graph, replace(timed, epochs=WARM_UP_EPOCHS), splits, device=options.device)  # compiles the kernels
        # `fit` also computes the basis, whose time is subtracted: the rest is training and testing.
        total = timing.seconds(lambda timed=timed: fit(graph, timed, splits, device=options.device), device)
        found[f"training {name}"] = max(0.0, total - spent[name])
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return [{"row": f"{graph.info.name} {row}", "column": f"{degree}", "value": value} for row, value in found.items()]


def section(cells: Cells, item: dict) -> dict:
    """Return tables of times and of measured and printed ratios, and whether the orthonormal basis is fast enough."""
    graphs, lines = list(item["paper"]["adaptkry"]), ratios(cells, item)
    newest, of_all = largest_ratio(cells, item), largest_ratio(cells, item, earlier=True)
    notes = []
    if newest is not None and of_all is not None:
        notes = [f"The orthonormal basis takes at most {newest:.2f} times as long as the Krylov basis in the newest "
                 f"measurement, and at most {of_all:.2f} times in all measurements whose rows are kept "
                 f"(our limit, not the paper's: {item['max_ratio']}): "
                 f"{claim_verdict(of_all <= item['max_ratio'])}."]  # fmt: skip
    columns = ["graph", "K", "basis, ours", "training, ours", "paper"]
    return {
        "tables": [*(times_table(cells, graph, item) for graph in graphs),
                   elements.table("OrthKry / AdaptKry", columns, lines)],
        "charts": [chart for graph in graphs if (chart := basis_chart(cells, graph, item))["series"]],
        "notes": notes,
    }  # fmt: skip


def rounded(cells: Cells, row: str, degree: int) -> float | None:
    """Return a measured time rounded to three digits; None if it was not measured."""
    cell = cells.get((row, f"{degree}"))
    return None if cell is None else float(f"{cell.mean:.3g}")


def times_table(cells: Cells, graph: str, item: dict) -> dict:
    """Return the table of our times and the printed ones."""
    degrees = item["paper"]["degrees"]
    rows = [
        [f"{part} {name} ({unit})", *(rounded(cells, f"{graph} {part} {name}", k) for k in degrees)]
        for part, unit in TIMED_PARTS.items() for name in TIMED_METHODS
    ]  # fmt: skip
    rows += [[f"paper, {name} (s)", *item["paper"][name][graph]] for name in TIMED_METHODS]
    return elements.table(graph, ["", *(f"K = {k}" for k in degrees)], rows)


def ratios(cells: Cells, item: dict) -> list[list]:
    """Return the ratios of OrthKry's times to AdaptKry's, ours and printed."""
    lines = []
    for graph, printed in item["paper"]["adaptkry"].items():
        for i, k in enumerate(item["paper"]["degrees"]):
            ours = []
            for part in TIMED_PARTS:
                both = [cells.get((f"{graph} {part} {name}", f"{k}")) for name in TIMED_METHODS]
                ours.append(both[1].mean / both[0].mean if both[0] and both[1] and both[0].mean else None)
            paper = item["paper"]["orthkry"][graph][i] / printed[i]
            lines.append([graph, k, *(None if r is None else round(r, 2) for r in ours), round(paper, 2)])
    return lines


def largest_ratio(cells: Cells, item: dict, *, earlier: bool = False) -> float | None:
    """Return the largest ratio of the times of the bases, of the newest measurements or also of earlier ones."""
    found = []
    for graph in item["paper"]["adaptkry"]:
        for k in item["paper"]["degrees"]:
            krylov, orthonormal = (cells.get((f"{graph} basis {name}", f"{k}")) for name in TIMED_METHODS)
            if krylov and orthonormal:
                pairs = [
                    (krylov, orthonormal),
                    *(zip(krylov.earlier, orthonormal.earlier, strict=False) if earlier else ()),
                ]
                found += [above.mean / below.mean for below, above in pairs if below.mean]
    return max(found, default=None)


def basis_chart(cells: Cells, graph: str, item: dict) -> dict:
    """Return the chart of the times of the basis by degree K."""
    lines = []
    for name in TIMED_METHODS:
        points = {k: rounded(cells, f"{graph} basis {name}", k) for k in item["paper"]["degrees"]}
        found = {k: value for k, value in points.items() if value is not None}
        lines += [elements.series(name, found, found.values())] if found else []
    return elements.chart(f"{graph}, basis", lines, x="K", y="milliseconds", log=True)
