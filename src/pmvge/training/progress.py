"""Progress of a training run: a bar on terminals."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pmvge.training.history import Record


class Watcher(Protocol):
    """What the training loop tells while it runs."""

    def start(self, step: int, max_steps: int) -> None: ...

    def step(self, step: int, seconds: float) -> None: ...

    def check(self, record: Record, best: float | None) -> None: ...


class Silent:
    """Watches and says nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, step: int, max_steps: int) -> None:
        """Say nothing."""

    def step(self, step: int, seconds: float) -> None:
        """Say nothing."""

    def check(self, record: Record, best: float | None) -> None:
        """Say nothing."""


class Bar:
    """Steps done, steps per second, current and best validation (or the loss), time left."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            BarColumn(bar_width=12),  # all fits into 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]} {task.fields[scores]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._first = 0

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def start(self, step: int, max_steps: int) -> None:
        """Begin at ``step``, which is not 0 when a run is resumed."""
        self._first = step
        self._task = self._bar.add_task("", total=max_steps, completed=step, rate="", scores="")

    def step(self, step: int, seconds: float) -> None:
        """One step more, ``seconds`` after the start."""
        rate = (step - self._first) / seconds if seconds > 0 else 0.0
        self._bar.update(self._task, completed=step, rate=f"{rate:,.0f} steps/s")

    def check(self, record: Record, best: float | None) -> None:
        """A record was made."""
        scores = f"loss {record.loss:.3f}"
        if record.validation is not None and best is not None:
            scores = f"validation {record.validation:.3f}, best {best:.3f}"
        self._bar.update(self._task, scores=scores)


def watcher(show: bool) -> Bar | Silent:
    """A bar if it is wanted and the error stream is a terminal, else silence."""
    console = Console(stderr=True)
    return Bar(console) if show and console.is_terminal else Silent()
