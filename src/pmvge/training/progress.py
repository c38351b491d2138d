"""Progress of a training run: a bar on terminals."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pmvge.training.callbacks import Callback
from pmvge.training.history import Record
from pmvge.training.schedule import Schedule


class TrainingBar(Callback):
    """A bar with phase, steps, steps per second, validation (or the loss) and time left.

    The total is shown as "of at most" until the end is known; only then is the time left shown.
    """

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=8),  # all columns fit into 80 characters
            TextColumn("{task.fields[steps]} {task.fields[rate]} {task.fields[scores]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._first = 0

    def start(self, step: int, schedule: Schedule) -> None:
        """Show the bar at ``step``, which is above 0 in a resumed run."""
        self._first, self._schedule = step, schedule
        self._bar.start()
        self._task = self._bar.add_task("", total=None, steps="", rate="", scores="")
        self.step(step, 0.0)

    def step(self, step: int, seconds: float) -> None:
        """Show that ``step`` is done, ``seconds`` after the start."""
        rate = (step - self._first) / seconds if seconds > 0 else 0.0
        schedule, known = self._schedule, self._schedule.length_is_known
        self._bar.update(
            self._task,
            description=schedule.phase(step),
            completed=step,
            total=schedule.end if known else None,  # without a total, no time is shown
            steps=f"{step}/{'' if known else '≤'}{schedule.end}",
            rate=f"{rate:,.0f}/s",
        )

    def check(self, record: Record, best: float | None) -> None:
        """Show the scores of a new record, and the best validation so far."""
        scores = f"loss {record.loss:.3f}"
        if record.validation is not None and best is not None:
            scores = f"validation {record.validation:.3f}, best {best:.3f}"
        self._bar.update(self._task, scores=scores)

    def end(self) -> None:
        """Remove the bar."""
        self._bar.stop()


def training_progress(show: bool) -> list[Callback]:
    """Return a bar if ``show`` and the error stream is a terminal, else no callbacks."""
    console = Console(stderr=True)
    return [TrainingBar(console)] if show and console.is_terminal else []
