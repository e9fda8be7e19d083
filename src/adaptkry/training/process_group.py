"""Several processes that train together, as torchrun starts them; a process that runs alone is a group of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """This process among the others."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether it is the one that writes and speaks."""
        return self.rank == 0

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes, the same everywhere."""
        if self.world > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def mean(self, value: Tensor) -> Tensor:
        """The mean over all processes, the same everywhere."""
        return self.total(value) / self.world if self.world > 1 else value

    def told(self, value: Any) -> Any:
        """What the first process has."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, 0)
        return box[0]


ALONE = Group()


def world() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Which of them this is."""
    return int(os.environ.get("RANK", "0"))


def is_restarted() -> bool:
    """Whether torchrun started the group again after one of its processes died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def own_device(device: torch.device) -> torch.device:
    """The GPU of this process, where there are several on a machine."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if world() == 1 or device.type != "cuda" or device.index is not None:
        return device
    if local >= torch.cuda.device_count():
        raise ValueError(
            f"{local + 1} processes or more were started on this machine, but it has {torch.cuda.device_count()} GPUs. "
            f"Start one a GPU (torchrun --nproc-per-node), or use the device cpu, or cuda:0 to share one GPU."
        )
    return torch.device("cuda", local)


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """The group that torchrun started, while the block lasts: NCCL where every process has a GPU, else gloo."""
    if world() == 1:
        yield ALONE
        return
    has_own = device.type == "cuda" and int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= torch.cuda.device_count()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_own else "gloo")
    try:
        yield Group(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
