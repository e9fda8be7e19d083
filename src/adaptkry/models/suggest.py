"""Settings that fit a graph, with a reason for each; `fit` uses them if none are published for the graph.

The rules look at figures that are cheap to compute: the direction of edges, the kind and the scales of features, and
the number and the homophily of labels. Of the labels they see those of training nodes only.

The tables below are the suggestions; the functions choose between them. `reproduce defaults` measures them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from adaptkry.common import checks
from adaptkry.common.lookup import pick
from adaptkry.common.memory import machine_bytes
from adaptkry.graphs import homophily
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.load import load
from adaptkry.models.inputs import column_count, column_moments
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import Recipe, given_settings, recipe

Settings = dict[str, Any]

# for every graph
GENERAL: Settings = {
    "taus": (0.5, 1.0), "tied": False, "degree": 4, "hop_norm": True, "mlp_lr": 0.01, "mlp_dropout": 0.4,
    "mlp_decay": 5e-4,
}  # fmt: skip

# if features are words, by homophily: smooth features with dropout of their entries where neighbours are similar;
# elsewhere by the number of training labels: with few, larger steps are better on validation nodes (own/texas,
# own/wisconsin and own/cornell)
MIN_HOMOPHILY = 0.3  # adjusted homophily from which a graph counts as homophilous
HOMOPHILOUS_WORDS: Settings = {
    "tied": True, "taus": (0.5,), "degree": 10, "hop_norm": False, "batch_norm": False, "filter_dropout": 0.4,
    "mlp_lr": 0.05, "mlp_dropout": 0.5, "mlp_decay": 1e-3,
}  # fmt: skip
OTHER_WORDS: Settings = {"mlp_lr": 0.003, "mlp_decay": 5e-3}
OTHER_WORDS_FEW_LABELS: Settings = {"mlp_lr": 0.05, "mlp_decay": 5e-4}
# with many neighbours, which tell more than words: chameleon, squirrel, johnshopkins55; up to so many nodes, since
# each has weights of its own
LINKED_WORDS: Settings = {"structure_layer": True, "mlp_dropout": 0.7}
MAX_LINKED_NODES = 50_000

# by direction
MAX_RECIPROCAL = 0.8  # share of edges that also exist in reverse, up to which direction is used
DIRECTED: Settings = {"directions": ("out", "in")}
UNDIRECTED: Settings = {"directions": ("both",)}

# by the number of training labels
MIN_LABELS = 200  # from which they suffice for the larger model
MANY_LABELS: Settings = {"hidden": 256, "layers": 3, "batch_norm": True}
FEW_LABELS: Settings = {"hidden": 64, "layers": 2, "batch_norm": False}

# by features
MAX_WORDS = 0.25  # share of non-zero entries up to which many non-negative columns count as words, a few as categories
MAX_SCALE = 3.0  # factor between columns, or between a column and 1, up to which features stay as they are
SAMPLE = 2000  # rows of features that are looked at
WORDS: Settings = {"normalise": True, "standardise": False}
OTHER_SCALES: Settings = {"normalise": False, "standardise": True}
SIMILAR_SCALES: Settings = {"normalise": False, "standardise": False}

# by the number of feature columns and the degree of nodes
MAX_COLUMNS = 64  # up to which a dense layer for each hop is affordable, and better than one weight
FEW_COLUMNS: Settings = {"combine_hops": "concat"}
# few columns and numbers as targets, by R2 on validation nodes of synthetic graphs with 20 columns and 2,000 or 6,000
# nodes; with 150 columns the settings of other tasks are better
REGRESSION: Settings = {"mlp_dropout": 0.1, "hidden": 64}
MIN_DEGREE = 10.0  # mean degree above which neighbours tell more about a node than a few columns, or than words
STRUCTURE: Settings = {"structure": 64}

# by size
MAX_TERMS = 8 * 2**30  # bytes of precomputed terms, up to which every tau has terms of its own
TOO_LARGE: Settings = {"tied": True}

MAX_WIDTH = 8192  # feature columns that are not reduced; the widest development graph has 6,805
REDUCED = 256  # columns to which wider features are reduced
BASIS_SHARE = 0.6  # of the memory, which terms of features that are not reduced may take

SCALING = ("normalise", "standardise")
INPUT_SETTINGS = (*SCALING, "reduce")  # those that are suggested for every method
EXCLUSIVE = (("batch_norm", "layer_norm"), SCALING)  # if a user sets one, the other is off


@dataclass(frozen=True)
class Reason:
    """Suggested settings, and one sentence why, with the figure that was measured."""

    settings: Settings
    why: str


def suggest(graph: Any, method: str = "adaptkry", train: Tensor | None = None, **settings) -> Recipe:
    """Return a method's settings with those that fit the graph; `explain` gives the reasons.

    Args:
        graph: a `Graph`, or everything else that `load` accepts, such as a name.
        method: the name of a method. Methods other than adaptkry keep their settings except those about features.
        train: bool mask [n] of the training nodes, whose labels may be used; by default all known labels.
        settings: settings that replace suggested ones.

    >>> from adaptkry.graphs.synthetic import csbm
    >>> suggest(csbm(nodes=100)).hidden, suggest(csbm(nodes=1000)).hidden, suggest(csbm(), hidden=32).hidden
    (64, 256, 32)
    """
    given = given_settings(settings)
    suggested = merged(explain(graph, method, train))
    for one, other in (*EXCLUSIVE, *(pair[::-1] for pair in EXCLUSIVE)):
        if given.get(one):
            suggested[other] = False
    if given.get("similar_nodes") or given.get("layers") == 1:  # which a structure layer excludes
        suggested.pop("structure_layer", None)
    return recipe(method, **suggested | given)


def merged(reasons: Iterable[Reason]) -> Settings:
    """Return the settings of all reasons; later ones replace earlier ones."""
    return {name: value for reason in reasons for name, value in reason.settings.items()}


def explain(graph: Any, method: str = "adaptkry", train: Tensor | None = None) -> list[Reason]:
    """Return the suggested settings with a reason for each; arguments as in `suggest`.

    >>> from adaptkry.graphs.synthetic import csbm
    >>> explain(csbm())[1].why
    'the graph is undirected'
    """
    pick(METHODS, method, "method")
    graph = graph if isinstance(graph, Graph) else load(graph)
    if method != "adaptkry":
        reasons = by_features(graph) + by_width(graph)
        return reasons + by_memory(graph, recipe(method, **merged(reasons)))
    known = graph.known if train is None else torch.where(_mask(train, graph), graph.known, -1)
    labelled = graph if train is None else graph.relabelled(known)
    reasons = [
        Reason(GENERAL, "for every graph: hops are scaled to the norm of the features, each tau has its own weights"),
        by_direction(graph),
        by_labels(known, graph.task),
        *by_features(graph),
    ]
    has_words = bool(merged(reasons).get("normalise"))
    reasons += by_homophily(labelled, has_words) if graph.targets is None else []
    reasons += [] if has_words else by_columns(graph)
    reasons += by_width(graph)
    reasons += by_size(graph, merged(reasons))
    return reasons + by_memory(graph, recipe(method, **merged(reasons)))


def by_homophily(graph: Graph, has_words: bool) -> list[Reason]:
    """Return the settings for features that are words, by the homophily and the number of the known labels."""
    is_few = int((graph.y >= 0).sum()) < MIN_LABELS
    settings = (OTHER_WORDS_FEW_LABELS if is_few else OTHER_WORDS) if has_words else {}
    steps = "; few labels: a small model learns with larger steps" if is_few and has_words else ""
    if has_words and not is_few and graph.nodes <= MAX_LINKED_NODES and mean_degree(graph) > MIN_DEGREE:
        settings = settings | LINKED_WORDS
        steps = f"; {mean_degree(graph):.0f} edges per node: weights are learned for each neighbour"
    try:
        value = homophily.adjusted(graph)
    except ValueError:
        return [Reason(settings, f"homophily is unknown: no edges between training nodes of different classes{steps}")]
    if value < MIN_HOMOPHILY:
        return [Reason(settings, f"neighbours often have other classes (adjusted homophily {value:.2f}){steps}")]
    why = f"neighbours tend to have the same class (adjusted homophily {value:.2f})"
    return [Reason(HOMOPHILOUS_WORDS, f"{why} and similar words") if has_words else Reason(settings, why)]


def by_direction(graph: Graph) -> Reason:
    """Return the directions of edges."""
    if not graph.is_directed:
        return Reason(UNDIRECTED, "the graph is undirected")
    share = graph.adjacency.multiply(graph.adjacency.T).nnz / max(graph.entries, 1)
    settings = DIRECTED if share <= MAX_RECIPROCAL else UNDIRECTED
    return Reason(settings, f"the graph is directed: {100 * share:.0f} % of its edges also exist in reverse")


def by_labels(known: Tensor, task: str) -> Reason:
    """Return the size of the model, by the number of known labels: classes [n], or 0 for other tasks; -1 is unknown."""
    sizes = checks.class_sizes(known)
    count = int(sizes.sum())
    each = f" ({int(sizes.min()):,} to {int(sizes.max()):,} per class)" if count and task == "classification" else ""
    text = f"there are {count:,} training labels{each}"
    if count >= MIN_LABELS:
        return Reason(MANY_LABELS, f"{text}: enough for the larger model")
    return Reason(FEW_LABELS, f"{text}: too few for a larger model")


def by_features(graph: Graph) -> list[Reason]:
    """Return how features are scaled, by their values in at most `SAMPLE` rows; nothing without features."""
    x = graph.features
    if x is None:
        settings = {"structure": min(STRUCTURE["structure"], graph.nodes)}
        return [Reason(settings, "there are no features: degrees and columns of the edges are used instead")]
    if not min(x.shape):
        return []
    x = x[:: -(-x.shape[0] // SAMPLE)]  # [rows, d]
    values = x.data if sp.issparse(x) else x[x != 0].numpy()  # without zeros
    share = len(values) / (x.shape[0] * x.shape[1])
    is_binary = bool((values == 1).all())
    kind = "binary" if is_binary else "counts" if bool((values == np.rint(values)).all()) else "real numbers"
    if share <= MAX_WORDS and x.shape[1] > MAX_COLUMNS and bool((values > 0).all()):
        why = f"features are like bags of words ({kind}, {100 * share:.2g} % non-zero): rows are divided by their sum"
        return [Reason(WORDS, why)]
    low, high = _scales(x)
    text = f"the standard deviations of feature columns are {low:.2g} to {high:.2g}"
    if is_binary or max(high / low, high, 1 / low) <= MAX_SCALE:
        return [Reason(SIMILAR_SCALES, f"features are binary: {text}" if is_binary else text)]
    if sp.issparse(x):
        return [Reason(SIMILAR_SCALES, f"{text}, but features are sparse, and standardised columns would be dense")]
    return [Reason(OTHER_SCALES, f"{text}: columns are standardised")]


def by_columns(graph: Graph) -> list[Reason]:
    """Return how hops are combined and the size of a regression, if columns are few, and columns of the edges."""
    width = 0 if graph.features is None else graph.features.shape[1]
    if width > MAX_COLUMNS or graph.features is None:
        return []
    text = f"there are only {width} feature columns"
    reasons = [Reason(FEW_COLUMNS, f"{text}: each hop has a dense layer instead of one weight")]
    if graph.task == "regression":
        reasons.append(Reason(REGRESSION, f"targets are numbers, and {text}: little dropout, and a narrow model"))
    degree = mean_degree(graph)
    if degree > MIN_DEGREE and graph.nodes >= 4 * STRUCTURE["structure"]:
        reasons.append(Reason(STRUCTURE, f"{text}, but {degree:.0f} edges per node: columns are computed from edges"))
    return reasons


def mean_degree(graph: Graph) -> float:
    """Return the mean number of neighbours, whatever the weights and the direction of edges are."""
    return graph.undirected().entries / graph.nodes


def by_size(graph: Graph, settings: Mapping[str, Any]) -> list[Reason]:
    """Return settings that need less memory if the terms of `settings` would need too much."""
    used = recipe("adaptkry", **settings)
    needed = 4 * graph.nodes * column_count(graph, used) * used.term_count
    if needed <= MAX_TERMS:
        return []
    return [Reason(TOO_LARGE, f"{needed / 2**30:.0f} GiB of terms, one for each tau and hop, would be too large")]


def by_width(graph: Graph) -> list[Reason]:
    """Return the number of columns to which features are reduced, if there are very many."""
    width = 0 if graph.features is None else graph.features.shape[1]
    if width <= MAX_WIDTH:
        return []
    settings = reduced(graph)
    return [Reason(settings, f"there are {width:,} feature columns: a truncated SVD reduces them")]


def by_memory(graph: Graph, used: Recipe) -> list[Reason]:
    """Return the number of columns to which features are reduced, if the terms of `used` would not fit in memory."""
    if graph.features is None or used.reduce or graph.features.shape[1] <= REDUCED:
        return []
    needed, limit = 4 * graph.nodes * column_count(graph, used) * used.term_count, machine_bytes()
    if needed <= BASIS_SHARE * limit:
        return []
    why = (
        f"{needed / 2**30:.1f} GiB of terms would not fit in {limit / 2**30:.1f} GiB: a truncated SVD reduces features"
    )
    return [Reason(reduced(graph), why)]


def reduced(graph: Graph) -> Settings:
    """Return the number of columns to which wide features are reduced; a matrix has no more than n of them."""
    return {"reduce": min(REDUCED, graph.nodes)}


def _scales(x) -> tuple[float, float]:
    """Return the lowest and highest standard deviation of the columns of x [rows, d] that are not constant."""
    if sp.issparse(x):  # never as a dense matrix: squares of entries, and of the zeros that are not stored
        rows, d = x.shape
        values, columns = x.data.astype(np.float64), x.indices
        mean = np.bincount(columns, values, d) / rows
        squares = np.bincount(columns, (values - mean[columns]) ** 2, d)
        std = np.sqrt((squares + (rows - np.bincount(columns, minlength=d)) * mean**2) / rows)
    else:
        mean, std = (part.numpy() for part in column_moments(x.double()))
    least = 1e-7 if sp.issparse(x) else 0.0
    std = std[std > least * np.abs(mean)]  # a constant sparse column may have a deviation by rounding
    return (float(std.min()), float(std.max())) if len(std) else (1.0, 1.0)


def _mask(train: Any, graph: Graph) -> Tensor:
    """Return a mask of training nodes: bool [n]."""
    mask = checks.tensor(train, "train")
    if mask.dtype != torch.bool or mask.shape != graph.y.shape:
        raise ValueError(
            f"train must be a bool mask [{graph.nodes}] of the nodes; got {mask.dtype} {list(mask.shape)}. "
            "For splits use splits.train[0]."
        )
    return mask
