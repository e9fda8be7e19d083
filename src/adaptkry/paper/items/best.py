"""Beyond the paper: the accuracy that `auto` reaches within a time limit, on the graphs of the paper."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adaptkry.graphs.graph import Graph
from adaptkry.models.recipe import Recipe
from adaptkry.paper.cells import Cells
from adaptkry.paper.measure import QUICK_EPOCHS, Measurement, RunOptions
from adaptkry.paper.published import PAPER
from adaptkry.paper.tables import OURS, difference_cell, score_cell
from adaptkry.paper.verdicts import target_reached
from adaptkry.report import elements
from adaptkry.selection.auto import auto
from adaptkry.selection.auto_result import REFERENCES
from adaptkry.training.ensemble import Ensemble

ENSEMBLE, SINGLE = "ensemble", "best single training"


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph, direction and split scheme."""
    columns = {column["name"]: column for column in item["ours"]["columns"]}
    names = item["quick"]["columns"] if options.quick else columns
    return [
        Measurement(columns[name]["graph"], "all", name, lambda g, name=name: best_of(g, columns[name], options))
        for name in names
    ]


def best_of(graph: Graph, column: dict, options: RunOptions) -> list[dict]:
    """Return the rows of the ensemble, of the best single training of each split, and of the baselines."""
    data = graph.undirected() if column.get("undirected") else graph
    splits = options.split(data, column["scheme"])
    epochs = QUICK_EPOCHS if options.quick else None
    found = auto(data, splits, time_limit=options.seconds, device=options.device, epochs=epochs)
    shared = {"time_limit": options.seconds, "settings_tried": len(found.trials), "scheme": splits.scheme}
    measured = found.ensemble.results, member_counts(found.ensemble, len(splits)), ingredient_shares(found.ensemble)
    rows = [
        {
            "row": ENSEMBLE,
            **result.to_row(),
            **shared,
            "members": count,
            "ingredients": shares,
            "cell_seconds": found.seconds,
        }
        for result, count, shares in zip(*measured, strict=True)
    ]
    for name in (SINGLE, *REFERENCES):
        scores = enumerate(found.baselines[name])
        rows += [
            {
                "row": name,
                "split": split,
                "graph": data.info.name,
                "settings": {"method": name},
                "test": score,
                **shared,
            }
            for split, score in scores
        ]
    return rows


def member_counts(ensemble: Ensemble, splits: int) -> list[int]:
    """Return the number of members with a positive share in each split."""
    counts = [0] * splits
    for part, shares in zip(ensemble.parts, ensemble.shares, strict=True):
        for member, share in zip(part.members, shares, strict=True):
            counts[member.split] += share > 0
    return counts


def ingredient_shares(ensemble: Ensemble) -> list[dict[str, float]]:
    """Return the share of members with each ingredient (of the item of that name) in the ensemble of each split."""
    ingredients = PAPER["ingredients"]["ours"]["changes"]
    found = [dict.fromkeys(ingredients, 0.0) for _ in ensemble.results]
    for part, shares in zip(ensemble.parts, ensemble.shares, strict=True):
        for member, share in zip(part.members, shares, strict=True):
            for name, changes in ingredients.items():
                found[member.split][name] += share * has_ingredient(member.recipe, changes)
    return found


def has_ingredient(recipe: Recipe, changes: Mapping[str, Any]) -> bool:
    """Return whether a recipe of adaptkry has what the changes switch on; any positive number counts.

    >>> from adaptkry.models.recipe import recipe
    >>> has_ingredient(recipe("adaptkry", structure=64), {"structure": 128, "batch_norm": False})
    True
    """

    def has(name: str, value: Any) -> bool:
        found = getattr(recipe, name)
        return (
            found == value if isinstance(value, str) else list(found) == value if isinstance(value, list) else found > 0
        )

    return recipe.method == "adaptkry" and all(has(name, value) for name, value in changes.items() if value)


def section(cells: Cells, item: dict) -> dict:
    """Return the table of test scores beside the targets, what the ensemble adds, and the budgets."""
    columns = [column for column in item["ours"]["columns"] if (ENSEMBLE, column["name"]) in cells]
    tables = [target_table(cells, columns), parts_table(cells, columns), budget_table(cells, columns)]
    recorded = [column for column in columns if "ingredients" in cells[ENSEMBLE, column["name"]].rows[0]]
    return {
        "tables": [*tables, *([ingredient_table(cells, recorded)] if recorded else [])],
        "notes": [*item["ours"]["notes"]],
    }


def target_table(cells: Cells, columns: Sequence[dict]) -> dict:
    """Return the test scores of the ensembles and the quoted targets."""
    lines = []
    for column in columns:
        ours = cells[ENSEMBLE, column["name"]]
        reached = target_reached(ours, column["at_least"], column["aim"])
        quoted = [f"{column[name]:.1f}" for name in ("at_least", "aim")]
        lines.append([column["name"], column["scheme"], score_cell(ours), *quoted, reached])
    return elements.table("test accuracy (%)", ["", "splits", ENSEMBLE, "at least", "aim", "reached"], lines, note=OURS)


def parts_table(cells: Cells, columns: Sequence[dict]) -> dict:
    """Return the test scores of single trainings and baselines, and what the ensemble adds to a single training."""
    lines = []
    for name in (column["name"] for column in columns):
        single = cells.get((SINGLE, name))
        others = [score_cell(cells.get((row, name))) for row in (SINGLE, *REFERENCES)]
        lines.append([name, *others, difference_cell(cells[ENSEMBLE, name], single, "test")])
    headings = ["", SINGLE, *REFERENCES, f"{ENSEMBLE} minus {SINGLE}"]
    return elements.table("test accuracy of parts and baselines (%)", headings, lines, note=OURS)


def ingredient_table(cells: Cells, columns: Sequence[dict]) -> dict:
    """Return the share of members with each ingredient, as the mean over the splits of a graph."""
    names = [column["name"] for column in columns]
    lines = []
    for ingredient in PAPER["ingredients"]["ours"]["changes"]:
        of_graphs = [[row["ingredients"].get(ingredient) for row in cells[ENSEMBLE, name].rows] for name in names]
        shares = [None if None in of_splits else 100 * float(np.mean(of_splits)) for of_splits in of_graphs]
        lines.append(
            [ingredient, *(None if share is None else elements.cell(f"{share:.0f}", share) for share in shares)]
        )
    return elements.table("share of the ensembles that has an ingredient (%)", ["", *names], lines)


def budget_table(cells: Cells, columns: Sequence[dict]) -> dict:
    """Return time, number of recipes, size of the ensembles and device."""
    lines = []
    for name in (column["name"] for column in columns):
        rows = cells[ENSEMBLE, name].rows
        limit, used, tried, device = (
            rows[0][key] for key in ("time_limit", "cell_seconds", "settings_tried", "device")
        )
        members = sum(row["members"] for row in rows) / len(rows)
        lines.append([name, f"{limit:.0f}", f"{used:.0f}", tried, f"{members:.1f}", device])
    headings = ["", "time limit (s)", "seconds", "recipes tried", "members per split", "device"]
    return elements.table("budgets", headings, lines)
