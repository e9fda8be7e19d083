"""What differs between tasks: weights of classes, the scaling of targets, and predictions from a model's outputs.

Tensors that a training needs besides its weights are statistics that do not change: `class_weight` [b, c] for
classification, `target_mean` and `target_std` [b, t] for regression. They are saved with the weights.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from adaptkry.common.lookup import pick
from adaptkry.graphs.splits import Splits
from adaptkry.training.state import Member

FIXED_STATISTICS = ("class_weight", "target_mean", "target_std")


def fixed_statistics(members: Sequence[Member], truth: Tensor, splits: Splits, names: Sequence[str] | None) -> dict:
    """Return what the training nodes of each member's split determine: weights of classes, or the scaling of targets.

    Args:
        members: the trainings.
        truth: classes [n], labels [n, c] or targets [n, t].
        splits: the splits.
        names: names of classes, if they have any.
    """
    recipe = members[0].recipe
    if recipe.class_weight:
        rows = [class_weights(recipe.class_weight, truth, splits.train[m.split], names) for m in members]
        return {"class_weight": torch.stack(rows)}
    if recipe.task != "regression":
        return {}
    parts = [truth[splits.train[member.split]] for member in members]  # [m, t] each
    std = torch.stack([part.std(0, correction=0) for part in parts])
    return {"target_mean": torch.stack([part.mean(0) for part in parts]), "target_std": torch.where(std > 0, std, 1)}


def class_weights(entries: Sequence[str], labels: Tensor, train: Tensor, names: Sequence[str] | None = None) -> Tensor:
    """Return the weight of each class [c].

    Args:
        entries: "balanced", a number for each class, or "CLASS=WEIGHT" for some of them (the others have weight 1).
            "balanced" is inversely proportional to the number of training nodes, as in scikit-learn; a class without
            any has weight 1.
        labels: the class of each node [n].
        train: mask of the training nodes [n].
        names: names of classes; without them, classes are called 0, 1, ...

    >>> labels = torch.tensor([0, 0, 0, 1])
    >>> class_weights(["balanced"], labels, labels >= 0), class_weights(["1=5"], labels, labels >= 0)
    (tensor([0.6667, 2.0000]), tensor([1., 5.]))
    """
    c = int(labels.max()) + 1
    if tuple(entries) == ("balanced",):
        counts = torch.bincount(labels[train], minlength=c)
        return torch.where(counts > 0, counts.sum() / ((counts > 0).sum() * counts.clamp(min=1)), 1.0)
    if not any("=" in entry for entry in entries):
        if len(entries) != c:
            raise ValueError(
                f"class_weight must have one number for each of the {c} classes; got {len(entries)}. Use CLASS=WEIGHT "
                "for some of them."
            )
        return torch.tensor([float(entry) for entry in entries])
    known = {str(name): k for k, name in enumerate(names or range(c))}
    found = torch.ones(c)
    for entry in entries:
        name, _, weight = entry.rpartition("=")
        found[pick(known, name, "class in class_weight")] = float(weight)
    return found


def scaled(truth: Tensor, statistics: Mapping[str, Tensor]) -> Tensor:
    """Return the truth as the loss compares it: targets [b, m, t] in units of the training nodes; others as they are.

    Targets are float64, so that large ones lose no digits.
    """
    if "target_mean" not in statistics:
        return truth
    mean, std = (statistics[name].double()[:, None] for name in ("target_mean", "target_std"))
    return (truth - mean) / std


def predictions(task: str, outputs: Tensor, statistics: Mapping[str, Tensor]) -> Tensor:
    """Turn outputs [b, m, c] into probabilities of classes, probabilities of labels, or values in the user's units.

    >>> predictions("multilabel", torch.zeros(1, 1, 2), {})
    tensor([[[0.5000, 0.5000]]])
    """
    if task == "classification":
        return outputs.softmax(-1)
    if task == "multilabel":
        return outputs.double().sigmoid().to(outputs.dtype)  # see the loss of labels
    mean, std = (statistics[name].to(outputs.device).double()[:, None] for name in ("target_mean", "target_std"))
    return outputs.double() * std + mean
