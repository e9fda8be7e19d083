"""OrthKry against AdaptKry for several degrees."""

from collections import Counter

from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cell, Cells
from adaptkry.paper.measure import Job, RunOptions, training
from adaptkry.paper.tables import Published, grid, reasons
from adaptkry.report import elements as experiments

METHODS = ("orthkry", "adaptkry")
FORMS = (  # what is trained; of the forms of OrthKry the one that is best on validation nodes is shown
    "orthkry", "orthkry, kept norms", "orthkry, no term dropped", "orthkry, kept norms, no term dropped", "adaptkry",
)  # fmt: skip


def jobs(item: dict, how: RunOptions) -> list[Job]:
    """Both methods on every graph for every degree, one tau."""
    degrees = (item["quick"] if how.quick else item["paper"])["degrees"]
    return [
        one(item, how, graph, form, degree) for graph in item["graphs"] for form in forms(graph) for degree in degrees
    ]


def forms(graph: str) -> list[str]:
    """Those that differ on this graph: where AdaptKry drops no terms either, two of them are the other two."""
    return [form for form in FORMS if recipe("adaptkry", graph).filter_dropout or "no term dropped" not in form]


def one(item: dict, how: RunOptions, graph: str, form: str, degree: int) -> Job:
    """A training of one form. OrthKry's own settings keep norms and drop no term; the other forms change that."""
    method, changes = form.partition(", ")[0], {}
    if method == "orthkry" and "kept norms" not in form:
        changes["basis_options"] = ()
    if method == "orthkry" and "no term dropped" not in form:
        changes["filter_dropout"] = recipe("adaptkry", graph).filter_dropout
    made = recipe(method, graph, degree=degree, taus=(item["ours"]["taus"][graph],), **changes)
    return training(how, f"{graph} {form}", f"K = {degree}", graph, [made])


def chosen(cells: Cells) -> tuple[Cells, Counter]:
    """Both methods' cells, OrthKry in the form that is best on validation; how often that is which."""
    shown, best = dict(cells), {}
    for row, column in cells:
        plain, _, form = row.partition(", ")
        kept = best.get((plain, column), "")
        if validation(cells[row, column]) > validation(shown.get((plain, column), cells[row, column])):
            shown[plain, column], kept = cells[row, column], form
        if plain.endswith("orthkry"):
            best[plain, column] = kept
    return shown, Counter(best.values())


def validation(cell: Cell) -> float:
    """Mean validation score."""
    return sum(row["validation"] or 0.0 for row in cell.rows) / len(cell.rows)


def known(item: dict) -> Published:
    """The printed accuracies of both tables."""
    return {
        (f"{graph} {method}", f"K = {degree}"): value
        for method in METHODS
        for graph, values in item["paper"][method].items()
        for degree, value in zip(item["paper"]["degrees"], values, strict=True)
    }


def section(cells: Cells, item: dict, phrases: dict[str, str]) -> dict:
    """One table, and a chart a graph."""
    cells, best = chosen(cells)
    rows = [f"{graph} {method}" for graph in item["graphs"] for method in METHODS]
    columns = [f"K = {degree}" for degree in item["paper"]["degrees"]]
    table = grid("test accuracy (%)", cells, rows, columns, item, known(item))
    charts = [drawn(cells, graph, item["paper"]["degrees"]) for graph in item["graphs"]]
    return {
        "tables": [table],
        "charts": [one for one in charts if one["series"]],
        "notes": [
            "OrthKry: terms of unit length, or as long as X (kept norms); entries of terms dropped as for AdaptKry, or "
            f"none. How often each was best on validation: {times(best)}.",
            *claims(cells, item), *reasons(cells, known(item), item, phrases),
        ],
    }  # fmt: skip


def times(best: Counter) -> str:
    """How often each form was best."""
    return "; ".join(f"{form or 'unit length'} {count}" for form, count in sorted(best.items()))


def drawn(cells: Cells, graph: str, degrees: list[int]) -> dict:
    """Accuracy against K."""
    lines = []
    for method in METHODS:
        own = [(k, cells[key]) for k in degrees if (key := (f"{graph} {method}", f"K = {k}")) in cells]
        if own:
            low, high = [c.mean - c.half for _, c in own], [c.mean + c.half for _, c in own]
            lines.append(experiments.series(method, [k for k, _ in own], [c.mean for _, c in own], low, high))
    return experiments.chart(graph, lines, x="K", y="test accuracy (%)")


def claims(cells: Cells, item: dict) -> list[str]:
    """Who wins how often, graph by graph: the paper's claim is that neither always does."""
    said = []
    for graph in item["graphs"]:
        pairs = [
            (cells[f"{graph} orthkry", f"K = {k}"].mean, cells[f"{graph} adaptkry", f"K = {k}"].mean)
            for k in item["paper"]["degrees"]
            if all((f"{graph} {method}", f"K = {k}") in cells for method in METHODS)
        ]
        if pairs:
            said.append(f"{graph} {sum(a > o for o, a in pairs)} of {len(pairs)}")
    return [f"AdaptKry is ahead of OrthKry on: {', '.join(said)}."] if said else []
