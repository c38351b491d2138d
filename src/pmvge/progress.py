"""Progress bars for training, and for passes over all data; on terminals only."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pmvge.history import Record

PATIENCE = 1.0  # seconds that a pass may take before it shows
PAUSE = 0.1  # seconds between two changes of what is shown


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


class Pass:
    """How far one pass over much data is: work that is soon done shows nothing, and costs nothing.

    The bar appears on the first call after ``PATIENCE`` seconds, if the console is a terminal.
    """

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._title, self._console = title, console
        self._bar: Progress | None = None
        self._next = time.monotonic() + PATIENCE

    def __enter__(self) -> Pass:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """So much is done, of so much if that is known."""
        if time.monotonic() < self._next:
            return
        if self._bar is None:
            console = self._console or Console(stderr=True)
            if not console.is_terminal:
                self._next = math.inf
                return
            self._bar = self._start(console)
        said = f"{done:,} rows" if total is None else f"{done / max(1, total):.0%}"
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, said=said)
        self._next = time.monotonic() + PAUSE

    def _start(self, console: Console) -> Progress:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=console, transient=True)
        bar.add_task(self._title, said="")
        bar.start()
        return bar


def passing(title: str, show: bool) -> AbstractContextManager[Pass | None]:
    """What to tell of a pass if it is to be shown: ``with passing(...) as tell``; else None."""
    return Pass(title) if show else nullcontext()
