"""Scores of members: on validation rows after every epoch, and of final predictions once at the end."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from adaptkry.models import batched
from adaptkry.models.stages import ModelShape, Weights
from adaptkry.spectral.operators import Operator
from adaptkry.training.batches import Batch, Batches
from adaptkry.training.losses import MemberLogits, mean_loss
from adaptkry.training.metrics import RunningScore
from adaptkry.training.process_group import SINGLE_PROCESS
from adaptkry.training.tasks import predictions, scaled


def validation_logits(
    shape: ModelShape, weights: Weights, statistics: Weights, batch: Batch, operator: Operator | None
) -> Tensor:
    """Compute the logits of all members for a batch of validation rows: [b, m, c]."""
    with torch.no_grad():
        return batched.logits(shape, weights, statistics, batch.terms, batch.rows, batch.real, operator)


@torch.no_grad()
def evaluate(
    shape: ModelShape,
    weights: Weights,
    statistics: Weights,
    batches: Batches,
    metric: str,
    logits_of: Callable[[Batch], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the score [b] and the mean loss [b] of each member on its validation rows, batch by batch.

    `logits_of` computes the same as `validation_logits`, but may be recorded.
    """
    members = len(next(iter(weights.values())))
    task = shape.recipe.task
    score = RunningScore(metric, members, shape.classes, batches.device, task)
    group = batches.group if score.adds_up else SINGLE_PROCESS
    losses, masks = [], []  # [b] and [b, m, 1] per batch
    for batch in batches.validation():
        if logits_of:
            logits = logits_of(batch)
        else:
            logits = validation_logits(shape, weights, statistics, batch, batches.operator)
        scores = logits if task == "classification" else predictions(task, logits, statistics)
        score.add(scores, batch.truth, batch.row_mask[:, :, 0])
        losses.append(mean_loss(shape.recipe.loss, logits, scaled(batch.truth, statistics), batch.real[:, :, 0]))
        masks.append(batch.row_mask)
    if len(losses) == 1 and group.size == 1:
        return score.result(), losses[0].to(batches.dtype)
    # In float64 the product with a row count and the division by it are exact.
    loss_and_rows = torch.zeros(2, members, dtype=torch.float64, device=batches.device)  # sum over rows, row count
    for mean, mask in zip(losses, masks, strict=True):
        rows = mask.sum((1, 2)).double()  # [b]
        loss_and_rows += torch.stack([mean.double() * rows, rows])
    total, rows = group.sum(loss_and_rows)  # [b] each
    return score.result(group.sum), (total / rows).to(batches.dtype)


@torch.no_grad()
def evaluate_predictions(
    outputs: MemberLogits,
    truth: Tensor,
    masks: Tensor,
    split_of_member: Tensor,
    metrics: Sequence[str],
) -> tuple[dict[str, Tensor], Tensor | None]:
    """Compute the scores (metric -> [b]) and the confusion counts [b, true c, predicted c] of each member.

    Only rows of the mask of its split are counted; `masks` [s, n] are the test masks, for example. Confusion counts are
    for classification only.
    """
    shape, weights, batches = outputs.shape, outputs.weights, outputs.batches
    b, c, task = len(split_of_member), shape.classes, shape.recipe.task
    scores = {name: RunningScore(name, b, c, task=task) for name in metrics}
    confusion = torch.zeros(b * c * c, dtype=torch.long) if task == "classification" else None
    adds_up = all(score.adds_up for score in scores.values())
    group = batches.group if adds_up else SINGLE_PROCESS
    for logits, rows in outputs.chunks(masks[split_of_member.unique()].any(0), is_shared=adds_up):
        row_mask, of_rows = masks[:, rows][split_of_member], truth[rows].expand(b, *[-1] * truth.ndim)  # [b, m, ...]
        found = logits if task == "classification" else predictions(task, logits, weights)
        for score in scores.values():
            score.add(found, of_rows, row_mask)
        if confusion is not None:
            cells = (torch.arange(b)[:, None] * c + of_rows) * c + logits.argmax(-1)
            confusion += torch.bincount(cells[row_mask], minlength=b * c * c)

    def sum_over_processes(counts: Tensor) -> Tensor:  # NCCL adds tensors on GPUs only
        return group.sum(counts.to(batches.device)).cpu()

    results = {name: score.result(sum_over_processes) for name, score in scores.items()}
    return results, None if confusion is None else sum_over_processes(confusion).view(b, c, c)
