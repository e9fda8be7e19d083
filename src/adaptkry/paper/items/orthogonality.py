"""Accuracy of OrthKry and AdaptKry for several degrees."""

from collections import Counter

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.tables import Printed, cell_series, result_table, verdict_notes
from adaptkry.report import elements

COMPARED_METHODS = ("orthkry", "adaptkry")
VARIANTS = (  # trained variants; of those of OrthKry, the best on validation nodes is shown
    "orthkry", "orthkry, kept norms", "orthkry, no term dropped", "orthkry, kept norms, no term dropped", "adaptkry",
)  # fmt: skip
VARIANTS_NOTE = (
    "Variants of OrthKry: terms have unit norm, or the norm of X (kept norms); dropout on the entries of terms as for "
    "AdaptKry, or none (no term dropped). How often each variant was best on validation nodes: {counts}. OrthKry is "
    "thus the best of two to four forms, and AdaptKry has one: comparisons of the two favour OrthKry."
)


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph, variant and degree."""
    degrees = (item["quick"] if options.quick else item["paper"])["degrees"]
    return [
        measurement(item, options, graph, variant, degree)
        for graph in item["graphs"] for variant in variants(graph) for degree in degrees
    ]  # fmt: skip


def variants(graph: str) -> list[str]:
    """Return the variants that differ on this graph: if AdaptKry has no dropout there, two pairs are the same."""
    has_dropout = bool(recipe("adaptkry", graph).filter_dropout)
    return [variant for variant in VARIANTS if has_dropout or "no term dropped" not in variant]


def measurement(item: dict, options: RunOptions, graph: str, variant: str, degree: int) -> Measurement:
    """Return the measurement of one variant. OrthKry's default settings keep norms and have no dropout of terms."""
    method, changes = variant.partition(", ")[0], {}
    if method == "orthkry" and "kept norms" not in variant:
        changes["basis_options"] = ()
    if method == "orthkry" and "no term dropped" not in variant:
        changes["filter_dropout"] = recipe("adaptkry", graph).filter_dropout
    settings = recipe(method, graph, degree=degree, taus=(item["ours"]["taus"][graph],), **changes)
    return training(options, f"{graph} {variant}", f"K = {degree}", graph, [settings])


def best_variants(cells: Cells) -> tuple[Cells, Counter]:
    """Select the variant of OrthKry that is best on validation for each cell; also count how often each one is."""
    shown, best = dict(cells), {}
    for row, column in cells:
        plain, _, variant = row.partition(", ")
        kept = best.get((plain, column), "")
        if cells[row, column].validation > shown.get((plain, column), cells[row, column]).validation:
            shown[plain, column], kept = cells[row, column], variant
        if plain.endswith("orthkry"):
            best[plain, column] = kept
    return shown, Counter(best.values())


def printed_by_degree(item: dict) -> Printed:
    """Return the printed accuracies of both tables."""
    return {
        (f"{graph} {method}", f"K = {degree}"): value
        for method in COMPARED_METHODS
        for graph, values in item["paper"][method].items()
        for degree, value in zip(item["paper"]["degrees"], values, strict=True)
    }


def section(cells: Cells, item: dict) -> dict:
    """Return one table, and one chart per graph."""
    cells, best = best_variants(cells)
    degrees, printed = item["paper"]["degrees"], printed_by_degree(item)
    rows = [f"{graph} {method}" for graph in item["graphs"] for method in COMPARED_METHODS]
    table = result_table("test accuracy (%)", cells, rows, [f"K = {degree}" for degree in degrees], item, printed)
    lines = {graph: [line for method in COMPARED_METHODS for line in lines_of(cells, graph, method, degrees)]
             for graph in item["graphs"]}  # fmt: skip
    counts = "; ".join(f"{variant or 'unit norm'} {count}" for variant, count in sorted(best.items()))
    return {
        "tables": [table],
        "charts": [elements.chart(graph, both, x="K", y="test accuracy (%)") for graph, both in lines.items() if both],
        "notes": [
            VARIANTS_NOTE.format(counts=counts), *wins_note(cells, item), *verdict_notes(cells, printed, item)
        ],
    }  # fmt: skip


def lines_of(cells: Cells, graph: str, method: str, degrees: list[int]) -> list[dict]:
    """Return the line of one method: accuracy by degree K."""
    return cell_series(method, [(k, cells.get((f"{graph} {method}", f"K = {k}"))) for k in degrees])


def wins_note(cells: Cells, item: dict) -> list[str]:
    """Return how often AdaptKry is better on each graph; the paper claims that neither method always is."""
    wins = []
    for graph in item["graphs"]:
        pairs = [
            (cells[f"{graph} orthkry", f"K = {k}"].mean, cells[f"{graph} adaptkry", f"K = {k}"].mean)
            for k in item["paper"]["degrees"]
            if all((f"{graph} {method}", f"K = {k}") in cells for method in COMPARED_METHODS)
        ]
        if pairs:
            wins.append(f"{graph} {sum(a > o for o, a in pairs)} of {len(pairs)}")
    return [f"AdaptKry is better than OrthKry for this many degrees: {', '.join(wins)}."] if wins else []
