"""Write a training run for TensorBoard."""

from __future__ import annotations

from pathlib import Path

from pmvge.errors import InputError, StorageError
from pmvge.training.callbacks import Callback
from pmvge.training.history import Record
from pmvge.training.schedule import Schedule


class TensorBoard(Callback):
    """Write loss, validation and learning rate to a folder that ``tensorboard --logdir`` shows.

    A resumed run continues its curves: records after the checkpoint are replaced. Another run
    replaces all curves of the folder, so use a folder for each. Needs the extra ``tensorboard``;
    ``fit`` raises InputError without it, and StorageError if the folder cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def start(self, step: int, schedule: Schedule) -> None:
        """Open the folder."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                "TensorBoard: expected the package tensorboard: pip install 'pmvge[tensorboard]'"
            ) from error
        try:
            self._writer = SummaryWriter(str(self.folder), purge_step=step + 1)
        except OSError as error:
            raise StorageError(
                f"TensorBoard: {self.folder}: expected a folder that can be written: "
                f"{error.strerror or error}"
            ) from error

    def check(self, record: Record, best: float | None) -> None:
        """Write a record."""
        scores = {
            "loss": record.loss,
            "validation": record.validation,
            "learning_rate": record.learning_rate,
        }
        for name, value in scores.items():
            if value is not None:
                self._writer.add_scalar(name, value, record.step)

    def end(self) -> None:
        """Close the folder."""
        if hasattr(self, "_writer"):
            self._writer.close()
