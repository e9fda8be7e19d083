"""Losses of members, their gradients, and logits of all rows."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from adaptkry.models import batched
from adaptkry.models.dropout import DropoutState
from adaptkry.models.stages import ModelShape, Weights
from adaptkry.spectral.operators import Operator
from adaptkry.training.batches import Batch, Batches, Chunk, computing_dtype
from adaptkry.training.process_group import ProcessGroup
from adaptkry.training.tasks import scaled

KEPT_LOGITS = 2**27  # bytes
LossAndGradients = Callable[[Batch, DropoutState], tuple[Tensor, Weights]]


def mean_loss(
    kind: str,
    logits: Tensor,
    truth: Tensor,
    row_mask: Tensor,
    label_smoothing: Tensor | None = None,
    class_weight: Tensor | None = None,
) -> Tensor:
    """Average the loss of each member over its real rows.

    Args:
        kind: "cross_entropy", "binary", "mse" or "mae".
        logits: [b, m, c].
        truth: classes [b, m], labels as 0 and 1 [b, m, c], or scaled targets [b, m, c].
        row_mask: [b, m].
        label_smoothing: [b] for the cross-entropy, as in torch; None is 0 for all members.
        class_weight: [b, c] the weight of rows by their class, as in torch; None is 1 for all classes.

    Returns:
        The loss of each member [b].
    """
    weights, smooth = None if class_weight is None else class_weight.gather(1, truth.clamp(min=0)), None  # [b, m]
    if kind in ("mse", "mae"):
        errors = logits - truth.to(logits.dtype)
        losses = (errors.square() if kind == "mse" else errors.abs()).mean(2)
    elif kind == "binary":
        targets = truth if truth.ndim == 3 else one_hot(truth.clamp(min=0), logits.shape[2]).to(logits.dtype)
        # Labels are float64: the last bits of float32 would depend on the place of a row in the batch.
        losses = binary_cross_entropy_with_logits(logits.to(targets.dtype), targets, reduction="none").mean(2)
        losses = losses.to(logits.dtype)
    else:
        losses = cross_entropy(logits.flatten(0, 1), truth.flatten(), reduction="none", ignore_index=-1).view_as(truth)
        if label_smoothing is not None:
            scores = logits.log_softmax(2)
            smooth = -(scores if class_weight is None else scores * class_weight[:, None]).mean(2)
    losses = losses if weights is None else losses * weights
    if smooth is not None and label_smoothing is not None:
        losses = losses.lerp(smooth, label_smoothing[:, None])
    # A batch may hold no row of some member, whose loss is then 0 whatever the other members do.
    total = row_mask.sum(1).clamp(min=1) if weights is None else (row_mask * weights).sum(1).clamp(min=1e-30)
    return (losses * row_mask).sum(1) / total


def batch_loss(
    shape: ModelShape,
    weights: Weights,
    statistics: Weights,
    batch: Batch,
    operator: Operator | None,
    dropout: DropoutState,
    label_smoothing: Tensor | None = None,
) -> Tensor:
    """Compute the training loss of each member [b]; `label_smoothing` is that of each member [b], None is 0."""
    row_mask = batch.real
    logits = batched.logits(shape, weights, statistics, batch.terms, batch.rows, row_mask, operator, dropout)
    truth, class_weight = scaled(batch.truth, statistics), statistics.get("class_weight")
    return mean_loss(shape.recipe.loss, logits, truth, row_mask[:, :, 0], label_smoothing, class_weight)


def local_gradients(
    shape: ModelShape,
    weights: Weights,
    statistics: Weights,
    operator: Operator | None,
    label_smoothing: Tensor | None = None,
) -> LossAndGradients:
    """Return a function from a batch to the loss [b] and the gradients (name -> [b, ...]) of each member."""

    def of_part(members: slice, batch: Batch, dropout: DropoutState) -> tuple[Tensor, Weights]:
        leaves = {name: w[members].detach().requires_grad_() for name, w in weights.items()}
        own = {name: statistic[members] for name, statistic in statistics.items()}  # views: batch norm changes them
        smoothing = None if label_smoothing is None else label_smoothing[members]
        loss = batch_loss(shape, leaves, own, batch, operator, dropout, smoothing)
        # Members share no weights, so the gradient of the sum holds the gradient of each member. Some weights have no
        # effect at degree 0 or 1, such as those of ARMA's later steps: their gradient is 0.
        gradients = torch.autograd.grad(loss.sum(), list(leaves.values()), materialize_grads=True)
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    def loss_and_gradients(batch: Batch, dropout: DropoutState) -> tuple[Tensor, Weights]:
        parts = batched.member_parts(shape, batch.rows, operator)
        if len(parts) == 1:
            return of_part(slice(None), batch, dropout)
        # Results have memory of their own beforehand: they would divide that of activations, which the next part needs.
        losses = batch.terms.new_empty(len(batch.rows))
        gradients = {name: torch.empty_like(w) for name, w in weights.items()}
        for part in parts:
            losses[part], own = of_part(part, batch.of(part), dropout.of(part))
            for name, gradient in own.items():
                gradients[name][part] = gradient
        return losses, gradients

    return loss_and_gradients


class _Losses(nn.Module):
    """The loss as a module of the stacked weights, so that DistributedDataParallel averages their gradients."""

    def __init__(self, shape: ModelShape, weights: Weights):
        super().__init__()
        self.shape = shape
        self.weights = nn.ParameterDict({name: nn.Parameter(w) for name, w in weights.items()})  # not a copy

    def forward(self, *inputs) -> Tensor:
        """Return the loss of each member [b]; `inputs` are the other arguments of `batch_loss`."""
        return batch_loss(self.shape, dict(self.weights.items()), *inputs)


def averaged_gradients(
    shape: ModelShape, weights: Weights, statistics: Weights, label_smoothing: Tensor | None
) -> LossAndGradients:
    """Return the same function for a group of processes: gradients are averaged over the group."""
    parallel = nn.parallel.DistributedDataParallel(_Losses(shape, weights))

    def loss_and_gradients(batch: Batch, dropout: DropoutState) -> tuple[Tensor, Weights]:
        loss = parallel(statistics, batch, None, dropout, label_smoothing)
        loss.sum().backward()
        gradients = {name: weight.grad for name, weight in parallel.module.weights.items()}
        parallel.zero_grad()
        return loss.detach(), gradients

    return loss_and_gradients


def make_gradient_function(
    shape: ModelShape,
    weights: Weights,
    statistics: Weights,
    operator: Operator | None,
    group: ProcessGroup,
    label_smoothing: Tensor | None = None,
) -> LossAndGradients:
    """Return the function from a batch to loss and gradients, for one process or several."""
    if group.size > 1:
        return averaged_gradients(shape, weights, statistics, label_smoothing)
    return local_gradients(shape, weights, statistics, operator, label_smoothing)


@torch.no_grad()
def chunk_logits(
    shape: ModelShape, weights: Weights, chunks: Iterator[Chunk], operator: Operator | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits [b, m, c] on the CPU and row numbers [m] of each chunk."""
    members = len(next(iter(weights.values())))
    for terms, numbers in chunks:
        if not len(numbers):
            continue
        rows = torch.arange(len(numbers), device=terms.device).expand(members, -1)
        row_mask = torch.ones(*rows.shape, 1, dtype=computing_dtype(terms.dtype), device=terms.device)
        logits = batched.logits(shape, weights, weights, terms, rows, row_mask, operator)
        yield logits.cpu(), numbers


class MemberLogits:
    """Logits of trained members, for several evaluations: computed once and kept, if those of all rows are small."""

    def __init__(self, shape: ModelShape, weights: Weights, batches: Batches, rows: int):
        self.shape, self.weights, self.batches = shape, weights, batches
        self.members = len(next(iter(weights.values())))
        self.is_kept = batches.is_fixed and 4 * self.members * rows * shape.classes <= KEPT_LOGITS
        self.kept: list[tuple[Tensor, Tensor]] | None = None

    def chunks(
        self, mask: Tensor | None, *, members: list[int] | None = None, is_shared: bool = False
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield logits [b, m, c] on the CPU and row numbers [m], at least those of a mask [n]; or of some members."""
        if self.is_kept:
            if self.kept is None:
                self.kept = list(chunk_logits(self.shape, self.weights, self.batches.chunks(), self.batches.operator))
            for logits, rows in self.kept:
                yield logits if members is None else logits[members], rows
            return
        weights = self.weights if members is None else {name: w[members] for name, w in self.weights.items()}
        yield from chunk_logits(
            self.shape, weights, self.batches.chunks(mask, is_shared=is_shared), self.batches.operator
        )
