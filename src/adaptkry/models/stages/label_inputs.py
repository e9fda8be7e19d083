"""Training labels as inputs of a model: those of nodes with similar neighbours, without leakage.

The shares of the classes among the similar nodes of a node (`spectral/similarity.py`), weighted by their similarity,
are added to the first dense layer through a learned map, once for every sharpness. In every training step a random half
of a member's training nodes is visible: the one-hot labels Y have their rows only, and the loss counts only the other
training nodes. A node that is fitted has a row of zeros in Y, and no node is similar to itself, so that its own label
never reaches it. In evaluation all training labels are visible; labels of validation and test nodes never are.

Shapes: b members, n nodes, m rows per member, c classes, r degrees of sharpness.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from adaptkry.models.stages.base import ModelShape, StageContext, to_columns, to_members
from adaptkry.spectral.similarity import SHARPNESS

PRIOR_WEIGHT = 1e-3  # added to the sum of weights: shares are small where no visible node is similar


def label_width(shape: ModelShape) -> int:
    """Return the number of label columns: r c."""
    return len(SHARPNESS) * shape.classes


def label_columns(context: StageContext) -> Tensor:
    """Compute the shares of the classes among visible similar nodes at the rows of each member: [b, m, r c]."""
    S = context.operator
    assert S is not None
    one_hot = one_hot_labels(context.statistics["labels"], S.shape[0], context.shape.classes, context.terms.dtype)
    if context.dropout is not None:
        assert context.dropout.visible is not None
        one_hot = one_hot * context.dropout.visible[:, :, None]
    rows = context.rows[:, :, None].expand(-1, -1, context.shape.classes)  # [b, m, c]
    sums = [to_members(part, len(one_hot)).gather(1, rows) for part in S @ to_columns(one_hot)]  # of [n, b c]
    return torch.cat([part / (part.sum(2, keepdim=True) + PRIOR_WEIGHT) for part in sums], 2)


def one_hot_labels(labels: Tensor, nodes: int, classes: int, dtype: torch.dtype) -> Tensor:
    """Encode labels [b, <= n], where -1 is unknown, as [b, n, c]; nodes without a label have rows of zeros."""
    labels = pad(labels, (0, nodes - labels.shape[1]), value=-1.0)  # nodes that are new in prediction
    return (labels[:, :, None] == torch.arange(classes, device=labels.device)).to(dtype)
