"""The report of a run or an ensemble: facts computed once, while the graph is in memory, which page and picture show.

The facts are an experiment (see `elements`) with `"kind": "run"` and more keys: `score` (the result as text), `scores`
(the mean and its interval as shares), `about` (a second sentence), `overview` (one row of the table that compares
runs), `sections` (headings of the page in order: name -> whether it is folded) and `summary`. Charts that can show one
model only show the part of an ensemble with the largest share.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adaptkry.common.files import checked_path
from adaptkry.common.intervals import half_width
from adaptkry.common.tables import number_text
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.homophily import defined_measures
from adaptkry.graphs.splits import Splits
from adaptkry.models.inputs import input_columns
from adaptkry.models.recipe import Recipe
from adaptkry.models.recipe import recipe as recipe_of
from adaptkry.report import html
from adaptkry.report.class_report import (
    calibration_elements,
    class_elements,
    confusion,
    largest_share,
    least_certain,
    percent,
)
from adaptkry.report.elements import TableCell, cell, chart, counted, experiment, series, spread, table, under
from adaptkry.report.learned_filter import learned_response
from adaptkry.report.task_report import task_elements
from adaptkry.spectral.bases import krylov
from adaptkry.spectral.density import Density, graph_density
from adaptkry.spectral.propagation_matrix import Propagation
from adaptkry.spectral.spectrum import angles
from adaptkry.training.ensemble import Ensemble
from adaptkry.training.metrics import pick_metric
from adaptkry.training.results import Result
from adaptkry.training.run import Run, mean_text

log = logging.getLogger("adaptkry")

SPECTRUM_TAUS = tuple(round(0.1 * k, 1) for k in range(1, 20))
BINS = 41
LARGE = 1_000_000  # entries; for larger graphs only every third tau of the chart is computed
ANGLE_COLUMNS = 256  # feature columns over which angles are averaged
NO_CURVE = "no single curve describes the filter of this method"
TRAININGS = "mean and range over trainings"
FREQUENCY = "frequency 1 - λ (0 smooth, 2 rough)"
LARGEST = "guessing the largest class"
OUTPUTS = {
    "classification": ("class", "classes"),
    "multilabel": ("label", "labels"),
    "regression": ("target", "targets"),
}
SHOWN_QUANTILES = (0.05, 0.5, 0.95)
PROVENANCE_NAMES = ("command", "created", "version", "commit", "device", "torch", "python")
FILTER_NOTE = "How strongly the model keeps each frequency. "
DENSITY_NOTE = (
    "Grey: the frequencies of this graph. Low ones are patterns in which neighbours are alike, high ones patterns in "
    "which they differ."
)
SPECTRUM_NOTE = "Which frequencies the graph has for each value of tau; the trained tau is marked."
WEIGHT_NOTE = "Hop 0 is the node itself, hop 1 its neighbours, hop 2 also theirs. A weight near 0: the hop is not used."
NORM_NOTE = "Every column of a hop has weights of its own; shown is their size (norm) in the first dense layer."
ANGLE_NOTE = "Hops with a small angle between them are nearly the same, and add little."
HOMOPHILY_NOTE = (
    "Edge: the share of edges that join nodes of the same class. Node: the mean of this share over nodes. Class "
    "insensitive and adjusted: corrected for the sizes of the classes. Label informativeness: how much the class of a "
    "neighbour tells about the class of a node, from 0 to 1."
)
SHOWN_SECTIONS = (
    "Predictions", "Labels", "Classes", "Calibration", "Least certain nodes", "What it learned", "What mattered",
)  # fmt: skip
FOLDED_SECTIONS = ("Trainings", "Settings", "Graph")
SECTIONS = dict.fromkeys(SHOWN_SECTIONS, False) | dict.fromkeys(FOLDED_SECTIONS, True)
REPORT_SECONDS = 10.0  # spectra and angles that are estimated to take longer are omitted
SPECTRUM_SECONDS = 6e-7  # of one density of states, per node and entry, on one core
ANGLE_SECONDS = 5e-9  # of the angles between hops, per node or entry, column, hop and tau


def write_pages(
    run: Run | Ensemble,
    graph: Graph | None,
    folder: Path | str,
    splits: Splits | None = None,
    *,
    seconds: float | None = None,
    extend: Callable[[dict], dict] = lambda facts: facts,
    renew: bool = True,
) -> dict[str, str]:
    """Write the facts, the picture and the page of a run to its folder; returns their paths.

    Args:
        run: a run or an ensemble with at least one successful training.
        graph: the graph it was trained on; None for a run on a basis folder.
        folder: the run folder.
        splits: the splits it was trained on; needed if it was not tested when it was trained.
        seconds: time for spectra and angles, measured; those that would take longer are omitted. None omits those
            that are estimated to take more than `REPORT_SECONDS`, so that the same run gives the same report.
        extend: adds to the facts.
        renew: whether to write everything again; otherwise only what is missing.
    """

    def facts() -> dict:
        return extend(run_report(run, graph, splits, seconds))

    return html.write_report(checked_path(folder, "the run folder"), facts, renew=renew)


def run_report(
    run: Run | Ensemble, graph: Graph | None, splits: Splits | None = None, seconds: float | None = None
) -> dict:
    """Return everything that page and picture show of a run; without a graph, parts that need it are omitted."""
    start = time.monotonic()
    model, info = main_members(run), run.info
    recipe, name = model.recipes[0], "ensemble" if isinstance(run, Ensemble) else model.recipes[0].method
    names = [str(name) for name in info.class_names or range(run.classes)][: run.classes]
    scores, limit = mean_scores(run), REPORT_SECONDS if seconds is None else seconds
    if run.task == "classification":
        counts = np.array(confusion(run, graph, splits))
        lead = in_words(scores, largest_share(counts))
        parts = [*headline(name, scores, largest_share(counts)), *class_elements(names, counts)]
        parts += [*calibration_elements(run), *least_certain(run, graph, splits, names, limit)]
    else:
        lead, parts = task_elements(run, graph, splits, names, limit)
    left = None if seconds is None else max(seconds - (time.monotonic() - start), 0.0)
    densities = {} if graph is None else spectra(graph, recipe.taus[0], left)
    trained = densities.get(recipe.taus[0])
    grid, responses = responses_of(model, graph, -1.0 if trained is None else min(-1.0, float(trained.edges[0])))
    learned = [filter_chart(grid, responses, recipe.taus[0], trained), *spectrum_chart(densities, recipe)]
    parts += under("What it learned", *learned, *hop_charts(model, graph, recipe, left))
    parts += under("Trainings", *curve_charts(run), *training_tables(run))
    parts += under("Settings", settings_table(run))
    parts += [] if graph is None or run.task != "classification" else under("Graph", homophily_table(graph))
    score = score_text(run)
    facts = experiment(
        f"{name} on {info.graph}",
        lead=lead or in_words(scores),
        tables=[part for part in parts if "columns" in part],
        charts=[part for part in parts if "kind" in part],
        notes=[*(f"warning: {text}" for text in info.warnings), *missing_notes(graph, densities)],
        provenance={name: getattr(info, name) for name in PROVENANCE_NAMES if getattr(info, name) is not None},
    )
    overview = {
        "run": name,
        "graph": info.graph,
        "metric": info.metric,
        "test": cell(score, scores["mean"]),
        "trainings": run.trainings,
    }
    facts |= {"kind": "run", "about": about(run, graph), "score": score, "scores": scores, "overview": overview}
    return facts | {"sections": SECTIONS, "summary": run.summary(warnings=False).splitlines()[-1]}


def main_members(run: Run | Ensemble) -> Run:
    """Return the members that charts show: the chosen ones, or those of the part with the largest share."""
    return max(run.weighted_parts(), key=lambda part: float(part[1].sum()))[0]


def score_text(run: Run | Ensemble) -> str:
    """Return mean and standard deviation of the test scores of chosen trainings (or of splits), with the unit."""
    return mean_text([run.results[i].test for i in run.chosen], run.info.metric, run.task)


def mean_scores(run: Run | Ensemble) -> dict:
    """Return the mean test score of the chosen trainings or splits and its 95 % interval; None if none was tested."""
    metric, scores = pick_metric(run.info.metric, run.task), run.test_scores[run.chosen]
    about = {"metric": run.info.metric, "is_share": metric.is_share, "greater_is_better": metric.greater_is_better}
    good = scores[~np.isnan(scores)]
    if not len(good):
        return about | {"mean": None, "low": None, "high": None}
    mean, half = float(good.mean()), half_width(good) if len(good) > 1 else None
    low, high = (None, None) if half is None else (mean - half, mean + half)
    if half is not None and metric.is_share:
        low, high = max(0.0, mean - half), min(1.0, mean + half)
    return about | {"mean": mean, "low": low, "high": high}


def headline(name: str, scores: dict, largest: float | None) -> list[dict]:
    """Return the chart of the accuracy beside that of guessing the largest class; nothing for other metrics."""
    if scores["metric"] != "accuracy" or scores["mean"] is None or largest is None:
        return []
    low, high = ([None, None if scores[end] is None else 100 * scores[end]] for end in ("low", "high"))
    means = [100 * largest, 100 * scores["mean"]]
    line = series("mean and 95 % interval over splits", [LARGEST, name], means, low, high)
    return [chart("Test accuracy", [line], y="test accuracy (%)")]


def in_words(scores: dict, largest: float | None = None, more: str = "") -> str:
    """Return the result in plain words; `largest` is the score of always guessing the largest class.

    >>> in_words({"metric": "accuracy", "mean": 0.94}, 0.31)
    '94 of 100 test nodes are right; guessing the largest class gets 31.'
    >>> in_words({"metric": "macro_f1", "mean": 0.512}), in_words({"metric": "mae", "mean": 3.25, "is_share": False})
    ('The test macro_f1 is 51.2 %.', 'The test mae is 3.25.')
    """
    if scores["mean"] is None:
        return "Nothing was tested."
    if scores["metric"] != "accuracy":
        is_share = scores.get("is_share", True)
        value = f"{100 * scores['mean']:.1f} %" if is_share else number_text(scores["mean"])
        return f"The test {scores['metric']} is {value}."
    guess = "" if largest is None else f"guessing the largest class gets {of_100(largest)}"
    comparison = ", ".join(part for part in (guess, more) if part)
    return f"{of_100(scores['mean'])} of 100 test nodes are right{'; ' * bool(comparison)}{comparison}."


def of_100(share: float) -> str:
    """Return a share of 100 as a whole number; with decimals if that would be 0 or 100, but the share is not.

    >>> of_100(0.314), of_100(1.0), of_100(0.9981)
    ('31', '100', '99.8')
    """
    digits = next((k for k in range(6) if round(100 * share, k) not in (0, 100)), 0)
    return f"{100 * share:.{digits}f}"


def about(run: Run | Ensemble, graph: Graph | None = None) -> str:
    """Return a sentence that gives the exact score and what it is measured on."""
    info, count, scheme = run.info, len(run.chosen), run.info.scheme.replace("_", "-")
    distinct = len({run.results[i].split for i in run.chosen})
    splits = counted(distinct, f"{scheme} split", f"{scheme} splits")
    if isinstance(run, Ensemble):
        over = f"ensemble of {counted(run.trainings, 'training', 'trainings')}"
        splits = splits if count == 1 else f"mean ± standard deviation over {splits}"
    else:
        over = "one training" if count == 1 else f"mean ± standard deviation over {count} trainings"
    stored = f"{info.stored_rows:,} stored" if info.entries is None else f"{info.entries:,} entries of the matrix"
    stored = stored if graph is None else f"{edge_count(graph):,} edges"
    return (
        f"Test {info.metric} {score_text(run)}: {over}, {splits}; {info.nodes:,} nodes, {stored}, "
        f"{run.features:,} features, {counted(run.classes, *OUTPUTS[run.task])}."
    )


def edge_count(graph: Graph) -> int:
    """Return the number of edges; an undirected one is stored twice, unless it joins a node with itself."""
    loops = int((graph.adjacency.diagonal() != 0).sum())
    return graph.entries if graph.is_directed else (graph.entries + loops) // 2


def missing_notes(graph: Graph | None, densities: dict[float, Density]) -> list[str]:
    """Return a remark if charts that need the graph are missing."""
    if graph is None or densities:
        return []
    return [f"Spectra are left out: one would take about {spectrum_seconds(graph):.0f} s on this graph."]


def spectrum_seconds(graph: Graph) -> float:
    """Estimate the time of one density of states."""
    return SPECTRUM_SECONDS * (graph.nodes + graph.entries)


def spectra(graph: Graph, trained_tau: float, seconds: float | None = None) -> dict[float, Density]:
    """Compute the density of states of P_tau for the taus of the chart and the trained tau, in ascending order.

    If the time does not suffice for all taus, as many as possible at equal distances; if not for one, none. Without
    `seconds` the number of taus depends on the estimated time only, not on the speed of the machine.
    """
    estimated = spectrum_seconds(graph)
    if estimated > (REPORT_SECONDS if seconds is None else seconds):
        return {}

    def density(tau: float) -> Density:
        return graph_density(graph, tau, moments=100, probes=8, bins=BINS)

    start = time.monotonic()
    found = {trained_tau: density(trained_tau)}
    taus = usable_taus(graph)[:: 1 if graph.entries < LARGE else 3]
    spent = time.monotonic() - start
    count = int(REPORT_SECONDS / estimated if seconds is None else seconds / max(spent, 1e-9)) - 1
    more = [tau for tau in taus[:: math.ceil(len(taus) / count)] if tau != trained_tau] if count > 0 else []
    if len(more) * estimated > 2:
        log.info(f"computing the spectra for {len(more)} more values of tau, in about {len(more) * estimated:.0f} s")
    found |= {tau: density(tau) for tau in more}
    return dict(sorted(found.items()))


def usable_taus(graph: Graph) -> list[float]:
    """Return the taus of the chart that the graph allows: weighted degrees below 1 give an upper limit."""
    usable = []
    for tau in SPECTRUM_TAUS:
        try:
            Propagation(graph, tau)
        except ValueError:
            break
        usable.append(tau)
    return usable


def spectrum_chart(densities: dict[float, Density], recipe: Recipe) -> list[dict]:
    """Return the chart of the frequencies of the graph by tau, with the trained taus marked."""
    if len(densities) < 2:
        return []
    parts = np.array([1 - quantiles(density, SHOWN_QUANTILES) for density in densities.values()]).T  # [3, taus]
    line = series("median, and range of 90 %, of the frequencies", densities, parts[1], parts[2], parts[0])
    marks = [{"name": f"trained tau {tau:g}", "x": tau} for tau in recipe.taus]
    return [chart("Spectrum by tau", [line], x="tau", y=FREQUENCY, marks=marks, note=SPECTRUM_NOTE)]


def quantiles(density: Density, shares: Sequence[float]) -> np.ndarray:
    """Return quantiles of the eigenvalues."""
    mass = np.clip(np.asarray(density.mass), 0, None)
    below = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
    return np.interp(shares, below, np.asarray(density.edges))


def responses_of(run: Run, graph: Graph | None, lowest: float) -> tuple[Tensor, list[list[float]] | None]:
    """Return a grid of eigenvalues from `lowest` to 1, and the learned response of each member on it."""
    grid = torch.linspace(lowest, 1.0, 101)
    responses = learned_response(run, graph, grid)
    return grid, None if responses is None else responses.T.tolist()


def filter_chart(grid: Tensor, responses: list | None, tau: float, density: Density | None) -> dict:
    """Return the chart of the learned response and the density of states, by frequency 1 - lambda."""
    behind = density and {
        "name": f"density of the frequencies at the trained tau {tau:g}",
        "edges": (1 - np.asarray(density.edges))[::-1],
        "mass": np.clip(np.asarray(density.mass), 0, None)[::-1],
    }
    lines = []
    if responses:
        frequency = (1 - grid.flip(0)).tolist()
        mean, low, high = (part[::-1] for part in spread(responses))
        lines.append(series(TRAININGS, frequency, mean, low, high))
    shown: dict[str, Any] = {"x": FREQUENCY, "y": "response g(λ)", "behind": behind}
    return chart(
        "Learned filter", lines, **shown, empty=NO_CURVE, note=FILTER_NOTE * bool(lines) + DENSITY_NOTE * bool(behind)
    )


def curve_charts(run: Run | Ensemble) -> list[dict]:
    """Return the charts of training loss and validation score by epoch."""
    curves, metric, found = run.main.curves, run.info.metric, []
    scale = " (0 to 1)" if pick_metric(metric, run.task).is_share else ""
    loss = f" ({main_members(run).recipes[0].loss}, scaled targets)" if run.task == "regression" else " (nats)"
    for name, label, unit in (("loss", "training loss", loss), ("validation", f"validation {metric}", scale)):
        epochs, values = thinned(curves[name])
        if epochs:
            means, low, high = ([float(reduce(v)) for v in values] for reduce in (np.mean, np.min, np.max))
            line = series(TRAININGS, epochs, means, low, high)
            found.append(chart(label.capitalize(), [line], x="epoch", y=f"{label}{unit}"))
    return found


def thinned(curve: np.ndarray, max_points: int = 250) -> tuple[list[int], list[np.ndarray]]:
    """Return at most `max_points` epochs of a curve [epochs, b], and the values of the members still running then."""
    epochs = np.unique(np.linspace(0, len(curve) - 1, min(max_points, len(curve))).astype(int)) if len(curve) else []
    values = {int(epoch): curve[epoch][~np.isnan(curve[epoch])] for epoch in epochs}
    running = {epoch: v for epoch, v in values.items() if len(v)}
    return list(running), list(running.values())


def hop_charts(run: Run, graph: Graph | None, recipe: Recipe, seconds: float | None = None) -> list[dict]:
    """Return the charts of the weights of the hops and of the angles between consecutive hops."""
    found, weights, limit = [], hop_weights(run), REPORT_SECONDS if seconds is None else seconds
    across, title = "hop (number of products with P)", "Weight of each hop"
    if weights and len(weights[0]) > 1:
        found.append(chart(title, hop_lines(weights, recipe), x=across, y="weight", note=WEIGHT_NOTE))
    elif norms := hop_norms(run):
        found.append(chart(title, hop_lines(norms, recipe), x=across, y="norm of the weights",
                           note=f"{WEIGHT_NOTE} {NORM_NOTE}"))  # fmt: skip
    if graph is not None and recipe.degree > 1 and angle_seconds(graph, recipe) <= limit:
        lines = [
            series(f"tau {tau:g}", range(1, len(degrees) + 1), degrees)
            for tau, degrees in hop_angles(run, graph, recipe).items()
        ]
        found.append(chart("Angle between consecutive hops", lines, x=across, y="angle (degrees)", note=ANGLE_NOTE))
    return found


def hop_lines(weights: Sequence[Sequence[float]], recipe: Recipe) -> list[dict]:
    """Return one line per basis: for each direction, and for each tau if taus have weights of their own."""
    bases = [(direction, tau) for direction in recipe.directions for tau in ([None] if recipe.tied else recipe.taus)]
    hops = len(weights[0]) // len(bases)
    if len(bases) == 1 or hops * len(bases) != len(weights[0]):
        return [series(TRAININGS, range(len(weights[0])), *spread(weights))]
    lines = []
    for number, (direction, tau) in enumerate(bases):
        part = [member[number * hops : (number + 1) * hops] for member in weights]
        name = ", ".join(
            ([direction] if len(recipe.directions) > 1 else []) + ([] if tau is None else [f"tau {tau:g}"])
        )
        lines.append(series(name, range(hops), *spread(part)))
    return lines


def hop_weights(run: Run) -> list[list[float]] | None:
    """Return the weights of the hops of each member, [members, hops]; filters per channel are averaged."""
    if "filter/weights" not in run.weights:
        return None
    w: Tensor = run.weights["filter/weights"]
    return w.reshape(len(w), -1, w.shape[-1]).mean(1).tolist()


def hop_norms(run: Run) -> list[list[float]] | None:
    """Return the norm of the first layer's weights of each hop, [members, hops], if hops are concatenated.

    None if hops have different sizes, because weights then cannot be compared.
    """
    first = [w for name, w in run.weights.items() if name.endswith("/layer0")]
    terms = run.shape.terms
    recipe = run.recipes[0]
    if (
        recipe.combine_hops != "concat"
        or not recipe.hop_norm
        or len(first) != 1
        or terms < 2
        or first[0].shape[1] % terms
    ):
        return None
    return first[0].reshape(len(first[0]), terms, -1).norm(dim=2).tolist()


def angle_seconds(graph: Graph, recipe: Recipe) -> float:
    """Estimate the time that `hop_angles` takes."""
    columns = 0 if graph.features is None else min(graph.features.shape[1], ANGLE_COLUMNS)
    return ANGLE_SECONDS * (graph.nodes + graph.entries) * columns * recipe.degree * len(recipe.taus)


def hop_angles(run: Run, graph: Graph, recipe: Recipe) -> dict[float, list[float]]:
    """Return the angles in degrees between consecutive hops of the inputs of a run, for each tau."""
    x = input_columns(graph, recipe, saved=dict(run.saved_inputs))[0][:, :ANGLE_COLUMNS]
    return {tau: angles(krylov(Propagation(graph, tau), x, recipe.degree)).tolist() for tau in recipe.taus}


def homophily_table(graph: Graph) -> dict:
    """Return the table of the homophily measures that are defined."""
    measures = [(name.replace("_", " "), value) for name, value in defined_measures(graph).items()]
    undefined = HOMOPHILY_NOTE if measures else "No edge joins two labelled nodes, so that homophily is not defined."
    return table("Homophily", ["measure", "value"], measures, undefined)


def settings_table(run: Run | Ensemble) -> dict:
    """Return the table of the settings that differ from the defaults of the method."""
    used = main_members(run).results[0].settings
    defaults = default_settings(used["method"])
    changed = [
        [name, plain(value), plain(defaults.get(name))]
        for name, value in used.items()
        if plain(value) != plain(defaults.get(name))
    ]
    others = counted(len(used) - len(changed), "other setting has", "other settings have")
    note = f"{others} the default of {used['method']}."
    if isinstance(run, Ensemble) and len(run.parts) > 1:
        note += " These are the settings of the part with the largest share."
    return table("Settings that differ from the defaults", ["setting", "value", "default"], changed, note)


def default_settings(method: str) -> dict:
    """Return the default settings of a method; nothing for one that this version does not know."""
    try:
        return recipe_of(method).to_dict()
    except ValueError:
        return {}


def training_tables(run: Run | Ensemble) -> list[dict]:
    """Return the tables of the trainings."""
    is_share = pick_metric(run.info.metric, run.task).is_share
    return ensemble_tables(run, is_share) if isinstance(run, Ensemble) else [training_table(run.results, is_share)]


def training_table(results: Sequence[Result], is_share: bool = True) -> dict:
    """Return the table of trainings, one row each."""
    columns = [heading if is_share else heading.removesuffix(" %") for heading in Result.headings().values()]
    return table("Trainings", columns, [training_row(result, is_share) for result in results])


def ensemble_tables(ensemble: Ensemble, is_share: bool = True) -> list[dict]:
    """Return the tables of splits, and of the members of each split, largest share first."""
    shown, unit = (percent, " %") if is_share else (lambda value: value, "")
    splits = [[r.split, shown(r.validation), shown(r.test), r.failed] for r in ensemble.results]
    used = [(part, shares) for part, shares in zip(ensemble.parts, ensemble.shares, strict=True) if any(shares)]
    members = [
        (member.split, -share, [member.recipe.method, member.split, member.seed, number, shown(result.validation),
                                cell(f"{share:.3f}", share)])
        for number, (part, shares) in enumerate(used)
        for member, result, share in zip(part.members, part.results, shares, strict=True)
        if share > 0
    ]  # fmt: skip
    rows = [row for *_, row in sorted(members, key=lambda entry: entry[:2])]
    note = "Share: weight of the training's probabilities in the prediction of its split. Part: folder in members/."
    return [
        table("Splits", ["split", f"validation{unit}", f"test{unit}", "failed"], splits),
        table("Trainings", ["method", "split", "seed", "part", f"validation{unit}", "share"], rows, note),
    ]


def training_row(result: Result, is_share: bool = True) -> list:
    """Return the cells of one training in the table of trainings."""
    return [training_cell(getattr(result, name), is_share and heading.endswith("%"))
            for name, heading in Result.headings().items()]  # fmt: skip


def training_cell(value: Any, is_percent: bool) -> TableCell:
    """Return a value of a result as a cell, in per cent if asked for."""
    if is_percent:
        return percent(value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def plain(value) -> str | int | float | None:
    """Return a setting as a cell; a stage of the model is written like a call, such as `Linear(size=hidden)`."""
    if isinstance(value, dict):
        arguments = ", ".join(f"{name}={plain(part)}" for name, part in value.items() if name != "stage")
        return f"{value['stage']}({arguments})" if "stage" in value else arguments
    if isinstance(value, (list, tuple)):
        return ", ".join(str(plain(part)) for part in value)
    return str(value).lower() if isinstance(value, bool) else value
