"""Ctrl-C and SIGTERM during a training."""

import signal

from background import start_command


def start_long_training(folder, out, *words):
    """Start a training that runs until it is interrupted; returns when it has written a new checkpoint."""
    path = folder / out / "checkpoint.safetensors"
    before = path.stat().st_mtime_ns if path.exists() else 0
    words = ["fit", "csbm", "--epochs", "100000", "--set", "patience=100000", "--out", out, "--splits", "3", *words]
    return start_command(folder, words, lambda: path.exists() and path.stat().st_mtime_ns != before)


def test_ctrl_c_pressed_many_times_shows_no_traceback(tmp_path):
    process = start_long_training(tmp_path, "stopped")
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in printed
    assert "Exception ignored" not in printed


def test_an_interrupted_fit_prints_how_to_resume_and_can_be_resumed(tmp_path):
    for number, code, words in ((signal.SIGINT, 130, []), (signal.SIGTERM, 143, ["--resume"])):
        process = start_long_training(tmp_path, "stopped", *words)
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
        assert process.returncode == code
        assert "--resume continues in stopped" in printed
        assert "Traceback" not in printed
    assert {path.name for path in (tmp_path / "stopped").iterdir()} == {"checkpoint.safetensors", "journal.jsonl"}
