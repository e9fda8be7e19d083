"""The training loop: b members at once, each with its own split, seed, rates, stopping epoch and best weights.

Nothing in an epoch waits for the device: scores, best weights, stopping and even the epoch counter are tensors that
change in place, and the host reads them only every `CHECK_EVERY` epochs. On a GPU an epoch, or a step of slabs, can
therefore be recorded once and replayed (`cuda_graph.py`). A member that has stopped keeps computing, but its best
weights do not change; once many have stopped, the others go on without them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy

import numpy as np
import torch
from torch import Tensor

from adaptkry.common.memory import reused_memory
from adaptkry.models.dropout import DropoutState, GpuDropout, random_half
from adaptkry.models.recipe import DROPOUT_RATES, OPTIMISER_SETTINGS
from adaptkry.models.stages import ModelShape, initial_statistics
from adaptkry.spectral.kernels.launch import compiled_together
from adaptkry.training.adam import adam_step
from adaptkry.training.batches import Batch, Batches, FullBatch
from adaptkry.training.cuda_graph import RecordedCalls, RecordedEpoch
from adaptkry.training.early_stopping import stop_members
from adaptkry.training.evaluation import evaluate, validation_logits
from adaptkry.training.losses import LossAndGradients, make_gradient_function
from adaptkry.training.metrics import pick_metric
from adaptkry.training.state import Member, TrainingState, initial_state

CHECK_EVERY = 20  # epochs between two checks, in which the host reads the state
RUNNING_SHARE = 0.6  # members that have stopped are left out once at most this share still runs
CHECK_SECONDS = 2.0  # at most this long between checks: slow epochs are worth a checkpoint each

Callback = Callable[[TrainingState], object]  # if it returns True, the training ends
Step = Callable[[Batch], Tensor]  # takes a step, and returns the loss of each member [b]
Logits = Callable[[Batch], Tensor]  # computes the logits of all members [b, m, c]


class GradientDescent:
    """Trains b members of one shape with Adam.

    Args:
        shape: sizes that all members share.
        batches: the source of terms, rows and classes.
        members: splits, seeds and recipes.
        metric: the name of the metric that chooses epochs.
        fixed: statistics that do not change: `basis_mix` [b, r], the share of each of r bases in a member's basis,
            where members differ in taus; `labels` [b, n], the class of each member's training nodes and -1 elsewhere,
            for recipes that use training labels; those of `tasks`.
    """

    def __init__(
        self,
        shape: ModelShape,
        batches: Batches,
        members: Sequence[Member],
        *,
        metric: str = "accuracy",
        fixed: Mapping[str, Tensor] | None = None,
    ):
        self.shape, self.recipe, self.batches, self.metric = shape, shape.recipe, batches, metric
        self.score_sign = 1 if pick_metric(metric, self.recipe.task).greater_is_better else -1
        self.members, self.group, self.device = list(members), batches.group, batches.device
        self.generators = [torch.Generator(self.device).manual_seed(m.seed + 1) for m in members]
        self.state = initial_state(shape, members, batches.dtype, self.device, dict(fixed or {}))
        self.recorded: list[RecordedEpoch | RecordedCalls] = []
        self.has_failed_to_record = False
        self._settings_of_members()

    def _settings_of_members(self) -> None:
        """Collect the settings in which members differ."""
        members = self.members
        self.rates = {name: self._per_member(name) for name in OPTIMISER_SETTINGS}
        self.patience = self._per_member("patience")
        is_smoothed = any(m.recipe.label_smoothing for m in members)
        self.label_smoothing = self._per_member("label_smoothing") if is_smoothed else None
        self.dropout_rates = {name: [getattr(m.recipe, name) for m in members] for name in DROPOUT_RATES}
        self.gpu_dropout = self._gpu_dropout()
        self.seeds = torch.tensor([m.seed for m in members], device=self.device)

    @property
    def can_record(self) -> bool:
        """Whether epochs, or steps of slabs, can be recorded on a GPU; False once that has failed."""
        return self.gpu_dropout is not None and self.group.size == 1 and not self.has_failed_to_record

    def run(self, callbacks: Iterable[Callback] = ()) -> TrainingState:
        """Train until every member has stopped or a callback returns True; callbacks are called at every check."""
        callbacks, epochs = list(callbacks), self.recipe.epochs
        with tensor_float_32(), reused_memory() if self.device.type == "cpu" else nullcontext():
            part, last_check = self._active_part(), time.monotonic()
            train_epoch = part.epoch_function()
            try:
                for epoch in range(self.state.epoch, epochs):
                    train_epoch(epoch)
                    if self._is_check_due(epoch, last_check):
                        if part is not self:
                            self.state.update(self.state["active"].nonzero()[:, 0], part.state)
                        is_smaller = self._leave_out_stopped(epoch)
                        answers = [callback(self.state) for callback in callbacks]
                        last_check = time.monotonic()
                        if True in answers or not bool(self.state.running.any()):
                            break
                        if is_smaller:
                            part.release()
                            part = self._active_part()
                            train_epoch = part.epoch_function()
            finally:
                part.release()
        return self.state

    def epoch_function(self) -> Callable[[int], None]:
        """Return the function that trains an epoch: on a GPU it, or a step, is recorded once and then replayed."""
        can_record = self.can_record
        if can_record and self.batches.is_fixed:
            self._compile_kernels()
            whole_step = self.step_function()
            train_epoch = RecordedEpoch(lambda epoch: self.one_epoch(epoch, whole_step))
            self.recorded = [train_epoch]
            return train_epoch
        step, logits = self.step_function(), None
        if can_record:
            parts = self.shape, self.state.group("weights"), self.state.group("statistics")
            step, logits = RecordedCalls(step), RecordedCalls(lambda batch: validation_logits(*parts, batch, None))
            self.recorded = [step, logits]
        return lambda epoch: self.one_epoch(epoch, step, logits)

    def _compile_kernels(self) -> None:
        """Compile the kernels of an epoch in parallel; the state does not change."""
        trial, changing = copy(self), ("statistics/", "steps")
        own = {name: t.clone() for name, t in self.state.tensors.items() if name.startswith(changing)}
        trial.state = TrainingState(self.state.tensors | own, self.state.epochs)
        step = trial.step_function()
        with compiled_together():
            trial._steps(0, step)

    def release(self) -> None:
        """Free the memory of a recorded epoch or of steps, which must not happen while another one is recorded.

        The recording refers to the training: without this, both would stay in memory for a while.
        """
        if self.recorded:
            self.has_failed_to_record = not all(recorded.can_record for recorded in self.recorded)
            self.recorded = []

    def _leave_out_stopped(self, epoch: int) -> bool:
        """Leave out the members that have stopped, if only few others are active; return whether this was done.

        It depends on the epoch, not on the time, and is in the checkpoint, so that a resumed training does the same.
        """
        running, active = self.state.running, self.state["active"]
        is_due = (epoch + 1) % CHECK_EVERY == 0 and isinstance(self.batches, FullBatch)
        if not is_due or not 0 < float(running.sum()) <= RUNNING_SHARE * float(active.sum()):
            return False
        active.copy_(running)
        return True

    def _active_part(self) -> "GradientDescent":
        """Return the training of the active members: itself, or one with a part of its batches and state."""
        active = self.state["active"].nonzero()[:, 0]
        if len(active) == len(self.members) or not isinstance(self.batches, FullBatch):
            return self
        part, members = copy(self), active.tolist()
        part.members = [self.members[i] for i in members]
        part.generators = [self.generators[i] for i in members]
        part.batches, part.state = self.batches.of(active), self.state.of(active)
        part._settings_of_members()
        return part

    def one_epoch(self, epoch: int, step: Step, logits: Logits | None = None) -> None:
        """Train, validate and keep the best weights. A full batch does not use the number of the epoch."""
        if not self.batches.is_fixed:
            self._reseed(epoch)
        loss, score, validation_loss = self._steps(epoch, step, logits)
        self.keep_best(loss, score, validation_loss)
        stop_members(self.state, self.recipe, self.patience, loss)
        self.state["epoch"].add_(1)

    def step_function(self) -> Step:
        """Return the function that takes a step of Adam and returns the loss of each member [b]."""
        loss_and_gradients, state = self.gradient_function(), self.state
        weights, moments = state.group("weights"), (state.group("first"), state.group("second"))
        is_adamw = self.recipe.optimiser == "adamw"

        def step(batch: Batch) -> Tensor:
            loss, gradients = loss_and_gradients(batch, self._dropout(batch))  # [b], name -> [b, ...]
            adam_step(weights, gradients, *moments, state["steps"], self.rates, decoupled=is_adamw)
            return loss

        return step

    def _steps(self, epoch: int, step: Step, logits: Logits | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Take the steps of an epoch; returns the loss, and score and loss on validation nodes, [b] each."""
        losses = [step(batch) for batch in self.batches.train(epoch)]
        self._average_statistics()
        loss = self.group.mean(losses[0] if len(losses) == 1 else torch.stack(losses).mean(0))
        weights, statistics = self.state.group("weights"), self.state.group("statistics")
        return loss, *evaluate(self.shape, weights, statistics, self.batches, self.metric, logits)

    @torch.no_grad()
    def keep_best(self, loss: Tensor, score: Tensor, validation_loss: Tensor) -> None:
        """Keep the weights of members that improved, and append to the curves; all arguments are [b]."""
        state, epoch, running = self.state, self.state["epoch"], self.state.running
        values = {
            "score": lambda: self.score_sign * score,
            "loss": lambda: -validation_loss,
            "last": lambda: epoch.expand_as(score),
        }
        value = values[self.recipe.select]().to(torch.float32)  # [b] higher is better
        improved = value >= state["best_value"] if self.recipe.ties == "later" else value > state["best_value"]
        improved = running & (loss.abs() < torch.inf) & improved  # a loss that is NaN is not below
        current = state.group("weights") | state.group("statistics")
        current = {f"best/{name}": tensor for name, tensor in current.items()}
        current |= {"best_score": score.float(), "best_value": value, "best_epoch": epoch}
        for name, tensor in current.items():
            best = state[name]
            torch.where(improved.reshape(-1, *[1] * (best.ndim - 1)), tensor, best, out=best)
        state["waited"].add_(1).masked_fill_(improved, 0)
        points = torch.stack([loss.float(), score.float(), validation_loss.float()]).masked_fill(~running, torch.nan)
        for name, point in zip(("loss", "validation", "validation_loss"), points[:, None], strict=True):
            state[f"curve/{name}"].index_copy_(0, epoch[None], point)

    def _is_check_due(self, epoch: int, last_check: float) -> bool:
        every = CHECK_EVERY if self.batches.is_fixed else 1  # an epoch over slabs is long
        is_last = epoch + 1 == self.recipe.epochs
        return (epoch + 1) % every == 0 or is_last or time.monotonic() - last_check > CHECK_SECONDS

    def _per_member(self, name: str) -> Tensor:
        """Return one setting of every member as a tensor on the device [b]."""
        values = torch.tensor([getattr(m.recipe, name) for m in self.members], dtype=torch.float64)
        return values.to(self.device, self.batches.dtype)

    def _gpu_dropout(self) -> GpuDropout | None:
        """Return the dropout of the Triton kernels, which need a GPU and float32; None where there are none."""
        if self.device.type != "cuda" or self.batches.dtype != torch.float32:
            return None
        try:
            return GpuDropout([m.seed + (self.group.rank << 20) for m in self.members], self.dropout_rates, self.device)
        except ImportError:
            return None

    def _dropout(self, batch: Batch) -> DropoutState:
        if self.gpu_dropout:
            self.gpu_dropout.step = self.state["steps"]
        visible = None
        if self.recipe.similar_nodes:
            visible = random_half(self.seeds, self.state["steps"], self.state["statistics/labels"].shape[1])
        return DropoutState(self.generators, self.dropout_rates, batch.dropout_rows, self.gpu_dropout, visible)

    def _reseed(self, epoch: int) -> None:
        """Reseed generators from seed, epoch and rank, so that the checkpoint of one process serves all of them."""
        for generator, member in zip(self.generators, self.members, strict=True):
            seed = np.random.SeedSequence([member.seed, epoch, self.group.rank]).generate_state(1, np.uint64)[0]
            generator.manual_seed(int(seed >> np.uint64(1)))

    def gradient_function(self) -> LossAndGradients:
        """Return the function from a batch to loss and gradients; processes first copy the state of the first one."""
        if self.group.size > 1:
            tensors = self.group.broadcast({name: t.cpu() for name, t in self.state.tensors.items()})
            self.state = TrainingState({name: t.to(self.device) for name, t in tensors.items()}, self.state.epochs)
        weights, statistics = self.state.group("weights"), self.state.group("statistics")
        operator = self.batches.operator
        return make_gradient_function(self.shape, weights, statistics, operator, self.group, self.label_smoothing)

    def _average_statistics(self) -> None:
        """Average the statistics of batch norm over all processes, each of which saw other rows."""
        if self.group.size > 1:
            for name in initial_statistics(self.shape, 1):
                statistic = self.state[f"statistics/{name}"]
                statistic.copy_(self.group.mean(statistic))

    def checkpoint(self) -> dict[str, Tensor]:
        """Return everything that `restore` needs, by name."""
        states = {f"generator/{i}": generator.get_state() for i, generator in enumerate(self.generators)}
        return self.state.tensors | states

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        for i, generator in enumerate(self.generators):
            generator.set_state(tensors[f"generator/{i}"].cpu())
        rest = {name: t.to(self.device) for name, t in tensors.items() if not name.startswith("generator/")}
        self.state = TrainingState({"active": self.state["active"]} | rest, self.state.epochs)


@contextmanager
def tensor_float_32() -> Iterator[None]:
    """Use TF32 on a GPU within a `with` block: its relative error of 3e-4 is far below the spread over splits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
