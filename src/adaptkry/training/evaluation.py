"""Scores of members: on validation rows after every epoch, and of final predictions once at the end."""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.models import batched
from adaptkry.models.stages import ModelShape, Weights
from adaptkry.training.batches import Batches
from adaptkry.training.losses import chunk_logits, mean_loss
from adaptkry.training.metrics import RunningScore
from adaptkry.training.process_group import SINGLE_PROCESS


@torch.no_grad()
def evaluate(
    shape: ModelShape, weights: Weights, statistics: Weights, batches: Batches, metric: str
) -> tuple[Tensor, Tensor]:
    """Compute the score [b] and the mean loss [b] of each member on its validation rows, batch by batch."""
    members = len(next(iter(weights.values())))
    score = RunningScore(metric, members, shape.classes, batches.device)
    group = batches.group if score.adds_up else SINGLE_PROCESS
    loss_and_rows = torch.zeros(2, members, dtype=torch.float64, device=batches.device)  # sum over rows, row count
    for batch in batches.validation():
        row_mask = batch.row_mask.to(batch.terms.dtype)
        logits = batched.logits(shape, weights, statistics, batch.terms, batch.rows, row_mask, batches.operator)
        score.add(logits, batch.classes, batch.row_mask[:, :, 0])
        rows = batch.row_mask.sum((1, 2)).double()  # [b]
        # In float64 the product with a row count and the division by it are exact: one batch keeps its mean loss.
        mean = mean_loss(shape.recipe.loss, logits, batch.classes, batch.row_mask[:, :, 0])
        loss_and_rows += torch.stack([mean.double() * rows, rows])
    total, rows = group.sum(loss_and_rows)  # [b] each
    return score.result(group.sum), (total / rows).to(batches.dtype)


@torch.no_grad()
def evaluate_predictions(
    shape: ModelShape,
    weights: Weights,
    batches: Batches,
    labels: Tensor,
    masks: Tensor,
    split_of_member: Tensor,
    metrics: Sequence[str],
) -> tuple[dict[str, Tensor], Tensor]:
    """Compute the scores (metric -> [b]) and the confusion counts [b, true c, predicted c] of each member.

    Only rows of the mask of its split are counted; `masks` [s, n] are the test masks, for example.
    """
    b, c = len(split_of_member), shape.classes
    scores, confusion = {name: RunningScore(name, b, c) for name in metrics}, torch.zeros(b * c * c, dtype=torch.long)
    adds_up = all(score.adds_up for score in scores.values())
    group = batches.group if adds_up else SINGLE_PROCESS
    chunks = batches.chunks(masks[split_of_member.unique()].any(0), is_shared=adds_up)
    for logits, rows in chunk_logits(shape, weights, chunks, batches.operator):
        row_mask, classes = masks[:, rows][split_of_member], labels[rows].expand(b, -1)  # [b, m] each
        for score in scores.values():
            score.add(logits, classes, row_mask)
        cells = (torch.arange(b)[:, None] * c + classes) * c + logits.argmax(-1)
        confusion += torch.bincount(cells[row_mask], minlength=b * c * c)

    def sum_over_processes(counts: Tensor) -> Tensor:  # NCCL adds tensors on GPUs only
        return group.sum(counts.to(batches.device)).cpu()

    found = {name: score.result(sum_over_processes) for name, score in scores.items()}
    return found, sum_over_processes(confusion).view(b, c, c)
