"""kill -9 at any change of a file: the same command with --resume ends with the same rows, weights and report."""

from pathlib import Path

import numpy as np
import pytest

from forked_commands import contents, differences, run_command

MOMENTS = 20
COMMANDS = {
    "fit": "fit csbm --epochs 30 --splits 2 --device cpu --set hidden=8 --out out",
    "tune": "tune csbm --trials 3 --splits 2 --epochs 10 --device cpu --set hidden=8 --out out",
    # With this limit the first recipe is the only one, so that equal results can be expected.
    "auto": "auto csbm --time 0.01s --splits 2 --epochs 10 --device cpu --set hidden=8 --out out",
    "propagate": "propagate csbm --taus 0.5,1 --degree 3 --out out",
}
RESUMES_BY_ITSELF = ("propagate",)


def resumed(command: str) -> list[str]:
    """Return the words that continue a killed command."""
    return [*COMMANDS[command].split(), *([] if command in RESUMES_BY_ITSELF else ["--resume"])]


def folder_of(root: Path, name: str) -> Path:
    """Return a new folder."""
    path = root / name
    path.mkdir()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_resumes_to_the_same_files(command, tmp_path):
    whole = folder_of(tmp_path, "whole")
    code, changes, printed = run_command(whole, COMMANDS[command].split())
    assert code == 0, printed
    expected = contents(whole)
    moments = sorted({int(moment) for moment in np.linspace(1, changes, MOMENTS)})
    failures = []
    for moment in moments:
        folder = folder_of(tmp_path, f"killed-{moment}")
        code, _, printed = run_command(folder, COMMANDS[command].split(), kill_at=moment)
        assert code == -9, printed
        code, _, printed = run_command(folder, resumed(command))
        differing = differences(expected, contents(folder))
        if code or differing:
            failures.append((moment, code, differing, printed[-300:]))
    assert not failures
    assert len(moments) == MOMENTS
