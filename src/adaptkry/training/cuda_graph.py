"""Epochs recorded once as a CUDA graph and replayed without Python overhead."""

from collections.abc import Callable

import torch

WARM_UP = 1  # epochs before the recording, in which kernels are compiled and tables are made


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
