"""OrthKry against AdaptKry for several degrees."""

from adaptkry import experiments
from adaptkry.recipes import recipe
from adaptkry.reproduction.cells import Cell, Cells
from adaptkry.reproduction.core import How, Job, training
from adaptkry.reproduction.grids import Published, grid, reasons

METHODS = ("orthkry", "adaptkry")
FORMS = {  # what is trained; of the two forms of OrthKry the one better on validation nodes is shown
    "orthkry": ("orthkry", {"basis_options": ()}),
    "orthkry, kept norms": ("orthkry", {}),
    "adaptkry": ("adaptkry", {}),
}


def jobs(item: dict, how: How) -> list[Job]:
    """Both methods on every graph for every degree, one tau."""
    degrees = (item["quick"] if how.quick else item["paper"])["degrees"]
    return [
        one(item, how, graph, form, degree) for graph in item["graphs"] for form in FORMS for degree in degrees
    ]  # fmt: skip


def one(item: dict, how: How, graph: str, form: str, degree: int) -> Job:
    """A training of one form."""
    method, changes = FORMS[form]
    made = recipe(method, graph, degree=degree, taus=(item["ours"]["taus"][graph],), **changes)
    return training(how, f"{graph} {form}", f"K = {degree}", graph, [made])


def chosen(cells: Cells) -> tuple[Cells, int]:
    """Both methods' cells, OrthKry in the form that is better on validation; how often that is the second one."""
    shown, kept = dict(cells), 0
    for (row, column), cell in cells.items():
        plain = row.removesuffix(", kept norms")
        if plain != row and (plain, column) in cells and validation(cell) > validation(cells[plain, column]):
            shown[plain, column] = cell
            kept += 1
    return shown, kept


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
    cells, kept = chosen(cells)
    rows = [f"{graph} {method}" for graph in item["graphs"] for method in METHODS]
    columns = [f"K = {degree}" for degree in item["paper"]["degrees"]]
    table = grid("test accuracy (%)", cells, rows, columns, item, known(item))
    charts = [drawn(cells, graph, item["paper"]["degrees"]) for graph in item["graphs"]]
    return {
        "tables": [table],
        "charts": [one for one in charts if one["series"]],
        "notes": [
            f"OrthKry: terms of unit length, or as long as X; the second form was better on validation {kept} times.",
            *claims(cells, item), *reasons(cells, known(item), item, phrases),
        ],
    }  # fmt: skip


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
