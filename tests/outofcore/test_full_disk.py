"""The disk becomes full at every single write: the error names the file, nothing is left half written, and the same
command continues when there is space again."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adaptkry.cli.app import message_of
from adaptkry.graphs.graph import Info
from adaptkry.outofcore import generate, propagate, write_graph
from adaptkry.outofcore.feature_columns import MIN_BLOCKS
from basis_on_disk import small_graph
from full_disk import full_disk
from refusals import tree


def named(graph):
    graph.info = Info("shop", node_ids=[f"id {i}" for i in range(graph.nodes)], class_names=["a", "b", "c"])
    return graph


GRAPH = named(small_graph(weighted=True, directed=True, d=2 * MIN_BLOCKS))
ACTIONS: dict[str, Callable[[Path], Any]] = {
    "write_graph": lambda folder: write_graph(GRAPH, folder / "out"),
    "generate": lambda folder: generate(folder / "out", nodes=50, entries=100, features=2, classes=2),
    "propagate": lambda folder: propagate(GRAPH, folder / "out", taus=[1.0], degree=0, directions=["in"], columns=2),
    "propagate g": lambda folder: propagate(folder.parent / "g", folder / "out", taus=[1.0], degree=1, columns=6),
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    write_graph(small_graph(d=12), folder / "g")
    return folder


@pytest.mark.parametrize("name", ACTIONS)
def test_every_write_may_find_the_disk_full(graphs, name):
    action = ACTIONS[name]
    expected_folder = graphs / f"{name} whole"
    expected_folder.mkdir()
    action(expected_folder)
    expected = tree(expected_folder)
    writes = 0
    for room in range(10_000):
        folder = graphs / f"{name} {room}"
        folder.mkdir()
        with full_disk(folder, room) as disk:
            failed = attempt(partial(action, folder))
        if failed is None:
            break
        assert disk.is_full
        message = message_of(failed)
        assert str(folder / "out") in message
        assert "the disk is full" in message
        assert "Free" in message
        left = tree(folder)
        assert not [path for path in left if path.endswith((".part", ".raw", "buckets"))]
        action(folder)
        assert {path: left for path, left in tree(folder).items() if "journal" not in path} == {
            path: content for path, content in expected.items() if "journal" not in path
        }
        shutil.rmtree(folder)
        writes += 1
    assert writes > 8


def attempt(action: Callable[[], Any]) -> OSError | None:
    """Run an action, and return its error."""
    try:
        action()
    except OSError as error:
        return error
    return None
