"""One loop that trains b members at once: each with its own split, seed, rates, dropouts, stopping time, best weights.

Nothing in an epoch waits for the device: scores, best weights, stopping and even the number of the epoch are tensors
that change in place, and the host looks at them every LOOK epochs only. So on a GPU an epoch can be recorded once as a
CUDA graph and played again, without Python in between. A member that has stopped goes on moving, but its kept weights
do not.

Terms that do not fit come as a `Stream` of batches, from memory or from disk, perhaps shared out among processes. Then
dice are thrown anew every epoch, so that an epoch follows from its number and the state before it alone.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adaptkry.models import batched as models
from adaptkry.models.dropout import DropoutState, OnGpu
from adaptkry.models.recipe import DROPOUTS, RATES, Recipe
from adaptkry.models.stages import ModelShape, Weights
from adaptkry.spectral.operators import Operator
from adaptkry.training import metrics
from adaptkry.training.batches import InMemoryTerms, Plan, Stream
from adaptkry.training.losses import Losses, all_logits, losses_of, mean_loss, rows_of, stream_logits
from adaptkry.training.process_group import ALONE

Batch = tuple[Tensor, Tensor, Tensor, list[int], Tensor]  # terms, rows, counted, sizes, classes [b, m]

LOOK = 20  # epochs between two looks of the host at the device
PAUSE = 5.0  # seconds after which it looks anyway: slow epochs are worth a checkpoint each
WINDOW = 200  # validation losses that stop="mean" compares with
WARM = 3  # epochs before one is recorded: kernels are compiled and memory is laid out by then


@dataclass(frozen=True)
class Member:
    """One training: its split, its seed, its recipe."""

    split: int
    seed: int
    made: Recipe


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


def streamed(terms: Tensor, y: Tensor, batch: int, device: torch.device) -> Stream:
    """Terms in memory as one slab, in steps of `batch` labelled nodes."""
    return Stream(InMemoryTerms(terms), Plan(y >= 0, 1, batch), device=device)


class Training:
    """b members of one layout on one set of precomputed signals.

    Args:
        layout: sizes shared by all members.
        terms: [T, n, d], on the device, or on the CPU with `batch`; or a stream of batches.
        y: classes [n].
        masks: train and validation masks, bool [s, n]; each member picks its split's row.
        members: what they have to themselves.
        operator: for models that propagate while they train.
        metric: "accuracy" or "roc_auc".
        batch: nodes a step, for terms that do not fit on the device; None is full batch.
        mix: [b, r] how much of each tau a member's basis has, where members differ in that.
    """

    def __init__(
        self,
        layout: ModelShape,
        terms: Tensor | Stream,
        y: Tensor,
        masks: dict[str, Tensor],
        members: Sequence[Member],
        *,
        operator: Operator | None = None,
        metric: str = "accuracy",
        device: torch.device | str = "cpu",
        batch: int | None = None,
        mix: Tensor | None = None,
    ):
        if batch and operator is not None:
            raise ValueError(f"{layout.made.method} propagates while it trains and needs all nodes at once: no batch.")
        self.layout, self.members, self.operator, self.metric = layout, list(members), operator, metric
        self.made, self.epochs, self.device = layout.made, layout.made.epochs, torch.device(device)
        self.stream = terms if isinstance(terms, Stream) else streamed(terms, y, batch, self.device) if batch else None
        self.group = self.stream.group if self.stream else ALONE
        self.score = metrics.pick_metric(metric)
        self.chosen = torch.tensor([m.split for m in members])
        if self.stream:
            self.dtype, self.y, self.masks = self.stream.source.dtype, y, masks
            self.used = {name: mask[self.chosen.unique()].any(0) for name, mask in masks.items()}  # [n], by anybody
        elif isinstance(terms, Tensor):
            self.terms, self.y, self.dtype = terms.to(self.device), y.to(self.device), terms.dtype
            self.rows = {name: self._rows(mask[self.chosen].cpu()) for name, mask in masks.items()}
        self.each = {name: self._own(name) for name in RATES}
        self.patience = self._own("patience")
        self.dice = [torch.Generator(self.device).manual_seed(m.seed + 1) for m in members]
        self.dropouts = {name: [getattr(m.made, name) for m in members] for name in DROPOUTS}
        self.on_gpu = self._on_gpu()
        self.recorded: torch.cuda.CUDAGraph | None = None
        self.can_record = self.on_gpu is not None and not self.stream  # every epoch is the same work on the device
        self.shared: Any = None  # the members' losses under DistributedDataParallel
        self.state = State(self._fresh(mix))

    def _own(self, name: str) -> Tensor:
        """One setting of every member, as numbers on the device [b]."""
        values = torch.tensor([getattr(m.made, name) for m in self.members], dtype=torch.float64)
        return values.to(self.device, self.dtype)

    def _on_gpu(self) -> OnGpu | None:
        """The GPU's own dice, where there is a GPU, float32 and Triton."""
        if self.device.type != "cuda" or self.dtype != torch.float32:
            return None
        try:
            return OnGpu([m.seed + (self.group.rank << 20) for m in self.members], self.dropouts, self.device)
        except ImportError:
            return None

    def _fresh(self, mix: Tensor | None) -> dict[str, Tensor]:
        b = len(self.members)
        weights = models.initial_weights(self.layout, [(m.seed, m.made) for m in self.members])
        kept = models.statistics(self.layout, b) | ({} if mix is None else {"mix": mix})
        tensors = {f"weights/{k}": v for k, v in weights.items()}
        tensors |= {f"statistics/{k}": v for k, v in kept.items()}
        tensors |= {f"best/{k}": v.clone() for k, v in (weights | kept).items()}
        tensors |= {f"{moment}/{k}": torch.zeros_like(v) for moment in ("first", "second") for k, v in weights.items()}
        tensors = {k: v.to(self.device, self.dtype) for k, v in tensors.items()}
        names = ("loss", "validation", "validation_loss")
        curves = {f"curve/{name}": torch.full((self.epochs, b), torch.nan) for name in names}
        flags = {
            "best_score": torch.full((b,), -torch.inf),  # validation score at the kept epoch
            "best_value": torch.full((b,), -torch.inf),  # what the recipe selects by; higher is better
            "best_epoch": torch.full((b,), -1),
            "failed_epoch": torch.full((b,), -1),
            "waited": torch.zeros(b, dtype=torch.long),
            "running": torch.ones(b, dtype=torch.bool),
            "epoch": torch.zeros((), dtype=torch.long),  # epochs done
            "steps": torch.zeros((), dtype=torch.long),
        }
        tensors |= {k: v.to(self.device) for k, v in (curves | flags).items()}
        return tensors

    def run(self, look: Callable[["Training"], object] = lambda _: None) -> State:
        """Train until every member has stopped; `look` is called every LOOK epochs, of a stream after each one."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")  # TF32 on a GPU: 3e-4 relative, far below the spread of splits
        try:
            self._run(look)
        finally:
            torch.set_float32_matmul_precision(before)
        return self.state

    def _run(self, look: Callable[["Training"], object]) -> None:
        if self.group.world > 1:
            self._agree()
        first, looked, every = self.state.epoch, time.monotonic(), 1 if self.stream else LOOK
        for epoch in range(first, self.epochs):
            if not (self.can_record and epoch >= first + WARM and self._play()):
                self._epoch(epoch)
            if (epoch + 1) % every == 0 or epoch + 1 == self.epochs or time.monotonic() - looked > PAUSE:
                look(self)
                looked = time.monotonic()
                if not bool(self.state.tensors["running"].any()):
                    break
        self.recorded = None

    def _epoch(self, number: int) -> None:
        """Learn, validate, remember. `number` is known to the host; full-batch training does not use it."""
        if self.stream:
            self._throw_anew(number)
        loss = self.group.mean(self._learn(number))
        self._remember(loss, *(self._validate_stream() if self.stream else self._validate()))
        self.state.tensors["epoch"].add_(1)

    def _play(self) -> bool:
        """One epoch from the recording, which is made at the first call; False if it cannot be made."""
        if self.recorded is None:
            recorded = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(recorded):
                    self._epoch(0)
            except RuntimeError:  # a stage asks the device for an answer: slower, but right
                self.can_record = False
                return False
            self.recorded = recorded
        self.recorded.replay()
        return True

    def _rows(self, mask: Tensor) -> tuple[Tensor, Tensor, list[int]]:
        """Row numbers, which of them count, and how many; the first two on the device, the last for the host."""
        rows, counted = rows_of(mask)
        return rows.to(self.device), counted.to(self.device), mask.sum(1).tolist()

    def _throw_anew(self, epoch: int) -> None:
        """Dice that follow from seed, epoch and process: a checkpoint of one process serves all of them."""
        for die, member in zip(self.dice, self.members, strict=True):
            seed = np.random.SeedSequence([member.seed, epoch, self.group.rank]).generate_state(1, np.uint64)[0]
            die.manual_seed(int(seed >> np.uint64(1)))

    def _agree(self) -> None:
        """Every process goes on from the first one's state, and gradients are averaged from now on."""
        state = self.group.told({name: t.cpu() for name, t in self.state.tensors.items()})
        self.state = State({name: t.to(self.device) for name, t in state.items()})
        self.shared = nn.parallel.DistributedDataParallel(Losses(self.layout, self.state.group("weights")))

    def _batches(self, which: str, epoch: int) -> Iterator[Batch]:
        """(terms, rows, counted, sizes, classes [b, m]) for every step."""
        if not self.stream:
            rows, counted, sizes = self.rows[which]
            yield self.terms, rows, counted, sizes, self.y[rows]
            return
        used = self.used[which]
        if which == "train":
            found = self.stream.training(epoch, used)
        else:  # margins of ROC-AUC do not add up: there every process looks at all of them
            found = self.stream.everything(used, shared=self.metric == "accuracy")
        for terms, numbers in found:
            rows, counted, sizes = self._rows(self.masks[which][:, numbers][self.chosen])
            classes = self.y[numbers] if len(numbers) else self.y[:1]  # which then does not count
            yield terms, rows, counted, sizes, classes.to(self.device)[rows]

    def _learn(self, epoch: int) -> Tensor:
        """One epoch of steps; returns the mean loss of each member [b]."""
        losses = []
        for batch in self._batches("train", epoch):
            loss, gradients = self._gradients(batch)
            self._step(gradients)
            losses.append(loss)
        if self.group.world > 1:
            for name in models.statistics(self.layout, 1):  # each process has seen rows of its own
                kept = self.state.tensors[f"statistics/{name}"]
                kept.copy_(self.group.mean(kept))
        return torch.stack(losses).mean(0)

    def _gradients(self, batch: Batch) -> tuple[Tensor, Weights]:
        """Loss [b] and gradients of a step; of the weights' mean over processes where there are several."""
        terms, rows, counted, sizes, classes = batch
        if self.on_gpu:
            self.on_gpu.step, self.on_gpu.sizes = self.state.tensors["steps"], counted.sum((1, 2))
        sizes = [terms.shape[1]] * len(sizes) if self.operator is not None else sizes
        chance = DropoutState(self.dice, self.dropouts, sizes, self.on_gpu)
        given = (self.state.group("statistics"), terms, rows, counted.to(terms.dtype), classes, self.operator, chance)
        # Members never mix: the gradient of the sum is each member's own gradient.
        if self.shared is not None:
            loss = self.shared(*given)
            loss.sum().backward()
            found = {name: weight.grad for name, weight in self.shared.module.weights.items()}
            self.shared.zero_grad()
            return loss.detach(), found
        leaves = {name: w.detach().requires_grad_() for name, w in self.state.group("weights").items()}
        loss = losses_of(self.layout, leaves, *given)
        gradients = torch.autograd.grad(loss.sum(), list(leaves.values()))
        return loss.detach(), dict(zip(leaves, gradients, strict=True))

    @torch.no_grad()
    def _step(self, gradients: Weights) -> None:
        """Adam, rates and decays member by member; the decay coupled (Adam) or not (AdamW)."""
        state = self.state.tensors
        state["steps"].add_(1)
        fix1, fix2 = (1 - torch.pow(rest, state["steps"].double()) for rest in (0.9, 0.999))
        fix1, fix2 = fix1.to(self.dtype), fix2.to(self.dtype)
        for name, g in gradients.items():
            shape = (-1, *[1] * (g.ndim - 1))
            rate, decay = (self.each[f"{models.group(name)}_{what}"].reshape(shape) for what in ("lr", "decay"))
            w, first, second = (state[f"{group}/{name}"] for group in ("weights", "first", "second"))
            if self.made.optimiser == "adamw":
                w.mul_(1 - rate * decay)
            else:
                g = torch.addcmul(g, w, decay)
            first.lerp_(g, 0.1)
            second.mul_(0.999).addcmul_(g, g, value=0.001)
            w.addcdiv_(first * (rate / -fix1), (second / fix2).sqrt_().add_(1e-8))

    @torch.no_grad()
    def _validate(self) -> tuple[Tensor, Tensor]:
        """Score and loss of each member on its validation nodes [b]."""
        weights, kept = self.state.group("weights"), self.state.group("statistics")
        found = []
        for terms, rows, counted, _, classes in self._batches("validation", 0):
            real = counted.to(terms.dtype)
            logits = models.logits(self.layout, weights, kept, terms, rows, real, self.operator)
            found.append((logits, classes, counted[:, :, 0]))
        logits, classes, counted = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
        return self.score(logits, classes, counted), mean_loss(self.made.loss, logits, classes, counted)

    @torch.no_grad()
    def _validate_stream(self) -> tuple[Tensor, Tensor]:
        """The same of rows that come in parts; nothing is kept of a part but sums (and margins for ROC-AUC)."""
        weights, kept = self.state.group("weights"), self.state.group("statistics")
        tally = metrics.Tally(self.metric, len(self.members), self.device)
        group = self.group if tally.is_count else ALONE
        loss = torch.zeros(len(self.members), dtype=torch.float64, device=self.device)
        for terms, rows, counted, _, classes in self._batches("validation", 0):
            real = counted.to(terms.dtype)
            logits = models.logits(self.layout, weights, kept, terms, rows, real)
            tally.add(logits, classes, counted[:, :, 0])
            loss += mean_loss(self.made.loss, logits, classes, counted[:, :, 0]) * counted.sum((1, 2))
        count = self.masks["validation"].sum(1)[self.chosen].to(self.device)
        return tally.score(group.total), (group.total(loss) / count).to(self.dtype)

    @torch.no_grad()
    def _remember(self, loss: Tensor, score: Tensor, validation_loss: Tensor) -> None:
        """Keep the weights of members that got better; stop those whose time has come or whose loss broke."""
        state = self.state.tensors
        epoch, running = state["epoch"], state["running"]
        broken = running & ~torch.isfinite(loss)
        state["failed_epoch"].copy_(torch.where(broken, epoch, state["failed_epoch"]))
        values = {"score": lambda: score, "loss": lambda: -validation_loss, "last": lambda: epoch.expand_as(score)}
        value = values[self.made.select]().to(torch.float32)
        improved = value >= state["best_value"] if self.made.ties == "later" else value > state["best_value"]
        better = running & ~broken & improved
        for name, kept in self.state.group("best").items():
            now = state[f"weights/{name}" if f"weights/{name}" in state else f"statistics/{name}"]
            torch.where(better.reshape(-1, *[1] * (kept.ndim - 1)), now, kept, out=kept)
        for name, now in (("best_score", score), ("best_value", value), ("best_epoch", epoch)):
            state[name].copy_(torch.where(better, now, state[name]))
        state["waited"].copy_(torch.where(better, 0, state["waited"] + 1))
        for name, now in (("loss", loss), ("validation", score), ("validation_loss", validation_loss)):
            line = torch.where(running, now.float(), torch.nan)
            state[f"curve/{name}"].index_copy_(0, epoch[None], line[None])
        running.copy_(running & ~broken & ~self._stops(epoch))

    def _stops(self, epoch: Tensor) -> Tensor:
        """Which members the recipe's rule would stop after this epoch [b]."""
        state, rule = self.state.tensors, self.made.stop
        if rule == "never":
            return torch.zeros_like(state["running"])
        if rule == "patience":
            return (state["waited"] >= self.patience) & (epoch >= self.made.least_epochs)
        losses = state["curve/validation_loss"]
        before = (epoch - WINDOW + torch.arange(WINDOW, device=epoch.device)).clamp(min=0)
        now = losses.index_select(0, epoch[None])[0]
        return (now > losses.index_select(0, before).mean(0)) & (epoch > max(WINDOW, self.made.least_epochs - 1))

    @torch.no_grad()
    def logits(self, chunk: int = 512) -> Tensor:
        """Logits of all nodes with the kept weights, [b, n, c] on the CPU."""
        if self.stream:
            return torch.cat([part for part, _ in stream_logits(self.layout, self.state.group("best"), self.stream)], 1)
        return all_logits(self.layout, self.state.group("best"), self.terms, self.operator, self.device, chunk)

    def dice_states(self) -> dict[str, Tensor]:
        """The random generators' states, for a checkpoint."""
        return {f"dice/{i}": die.get_state() for i, die in enumerate(self.dice)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a checkpoint: the tensors of a state and of the dice."""
        for i, die in enumerate(self.dice):
            die.set_state(tensors[f"dice/{i}"].cpu())
        rest = {name: t for name, t in tensors.items() if not name.startswith("dice/")}
        self.state = State({name: t.to(self.device) for name, t in rest.items()})
