"""Logistic regression on the best of several candidate signals, refitted on train + validation (ASGC).

The problem is strongly convex, so it has one solution and no seed: all candidates and splits are solved at once by
accelerated gradient steps, each with its own momentum, restarted where it overshoots.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from adaptkry.models.stages import ModelShape
from adaptkry.training.batches import FullBatch
from adaptkry.training.loop import CHECK_EVERY, Callback
from adaptkry.training.metrics import pick_metric
from adaptkry.training.state import CURVES, Member, TrainingState

TOLERANCE = 1e-4  # mean gradient norm at which a problem counts as solved, relative to the initial one


class LogisticRegression:
    """The exact solver: what `GradientDescent` is for Adam, with the same interface.

    The penalty is scikit-learn's with C = 1 / mlp_decay: the sum of losses plus half the squared weights, the bias
    free. The terms [T, n, d] are the candidates; a member's choice is stored as its `basis_mix`.

    Args:
        shape: sizes that all members share.
        batches: all nodes.
        members: splits, seeds and recipes.
        labels: class of each node [n].
        masks: "train" and "validation" masks, bool [s, n].
        metric: "accuracy" or "roc_auc".
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
        self.terms, self.labels, self.score = batches.terms, labels.to(self.device), pick_metric(metric)
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
        """Solve every candidate on train, choose on validation, solve the chosen ones on train + validation."""
        b, state, callbacks = len(self.members), self.state.tensors, list(callbacks)

        def check() -> None:
            for callback in callbacks:
                callback(self.state)

        found = []
        for term in self.terms:  # candidate by candidate: memory holds one
            weight, bias = self._solve(term[None], self.train[None], check)
            logits = torch.einsum("nd,bdc->bnc", term, weight[0]) + bias[0]
            found.append(self.score(logits, self.labels.expand(b, -1), self.validation))
        scores, best = torch.stack(found).max(0)  # [b] each
        weight, bias = self._solve(self.terms[best], (self.train | self.validation)[:, None], check)
        mix = one_hot(best, len(self.terms)).float()
        state |= {"best/mlp/1/weight": weight[:, 0], "best/mlp/1/bias": bias[:, 0], "best/basis_mix": mix}
        state |= {"best_score": scores, "curve/validation": scores[None].clone(), "epoch": torch.tensor(1)}
        state["running"] = state["running"] & False
        check()
        return self.state

    def _solve(self, x: Tensor, masks: Tensor, check: Callable[[], object]) -> tuple[Tensor, Tensor]:
        """Signals x [g, n, d] and masks [g, b, n] -> weights [g, b, d, c] and biases [g, b, 1, c]."""
        (g, n, d), b, c = x.shape, masks.shape[1], self.shape.classes
        shift = x.mean(1, keepdim=True)  # a shift moves into the free bias, and removes the largest eigenvalue
        x = x - shift
        targets = one_hot(self.labels.clamp(min=0), c).to(x.dtype)[None, :, None]  # [1, n, 1, c]
        counted = masks.transpose(1, 2)[..., None].to(x.dtype)  # [g, n, b, 1]
        decay = self.shape.recipe.mlp_decay
        weight_step = 1 / (largest_eigenvalue(x) / 2 + decay)  # [g]
        bias_step = 2 / counted.sum(1).amax((1, 2))
        steps = [weight_step[:, None, None, None], bias_step[:, None, None, None]]
        now = [x.new_zeros(g, d, b, c), x.new_zeros(g, 1, b, c)]
        ahead, momentum, initial = now, x.new_ones(g, 1, b, 1), None
        for step in range(self.epochs):
            logits = torch.bmm(x, ahead[0].flatten(2)).view(g, n, b, c) + ahead[1]
            residual = (logits.softmax(-1) - targets) * counted
            slopes = [
                torch.bmm(x.mT, residual.flatten(2)).view(g, d, b, c) + decay * ahead[0],
                residual.sum(1, keepdim=True),
            ]
            new = [w - rate / 2 * slope for w, rate, slope in zip(ahead, steps, slopes, strict=True)]
            moves = [fresh - old for fresh, old in zip(new, now, strict=True)]
            along = [(s * m).sum((1, 3), keepdim=True) for s, m in zip(slopes, moves, strict=True)]
            overshoots = along[0] + along[1] > 0
            next_momentum = torch.where(overshoots, 1.0, (1 + (1 + 4 * momentum**2).sqrt()) / 2)
            push = torch.where(overshoots, 0.0, (momentum - 1) / next_momentum)
            ahead = [fresh + push * move for fresh, move in zip(new, moves, strict=True)]
            now, momentum = new, next_momentum
            if step % CHECK_EVERY == 0:
                size = torch.stack([s.square().sum() for s in slopes]).sum().sqrt()
                initial = size if initial is None else initial
                check()
                if bool(size <= TOLERANCE * initial):
                    break
        weight = now[0].permute(0, 2, 1, 3)
        bias = now[1].permute(0, 2, 1, 3) - (shift[:, None] @ weight)
        return weight, bias

    def checkpoint(self) -> dict[str, Tensor]:
        """The state; there is nothing random here."""
        return dict(self.state.tensors)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Nothing to restore: the one solution is computed again, which does not take long."""


def largest_eigenvalue(x: Tensor, rounds: int = 30) -> Tensor:
    """Of x^T x for each x [g, n, d], by power iteration, slightly overestimated: [g]."""
    v = x.new_ones(len(x), x.shape[2], 1) + torch.arange(x.shape[2], device=x.device, dtype=x.dtype)[:, None] % 7
    for _ in range(rounds):
        v = x.mT @ (x @ v)
        v = v / v.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return 1.1 * (x @ v).square().sum((1, 2))
