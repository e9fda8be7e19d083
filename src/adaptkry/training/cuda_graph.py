"""Epochs, or steps of batches, recorded once as a CUDA graph and replayed without Python overhead."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptkry.training.batches import Batch

WARM_UP = 1  # epochs before the recording, in which kernels are compiled and tables are made
TENSORS = ("terms", "rows", "row_mask", "truth")  # of a batch
MOST_SHAPES = 4  # of batches, for which calls are recorded: each has a copy of a batch and its own memory


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
class RecordedCall:
    """A recorded call: it reads `batch`, and writes `result`."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    result: Tensor

    def replay(self, batch: Batch) -> Tensor:
        """Return the result for another batch of the same shape."""
        for name in TENSORS:
            getattr(self.batch, name).copy_(getattr(batch, name))
        self.graph.replay()
        return self.result.clone()


class RecordedCalls:
    """Calls `function(batch)` for the first batch of a shape, records it with the second, and replays the recording.

    As with epochs, what cannot be recorded is called every time. Other threads may use the GPU meanwhile: only calls of
    this thread are checked.
    """

    def __init__(self, function: Callable[[Batch], Tensor]):
        self.function = function
        self.called: set[tuple] = set()
        self.recorded: dict[tuple, RecordedCall] = {}
        self.can_record = True

    def __call__(self, batch: Batch) -> Tensor:
        """Return the result for a batch."""
        shape = (batch.terms.shape, batch.rows.shape)
        is_due = shape in self.called and shape not in self.recorded and len(self.recorded) < MOST_SHAPES
        if is_due and self.can_record:
            self._record(shape, batch)
        self.called.add(shape)
        return self.recorded[shape].replay(batch) if shape in self.recorded else self.function(batch)

    def _record(self, shape: tuple, batch: Batch) -> None:
        graph = torch.cuda.CUDAGraph()
        fixed = replace(batch, **{name: getattr(batch, name).clone() for name in TENSORS})
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                result = self.function(fixed)
        except RuntimeError:
            self.can_record = False
            return
        self.recorded[shape] = RecordedCall(graph, fixed, result)
