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
    """One training of a batch: its split, its seed, its recipe."""

    split: int
    seed: int
    recipe: Recipe


class TrainingState:
    """Tensors by name, so that a checkpoint can be written and read back.

    Groups: `weights/`, `best/` (weights and statistics of the kept epoch), `statistics/`, `first/` and `second/`
    (Adam's moments), `curve/` ([epochs, b]). All change in place: nothing here waits for the device.
    """

    def __init__(self, tensors: dict[str, Tensor], epochs: int):
        self.tensors, self.epochs = tensors, epochs

    def group(self, prefix: str) -> Weights:
        """The tensors whose names start with `prefix/`, without it."""
        return {name[len(prefix) + 1 :]: t for name, t in self.tensors.items() if name.startswith(prefix + "/")}

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @property
    def epoch(self) -> int:
        """Number of epochs done; on a GPU this waits for the device."""
        return int(self.tensors["epoch"])

    @property
    def running(self) -> Tensor:
        """Which members have not stopped yet: bool [b]."""
        return self.tensors["running"]

    @property
    def best_score(self) -> Tensor:
        """Validation score at the kept epoch [b]; minus infinity before the first."""
        return self.tensors["best_score"]


def initial_state(
    shape: ModelShape, members: Sequence[Member], dtype: torch.dtype, device: torch.device, basis_mix: Tensor | None
) -> TrainingState:
    """The state before the first epoch."""
    b, epochs = len(members), shape.recipe.epochs
    weights = batched.initial_weights(shape, [(member.seed, member.recipe) for member in members])
    statistics = initial_statistics(shape, b) | ({} if basis_mix is None else {"basis_mix": basis_mix})
    tensors = {f"weights/{name}": w for name, w in weights.items()}
    tensors |= {f"statistics/{name}": s for name, s in statistics.items()}
    tensors |= {f"best/{name}": t.clone() for name, t in (weights | statistics).items()}
    tensors |= {f"{moment}/{k}": torch.zeros_like(w) for moment in ("first", "second") for k, w in weights.items()}
    tensors = {name: t.to(device, dtype) for name, t in tensors.items()}
    curves = {f"curve/{name}": torch.full((epochs, b), torch.nan) for name in CURVES}
    counters = {
        "best_score": torch.full((b,), -torch.inf),  # validation score at the kept epoch
        "best_value": torch.full((b,), -torch.inf),  # what the recipe selects by; higher is better
        "best_epoch": torch.full((b,), -1),
        "failed_epoch": torch.full((b,), -1),
        "waited": torch.zeros(b, dtype=torch.long),  # epochs since the last improvement
        "running": torch.ones(b, dtype=torch.bool),
        "epoch": torch.zeros((), dtype=torch.long),  # epochs done
        "steps": torch.zeros((), dtype=torch.long),
    }
    tensors |= {name: t.to(device) for name, t in (curves | counters).items()}
    return TrainingState(tensors, epochs)
