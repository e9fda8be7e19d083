"""Early stopping: which members stop after an epoch."""

from functools import cache

import torch
from torch import Tensor

from adaptkry.models.recipe import Recipe
from adaptkry.training.state import TrainingState

WINDOW = 200  # epochs over which stop="mean" averages the validation loss


@torch.no_grad()
def stop_members(state: TrainingState, recipe: Recipe, patience: Tensor, loss: Tensor) -> None:
    """Stop members by the recipe's rule; members whose loss [b] is not finite have failed and stop too.

    Args:
        state: changed in place; `waited`, `curve/validation_loss` and `epoch` are those of the epoch just trained.
        recipe: has the rule (`stop`) and the minimum number of epochs.
        patience: of each member [b].
        loss: training loss of each member [b].
    """
    epoch = state["epoch"]
    is_finite = loss.abs() < torch.inf  # [b] false for NaN
    torch.where(state.running & ~is_finite, epoch, state["failed_epoch"], out=state["failed_epoch"])
    state.running.logical_and_(is_finite)
    if recipe.stop == "never":
        return
    if recipe.stop == "patience":
        stops = (state["waited"] >= patience) & (epoch >= recipe.min_epochs)
    else:  # validation loss above its mean over the last WINDOW epochs
        curve = state["curve/validation_loss"]  # [epochs, b]
        window = (epoch - steps_back(epoch.device)).clamp(min=0)
        is_above = curve.index_select(0, epoch[None])[0] > curve.index_select(0, window).mean(0)
        stops = is_above & (epoch > max(WINDOW, recipe.min_epochs - 1))
    state.running.logical_and_(~stops)


@cache
def steps_back(device: torch.device) -> Tensor:
    """Return WINDOW, ..., 1: the distances to the epochs before."""
    return torch.arange(WINDOW, 0, -1, device=device)
