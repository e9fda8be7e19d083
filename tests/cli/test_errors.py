"""How the command line ends after an error: the user's mistakes, lack of memory, and bugs."""

import json
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from adaptkry.cli import app
from adaptkry.common import errors


def bug_in_torch(*_, **__):
    return torch.ones(2) + torch.ones(3)


def bug_in_numpy(*_, **__):
    return np.ones(2) @ np.ones(3)  # a ValueError


def bug_in_python(*_, **__):
    return list(zip([1], [2, 3], strict=True))  # a ValueError


@pytest.mark.parametrize("bug", [bug_in_torch, bug_in_numpy, bug_in_python, lambda *_, **__: {}["x"]])
def test_a_bug_is_one_sentence_with_a_log_file_and_exit_code_70(bug, command, tmp_path, monkeypatch):
    monkeypatch.setattr("adaptkry.training.fit.fit", bug)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    printed = command("fit", "csbm", "--out", "run", code=70, cwd=tmp_path).err.splitlines()[-1]
    assert printed.startswith("adaptkry: this is a bug in adaptkry (")
    assert "Please report it" in printed
    found = re.search(r"in (\S+\.log)\.$", printed)
    assert found
    log = Path(found[1]).read_text(encoding="utf-8")
    assert "Traceback (most recent call last)" in log
    assert "['adaptkry', 'fit', 'csbm'" in log


def test_without_space_for_the_log_the_details_are_printed(monkeypatch):
    monkeypatch.setattr(app.tempfile, "NamedTemporaryFile", mock.Mock(side_effect=OSError(28, "No space left")))
    with pytest.raises(RuntimeError) as raised:
        bug_in_torch()
    text, code = app.describe_error(raised.value)
    assert code == 70
    assert "Traceback" in text


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 3 TiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_lack_of_memory_is_one_sentence_and_exit_code_2(error, command, tmp_path, monkeypatch):
    monkeypatch.setattr("adaptkry.training.fit.fit", mock.Mock(side_effect=error))
    printed = command("fit", "csbm", "--out", "run", code=2, cwd=tmp_path).err
    assert "adaptkry: there is not enough memory" in printed
    assert "Use less data" in printed


def test_a_missing_package_is_not_a_bug_but_a_missing_module_of_ours_is():
    assert app.describe_error(ModuleNotFoundError("No module named 'optuna'", name="optuna"))[1] == 2
    assert app.describe_error(ModuleNotFoundError("No module", name="adaptkry.nothing"))[1] == 70


def test_only_raise_statements_of_the_package_declare_errors():
    from adaptkry.common.checks import count

    def found(call) -> bool:
        try:
            call()
        except (ValueError, TypeError) as error:
            return errors.is_declared(error)
        raise AssertionError

    assert found(lambda: count(-1, "x"))
    assert not found(lambda: json.loads("{"))
    assert not found(bug_in_numpy)
    assert not errors.is_declared(ValueError("never raised"))
