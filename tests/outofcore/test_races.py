"""Two commands on one output: one succeeds, the other one is refused, and the content is that of the first."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.outofcore import generate, propagate, write_graph
from basis_on_disk import content, small_graph
from refusals import refused

OPTIONS: dict[str, Any] = {"taus": [0.5, 1.0], "degree": 3, "columns": 2}
SIZES: dict[str, Any] = {"nodes": 200, "entries": 900, "features": 3}


def propagating(graph: Graph, **options) -> Callable[..., Any]:
    """A command whose only argument is its output."""
    return lambda out, **more: propagate(graph, out, **options, **more)


COMMANDS: dict[str, Callable[..., Any]] = {
    "propagate": propagating(small_graph(), **OPTIONS),
    "propagate another graph": propagating(small_graph(5), **OPTIONS),
    "propagate with other settings": propagating(small_graph(), **OPTIONS | {"taus": [0.7]}),
    "generate": partial(generate, **SIZES),
    "generate another graph": partial(generate, **SIZES | {"seed": 1}),
    "write_graph": lambda out: write_graph(small_graph(), out),
}


@pytest.mark.parametrize("second", COMMANDS)
@pytest.mark.parametrize("first", ["propagate", "generate"])
def test_a_second_command_is_refused_while_the_first_one_runs(tmp_path, first, second):
    messages, start = [], COMMANDS[second]

    def on_progress(_done, _total):
        before = content(tmp_path / "out")
        messages.append(refused(lambda: start(tmp_path / "out"), "another command is writing to"))
        assert content(tmp_path / "out") == before

    COMMANDS[first](tmp_path / "out", on_progress=on_progress)
    assert messages
    COMMANDS[first](tmp_path / "alone")
    assert content(tmp_path / "out") == content(tmp_path / "alone")


@pytest.mark.parametrize(("first", "second"), [("propagate", "propagate another graph"), ("generate", "propagate")])
def test_a_later_command_with_another_graph_is_refused(tmp_path, first, second):
    COMMANDS[first](tmp_path / "out")
    before = content(tmp_path / "out")
    refused(lambda: COMMANDS[second](tmp_path / "out"), "Use another output folder")
    assert content(tmp_path / "out") == before


RACE = """
import json, os, sys, time
from pathlib import Path
import adaptkry.outofcore as disk
from adaptkry.cli.app import describe_error
from adaptkry.graphs.synthetic import csbm

folder, command = Path(sys.argv[1]), sys.argv[2]
graphs = [csbm(nodes=200, seed=i) for i in range(2)]  # of the same size; written to OUT.work first
outcomes = []
for attempt in range(20):
    out, start = folder / f"out-{attempt}", time.monotonic() + 0.05
    children = []
    for i in range(2):
        child = os.fork()
        if not child:
            code = 0
            try:
                while time.monotonic() < start + i * attempt * 0.002:  # from at once to later
                    pass
                if command == "propagate":
                    disk.propagate(graphs[i], out, taus=[0.5, 1.0], degree=3, columns=2)
                else:
                    disk.generate(out, nodes=20_000, entries=90_000, features=3, seed=i)
            except Exception as error:
                text, code = describe_error(error)
                (folder / f"{attempt}-{i}.txt").write_text(text)
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    outcomes.append(codes)
print(json.dumps(outcomes))
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["propagate", "generate"])
def test_two_processes_on_one_output_have_one_winner(tmp_path, command):
    words = [sys.executable, "-c", RACE, str(tmp_path), command]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # threads do not survive a fork
    printed = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300, env=environment).stdout
    outcomes = json.loads(printed)
    expected = []
    for seed in range(2):
        if command == "propagate":
            graph = csbm(nodes=200, seed=seed)
            whole = propagate(graph, tmp_path / f"whole-{seed}", taus=[0.5, 1.0], degree=3, columns=2)
        else:
            whole = generate(tmp_path / f"whole-{seed}", nodes=20_000, entries=90_000, features=3, seed=seed)
        expected.append(content(whole.path))
    assert len(outcomes) == 20
    for attempt, codes in enumerate(outcomes):
        assert sorted(codes) == [0, 2], (attempt, codes)
        winner, loser = codes.index(0), codes.index(2)
        assert content(tmp_path / f"out-{attempt}") == expected[winner]
        message = (tmp_path / f"{attempt}-{loser}.txt").read_text()
        assert "another command is writing to" in message or "was started with other settings" in message
