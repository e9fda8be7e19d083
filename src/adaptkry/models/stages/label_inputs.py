"""Training labels as inputs of a model, propagated and without leakage.

The columns P Y, ..., P^L Y of the one-hot labels Y are added to the first dense layer through a learned map. In every
training step a random half of a member's training nodes is visible: Y has their rows only, and the loss counts only
the other training nodes. A node that is fitted has a row of zeros in Y, so that its own label reaches it at no hop. In
evaluation all training labels are visible; labels of validation and test nodes never are.

Shapes: b members, n nodes, m rows per member, c classes, L hops.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from adaptkry.models.stages.base import ModelShape, StageContext, to_columns, to_members


def label_width(shape: ModelShape) -> int:
    """Return the number of label columns: L c, or twice as many if edges have a direction."""
    return shape.recipe.label_hops * shape.classes * (1 if shape.recipe.directions[0] == "both" else 2)


def label_columns(context: StageContext) -> Tensor:
    """Compute P Y, ..., P^L Y at the rows of each member, then the same with the transpose of P if edges are directed.

    Visible labels count twice while training, where half of them are visible, so that sums over neighbours have the
    same mean as in evaluation.

    Returns:
        [b, m, L c], or [b, m, 2 L c].
    """
    recipe, P = context.shape.recipe, context.operator
    assert P is not None
    one_hot = one_hot_labels(context.statistics["labels"], P.shape[0], context.shape.classes, context.terms.dtype)
    if context.dropout is not None:
        assert context.dropout.visible is not None
        one_hot = one_hot * (2 * context.dropout.visible[:, :, None])
    rows = context.rows[:, :, None].expand(-1, -1, context.shape.classes)  # [b, m, c]
    parts = []
    for operator in [P] if recipe.directions[0] == "both" else [P, P.T]:
        columns = to_columns(one_hot)  # [n, b c]
        for _ in range(recipe.label_hops):
            columns = operator @ columns
            parts.append(to_members(columns, len(one_hot)).gather(1, rows))
    return torch.cat(parts, 2)


def one_hot_labels(labels: Tensor, nodes: int, classes: int, dtype: torch.dtype) -> Tensor:
    """Encode labels [b, <= n], where -1 is unknown, as [b, n, c]; nodes without a label have rows of zeros."""
    labels = pad(labels, (0, nodes - labels.shape[1]), value=-1.0)  # nodes that are new in prediction
    return (labels[:, :, None] == torch.arange(classes, device=labels.device)).to(dtype)
