"""Graphs to work on: built in, benchmarks, or your own files."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from adaptkry.common.lookup import pick
from adaptkry.graphs.benchmarks import loaders as benchmarks
from adaptkry.graphs.benchmarks import raw_files as raw
from adaptkry.graphs.benchmarks.catalogue import CARDS, Card
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.readers import arrays as files
from adaptkry.graphs.readers.paths import TABLES
from adaptkry.graphs.synthetic import csbm, directed_csbm

BUILT_IN: dict[str, Callable[..., Graph]] = {"csbm": csbm, "csbm-directed": directed_csbm}
NAMES: dict[str, Card | Callable[..., Graph]] = {**CARDS, **BUILT_IN}
ENDINGS = (*TABLES, *files.READERS, *files.PICKLES, ".npy")


def load(what, *, root: str | Path | None = None, normalise: bool = False, **options) -> Graph:
    """Load a graph.

    Args:
        what: a built-in name ("csbm", "csbm-directed"), the name of a benchmark ("cora", ...; see `describe`), or
            your own: a path, a list of paths (edges, nodes), a folder, a PyG `Data`.
        root: for benchmarks, a folder with raw files, looked through before $ADAPTKRY_DATA and any download.
        normalise: divide each row of features by its sum, as PyG's NormalizeFeatures does.
        **options: of `csbm`, of `benchmarks.load` (`download=False`), or of `files.read`.

    >>> load("csbm", nodes=100, seed=1)
    Graph(nodes=100, entries=..., features=16, classes=2, undirected)
    >>> load("coral")
    Traceback (most recent call last):
    ...
    ValueError: unknown graph 'coral'. Did you mean 'cora' or ...? Known: ...
    """
    graph = _load(what, root, options)
    return normalised(graph) if normalise else graph


def _load(what, root: str | Path | None, options: dict) -> Graph:
    if not isinstance(what, str) or _is_path(what):
        return files.read(what, **_without_root(what, root, options))
    entry = pick(NAMES, what.lower(), "graph")
    if isinstance(entry, Card):
        return benchmarks.load(entry, root, **options)
    return entry(**_without_root(what, root, options))


def _without_root(what, root: str | Path | None, options: dict) -> dict:
    if root is not None:
        raise ValueError(f"a data root is for benchmarks, whose files are looked for there; {what} does not need it.")
    return options


def _is_path(text: str) -> bool:
    """A name with a slash or a known ending is a path, and so is a folder or file that is there under no known name."""
    looks = "/" in text or "\\" in text or text.lower().endswith(ENDINGS)
    return looks or (text.lower() not in NAMES and Path(text).exists())


def normalised(graph: Graph) -> Graph:
    """The same graph, each row of its features divided by max(its sum, 1), as PyG's NormalizeFeatures does.

    Like PyG it first subtracts the smallest feature of all, where that is not 0.
    """
    x, lowest = graph.features, 0.0 if graph.features is None else float(graph.features.min())
    if x is None:
        raise ValueError(f"normalise needs features, but {graph.info.name} has none.")
    made = copy.copy(graph)
    if sp.issparse(x) and lowest == 0:
        made.features = sp.csr_array(x.multiply(1 / np.maximum(x.sum(axis=1), 1)[:, None])).astype(x.dtype)
    else:
        shifted = graph.x - lowest
        made.features = shifted / shifted.sum(1, keepdim=True).clamp(min=1)
    return made


def describe() -> list[dict]:
    """One row a graph that `load` knows by name; None is "not known", `found` the folder that has its files."""
    rows: list[dict] = [{"name": name, "source": "built in", "metric": "accuracy"} for name in BUILT_IN]
    for card in CARDS.values():
        what = ("nodes", "entries", "features", "classes", "homophily", "directed", "metric", "splits", "source")
        figures = {field: getattr(card, field) for field in what}
        checked = "measured" if card.measured else "published, not checked here"
        rows.append({"name": card.name, **figures, "figures": checked, "found": raw.find(card)})
    return rows
