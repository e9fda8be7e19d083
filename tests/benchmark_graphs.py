"""The benchmark graphs through our own loader, parsed once a session; from disk or not at all."""

import os
import tempfile
from functools import cache
from unittest import mock

import pytest

from adaptkry.graphs.benchmarks import loaders as benchmarks
from adaptkry.graphs.benchmarks.catalogue import CARDS
from adaptkry.graphs.graph import Graph

_FOLDER = tempfile.TemporaryDirectory(prefix="adaptkry-test-")


@cache
def benchmark_graph(name: str) -> Graph:
    with mock.patch.dict(os.environ, ADAPTKRY_CACHE=_FOLDER.name):
        try:
            return benchmarks.load(CARDS[name], download=False)
        except FileNotFoundError as error:
            return pytest.skip(str(error))
