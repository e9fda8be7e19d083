"""Load a graph: a built-in graph, a benchmark graph, or your own data."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from adaptkry.common import checks
from adaptkry.common.lookup import check_options, pick
from adaptkry.graphs import readers
from adaptkry.graphs.benchmarks.catalogue import CARDS, Card
from adaptkry.graphs.benchmarks.loaders import load_benchmark
from adaptkry.graphs.benchmarks.raw_files import find
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm, directed_csbm

BUILT_IN: dict[str, Callable[..., Graph]] = {"csbm": csbm, "csbm-directed": directed_csbm}
NAMES: dict[str, Card | Callable[..., Graph]] = {**CARDS, **BUILT_IN}


def load(
    data: Any = None, *, edges: Any = None, root: str | Path | None = None, normalise: bool = False, **options
) -> Graph:
    """Load a graph.

    Args:
        data: a built-in name ("csbm", "csbm-directed"), the name of a benchmark ("cora", ...; see `describe`), or
            your own data: a path, a list of paths or data frames (edges, nodes), a folder, a PyG `Data`, a NetworkX
            graph.
        edges: the same as `data`, for calls such as `load(edges=edges, nodes=nodes)` with data frames or paths.
        root: for benchmarks, a folder of raw files that is searched before $ADAPTKRY_DATA and earlier downloads.
        normalise: divide each row of features by its sum, as PyG's NormalizeFeatures does.
        **options: options of `csbm`, of `load_benchmark` (`download=False`), or of `readers.read`.

    >>> load("csbm", nodes=100, seed=1)
    Graph(nodes=100, entries=..., features=16, classes=2, undirected)
    >>> load("coral")
    Traceback (most recent call last):
    ...
    ValueError: unknown graph 'coral'. Did you mean 'cora' or ...? Known: ...
    """
    if edges is not None:
        if data is not None:
            raise ValueError("a graph has one table of edges; got data and edges. Leave one of them out.")
        data = edges
    is_loaded = isinstance(data, Graph) and root is None and not options
    graph = data if is_loaded else _load(data, root, options)
    return normalised(graph) if checks.flag(normalise, "normalise") else graph


def _load(data, root: str | Path | None, options: dict) -> Graph:
    is_name = isinstance(data, str) and not _is_path(data)
    entry = pick(NAMES, data.lower(), "graph") if is_name else None
    if entry is not None:  # the layout of a run is for tables only
        options = {name: value for name, value in options.items() if name != "layout"}
        if options.pop("task", "classification") != "classification":
            raise ValueError(
                f"tasks other than classification are for your own data; {data} has classes. Leave it out."
            )
    if isinstance(entry, Card):
        check_options(load_benchmark, options)
        return load_benchmark(entry, root, **options)
    if root is not None:
        raise ValueError(f"a data root is only for benchmark graphs; got {root} for {data}. Leave it out.")
    if entry is None:
        return readers.read(data, **options)
    check_options(entry, options)
    graph = entry(**options)
    graph.info = replace(graph.info, known_as=None if options else data.lower())
    return graph


def _is_path(text: str) -> bool:
    """Whether text is a path: it has a slash or a known suffix, or it exists and is not the name of a graph."""
    looks_like_path = "/" in text or "\\" in text or text.lower().endswith(readers.SUFFIXES)
    return looks_like_path or (text.lower() not in NAMES and Path(text).exists())


def normalised(graph: Graph) -> Graph:
    """The same graph, each row of its features divided by max(its sum, 1), as PyG's NormalizeFeatures does.

    Like PyG it first subtracts the minimum of all features, if that is not 0.
    """
    x, lowest = graph.features, 0.0 if graph.features is None else float(graph.features.min())
    if x is None:
        raise ValueError(f"normalise needs features; {graph.info.name} has none. Add features, or leave it out.")
    other = copy.copy(graph)
    if sp.issparse(x) and lowest == 0:
        other.features = sp.csr_array(x.multiply(1 / np.maximum(x.sum(axis=1), 1)[:, None])).astype(x.dtype)
    else:
        shifted = graph.x - lowest
        other.features = shifted / shifted.sum(1, keepdim=True).clamp(min=1)
    return other


def describe() -> list[dict]:
    """One row per graph that `load` knows by name; None is unknown, `found` is the folder with its raw files."""
    rows: list[dict] = [{"name": name, "source": "built in", "metric": "accuracy"} for name in BUILT_IN]
    for card in CARDS.values():
        fields = ("nodes", "entries", "features", "classes", "homophily", "directed", "metric", "splits", "source")
        figures = {field: getattr(card, field) for field in fields}
        checked = "measured" if card.measured else "published, not checked here"
        rows.append({"name": card.name, **figures, "figures": checked, "found": find(card)})
    return rows
