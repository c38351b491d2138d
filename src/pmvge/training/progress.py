"""Progress of a training run: a bar on terminals."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pmvge.training.history import Record


class TrainingProgress(Protocol):
    """The callbacks of the training loop."""

    def start(self, step: int, max_steps: int) -> None:
        """Receive the steps done before this run, and the maximum."""
        ...

    def step(self, step: int, seconds: float) -> None:
        """Receive the steps done, and the seconds of this run."""
        ...

    def check(self, record: Record, best: float | None) -> None:
        """Receive a new record, and the best validation so far."""
        ...


class NoProgress:
    """Callbacks that show nothing."""

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, step: int, max_steps: int) -> None:
        """Do nothing."""

    def step(self, step: int, seconds: float) -> None:
        """Do nothing."""

    def check(self, record: Record, best: float | None) -> None:
        """Do nothing."""


class TrainingBar:
    """A bar with steps done, steps per second, validation (or the loss) and time left."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            BarColumn(bar_width=12),  # all columns fit into 80 characters
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} {task.fields[scores]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._first = 0

    def __enter__(self) -> TrainingBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, step: int, max_steps: int) -> None:
        """Show the bar at ``step``, which is above 0 in a resumed run."""
        self._first = step
        self._task = self._bar.add_task("", total=max_steps, completed=step, rate="", scores="")

    def step(self, step: int, seconds: float) -> None:
        """Show that ``step`` is done, ``seconds`` after the start."""
        rate = (step - self._first) / seconds if seconds > 0 else 0.0
        self._bar.update(self._task, completed=step, rate=f"{rate:,.0f} steps/s")

    def check(self, record: Record, best: float | None) -> None:
        """Show the scores of a new record, and the best validation so far."""
        scores = f"loss {record.loss:.3f}"
        if record.validation is not None and best is not None:
            scores = f"validation {record.validation:.3f}, best {best:.3f}"
        self._bar.update(self._task, scores=scores)


def training_progress(show: bool) -> TrainingBar | NoProgress:
    """Return a bar if ``show`` and the error stream is a terminal, else :class:`NoProgress`."""
    console = Console(stderr=True)
    return TrainingBar(console) if show and console.is_terminal else NoProgress()
