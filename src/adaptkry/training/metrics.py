"""Metrics of many members at once, on the device of the scores.

A macro average is over the classes (or labels) that occur in the scored rows: a class that no test node has, and that
none is predicted to have, does not count. Where nothing is left to average, the metric is NaN; `check_metrics` refuses
such splits before a training.

Shapes: b members, m rows, c classes, labels or targets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptkry.common.choices import METRICS
from adaptkry.common.lookup import pick, shortened
from adaptkry.graphs.splits import Splits

Measure = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Metric:
    """A metric: called with scores [b, m, c], the truth ([b, m] or [b, m, c]) and row_mask [b, m], it returns [b].

    Scores are logits or probabilities of classes, probabilities of labels, or values. A metric that ranks rows needs
    probabilities if there are more than two classes, or `comparable` logits.
    """

    measure: Callable[..., Tensor]  # of scores, truth and row_mask, or of counts
    count: Measure | None = None  # counts [b, ...], which can be added over batches of rows
    ranks_rows: bool = False
    greater_is_better: bool = True
    is_share: bool = True  # whether it is shown in per cent

    def __call__(self, scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
        """Compute the metric of each member [b]."""
        if self.count is None:
            return self.measure(scores, truth, row_mask)
        return self.measure(self.count(scores, truth, row_mask))


def comparable(logits: Tensor) -> Tensor:
    """Turn logits [b, m, c] into scores that can be compared between rows: the margin [b, m, 1], or log-probabilities.

    >>> comparable(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[2.]]])
    """
    return logits.diff(dim=-1) if logits.shape[-1] == 2 else logits.double().log_softmax(-1)


def correct_rows(scores: Tensor, classes: Tensor, row_mask: Tensor) -> Tensor:
    """Count correct predictions and rows: scores [b, m, c], classes [b, m], row_mask [b, m] -> [b, 2]."""
    correct = (scores.argmax(-1) == classes) & row_mask
    return torch.stack([correct.sum(1), row_mask.sum(1)], 1)


def share(counts: Tensor) -> Tensor:
    """Divide the first count by the second: [b, 2] -> [b]."""
    return counts[:, 0] / counts[:, 1]


def confusion(scores: Tensor, classes: Tensor, row_mask: Tensor) -> Tensor:
    """Count rows by true and predicted class: scores [b, m, c], classes [b, m], row_mask [b, m] -> [b, c, c]."""
    b, _, c = scores.shape
    cells = classes.clamp(min=0) * c + scores.argmax(-1)  # -1 is in padding rows only
    counts = torch.zeros(b, c * c, dtype=torch.long, device=scores.device)
    return counts.scatter_add_(1, cells, row_mask.long()).view(b, c, c)


def mean_of(values: Tensor, occurs: Tensor) -> Tensor:
    """Average values [b, c] over the classes that occur, bool [b, c]: [b]."""
    return torch.where(occurs, values, 0).sum(1) / occurs.sum(1)


def mean_recall(counts: Tensor) -> Tensor:
    """Average the recall of the classes that have rows: confusion counts [b, c, c] -> [b]."""
    rows = counts.sum(2)
    return mean_of(counts.diagonal(dim1=1, dim2=2).double() / rows, rows > 0)


def mean_f1(counts: Tensor) -> Tensor:
    """Average the F1 score of the classes that are true or predicted somewhere: [b, c, c] -> [b]."""
    both = counts.sum(1) + counts.sum(2)
    return mean_of(2 * counts.diagonal(dim1=1, dim2=2).double() / both, both > 0)


def columns(scores: Tensor, truth: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the score and the truth of each class or label: pairs of [b, m]; with two classes of class 1 only."""
    if truth.ndim == 3:  # labels
        return [(scores[..., k], truth[..., k] == 1) for k in range(truth.shape[2])]
    if scores.shape[-1] <= 2:
        return [((scores[..., 1] - scores[..., 0]) if scores.shape[-1] == 2 else scores[..., 0], truth == 1)]
    return [(scores[..., k], truth == k) for k in range(scores.shape[-1])]


