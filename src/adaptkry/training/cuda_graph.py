"""An epoch recorded once as a CUDA graph and replayed, without Python in between."""

from collections.abc import Callable

import torch

WARM_UP = 3  # epochs before one is recorded: kernels are compiled and memory is allocated by then


class RecordedEpoch:
    """Calls `epoch(number)` for some epochs, then records it and replays the recording.

    Recording needs work on the device that does not depend on the number. A stage that waits for the device cannot be
    recorded: then every epoch is called, which is slower but right.
    """

    def __init__(self, epoch: Callable[[int], None], warm_up: int = WARM_UP):
        self.epoch, self.left = epoch, warm_up
        self.graph: torch.cuda.CUDAGraph | None = None
        self.can_record = True

    def __call__(self, number: int) -> None:
        """Run one epoch."""
        if self.left > 0 or not self.can_record or not self._record():
            self.left -= 1
            self.epoch(number)
        else:
            assert self.graph is not None
            self.graph.replay()

    def _record(self) -> bool:
        if self.graph is None:
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):
                    self.epoch(0)
            except RuntimeError:
                self.can_record = False
                return False
            self.graph = graph
        return True
