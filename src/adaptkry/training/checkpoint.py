"""Checkpoints: the state of a training, written to the run folder and restored when the training is resumed."""

from pathlib import Path

from torch import Tensor

from adaptkry.common.files import write
from adaptkry.training.state import TrainingState

CHECKPOINT = "checkpoint.safetensors"


class Checkpointer:
    """A callback that writes a checkpoint of a trainer; `restore` reads it.

    Args:
        folder: the run folder.
        key: digest of settings, data and splits; a checkpoint with another key is refused.
        trainer: has `checkpoint() -> dict[str, Tensor]` and `restore(tensors)`.
    """

    def __init__(self, folder: Path, key: str, trainer):
        self.path, self.key, self.trainer = folder / CHECKPOINT, key, trainer

    def restore(self) -> None:
        """Continue from the checkpoint, if there is one."""
        from safetensors import SafetensorError, safe_open
        from safetensors.torch import load_file

        if not self.path.exists():
            return
        try:
            with safe_open(self.path, "pt") as file:
                key = (file.metadata() or {}).get("key")
        except SafetensorError as error:
            raise ValueError(
                f"{self.path} must be a checkpoint; got a damaged file ({error}). Train without --resume."
            ) from None
        if key != self.key:
            raise ValueError(
                f"{self.path} must belong to this training; got one of other settings, splits or data. "
                "Use another output folder, or train without --resume."
            )
        self.trainer.restore(load_file(self.path))

    def __call__(self, _: TrainingState) -> None:
        """Write a checkpoint atomically."""
        from safetensors.torch import save

        tensors: dict[str, Tensor] = {name: t.contiguous() for name, t in self.trainer.checkpoint().items()}
        write(self.path, save(tensors, {"key": self.key}))

    def remove(self) -> None:
        """Delete the checkpoint, because the training is complete or starts over."""
        self.path.unlink(missing_ok=True)
