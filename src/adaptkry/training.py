"""One loop trains all members at once: each with its own split, rates, dropouts, stopping time and best weights.

Nothing in an epoch waits for the device: scores, best weights and stopping are tensors, and the host looks at them
every LOOK epochs only. A member that has stopped goes on moving, but its kept weights do not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from adaptkry import metrics, models
from adaptkry.models import Layout, Weights

LOOK = 20  # epochs between two looks of the host at the device


@dataclass(frozen=True)
class Member:
    """What one training has to itself; a recipe has the defaults."""

    split: int
    seed: int
    mlp_lr: float
    filter_lr: float
    mlp_decay: float
    filter_decay: float
    mlp_dropout: float
    filter_dropout: float
    patience: int


@dataclass
class State:
    """Everything a training needs to go on: tensors by name, so that it can be written down and read back."""

    tensors: dict[str, Tensor] = field(default_factory=dict)

    def group(self, prefix: str) -> Weights:
        """The tensors whose names start with prefix/, without it."""
        return {name[len(prefix) + 1 :]: t for name, t in self.tensors.items() if name.startswith(prefix + "/")}

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return int(self.tensors["epoch"])


def rows_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Masks [b, n] as row numbers [b, m], padded with 0, and which of them count [b, m, 1]."""
    counts = mask.sum(1)
    order = torch.argsort(~mask, dim=1, stable=True)[:, : max(1, int(counts.max()))]
    counted = torch.arange(order.shape[1], device=mask.device) < counts[:, None]
    return order * counted, counted[:, :, None]


