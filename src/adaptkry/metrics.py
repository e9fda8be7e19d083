"""Scores of many members at once, on whatever device the logits are."""

from collections.abc import Callable

import torch
from torch import Tensor

from adaptkry.lookup import pick


def accuracy(logits: Tensor, classes: Tensor, counted: Tensor) -> Tensor:
    """Share of right answers: logits [b, m, c], classes [b, m], counted [b, m] -> [b].

    >>> accuracy(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), torch.tensor([[0, 1]]), torch.tensor([[True, True]]))
    tensor([0.5000])
    """
    right = (logits.argmax(-1) == classes) & counted
    return right.sum(1) / counted.sum(1)


def roc_auc(logits: Tensor, classes: Tensor, counted: Tensor) -> Tensor:
    """Chance that a node of class 1 scores above one of class 0, ties counting half (two classes only)."""
    if logits.shape[-1] != 2:
        raise ValueError(f"ROC-AUC needs two classes, but {logits.shape[-1]} came. Use metric='accuracy'.")
    score = (logits[..., 1] - logits[..., 0]).double().masked_fill(~counted, torch.inf)  # padding ranks last
    ordered, order = score.sort(dim=1)
    low = torch.searchsorted(ordered, ordered, right=False)
    high = torch.searchsorted(ordered, ordered, right=True)
    rank = (low + high + 1).double() / 2  # mean rank among equals, from 1
    positive = ((classes == 1) & counted).gather(1, order).double()
    ones = positive.sum(1)
    zeros = counted.sum(1) - ones
    return ((rank * positive).sum(1) - ones * (ones + 1) / 2) / (ones * zeros)


METRICS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"accuracy": accuracy, "roc_auc": roc_auc}


def pick_metric(name: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The metric of that name."""
    return pick(METRICS, name, "metric")
