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

    def check_same(self, value: str, what: str) -> None:
        """Raise an error in every process unless all of them have the same value."""
        if self.size == 1:
            return
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        others = [rank for rank, other in enumerate(values) if other != values[0]]
        if others:
            raise ValueError(
                f"all processes must have the same {what}; process {others[0]} has another one than process 0. Copy "
                f"it to every machine, or use a shared disk."
            )

    def broadcast(self, value: Any) -> Any:
        """Return the value of the first process."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, 0)
        return values[0]


SINGLE_PROCESS = ProcessGroup()


ADDRESS = ("MASTER_ADDR", "MASTER_PORT")  # where the processes of a group find each other


def process_count() -> int:
    """Return the number of processes that torchrun started; 1 without torchrun."""
    return _rank_and_count("RANK", "WORLD_SIZE")[1]


def process_rank() -> int:
    """Return the rank of this process; 0 without torchrun."""
    return _rank_and_count("RANK", "WORLD_SIZE")[0]


def share_of_machine() -> tuple[int, int]:
    """Return the number of this process and the number of processes, both on this machine; (0, 1) without torchrun."""
    is_shared = process_count() > 1 and "LOCAL_WORLD_SIZE" in os.environ
    return _rank_and_count("LOCAL_RANK", "LOCAL_WORLD_SIZE") if is_shared else (0, 1)


def is_restarted() -> bool:
    """Return whether torchrun restarted the group after one of its processes died."""
    return _integer("TORCHELASTIC_RESTART_COUNT", 0) > 0


def _rank_and_count(rank: str, count: str) -> tuple[int, int]:
    """Return two environment variables that belong together; without either of them, there is one process."""
    processes = _integer(count, 1)
    if processes < 1:
        raise ValueError(f"{count} must be 1 or more; got {processes}. Unset it, or start the command with torchrun.")
    if processes > 1 and rank not in os.environ:
        raise ValueError(f"{count} is {processes}, so {rank} must be set too. Start the command with torchrun.")
    number = _integer(rank, 0)
    if not 0 <= number < processes:
        given = f"{count} is {processes}" if count in os.environ else f"{count} is not set"
        raise ValueError(
            f"{rank} must be less than the number of processes, {processes} ({given}); got {number}. Unset it, or "
            f"start the command with torchrun."
        )
    return number, processes


def _integer(name: str, default: int) -> int:
    """Return an environment variable that holds an integer."""
    text = os.environ.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"the environment variable {name} must be an integer; got {text!r:.50}. Unset it, or start the command "
            f"with torchrun, which sets it."
        ) from None


def process_device(device: torch.device) -> torch.device:
    """Return the GPU of this process, if several processes run on one machine."""
    local = _integer("LOCAL_RANK", 0)
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
    missing = [name for name in ADDRESS if not os.environ.get(name)]
    if missing:
        raise ValueError(
            f"{process_count()} processes need {' and '.join(missing)} to find each other; not set. Start the command "
            f"with torchrun."
        )
    _integer(ADDRESS[1], 0)
    has_gpu_each = device.type == "cuda" and share_of_machine()[1] <= torch.cuda.device_count()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpu_each else "gloo")
    try:
        yield ProcessGroup(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
