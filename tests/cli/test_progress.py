import sys
from types import SimpleNamespace

import pytest
import torch

from adaptkry.cli import progress as bars


def training(epoch: int, best: float = 0.712):
    """A training as far as progress looks into it."""
    running = torch.tensor([True] * 9 + [False])
    tensors = {"epoch": torch.tensor(epoch), "running": running, "best_score": torch.full((10,), best)}
    return SimpleNamespace(state=SimpleNamespace(tensors=tensors))


def test_without_a_terminal_a_training_is_told_in_plain_lines_on_stderr(capsys):
    with bars.live(1000, every=0) as look:
        look(training(120))
        look(training(140, -torch.inf))
    said = capsys.readouterr()
    assert said.err == "epoch 120, 9 of 10 running, best validation 71.2%\nepoch 140, 9 of 10 running\n"
    assert said.out == ""


def test_lines_keep_their_distance(capsys, monkeypatch):
    now = iter([0, 4, 5, 9, 10.5])
    monkeypatch.setattr(bars.time, "monotonic", lambda: next(now))
    show = bars.lines(5)  # asked at 4, 5 and 9; a line costs a second look at the clock
    for step in range(3):
        show(step, str(step))
    assert capsys.readouterr().err == "1\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_steps_are_counted_on_stderr_and_quiet_is_quiet(capsys, quiet):
    with bars.progress("training", 2, quiet=quiet, every=0) as tick:
        tick()
        tick()
    said = capsys.readouterr()
    assert said.err == ("" if quiet else "training: 1 of 2\ntraining: 2 of 2\n")
    assert said.out == ""


def test_a_terminal_gets_a_bar_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with bars.live(1000) as look:
        look(training(500))
    said = capsys.readouterr()
    assert "epoch 500, 9 of 10 running, best validation 71.2%" in said.err
    assert said.out == ""
