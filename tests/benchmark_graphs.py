"""Benchmark graphs for tests: loaded from files on disk, once per session; without the files the test is skipped.

The library searches the folder in $ADAPTKRY_DATA, which `conftest.py` sets, as it does $ADAPTKRY_CACHE.
"""

from collections.abc import Iterable
from functools import cache

import pytest

from adaptkry.graphs.benchmarks.catalogue import CARDS
from adaptkry.graphs.benchmarks.loaders import load_benchmark
from adaptkry.graphs.graph import Graph


def benchmark_graph(name: str) -> Graph:
    """A benchmark graph, loaded once per session."""
    graph = _load(name)
    return graph if isinstance(graph, Graph) else pytest.skip(graph)


def graph_parameters(names: Iterable[str]) -> list:
    """Names of graphs for `parametrize`. Squirrel is slow (PyG parses it in 4 s); Chameleon has the same format."""
    return [pytest.param(name, marks=pytest.mark.slow if name == "squirrel" else ()) for name in names]


@cache
def _load(name: str) -> Graph | str:
    """The graph, or the reason why it cannot be loaded; cached, so that a missing graph is searched for only once."""
    try:
        return load_benchmark(CARDS[name], download=False)
    except FileNotFoundError as error:
        return str(error)
