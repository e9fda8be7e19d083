"""Settings chosen on validation nodes: every alternative trained on every split, the best mean validation score kept.

Alternatives that differ in rates, dropouts or where weights start train as one batch; others one after the other.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from adaptkry.common.lookup import pick
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.models.methods import FALLBACK_GRID, METHODS, PUBLISHED
from adaptkry.models.recipe import PER_MEMBER, Recipe, recipe
from adaptkry.training import fit as fitting
from adaptkry.training.run import Run


def alternatives(method: str, graph: str | None, **changes) -> list[Recipe]:
    """One recipe where settings were published for this graph, else every combination in `FALLBACK_GRID`."""
    pick(METHODS, method, "method")
    made = recipe(method, graph, **changes)
    if graph in PUBLISHED.get(method, {}):
        return [made]
    grid = {name: values for name, values in FALLBACK_GRID.get(method, {}).items() if changes.get(name) is None}
    return [replace(made, **dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]


def batches(made: Sequence[Recipe]) -> list[list[Recipe]]:
    """Recipes that can train together, together; exact solvers have one decay for all."""
    alike: dict[Recipe, list[Recipe]] = {}
    for one in made:
        own = {} if one.optimiser == "logistic" else {name: getattr(Recipe(), name) for name in PER_MEMBER}
        alike.setdefault(replace(one, **own), []).append(one)
    return list(alike.values())


def choose(
    graph: Graph,
    made: Sequence[Recipe],
    split: Splits,
    *,
    device: str = "auto",
    look: Callable[..., object] = lambda _: None,
) -> tuple[Run, list[dict]]:
    """The run of the recipe that is best on validation, and a row for every recipe that was tried."""
    best, tried = None, []
    for batch in batches(made):
        run = fitting.fit(graph, batch, split, device=device, look=look)
        for start in range(0, len(run.rows), len(split)):
            own = run.only(range(start, start + len(split)))
            mean = validation(own)
            tried.append({"config": own.rows[0]["config"], "validation": mean, "seeds": len(own.rows)})
            if best is None or mean > validation(best):
                best = own
    assert best is not None
    return best, tried


def validation(run: Run) -> float:
    """Mean validation score; a member that failed counts as 0."""
    return float(np.mean([row["validation"] or 0.0 for row in run.rows]))
