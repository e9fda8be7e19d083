"""Training labels as inputs of a model: those of nodes with similar neighbours, without leakage.

The shares of the classes among the similar nodes of a node (`spectral/similarity.py`), weighted by their similarity,
are added to the first dense layer through a learned map, once for every sharpness. No node is similar to itself, so
that its own label is never an input of its row; labels of validation and test nodes are no inputs at all. A training
node is thus fitted as if its label were unknown, as that of a test node is. In every training step a random half of the
nodes has zeros instead, so that the model learns to do without these inputs.

Shapes: b members, n nodes, m rows per member, c classes, r degrees of sharpness.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from adaptkry.models.stages.base import ModelShape, StageContext, to_columns, to_members
from adaptkry.spectral.similarity import SHARPNESS

PRIOR_WEIGHT = 1e-3  # added to the sum of weights: shares are small where no similar node has a known label


def label_width(shape: ModelShape) -> int:
    """Return the number of label columns: r c."""
    return len(SHARPNESS) * shape.classes


def label_columns(context: StageContext) -> Tensor:
    """Compute the shares of the classes among the similar nodes of each member's rows: [b, m, r c]."""
    S = context.operator
    assert S is not None
    one_hot = one_hot_labels(context.statistics["labels"], S.shape[0], context.shape.classes, context.terms.dtype)
    rows = context.rows[:, :, None].expand(-1, -1, context.shape.classes)  # [b, m, c]
    sums = [to_members(part, len(one_hot)).gather(1, rows) for part in S @ to_columns(one_hot)]  # of [n, b c]
    columns = torch.cat([part / (part.sum(2, keepdim=True) + PRIOR_WEIGHT) for part in sums], 2)
    if context.dropout is None:
        return columns
    assert context.dropout.visible is not None
    return columns * context.dropout.visible.gather(1, context.rows)[:, :, None]


def one_hot_labels(labels: Tensor, nodes: int, classes: int, dtype: torch.dtype) -> Tensor:
    """Encode labels [b, <= n], where -1 is unknown, as [b, n, c]; nodes without a label have rows of zeros."""
    labels = pad(labels, (0, nodes - labels.shape[1]), value=-1.0)  # nodes that are new in prediction
    return (labels[:, :, None] == torch.arange(classes, device=labels.device)).to(dtype)
