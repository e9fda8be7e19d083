"""Logistic regression on the best of several candidate signals, the winner refitted on train + validation (ASGC).

The problem is strongly convex, so it has one answer and no seed: all candidates and splits are solved at once by
accelerated gradient steps, each with its own momentum, restarted where it overshoots.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from adaptkry.models.stages import ModelShape
from adaptkry.training import metrics
from adaptkry.training.loop import LOOK, Member, State
from adaptkry.training.losses import all_logits

SMALL = 1e-4  # mean gradient norm at which a problem counts as solved, relative to where it began


class Logistic:
    """What `Training` is for gradient descent: members, a state to save, `run` and `logits`.

    The penalty is scikit-learn's with C = 1 / mlp_decay: the sum of losses plus half the squared weights, the bias
    free. `terms` [T, n, d] are the candidates; which one a member uses is remembered as its `mix`.
    """

    def __init__(
        self,
        layout: ModelShape,
        terms: Tensor,
        y: Tensor,
        masks: dict[str, Tensor],
        members: Sequence[Member],
        *,
        metric: str = "accuracy",
        device: torch.device | str = "cpu",
    ):
        self.layout, self.members, self.device = layout, list(members), torch.device(device)
        self.terms, self.y, self.score = terms.to(device), y.to(device), metrics.pick_metric(metric)
        chosen = torch.tensor([m.split for m in members])
        self.train, self.validation = (masks[name][chosen].to(device) for name in ("train", "validation"))  # [b, n]
        self.operator, self.epochs = None, layout.made.epochs
        b, T = len(members), len(terms)
        flags = {"best_score": torch.zeros(b), "best_epoch": torch.zeros(b).long(), "failed_epoch": -torch.ones(b)}
        curves = {f"curve/{name}": torch.zeros(1, b) for name in ("loss", "validation", "validation_loss")}
        self.state = State(
            flags | curves | {"running": torch.ones(b, dtype=torch.bool), "epoch": torch.zeros(()).long()}
        )
        self.state.tensors |= {"best/filter": torch.ones(b, 1), "best/mix": torch.zeros(b, T)}

    @torch.no_grad()
    def run(self, look: Callable[["Logistic"], object] = lambda _: None) -> State:
        """Solve every candidate on train, choose on validation, solve the chosen ones on train + validation."""
        b, state = len(self.members), self.state.tensors
        steps = lambda: look(self)  # noqa: E731
        found = []
        for term in self.terms:  # candidate by candidate: memory stays at one
            weight, bias = self._solve(term[None], self.train[None], steps)
            logits = torch.einsum("nd,bdc->bnc", term, weight[0]) + bias[0]
            found.append(self.score(logits, self.y.expand(b, -1), self.validation))
        scores, winner = torch.stack(found).max(0)
        weight, bias = self._solve(self.terms[winner], (self.train | self.validation)[:, None], steps)
        mix = one_hot(winner, len(self.terms)).float()
        state |= {"best/weight1": weight[:, 0], "best/bias1": bias[:, 0], "best/mix": mix, "best_score": scores}
        state |= {
            "curve/validation": scores[None].clone(),
            "running": state["running"] & False,
            "epoch": torch.tensor(1),
        }
        look(self)
        return self.state

    def _solve(self, x: Tensor, masks: Tensor, tick: Callable[[], object]) -> tuple[Tensor, Tensor]:
        """Signals x [g, n, d] and masks [g, b, n] -> weights [g, b, d, c] and biases [g, b, 1, c]."""
        (g, n, d), b, c = x.shape, masks.shape[1], self.layout.classes
        shift = x.mean(1, keepdim=True)  # a shift moves into the free bias, and takes the largest eigenvalue with it
        x = x - shift
        wanted = one_hot(self.y.clamp(min=0), c).to(x.dtype)[None, :, None]  # [1, n, 1, c]
        counted = masks.transpose(1, 2)[..., None].to(x.dtype)  # [g, n, b, 1]
        decay = self.layout.made.mlp_decay
        pace = 1 / (largest_eigenvalue(x) / 2 + decay)  # [g]
        pace_bias = 2 / counted.sum(1).amax((1, 2))
        rates = [pace[:, None, None, None], pace_bias[:, None, None, None]]
        now = [x.new_zeros(g, d, b, c), x.new_zeros(g, 1, b, c)]
        ahead, momentum, start = now, x.new_ones(g, 1, b, 1), None
        for step in range(self.epochs):
            logits = torch.bmm(x, ahead[0].flatten(2)).view(g, n, b, c) + ahead[1]
            rest = (logits.softmax(-1) - wanted) * counted
            slopes = [torch.bmm(x.mT, rest.flatten(2)).view(g, d, b, c) + decay * ahead[0], rest.sum(1, keepdim=True)]
            new = [w - rate / 2 * slope for w, rate, slope in zip(ahead, rates, slopes, strict=True)]
            moves = [fresh - old for fresh, old in zip(new, now, strict=True)]
            along = [(s * m).sum((1, 3), keepdim=True) for s, m in zip(slopes, moves, strict=True)]
            against = along[0] + along[1] > 0
            following = torch.where(against, 1.0, (1 + (1 + 4 * momentum**2).sqrt()) / 2)
            push = torch.where(against, 0.0, (momentum - 1) / following)
            ahead = [fresh + push * move for fresh, move in zip(new, moves, strict=True)]
            now, momentum = new, following
            if step % LOOK == 0:
                size = torch.stack([s.square().sum() for s in slopes]).sum().sqrt()
                start = size if start is None else start
                tick()
                if bool(size <= SMALL * start):
                    break
        weight = now[0].permute(0, 2, 1, 3)
        bias = now[1].permute(0, 2, 1, 3) - (shift[:, None] @ weight)
        return weight, bias

    def logits(self) -> Tensor:
        """Logits of all nodes with the refitted weights, [b, n, c] on the CPU."""
        weights = {name: w.to(self.device) for name, w in self.state.group("best").items()}
        return all_logits(self.layout, weights, self.terms, None, self.device)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Solved again: there is one answer, and it does not take long."""

    def dice_states(self) -> dict[str, Tensor]:
        """There is nothing random here."""
        return {}


def largest_eigenvalue(x: Tensor, rounds: int = 30) -> Tensor:
    """Of x^T x for each x [g, n, d], by power iteration, a little above: [g]."""
    v = x.new_ones(len(x), x.shape[2], 1) + torch.arange(x.shape[2], device=x.device, dtype=x.dtype)[:, None] % 7
    for _ in range(rounds):
        v = x.mT @ (x @ v)
        v = v / v.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return 1.1 * (x @ v).square().sum((1, 2))