def roc_auc(scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
    """Compute the probability that a row of a class scores above another row, ties counting half: [b].

    With more than two classes, or with labels, it is the mean over the classes that some rows have and others do not.
    """
    areas, are_defined = [], []
    for score, positive in columns(scores, truth):
        ordered, order = score.double().masked_fill(~row_mask, torch.inf).sort(dim=1)  # padding ranks last
        low = torch.searchsorted(ordered, ordered, right=False)
        high = torch.searchsorted(ordered, ordered, right=True)
        rank = (low + high + 1).double() / 2  # mean rank of equal scores, from 1
        is_one = (positive & row_mask).gather(1, order).double()
        ones = is_one.sum(1)
        zeros = row_mask.sum(1) - ones
        areas.append(((rank * is_one).sum(1) - ones * (ones + 1) / 2) / (ones * zeros))
        are_defined.append(ones * zeros > 0)
    return mean_of(torch.stack(areas, 1), torch.stack(are_defined, 1))


def average_precision(scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
    """Average, over the rows of a class, the precision among the rows that score as high or higher: [b].

    With more than two classes, or with labels, it is the mean over the classes that some rows have.
    """
    means, are_defined = [], []
    for score, positive in columns(scores, truth):
        ordered, order = score.double().masked_fill(~row_mask, torch.inf).sort(dim=1)  # padding ranks last
        low = torch.searchsorted(ordered, ordered, right=False)  # rows that score less
        is_one = (positive & row_mask).gather(1, order).double()
        ones = is_one.sum(1, keepdim=True)
        ones_from = ones - (is_one.cumsum(1) - is_one).gather(1, low)  # rows of the class that score as high
        precision = ones_from / (row_mask.sum(1, keepdim=True) - low).clamp(min=1)
        means.append((precision * is_one).sum(1) / ones[:, 0])
        are_defined.append(ones[:, 0] > 0)
    return mean_of(torch.stack(means, 1), torch.stack(are_defined, 1))


def label_counts(scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
    """Count, for each label, rows that have it and are predicted to, that are predicted to, and that have it.

    scores (probabilities) and truth [b, m, c], row_mask [b, m] -> [b, 3, c].
    """
    predicted, true = (scores > 0.5) & row_mask[..., None], (truth == 1) & row_mask[..., None]
    return torch.stack([(predicted & true).sum(1), predicted.sum(1), true.sum(1)], 1)


def label_f1(counts: Tensor) -> Tensor:
    """Average the F1 score of the labels that are true or predicted somewhere: [b, 3, c] -> [b]."""
    both = counts[:, 1] + counts[:, 2]
    return mean_of(2 * counts[:, 0].double() / both, both > 0)


def pooled_f1(counts: Tensor) -> Tensor:
    """Compute the F1 score of all labels of all rows together: [b, 3, c] -> [b]."""
    hits, predicted, true = counts.sum(2).double().unbind(1)
    return 2 * hits / (predicted + true)


def exact_rows(scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
    """Count rows whose labels are all correct, and rows: [b, m, c], [b, m, c], [b, m] -> [b, 2]."""
    correct = ((scores > 0.5) == (truth == 1)).all(2) & row_mask
    return torch.stack([correct.sum(1), row_mask.sum(1)], 1)


def mean_rows(values: Tensor, row_mask: Tensor) -> Tensor:
    """Average values [b, m, c] over the real rows, in float64: [b, c]."""
    return torch.where(row_mask[..., None], values.double(), 0).sum(1) / row_mask.sum(1, keepdim=True)


def r2(scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
    """Compute the share of the variance of each target that is explained, averaged over targets: [b].

    As in scikit-learn, a constant target counts 1 if it is predicted exactly and 0 otherwise.
    """
    error = mean_rows((truth.double() - scores).square(), row_mask)
    variance = mean_rows((truth - mean_rows(truth, row_mask)[:, None]).square(), row_mask)
    mask = row_mask[..., None]
    varies = truth.masked_fill(~mask, torch.inf).amin(1) < truth.masked_fill(~mask, -torch.inf).amax(1)  # [b, t]
    return torch.where(varies, 1 - error / variance.where(varies, 1), (error == 0).double()).mean(1)


def mae(scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
    """Compute the mean absolute error, averaged over targets: [b]."""
    return mean_rows((truth.double() - scores).abs(), row_mask).mean(1)


def rmse(scores: Tensor, truth: Tensor, row_mask: Tensor) -> Tensor:
    """Compute the root of the mean squared error of each target, averaged over targets: [b]."""
    return mean_rows((truth.double() - scores).square(), row_mask).sqrt().mean(1)


TASK_METRICS: dict[str, dict[str, Metric]] = {  # the first of each task is its default
    "classification": {
        "accuracy": Metric(share, correct_rows),
        "balanced_accuracy": Metric(mean_recall, confusion),
        "macro_f1": Metric(mean_f1, confusion),
        "roc_auc": Metric(roc_auc, ranks_rows=True),
        "average_precision": Metric(average_precision, ranks_rows=True),
    },
    "multilabel": {
        "micro_f1": Metric(pooled_f1, label_counts),
        "macro_f1": Metric(label_f1, label_counts),
        "average_precision": Metric(average_precision, ranks_rows=True),
        "roc_auc": Metric(roc_auc, ranks_rows=True),
        "subset_accuracy": Metric(share, exact_rows),
    },
    "regression": {
        "r2": Metric(r2, is_share=False),
        "mae": Metric(mae, greater_is_better=False, is_share=False),
        "rmse": Metric(rmse, greater_is_better=False, is_share=False),
    },
}


def pick_metric(name: str, task: str = "classification") -> Metric:
    """Return the metric of that name.

    >>> pick_metric("rmse", "regression").greater_is_better
    False
    """
    return pick(TASK_METRICS[task], name, "metric" if task == "classification" else f"metric of the task {task}")


def metric_names(metrics: str | Sequence[str] | None, default: str, task: str = "classification") -> tuple[str, ...]:
    """Return the names of metrics, without repetitions; None is the default.

    >>> metric_names("macro_f1,accuracy", "accuracy")
    ('macro_f1', 'accuracy')
    """
    if metrics is None:
        return (default,)
    names = [name.strip() for name in metrics.split(",")] if isinstance(metrics, str) else metrics
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"metrics must be names, of which the first chooses epochs and settings; got {shortened(metrics)}. Use for "
            f"example [{', '.join(map(repr, METRICS[task][:2]))}]."
        )
    for name in names:
        pick_metric(name, task)
    return tuple(dict.fromkeys(names))


def check_metrics(names: Sequence[str], truth: Tensor, splits: Splits, *, test: bool = True) -> None:
    """Refuse splits in which a metric is not defined, because some part has nodes of one class only.

    Args:
        names: metrics of one task.
        truth: the class of each node [n], its labels [n, c], or its targets [n, t].
        splits: the splits.
        test: whether test nodes are scored.
    """
    if truth.ndim == 2:
        _check_labels(names, truth, splits, test)
        return
    ranking = [name for name in names if name in ("roc_auc", "average_precision")]
    for part in ("validation", "test") if test and ranking else ("validation",) if ranking else ():
        for split, mask in enumerate(getattr(splits, part)):
            found = truth[mask]
            if bool((found == found[0]).all()):
                raise ValueError(
                    f"{ranking[0]} needs {part} nodes of two classes or more; those of split {split} all have class "
                    f"{int(found[0])}. Use stratified splits, or another metric."
                )


def _check_labels(names: Sequence[str], truth: Tensor, splits: Splits, test: bool) -> None:
    """Refuse parts in which no node has a label, or for the ROC-AUC, no label is had by some nodes only."""
    if not set(names) <= set(METRICS["multilabel"]) or tuple(names) == ("subset_accuracy",):
        return
    for part in ("validation", "test") if test else ("validation",):
        for split, mask in enumerate(getattr(splits, part)):
            has = truth[mask] == 1  # [m, c]
            if not bool(has.any(0).any() if "roc_auc" not in names else (has.any(0) & ~has.all(0)).any()):
                raise ValueError(
                    f"{names[0]} needs {part} nodes that have some label, and for roc_auc others without it; got none "
                    f"in split {split}. Use other splits."
                )


class RunningScore:
    """A metric of rows that are added batch by batch.

    Counts are added up; a metric without them, such as one that ranks all rows, keeps the score of every row.

    >>> score = RunningScore("accuracy", members=1, outputs=2)
    >>> for logits in ([1.0, 0.0], [0.0, 1.0]):
    ...     score.add(torch.tensor([[logits]]), torch.tensor([[0]]), torch.tensor([[True]]))
    >>> score.result()
    tensor([0.5000])
    """

    def __init__(
        self,
        metric: str,
        members: int,
        outputs: int,
        device: torch.device | str = "cpu",
        task: str = "classification",
    ):
        self.metric = pick_metric(metric, task)
        self.adds_up = self.metric.count is not None  # whether the counts of several processes can be added
        self.needs_comparable = self.metric.ranks_rows and task == "classification"
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []
        self.empty = (members, outputs, device, task)  # what an empty part has
        self.counts: Tensor | None = None

    def add(self, scores: Tensor, truth: Tensor, row_mask: Tensor) -> None:
        """Add rows: logits of classes or predictions of another task [b, m, c], their truth, and row_mask [b, m]."""
        if self.metric.count is not None:
            counts = self.metric.count(scores, truth, row_mask)
            self.counts = counts if self.counts is None else self.counts + counts
            return
        self.parts.append((comparable(scores) if self.needs_comparable else scores, truth, row_mask))

    def result(self, add_up: Callable[[Tensor], Tensor] = lambda counts: counts) -> Tensor:
        """Return the metric [b]; `add_up` adds the counts of other processes."""
        if self.metric.count is not None:
            return self.metric.measure(add_up(self._no_counts() if self.counts is None else self.counts))
        scores, truth, row_mask = (torch.cat(part, 1) for part in zip(*self.parts, strict=True))
        return self.metric.measure(scores, truth, row_mask)

    def _no_counts(self) -> Tensor:
        """Return the counts of no rows, as a process has that reads none."""
        members, outputs, device, task = self.empty
        scores, rows = torch.zeros(members, 0, outputs, device=device), torch.zeros(members, 0, device=device)
        assert self.metric.count is not None
        return self.metric.count(scores, rows.long() if task == "classification" else scores, rows.bool())
