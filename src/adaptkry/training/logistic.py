"""Logistic regression on the best of several candidate signals, refitted on train + validation (ASGC).

The problem is strongly convex, so it has one solution, and no seed. All members are solved at once by accelerated
gradient descent, in which each member has its own momentum, restarted where it overshoots.

Shapes: g signals, b members, n nodes, d features, c classes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from adaptkry.models.stages import ModelShape
from adaptkry.training.batches import FullBatch
from adaptkry.training.loop import CHECK_EVERY, Callback
from adaptkry.training.metrics import RunningScore
from adaptkry.training.state import CURVES, Member, TrainingState

TOLERANCE = 1e-4  # gradient norm, relative to the initial one, at which the problem counts as solved


class LogisticRegression:
    """The exact solver, with the same interface as `GradientDescent`.

    The penalty is that of scikit-learn with C = 1 / mlp_decay; the bias is not penalised. The terms [T, n, d] are the
    candidates; the choice of each member is stored as its `basis_mix` [b, T].

    Args:
        shape: sizes that all members share.
        batches: all nodes in one batch.
        members: splits, seeds and recipes.
        labels: class of each node [n].
        masks: "train" and "validation" masks, bool [s, n].
        metric: the name of the metric that chooses the signal.
    """

    def __init__(
        self,
        shape: ModelShape,
        batches: FullBatch,
        members: Sequence[Member],
        *,
        labels: Tensor,
        masks: Mapping[str, Tensor],
        metric: str = "accuracy",
    ):
        self.shape, self.batches, self.members, self.device = shape, batches, list(members), batches.device
        self.terms, self.labels, self.metric = batches.terms, labels.to(self.device), metric
        split_of_member = torch.tensor([m.split for m in members])
        self.train, self.validation = (masks[name][split_of_member].to(self.device) for name in ("train", "validation"))
        self.epochs = shape.recipe.epochs
        b, T = len(members), len(self.terms)
        tensors = {"best_score": torch.zeros(b), "best_epoch": torch.zeros(b).long(), "failed_epoch": -torch.ones(b)}
        tensors |= {f"curve/{name}": torch.zeros(1, b) for name in CURVES}
        tensors |= {"running": torch.ones(b, dtype=torch.bool), "epoch": torch.zeros(()).long()}
        tensors |= {"best/filter/weights": torch.ones(b, 1), "best/basis_mix": torch.zeros(b, T)}
        self.state = TrainingState(tensors, self.epochs)

    @torch.no_grad()
    def run(self, callbacks: Iterable[Callback] = ()) -> TrainingState:
        """Solve every candidate on train, choose on validation, and solve the chosen ones on train + validation."""
        b, state, callbacks = len(self.members), self.state.tensors, list(callbacks)

        def check() -> None:
            for callback in callbacks:
                callback(self.state)

        scores = []
        for term in self.terms:  # one candidate at a time, to save memory
            weight, bias = self._solve(term[None], self.train[None], check)
            logits = torch.einsum("nd,bdc->bnc", term, weight[0]) + bias[0]
            score = RunningScore(self.metric, b, self.shape.classes, self.device)
            score.add(logits, self.labels.expand(b, -1), self.validation)
            scores.append(score.result())
        best_score, best = torch.stack(scores).max(0)  # [b] each
        weight, bias = self._solve(self.terms[best], (self.train | self.validation)[:, None], check)
        mix = one_hot(best, len(self.terms)).float()
        state |= {"best/mlp/1/weight": weight[:, 0], "best/mlp/1/bias": bias[:, 0], "best/basis_mix": mix}
        state |= {"best_score": best_score, "curve/validation": best_score[None].clone(), "epoch": torch.tensor(1)}
        state["running"] = state["running"] & False
        check()
        return self.state

    def _solve(self, x: Tensor, masks: Tensor, check: Callable[[], object]) -> tuple[Tensor, Tensor]:
        """Solve for signals x [g, n, d] on masks [g, b, n]: weights [g, b, d, c] and biases [g, b, 1, c]."""
        (g, n, d), b, c = x.shape, masks.shape[1], self.shape.classes
        shift = x.mean(1, keepdim=True)  # centring removes the largest eigenvalue; the bias undoes it in the end
        x = x - shift
        targets = one_hot(self.labels.clamp(min=0), c).to(x.dtype)[None, :, None]  # [1, n, 1, c]
        row_mask = masks.transpose(1, 2)[..., None].to(x.dtype)  # [g, n, b, 1]
        decay = self.shape.recipe.mlp_decay
        rates = [1 / (largest_eigenvalue(x) / 2 + decay), 2 / row_mask.sum(1).amax((1, 2))]  # [g] each
        rates = [rate[:, None, None, None] for rate in rates]

        def gradients(weight: Tensor, bias: Tensor) -> list[Tensor]:
            logits = torch.bmm(x, weight.flatten(2)).view(g, n, b, c) + bias
            residual = (logits.softmax(-1) - targets) * row_mask
            weight_gradient = torch.bmm(x.mT, residual.flatten(2)).view(g, d, b, c) + decay * weight
            return [weight_gradient, residual.sum(1, keepdim=True)]

        current = [x.new_zeros(g, d, b, c), x.new_zeros(g, 1, b, c)]  # weights and biases
        ahead, momentum, initial_norm = current, x.new_ones(g, 1, b, 1), None
        for step in range(self.epochs):
            slopes = gradients(*ahead)
            current, ahead, momentum = accelerated_step(current, ahead, slopes, rates, momentum)
            if step % CHECK_EVERY == 0:
                norm = torch.stack([slope.square().sum() for slope in slopes]).sum().sqrt()
                initial_norm = norm if initial_norm is None else initial_norm
                check()
                if bool(norm <= TOLERANCE * initial_norm):
                    break
        weight, bias = (part.permute(0, 2, 1, 3) for part in current)
        return weight, bias - (shift[:, None] @ weight)

    def checkpoint(self) -> dict[str, Tensor]:
        """Return the state; nothing here is random."""
        return dict(self.state.tensors)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Do nothing: the solution is computed again, which does not take long."""


