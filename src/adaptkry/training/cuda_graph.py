"""Epochs or steps recorded once as a CUDA graph and replayed without Python overhead."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptkry.training.batches import Batch

WARM_UP = 1  # epochs before the recording, in which kernels are compiled and tables are made
MOST_SHAPES = 8  # of batches, whose steps are recorded


class RecordedEpoch:
    """Calls `train_epoch(epoch)` for some epochs, then records it and replays the recording.

    The work on the device must not depend on the number of the epoch. A stage that waits for the device cannot be
    recorded: every epoch is then called, which is slower but gives the same result.
    """

    def __init__(self, train_epoch: Callable[[int], None], warm_up: int = WARM_UP):
        self.train_epoch, self.warm_up_left = train_epoch, warm_up
        self.graph: torch.cuda.CUDAGraph | None = None
        self.can_record = True

    def __call__(self, epoch: int) -> None:
        """Run one epoch."""
        if self.warm_up_left > 0 or not self.can_record or not self._record():
            self.warm_up_left -= 1
            self.train_epoch(epoch)
        else:
            assert self.graph is not None
            self.graph.replay()

    def _record(self) -> bool:
        if self.graph is None:
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):
                    self.train_epoch(0)
            except RuntimeError:
                self.can_record = False
                return False
            self.graph = graph
        return True


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step: it reads `batch`, and writes `loss`."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    loss: Tensor  # [b]

    def replay(self, batch: Batch) -> Tensor:
        """Take the step with another batch of the same shape."""
        for name in TENSORS:
            getattr(self.batch, name).copy_(getattr(batch, name))
        self.graph.replay()
        return self.loss.clone()


TENSORS = ("terms", "rows", "row_mask", "truth")  # of a batch


class RecordedSteps:
    """Calls `step(batch)` for the first batch of a shape, records it with the second, and replays the recording.

    As with epochs, a step that cannot be recorded is called every time. Meanwhile another thread reads from disk, so
    that only the calls of this thread are checked.
    """

    def __init__(self, step: Callable[[Batch], Tensor]):
        self.step = step
        self.called: set[tuple] = set()
        self.recorded: dict[tuple, RecordedStep] = {}
        self.can_record = True

    def __call__(self, batch: Batch) -> Tensor:
        """Take a step, and return the loss of each member [b]."""
        shape = (batch.terms.shape, batch.rows.shape)
        is_due = shape in self.called and shape not in self.recorded and len(self.recorded) < MOST_SHAPES
        if is_due and self.can_record:
            self._record(shape, batch)
        self.called.add(shape)
        return self.recorded[shape].replay(batch) if shape in self.recorded else self.step(batch)

    def _record(self, shape: tuple, batch: Batch) -> None:
        graph = torch.cuda.CUDAGraph()
        fixed = replace(batch, **{name: getattr(batch, name).clone() for name in TENSORS})
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                loss = self.step(fixed)
        except RuntimeError:
            self.can_record = False
            return
        self.recorded[shape] = RecordedStep(graph, fixed, loss)
