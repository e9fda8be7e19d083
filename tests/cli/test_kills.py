"""kill -9 at any change of a file, a disk that is full at any write: the command continues to the same files."""

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
MORE_COMMANDS = COMMANDS | {
    "compare": "compare csbm --methods mlp,gcn --splits 2 --epochs 10 --device cpu --out out",
    "generate": "generate out --nodes 100 --entries 600",
}
RESUMES_BY_ITSELF = ("propagate", "generate")
ROOMS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)  # numbers of writes before the disk is full


def resumed(command: str) -> list[str]:
    """Return the words that continue a killed command."""
    return [*MORE_COMMANDS[command].split(), *([] if command in RESUMES_BY_ITSELF else ["--resume"])]


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


@pytest.mark.slow
@pytest.mark.parametrize("command", MORE_COMMANDS)
def test_a_full_disk_is_reported_and_the_command_continues_later(command, tmp_path):
    whole = folder_of(tmp_path, "whole")
    code, _, printed = run_command(whole, MORE_COMMANDS[command].split())
    assert code == 0, printed
    expected, failures, refused = contents(whole), [], 0
    for room in ROOMS:
        folder = folder_of(tmp_path, f"room-{room}")
        words = [str(folder / "out") if word == "out" else word for word in MORE_COMMANDS[command].split()]
        code, _, printed = run_command(folder, words, room=room)
        refused += code != 0
        is_reported = "the disk is full" in printed and str(folder) in printed and "Traceback" not in printed
        if code not in (0, 1, 2) or (code and not is_reported):
            failures.append((room, code, printed[-500:]))
        code, _, printed = run_command(folder, resumed(command))
        differing = differences(expected, contents(folder))
        if code or differing:
            failures.append((room, code, differing, printed[-300:]))
    assert not failures
    assert refused > 2
