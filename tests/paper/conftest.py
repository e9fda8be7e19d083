"""Rows that are measured once on built-in graphs, and example rows, shared by all tests of the paper."""

import pytest

from adaptkry.graphs.benchmarks import raw_files
from adaptkry.paper import measure, reproduce
from adaptkry.paper.measure import RunOptions

CREATED = {"created": "2026-01-01T00:00:00", "quick": False, "commit": "c", "device": "d"}


@pytest.fixture(scope="session")
def quick():
    return RunOptions(quick=True, device="cpu")


@pytest.fixture(scope="session")
def row():
    """A function that returns an example row."""
    return lambda item="tying", **more: {"item": item, "row": "tied", "column": "cora", **CREATED, **more}


@pytest.fixture
def _no_data(monkeypatch):
    """Act as if no benchmark graph were on this machine."""
    monkeypatch.setattr(raw_files, "search_folders", lambda _root=None: [])
    measure._load.cache_clear()
    yield
    measure._load.cache_clear()


@pytest.fixture(scope="session")
def quick_rows(quick, tmp_path_factory):
    """A function that measures an item on built-in graphs, once per session; returns outcome and folder."""
    folder, outcomes = tmp_path_factory.mktemp("quick"), {}

    def measured(name):
        if name not in outcomes:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(raw_files, "search_folders", lambda _root=None: [])
                measure._load.cache_clear()
                outcomes[name] = reproduce.reproduce([name], quick, folder)[name]
                measure._load.cache_clear()
        return outcomes[name], folder

    return measured


@pytest.fixture
def need():
    """A function that skips the test if one of these graphs is not on this machine."""

    def skip_without(*names):
        for name in names:
            if not measure.is_available(name, None):
                pytest.skip(f"{name} is not on this machine: set ADAPTKRY_DATA")

    return skip_without
