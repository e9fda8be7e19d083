import sys
from types import SimpleNamespace

import pytest
import torch

from adaptkry.cli import progress as bars


def training_state(epoch: int, best: float = 0.712):
    """The attributes of a training state that progress reads."""
    running = torch.tensor([True] * 9 + [False])
    return SimpleNamespace(epoch=epoch, running=running, best_score=torch.full((10,), best))


def test_without_a_terminal_progress_is_plain_lines_on_stderr(capsys):
    with bars.training_progress(1000, every=0) as on_epoch:
        on_epoch(training_state(120))
        on_epoch(training_state(140, -torch.inf))
    printed = capsys.readouterr()
    assert printed.err == "epoch 120, 9 of 10 running, best validation 71.2%\nepoch 140, 9 of 10 running\n"
    assert printed.out == ""


def test_scores_that_are_not_shares_are_plain_numbers_and_the_smallest_error_is_the_best(capsys):
    for metric in ("r2", "mae"):
        state = training_state(1)
        best = [-18.557, 0.45127] if metric == "r2" else [36943.2, 40000.5]
        state.best_score = torch.tensor([-torch.inf, *best])
        with bars.training_progress(10, metric, "regression", every=0) as on_epoch:
            on_epoch(state)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(", ", 2)[2] for line in lines] == ["best validation 0.4513", "best validation 36,943"]


def test_lines_are_at_least_some_seconds_apart(capsys, monkeypatch):
    now = iter([0, 4, 5, 9, 10.5])
    monkeypatch.setattr(bars.time, "monotonic", lambda: next(now))
    show = bars.line_printer(5)  # called at 4, 5 and 9; printing reads the clock once more
    for step in range(3):
        show(step, str(step))
    assert capsys.readouterr().err == "1\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_steps_are_counted_on_stderr_unless_quiet(capsys, quiet):
    with bars.progress("training", 2, quiet=quiet, every=0) as advance:
        advance()
        advance()
    printed = capsys.readouterr()
    assert printed.err == ("" if quiet else "training: 1 of 2\ntraining: 2 of 2\n")
    assert printed.out == ""


def test_bytes_are_shown_with_their_rate_and_the_time_left(capsys, monkeypatch):
    now = iter([0.0, 0.0, 10.0, 10.0, 10.0])
    monkeypatch.setattr(bars.time, "monotonic", lambda: next(now))
    with bars.byte_progress(every=0) as on_progress:
        on_progress(2**30, 2**32)
    assert capsys.readouterr().err == "1.00 GiB of 4.00 GiB, 107 MB/s, 0:00:30 left\n"


def test_a_terminal_gets_a_bar_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with bars.training_progress(1000) as on_epoch:
        on_epoch(training_state(500))
    printed = capsys.readouterr()
    assert "epoch 500, 9 of 10 running, best validation 71.2%" in printed.err
    assert printed.out == ""
