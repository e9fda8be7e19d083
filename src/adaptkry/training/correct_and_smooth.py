"""Correct & Smooth: predictions after training are improved with the training labels of neighbours.

Errors on training nodes are propagated and subtracted from the predictions of all nodes (correct); then training labels
replace the predictions of training nodes, and all of them are propagated (smooth). No weight is learned. See Huang et
al., Combining Label Propagation and Simple Models Out-performs Graph Neural Networks, ICLR 2021. The scale of the
correction is chosen as in its variant "autoscale".
"""

import torch
from torch import Tensor

from adaptkry.models.stages.base import to_columns, to_members
from adaptkry.models.stages.label_inputs import one_hot_labels
from adaptkry.spectral.operators import Operator

SMOOTHING_STEPS = 50  # of each of the two propagations
LARGEST_SCALE = 1000.0  # a node with a larger scale is too far from training nodes: the scale is 1 there


@torch.no_grad()
def correct_and_smooth(probabilities: Tensor, labels: Tensor, P: Operator, alpha: float) -> Tensor:
    """Return corrected and smoothed scores between 0 and 1: [b, n, c]. The scores of a node need not add up to 1.

    Args:
        probabilities: predicted class probabilities of all nodes [b, n, c].
        labels: class of the training nodes of each member and -1 elsewhere [b, <= n]; later nodes have no label.
        P: propagation matrix [n, n].
        alpha: weight of the neighbours in both propagations; 0 leaves nodes without label as they are.
    """
    _, n, c = probabilities.shape
    truth = one_hot_labels(labels, n, c, probabilities.dtype)  # [b, n, c]
    is_known = truth.sum(2, keepdim=True)  # [b, n, 1]
    errors = (truth - probabilities) * is_known
    smoothed = spread(errors, P, alpha, low=-1.0)
    mean_error = errors.abs().sum((1, 2), keepdim=True) / is_known.sum(1, keepdim=True)  # [b, 1, 1]
    scale = mean_error / smoothed.abs().sum(2, keepdim=True)  # [b, n, 1]
    corrected = probabilities + torch.where(scale <= LARGEST_SCALE, scale, 1.0) * smoothed
    return spread(torch.where(is_known > 0, truth, corrected), P, alpha, low=0.0)


def spread(signal: Tensor, P: Operator, alpha: float, low: float) -> Tensor:
    """Iterate z <- alpha P z + (1 - alpha) signal from the signal [b, n, c], with entries kept in [low, 1]."""
    start = to_columns(signal)  # [n, b c]
    z = start
    for _ in range(SMOOTHING_STEPS):
        z = (alpha * (P @ z) + (1 - alpha) * start).clamp(low, 1.0)
    return to_members(z, len(signal))
