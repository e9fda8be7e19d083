"""A trial: settings trained on every split and scored on validation nodes. Its row has no test score."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from adaptkry.common import rows as results
from adaptkry.common import timing
from adaptkry.common.files import check_output_folder
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.splits import Splits
from adaptkry.models.recipe import Recipe
from adaptkry.training import fit as fitting
from adaptkry.training.run import Run, revived

FILE = "trials.jsonl"


def train(graph: Graph, made: Sequence[Recipe], split: Splits, device: str) -> list[dict]:
    """A row for each recipe, all of them trained as one batch; where that does not go, each alone."""
    where = fitting.choose_device(device)
    alone = len(made) == 1
    fits = alone or not fitting.batch_that_fits(graph, made[0], len(made) * len(split), where)
    runs, reason = [], ""

    def fit() -> None:
        runs.append(fitting.fit(graph, made, split, device=device, tested=False))

    try:
        spent = timing.seconds(fit, where) / len(made) if fits else 0.0
    except (ValueError, MemoryError, RuntimeError) as error:  # torch's out of memory is a RuntimeError
        spent, reason = 0.0, str(error).partition("\n")[0] or type(error).__name__
    if not runs and not alone:
        return [row for one in made for row in train(graph, [one], split, device)]
    about = {"graph": graph.info.name, "metric": graph.info.metric, "scheme": split.scheme, "splits": len(split)}
    about |= {"split_seeds": list(split.seeds), **results.provenance(where)}
    scores = validations(runs[0], len(split)) if runs else [[None] * len(split)]
    return [scored(one, own, reason) | {"seconds": spent} | about for one, own in zip(made, scores, strict=True)]


def validations(run: Run, count: int) -> list[list[float | None]]:
    """Validation scores split by split, a list for each recipe; None where a training failed."""
    scores = [row["validation"] for row in run.rows]
    whole = [score if score is not None and math.isfinite(score) else None for score in scores]
    return [whole[start : start + count] for start in range(0, len(whole), count)]


def scored(made: Recipe, scores: Sequence[float | None], reason: str) -> dict:
    """Settings and scores; a trial without a score on every split has failed."""
    good = [score for score in scores if score is not None]
    complete = len(good) == len(scores)
    lost = reason or f"the loss or the score was not finite on {len(scores) - len(good)} of {len(scores)} splits"
    return {
        "settings": asdict(made), "method": made.method, "state": "complete" if complete else "failed",
        "reason": None if complete else lost, "validation": sum(good) / len(good) if complete else None,
        "validations": list(scores),
    }  # fmt: skip


def recipe_of(row: dict) -> Recipe:
    """The recipe of a row that may have been a line of JSON."""
    return revived(Recipe, row["settings"])


def best(rows: Sequence[dict]) -> dict:
    """The trial that is best on validation, the earliest of several; rows in order of their trials."""
    good = [row for row in rows if row["state"] == "complete"]
    if not good:
        raise ValueError(f"none of {len(rows)} trials could be trained. The first one: {rows[0]['reason']}.")
    return max(good, key=lambda row: row["validation"])


def kept(folder: Path, search: str, resume: bool) -> list[dict]:
    """The rows of a search that was stopped, if they are to be used again and belong to this one."""
    path = check_output_folder(folder, *fitting.RUN, FILE) / FILE
    rows = results.read(path) if path.exists() else []
    rows = [row | {"settings": asdict(recipe_of(row))} for row in rows]  # JSON has made lists of tuples
    if rows and not resume:
        raise ValueError(f"{folder} holds {len(rows)} trials already: go on with --resume, or use another --out.")
    if any(row["search"] != search for row in rows):
        raise ValueError(
            f"{path} is of another search (other settings, splits, graph, seed or trials together): use another --out."
        )
    return rows
