"""Members, and the state of their training: everything that is needed to continue it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptkry.models import batched
from adaptkry.models.recipe import Recipe
from adaptkry.models.stages import ModelShape, Weights, initial_statistics

CURVES = ("loss", "validation", "validation_loss")


@dataclass(frozen=True)
class Member:
    """One training in a batch: its split, its seed and its recipe."""

    split: int
    seed: int
    recipe: Recipe


class TrainingState:
    """Tensors by name, as they are written to a checkpoint.

    Groups: `weights/`, `best/` (weights and statistics of the best epoch), `statistics/`, `first/` and `second/`
    (Adam's moments), `curve/` ([epochs, b]). All change in place, so that no step has to wait for the device.
    """

    def __init__(self, tensors: dict[str, Tensor], epochs: int):
        self.tensors, self.epochs = tensors, epochs

    def group(self, prefix: str) -> Weights:
        """Return the tensors whose names start with `prefix/`, by the rest of their names."""
        return {name[len(prefix) + 1 :]: t for name, t in self.tensors.items() if name.startswith(prefix + "/")}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def of(self, members: Tensor) -> "TrainingState":
        """Return a copy of the state of some members; the counters of epochs and steps are the same tensors."""
        tensors = self.tensors.items()
        own = {name: t.index_select(member_axis(name), members) if t.ndim else t for name, t in tensors}
        return TrainingState(own, self.epochs)

    def update(self, members: Tensor, other: "TrainingState") -> None:
        """Copy the state of some members from one that holds only them."""
        for name, t in other.tensors.items():
            if t.ndim:
                self.tensors[name].index_copy_(member_axis(name), members, t)

    @property
    def epoch(self) -> int:
        """Number of finished epochs; on a GPU, reading it waits for the device."""
        return int(self.tensors["epoch"])

    @property
    def running(self) -> Tensor:
        """Members that have not stopped yet: bool [b]."""
        return self.tensors["running"]

    @property
    def best_score(self) -> Tensor:
        """Validation score at the best epoch [b]; minus infinity before the first epoch."""
        return self.tensors["best_score"]


def member_axis(name: str) -> int:
    """Return the axis of members of a tensor of that name."""
    return 1 if name.startswith("curve/") else 0


def initial_state(
    shape: ModelShape, members: Sequence[Member], dtype: torch.dtype, device: torch.device, fixed: Weights
) -> TrainingState:
    """Return the state before the first epoch; `fixed` are statistics [b, ...] that training does not change."""
    b, epochs = len(members), shape.recipe.epochs
    weights = batched.initial_weights(shape, [(member.seed, member.recipe) for member in members])
    statistics = initial_statistics(shape, b) | fixed
    tensors = {f"weights/{name}": w for name, w in weights.items()}
    tensors |= {f"statistics/{name}": s for name, s in statistics.items()}
    tensors |= {f"best/{name}": t.clone() for name, t in (weights | statistics).items()}
    tensors |= {
        f"{moment}/{name}": torch.zeros_like(w) for moment in ("first", "second") for name, w in weights.items()
    }
    tensors = {name: t.to(device, dtype) for name, t in tensors.items()}
    curves = {f"curve/{name}": torch.full((epochs, b), torch.nan) for name in CURVES}
    counters = {
        "best_score": torch.full((b,), -torch.inf),  # validation score at the best epoch
        "best_value": torch.full((b,), -torch.inf),  # what the recipe's `select` compares; higher is better
        "best_epoch": torch.full((b,), -1),
        "failed_epoch": torch.full((b,), -1),
        "waited": torch.zeros(b, dtype=torch.long),  # epochs since the last improvement
        "running": torch.ones(b, dtype=torch.bool),
        "active": torch.ones(b, dtype=torch.bool),  # still in the batch; others have stopped and were left out
        "epoch": torch.zeros((), dtype=torch.long),  # finished epochs
        "steps": torch.zeros((), dtype=torch.long),  # finished steps of Adam
    }
    tensors |= {name: t.to(device) for name, t in (curves | counters).items()}
    return TrainingState(tensors, epochs)
