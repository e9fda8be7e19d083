"""Groups of processes that train together under torchrun; a single process is a group of size 1."""

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
    """The rank of this process, and the number of processes."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum over all processes, the same in each of them."""
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over all processes, the same in each of them."""
        return self.sum(value) / self.size if self.size > 1 else value

    def broadcast(self, value: Any) -> Any:
        """Return the value of the first process."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, 0)
        return values[0]


SINGLE_PROCESS = ProcessGroup()


def process_count() -> int:
    """Return the number of processes that torchrun started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_rank() -> int:
    """Return the rank of this process; 0 without torchrun."""
    return int(os.environ.get("RANK", "0"))


def is_restarted() -> bool:
    """Return whether torchrun restarted the group after one of its processes died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def process_device(device: torch.device) -> torch.device:
    """Return the GPU of this process, if several processes run on one machine."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if process_count() == 1 or device.type != "cuda" or device.index is not None:
        return device
    if local >= torch.cuda.device_count():
        raise ValueError(
            f"each process needs a GPU, and this machine has {torch.cuda.device_count()}; got at least {local + 1} "
            "processes. Start one per GPU (torchrun --nproc-per-node), use --device cpu, or share one GPU "
            "with --device cuda:0."
        )
    return torch.device("cuda", local)


@contextmanager
def joined_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the group that torchrun started, within a `with` block; NCCL if every process has a GPU, else gloo."""
    if process_count() == 1:
        yield SINGLE_PROCESS
        return
    has_gpu_each = device.type == "cuda" and int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= torch.cuda.device_count()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpu_each else "gloo")
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
