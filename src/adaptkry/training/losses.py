"""What members say and what they pay: logits of rows, and the losses of a batch."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from adaptkry.models import batched as models
from adaptkry.models.dropout import DropoutState
from adaptkry.models.stages import ModelShape, Weights
from adaptkry.spectral.operators import Operator
from adaptkry.training.batches import Stream


def rows_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Masks [b, n] as row numbers [b, m], padded with 0, and which of them count [b, m, 1]."""
    counts = mask.sum(1)
    counted = torch.arange(max(1, int(counts.max())), device=mask.device) < counts[:, None]
    rows = torch.zeros(counted.shape, dtype=torch.long, device=mask.device)
    rows[counted] = mask.nonzero()[:, 1]
    return rows, counted[:, :, None]


def mean_loss(kind: str, logits: Tensor, classes: Tensor, counted: Tensor) -> Tensor:
    """Mean loss of each member over its real rows: logits [b, m, c], classes [b, m], counted [b, m] -> [b]."""
    if kind == "binary":
        targets = one_hot(classes.clamp(min=0), logits.shape[2]).to(logits.dtype)
        each = binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(2)
    else:
        each = cross_entropy(logits.transpose(1, 2), classes, reduction="none", ignore_index=-1)
    # A block may hold no node of some member; its loss there is 0, in any company.
    return (each * counted).sum(1) / counted.sum(1).clamp(min=1)


def losses_of(
    layout: ModelShape, weights: Weights, kept: Weights, terms: Tensor, rows: Tensor, real: Tensor, classes: Tensor,
    operator: Operator | None, chance: DropoutState,
) -> Tensor:  # fmt: skip
    """What each member pays for a batch [b]."""
    logits = models.logits(layout, weights, kept, terms, rows, real, operator, chance)
    return mean_loss(layout.made.loss, logits, classes, real[:, :, 0])


class Losses(nn.Module):
    """The same as a module of the stacked weights, so that DistributedDataParallel averages their gradients."""

    def __init__(self, layout: ModelShape, weights: Weights):
        super().__init__()
        self.layout = layout
        self.weights = nn.ParameterDict({name: nn.Parameter(w) for name, w in weights.items()})  # not copies

    def forward(self, *given) -> Tensor:
        """Losses [b]."""
        return losses_of(self.layout, dict(self.weights.items()), *given)


@torch.no_grad()
def all_logits(layout: ModelShape, weights: Weights, terms: Tensor, operator, device, chunk: int = 512) -> Tensor:
    """Logits of all nodes [b, n, c] on the CPU; a decoupled model goes chunk by chunk, so that memory stays small."""
    members, n, parts = len(next(iter(weights.values()))), terms.shape[1], []
    for nodes in torch.arange(n).split(chunk if operator is None else n):
        some = terms[:, nodes.to(terms.device)].to(device) if operator is None else terms
        rows = torch.arange(len(nodes), device=device).expand(members, -1)
        counted = torch.ones(*rows.shape, 1, dtype=some.dtype, device=device)
        parts.append(models.logits(layout, weights, weights, some, rows, counted, operator).cpu())
    return torch.cat(parts, 1)


@torch.no_grad()
def stream_logits(
    layout: ModelShape, weights: Weights, stream: Stream, used: Tensor | None = None, *, shared: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits [b, m, c] and row numbers [m] of all rows that are used, some at a time, on the CPU."""
    members = len(next(iter(weights.values())))
    for terms, numbers in stream.everything(used, shared=shared):
        if not len(numbers):
            continue
        rows = torch.arange(len(numbers), device=terms.device).expand(members, -1)
        counted = torch.ones(*rows.shape, 1, dtype=terms.dtype, device=terms.device)
        yield models.logits(layout, weights, weights, terms, rows, counted).cpu(), numbers
