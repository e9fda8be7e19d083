"""Scores of members: on validation rows after every epoch, on test rows once at the end."""

import torch
from torch import Tensor

from adaptkry.graphs.splits import Splits
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
    """Score [b] and mean loss [b] of each member on its validation rows; no row is kept longer than needed."""
    members = len(next(iter(weights.values())))
    score = RunningScore(metric, members, batches.device)
    group = batches.group if score.adds_up else SINGLE_PROCESS
    loss = torch.zeros(2, members, dtype=torch.float64, device=batches.device)  # sum over rows, number of rows
    for batch in batches.validation():
        counted = batch.counted.to(batch.terms.dtype)
        logits = batched.logits(shape, weights, statistics, batch.terms, batch.rows, counted, batches.operator)
        score.add(logits, batch.classes, batch.counted[:, :, 0])
        rows = batch.counted.sum((1, 2)).double()
        # In float64 the product with a count and the division by it are exact: one batch gives its mean loss back.
        mean = mean_loss(shape.recipe.loss, logits, batch.classes, batch.counted[:, :, 0])
        loss += torch.stack([mean.double() * rows, rows])
    total, rows = group.sum(loss)
    return score.result(group.sum), (total / rows).to(batches.dtype)


@torch.no_grad()
def evaluate_test(
    shape: ModelShape,
    weights: Weights,
    batches: Batches,
    labels: Tensor,
    splits: Splits,
    split_of_member: Tensor,
    metric: str,
) -> tuple[Tensor, Tensor]:
    """Score [b] and confusion counts [b, c, c] (true class, predicted class) of each member on its test rows."""
    b, c = len(split_of_member), shape.classes
    score, confusion = RunningScore(metric, b), torch.zeros(b * c * c, dtype=torch.long)
    group = batches.group if score.adds_up else SINGLE_PROCESS
    chunks = batches.chunks(splits.test[split_of_member.unique()].any(0), shared=score.adds_up)
    for logits, rows in chunk_logits(shape, weights, chunks, batches.operator):
        counted, classes = splits.test[:, rows][split_of_member], labels[rows].expand(b, -1)
        score.add(logits, classes, counted)
        cells = (torch.arange(b)[:, None] * c + classes) * c + logits.argmax(-1)
        confusion += torch.bincount(cells[counted], minlength=b * c * c)

    def add_up(counts: Tensor) -> Tensor:  # NCCL adds tensors on GPUs only
        return group.sum(counts.to(batches.device)).cpu()

    return score.result(add_up), add_up(confusion).view(b, c, c)
