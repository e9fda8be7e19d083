"""Environment variables of torchrun, and folders that every machine verifies."""

import os
import shutil
from unittest import mock

import pytest
import torch

from adaptkry.outofcore import propagate
from adaptkry.training import process_group
from adaptkry.training.data import open_basis_folder
from adaptkry.training.process_group import ProcessGroup, joined_group, process_count, process_rank, share_of_machine
from basis_on_disk import small_graph
from refusals import refused

NAMES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def no_torchrun(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_without_torchrun_there_is_one_process():
    assert (process_rank(), process_count(), share_of_machine()) == (0, 1, (0, 1))
    with joined_group(torch.device("cpu")) as group:
        assert group == ProcessGroup(0, 1)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE must be an integer; got 'abc'"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE must be an integer; got ''"),
        ({"WORLD_SIZE": "2.5"}, "WORLD_SIZE must be an integer"),
        ({"WORLD_SIZE": "9" * 5000}, "WORLD_SIZE must be an integer"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE must be 1 or more; got 0"),
        ({"WORLD_SIZE": "-2", "RANK": "0"}, "WORLD_SIZE must be 1 or more; got -2"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, so RANK must be set too"),
        ({"RANK": "3"}, r"RANK must be less than the number of processes, 1 \(WORLD_SIZE is not set\); got 3"),
        ({"RANK": "abc"}, "RANK must be an integer; got 'abc'"),
        ({"RANK": "-1"}, "RANK must be less than the number of processes, 1 .*; got -1"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK must be less than the number of processes, 2"),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "RANK must be an integer"),
        ({"TORCHELASTIC_RESTART_COUNT": "x"}, "TORCHELASTIC_RESTART_COUNT must be an integer"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "MASTER_ADDR and MASTER_PORT"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "x"}, "MASTER_PORT must be"),
        ({"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "x", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK must be"),
        ({"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK must be less"),
    ],
    ids=str,
)
def test_a_wrong_environment_is_refused(tmp_path, environment, message, command):
    """Also by the command, which once exited with code 0 and did nothing for RANK=3."""
    folder = propagate(small_graph(), tmp_path / "basis", taus=[1.0], degree=1).path
    shutil.rmtree(tmp_path / "basis.work")
    with mock.patch.dict(os.environ, environment):
        shown = command("fit", folder, "--epochs", 1, "--out", tmp_path / "run", "--device", "cpu", code=2).err
        refused(everything, message)
    assert "must be" in shown or "need" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["basis"]


def everything() -> None:
    """What `fit` reads from the environment."""
    process_rank()
    process_group.is_restarted()
    share_of_machine()
    with joined_group(torch.device("cpu")):
        pass


@pytest.mark.parametrize("damaged", ["rows.npy", "labels.npy", "block-0-2.npy", "block-2-4.npy", "block-4-5.npy"])
def test_the_processes_of_a_machine_verify_all_files_together(tmp_path, damaged, monkeypatch):
    """Once only the first process of all verified its copy, although machines may have different ones."""
    folder = propagate(small_graph(), tmp_path / "b", taus=[1.0], degree=1, columns=2).path
    with (folder / damaged).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x07")
    for name, value in {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    for machine in range(2):
        found = []
        for local in range(2):
            monkeypatch.setenv("RANK", str(2 * machine + local))
            monkeypatch.setenv("LOCAL_RANK", str(local))
            try:
                open_basis_folder(folder)
            except ValueError as error:
                found.append(str(error))
        assert len(found) == 1
        assert f"it is damaged: {damaged}" in found[0]
    monkeypatch.delenv("LOCAL_WORLD_SIZE")  # not torchrun: every process verifies everything
    with pytest.raises(ValueError, match="it is damaged"):
        open_basis_folder(folder)


def test_processes_with_different_folders_are_refused(monkeypatch):
    group = ProcessGroup(0, 3)
    ProcessGroup().check_same("a", "basis folder")
    for values, match in (
        (["a", "a", "a"], None),
        (["a", "a", "b"], "process 2 has another one"),
        (["b", "a", "a"], "process 1 has another one"),
    ):

        def gather(target, _value, values=values):
            target[:] = values

        monkeypatch.setattr(process_group.dist, "all_gather_object", gather)
        if match is None:
            group.check_same("a", "basis folder")
        else:
            refused(lambda: group.check_same("a", "basis folder"), match)