class Training:
    """b members of one layout on one basis.

    Args:
        layout: sizes shared by all members.
        basis: [T, n, d]; on the device, or on the CPU with `batch`.
        y: classes [n].
        masks: train and validation masks, bool [s, n]; each member picks its split's row.
        members: what they have to themselves.
        hops: terms of one basis, K + 1; hop weights start at 1 / hops.
        epochs: at most so many.
        metric: "accuracy" or "roc_auc".
        batch: nodes a step, for a basis that does not fit on the device; None is full batch.
    """

    def __init__(
        self,
        layout: Layout,
        basis: Tensor,
        y: Tensor,
        masks: dict[str, Tensor],
        members: Sequence[Member],
        *,
        hops: int,
        epochs: int = 1000,
        metric: str = "accuracy",
        device: torch.device | str = "cpu",
        batch: int | None = None,
    ):
        self.layout, self.members, self.epochs, self.batch = layout, list(members), epochs, batch
        self.device, self.dtype = torch.device(device), basis.dtype
        self.basis = basis if batch else basis.to(self.device)
        self.y, self.score = y.to(self.device), metrics.pick_metric(metric)
        chosen = torch.tensor([m.split for m in members])
        self.masks = {name: mask[chosen].cpu() for name, mask in masks.items()}
        if not batch:
            self.rows = {name: self._rows(mask) for name, mask in self.masks.items()}
        rates = ("mlp_lr", "mlp_decay", "filter_lr", "filter_decay")
        each = {k: torch.tensor([getattr(m, k) for m in members], dtype=torch.float64) for k in rates}  # [b]
        self.each = {k: rate.to(self.device, self.dtype) for k, rate in each.items()}
        self.dice = [torch.Generator(self.device).manual_seed(m.seed + 1) for m in members]
        self.drops = [m.filter_dropout for m in members], [m.mlp_dropout for m in members]
        self.on_gpu = self._on_gpu()
        self.state = State(self._fresh(hops))

    def _on_gpu(self) -> models.OnGpu | None:
        """The GPU's own dice, where there is a GPU, float32 and Triton."""
        if self.device.type != "cuda" or self.dtype != torch.float32:
            return None
        try:
            return models.OnGpu([m.seed for m in self.members], self.drops[0], self.drops[1], self.device)
        except ImportError:
            return None

    def _fresh(self, hops: int) -> dict[str, Tensor]:
        b = len(self.members)
        weights = models.initial_weights(self.layout, [m.seed for m in self.members], hops)
        statistics = models.running_statistics(self.layout, b)
        tensors = {f"weights/{k}": v for k, v in weights.items()}
        tensors |= {f"statistics/{k}": v for k, v in statistics.items()}
        tensors |= {f"best/{k}": v.clone() for k, v in (weights | statistics).items()}
        tensors |= {f"{moment}/{k}": torch.zeros_like(v) for moment in ("first", "second") for k, v in weights.items()}
        tensors = {k: v.to(self.device, self.dtype) for k, v in tensors.items()}
        curves = {f"curve/{name}": torch.full((self.epochs, b), torch.nan) for name in ("loss", "validation")}
        flags = {
            "best_score": torch.full((b,), -torch.inf),
            "best_epoch": torch.full((b,), -1),
            "failed_epoch": torch.full((b,), -1),
            "waited": torch.zeros(b, dtype=torch.long),
            "running": torch.ones(b, dtype=torch.bool),
        }
        tensors |= {k: v.to(self.device) for k, v in (curves | flags).items()}
        return tensors | {"epoch": torch.zeros((), dtype=torch.long)}

    def run(self, look: Callable[["Training"], object] = lambda _: None) -> State:
        """Train until every member has stopped; `look` is called every LOOK epochs (progress, checkpoints)."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")  # TF32 on a GPU: 3e-4 relative, far below the spread of splits
        try:
            self._run(look)
        finally:
            torch.set_float32_matmul_precision(before)
        return self.state

    def _run(self, look: Callable[["Training"], object]) -> None:
        state = self.state.tensors
        patience = torch.tensor([m.patience for m in self.members], device=self.device)
        for epoch in range(self.state.epoch, self.epochs):
            loss = self._learn(epoch)
            score = self._validate()
            self._remember(epoch, loss, score, patience)
            state["epoch"] = torch.tensor(epoch + 1)
            if (epoch + 1) % LOOK == 0 or epoch + 1 == self.epochs:
                look(self)
                if not bool(state["running"].any()):
                    break

    def _rows(self, mask: Tensor) -> tuple[Tensor, Tensor, list[int]]:
        """Row numbers, which of them count, and how many; the first two on the device, the last for the host."""
        rows, counted = rows_of(mask)
        return rows.to(self.device), counted.to(self.device), mask.sum(1).tolist()

    def _batches(self, which: str, epoch: int) -> Iterator[tuple[Tensor, Tensor, Tensor, list[int], Tensor]]:
        """(basis, rows, counted, sizes, classes [b, m]) for every step.

        The order of nodes depends on the epoch alone, so that a member's batches do not depend on its company.
        """
        if not self.batch:
            rows, counted, sizes = self.rows[which]
            yield self.basis, rows, counted, sizes, self.y[rows]
            return
        order = torch.randperm(self.basis.shape[1], generator=torch.Generator().manual_seed(epoch))
        for part in order.split(self.batch):
            rows, counted, sizes = self._rows(self.masks[which][:, part])
            yield self.basis[:, part].to(self.device), rows, counted, sizes, self.y[part.to(self.device)[rows]]

    def _learn(self, epoch: int) -> Tensor:
        """One epoch of steps; returns the mean loss of each member [b]."""
        weights, statistics = self.state.group("weights"), self.state.group("statistics")
        losses = []
        for basis, rows, counted, sizes, classes in self._batches("train", epoch):
            if self.on_gpu:
                self.on_gpu.step, self.on_gpu.sizes = epoch * 4096 + len(losses), counted.sum((1, 2))
            chance = models.Chance(self.dice, self.drops[0], self.drops[1], sizes, self.on_gpu)
            leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
            z = models.combine(self.layout, leaves, basis, rows, chance)
            logits = models.mlp(self.layout, leaves, statistics, z, counted.to(z.dtype), chance)
            each = cross_entropy(logits.transpose(1, 2), classes, reduction="none", ignore_index=-1)  # [b, m]
            # A block may hold no training node of some member; its loss there is 0, in any company.
            loss = (each * counted[:, :, 0]).sum(1) / counted[:, :, 0].sum(1).clamp(min=1)
            # Members never mix: the gradient of the sum is each member's own gradient.
            gradients = torch.autograd.grad(loss.sum(), list(leaves.values()))
            self._step(dict(zip(leaves, gradients, strict=True)))
            losses.append(loss.detach())
        return torch.stack(losses).mean(0)

    @torch.no_grad()
    def _step(self, gradients: Weights) -> None:
        """Adam with coupled L2 decay, rates and decays member by member."""
        state = self.state.tensors
        state["steps"] = steps = state.get("steps", torch.zeros((), dtype=torch.long)) + 1
        fix1, fix2 = 1 - 0.9 ** int(steps), 1 - 0.999 ** int(steps)
        for name, g in gradients.items():
            kind = "filter" if name == "filter" else "mlp"
            shape = (-1, *[1] * (g.ndim - 1))
            rate, decay = (self.each[f"{kind}_{what}"].reshape(shape) for what in ("lr", "decay"))
            w, first, second = (state[f"{group}/{name}"] for group in ("weights", "first", "second"))
            g.addcmul_(w, decay)  # ours alone: autograd made it for this step
            first.lerp_(g, 0.1)
            second.mul_(0.999).addcmul_(g, g, value=0.001)
            w.addcdiv_(first * (rate / -fix1), (second / fix2).sqrt_().add_(1e-8))

    @torch.no_grad()
    def _validate(self) -> Tensor:
        """The score of each member on its validation nodes [b]."""
        weights, statistics = self.state.group("weights"), self.state.group("statistics")
        found = []
        for basis, rows, counted, _, classes in self._batches("validation", 0):
            z = models.combine(self.layout, weights, basis, rows)
            logits = models.mlp(self.layout, weights, statistics, z, counted.to(z.dtype))
            found.append((logits, classes, counted[:, :, 0]))
        return self.score(*(torch.cat(parts, 1) for parts in zip(*found, strict=True)))

    @torch.no_grad()
    def _remember(self, epoch: int, loss: Tensor, score: Tensor, patience: Tensor) -> None:
        """Keep the weights of members that got strictly better; stop those that waited too long or broke."""
        state = self.state.tensors
        broken = state["running"] & ~torch.isfinite(loss)
        state["failed_epoch"] = torch.where(broken, epoch, state["failed_epoch"])
        better = state["running"] & ~broken & (score > state["best_score"])
        for name, kept in self.state.group("best").items():
            now = state[f"weights/{name}" if f"weights/{name}" in state else f"statistics/{name}"]
            where = better.reshape(-1, *[1] * (kept.ndim - 1))
            state[f"best/{name}"] = torch.where(where, now, kept)
        state["best_score"] = torch.where(better, score, state["best_score"])
        state["best_epoch"] = torch.where(better, epoch, state["best_epoch"])
        state["waited"] = torch.where(better, 0, state["waited"] + 1)
        state["curve/loss"][epoch] = torch.where(state["running"], loss.float(), torch.nan)
        state["curve/validation"][epoch] = torch.where(state["running"], score.float(), torch.nan)
        state["running"] = state["running"] & ~broken & (state["waited"] < patience)

    @torch.no_grad()
    def logits(self, chunk: int = 512) -> Tensor:
        """Logits of all nodes with the kept weights, [b, n, c] on the CPU."""
        weights = self.state.group("best")
        parts = []
        for nodes in torch.arange(self.basis.shape[1]).split(chunk):
            basis = self.basis[:, nodes.to(self.basis.device)].to(self.device)
            rows = torch.arange(len(nodes), device=self.device).expand(len(self.members), -1)
            z = models.combine(self.layout, weights, basis, rows)
            counted = torch.ones(*rows.shape, 1, dtype=z.dtype, device=z.device)
            parts.append(models.mlp(self.layout, weights, weights, z, counted).cpu())
        return torch.cat(parts, 1)

    def dice_states(self) -> dict[str, Tensor]:
        """The random generators' states, for a checkpoint."""
        return {f"dice/{i}": die.get_state() for i, die in enumerate(self.dice)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint: the tensors of a state and of the dice."""
        for i, die in enumerate(self.dice):
            die.set_state(tensors[f"dice/{i}"].cpu())
        rest = {name: t for name, t in tensors.items() if not name.startswith("dice/")}
        self.state = State({k: t if k in ("epoch", "steps") else t.to(self.device) for k, t in rest.items()})
