"""Several processes that train together, as torchrun starts them; one process is a group of size 1."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class ProcessGroup:
    """This process among the others."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, the same everywhere."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def mean(self, value: Tensor) -> Tensor:
        """The mean over all processes, the same everywhere."""
        return self.sum(value) / self.size if self.size > 1 else value

    def broadcast(self, value: Any) -> Any:
        """The first process's value."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, 0)
        return values[0]


SINGLE_PROCESS = ProcessGroup()


def process_count() -> int:
    """Number of processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_rank() -> int:
    """Number of this process."""
    return int(os.environ.get("RANK", "0"))


def is_restarted() -> bool:
    """Whether torchrun restarted the group after one of its processes died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def process_device(device: torch.device) -> torch.device:
    """The GPU of this process, where there are several on a machine."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if process_count() == 1 or device.type != "cuda" or device.index is not None:
        return device
    if local >= torch.cuda.device_count():
        raise ValueError(
            f"each process needs its own GPU, and this machine has {torch.cuda.device_count()}; got {local + 1} "
            "processes or more. Start one per GPU (torchrun --nproc-per-node), use --device cpu, or share one GPU "
            "with --device cuda:0."
        )
    return torch.device("cuda", local)


@contextmanager
def joined_group(device: torch.device) -> Iterator[ProcessGroup]:
    """The group that torchrun started, inside a with block: NCCL where every process has a GPU, else gloo."""
    if process_count() == 1:
        yield SINGLE_PROCESS
        return
    has_own_gpu = device.type == "cuda" and int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= torch.cuda.device_count()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_own_gpu else "gloo")
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
