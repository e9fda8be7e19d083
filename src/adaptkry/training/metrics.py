"""Metrics of many members at once, on the device of the logits."""

from collections.abc import Callable

import torch
from torch import Tensor

from adaptkry.common.lookup import pick


def accuracy(logits: Tensor, classes: Tensor, row_mask: Tensor) -> Tensor:
    """Compute the share of correct predictions: logits [b, m, c], classes [b, m], row_mask [b, m] -> [b].

    >>> accuracy(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), torch.tensor([[0, 1]]), torch.tensor([[True, True]]))
    tensor([0.5000])
    """
    correct = (logits.argmax(-1) == classes) & row_mask
    return correct.sum(1) / row_mask.sum(1)


def roc_auc(logits: Tensor, classes: Tensor, row_mask: Tensor) -> Tensor:
    """Compute the probability that a row of class 1 scores above one of class 0, ties counting half.

    logits [b, m, 2], classes [b, m], row_mask [b, m] -> [b].
    """
    if logits.shape[-1] != 2:
        raise ValueError(f"ROC-AUC needs two classes; got {logits.shape[-1]}. Use metric='accuracy'.")
    score = (logits[..., 1] - logits[..., 0]).double().masked_fill(~row_mask, torch.inf)  # padding ranks last
    ordered, order = score.sort(dim=1)
    low = torch.searchsorted(ordered, ordered, right=False)
    high = torch.searchsorted(ordered, ordered, right=True)
    rank = (low + high + 1).double() / 2  # mean rank of equal scores, from 1
    positive = ((classes == 1) & row_mask).gather(1, order).double()
    ones = positive.sum(1)
    zeros = row_mask.sum(1) - ones
    return ((rank * positive).sum(1) - ones * (ones + 1) / 2) / (ones * zeros)


METRIC_FUNCTIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"accuracy": accuracy, "roc_auc": roc_auc}


def pick_metric(name: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return the metric of that name."""
    return pick(METRIC_FUNCTIONS, name, "metric")


class RunningScore:
    """A metric of rows that are added batch by batch.

    Accuracy needs counts only; ROC-AUC, which ranks all rows, keeps the margin of every row.

    >>> score = RunningScore("accuracy", members=1)
    >>> for logits in ([1.0, 0.0], [0.0, 1.0]):
    ...     score.add(torch.tensor([[logits]]), torch.tensor([[0]]), torch.tensor([[True]]))
    >>> score.result()
    tensor([0.5000])
    """

    def __init__(self, metric: str, members: int, device: torch.device | str = "cpu"):
        self.metric = pick_metric(metric)
        self.adds_up = metric == "accuracy"  # whether the counts of several processes can be added
        self.counts = torch.zeros(2, members, dtype=torch.long, device=device)  # correct rows, all rows
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, logits: Tensor, classes: Tensor, row_mask: Tensor) -> None:
        """Add rows: logits [b, m, c], classes [b, m], row_mask [b, m]."""
        if not self.adds_up:
            self.parts.append((logits.diff(dim=-1) if logits.shape[-1] == 2 else logits, classes == 1, row_mask))
            return
        correct = (logits.argmax(-1) == classes) & row_mask
        self.counts += torch.stack([correct.sum(1), row_mask.sum(1)])

    def result(self, add_up: Callable[[Tensor], Tensor] = lambda counts: counts) -> Tensor:
        """Return the metric [b]; `add_up` adds the counts of other processes."""
        if self.adds_up:
            correct, count = add_up(self.counts)
            return correct / count
        margins, positive, row_mask = (torch.cat(part, 1) for part in zip(*self.parts, strict=True))
        logits = torch.cat([torch.zeros_like(margins), margins], -1) if margins.shape[-1] == 1 else margins
        return self.metric(logits, positive, row_mask)