def accelerated_step(
    current: list[Tensor], ahead: list[Tensor], slopes: list[Tensor], rates: list[Tensor], momentum: Tensor
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Take one step of Nesterov's method from `ahead`, where the slopes were computed.

    Returns:
        The new parameters, the point where to compute the next slopes, and the next momentum [g, 1, b, 1]. A problem
        whose step goes uphill starts again without momentum.
    """
    new = [point - rate / 2 * slope for point, rate, slope in zip(ahead, rates, slopes, strict=True)]
    moves = [after - before for after, before in zip(new, current, strict=True)]
    uphill = [(slope * move).sum((1, 3), keepdim=True) for slope, move in zip(slopes, moves, strict=True)]
    overshoots = uphill[0] + uphill[1] > 0  # [g, 1, b, 1]
    next_momentum = torch.where(overshoots, 1.0, (1 + (1 + 4 * momentum**2).sqrt()) / 2)
    extrapolation = torch.where(overshoots, 0.0, (momentum - 1) / next_momentum)
    return new, [after + extrapolation * move for after, move in zip(new, moves, strict=True)], next_momentum


def largest_eigenvalue(x: Tensor, rounds: int = 30) -> Tensor:
    """Estimate the largest eigenvalue of x^T x for each x [g, n, d] by power iteration, slightly too large: [g]."""
    v = x.new_ones(len(x), x.shape[2], 1) + torch.arange(x.shape[2], device=x.device, dtype=x.dtype)[:, None] % 7
    for _ in range(rounds):
        v = x.mT @ (x @ v)
        v = v / v.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return 1.1 * (x @ v).square().sum((1, 2))
