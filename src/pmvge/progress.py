"""Progress of passes over all data: a callback, and a bar on terminals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

OnProgress = Callable[[int, int], None]  # called with the amount done, and the total
Part = TypeVar("Part")

DELAY = 1.0  # seconds before a bar is shown
REFRESH = 0.1  # seconds between two updates of a bar


def share_progress(
    sizes: Mapping[Part, int], on_progress: OnProgress | None
) -> dict[Part, OnProgress | None]:
    """Return a callback for each of several parts that run one after another.

    ``on_progress`` is called with the progress of all parts together.
    """
    shares: dict[Part, OnProgress | None] = dict.fromkeys(sizes)
    if on_progress is None:
        return shares
    before, total = 0, sum(sizes.values())
    for part, size in sizes.items():
        shares[part] = partial(_report_share, on_progress, before, size, total)
        before += size
    return shares


def _report_share(
    on_progress: OnProgress, before: int, size: int, total: int, done: int, part_total: int
) -> None:
    on_progress(before + size * done // max(1, part_total), total)


class ProgressBar:
    """Show the progress of one pass, if it takes longer than ``DELAY`` seconds.

    An instance is an :data:`OnProgress` callback. Nothing is shown unless the console is a
    terminal.
    """

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._title, self._console = title, console
        self._bar: Progress | None = None
        self._next_update = time.monotonic() + DELAY

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """Update the bar; ``total`` is None if it is unknown."""
        if time.monotonic() < self._next_update:
            return
        if self._bar is None:
            console = self._console or Console(stderr=True)
            if not console.is_terminal:
                self._next_update = math.inf
                return
            self._bar = self._start(console)
        text = f"{done:,} rows" if total is None else f"{done / max(1, total):.0%}"
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, text=text)
        self._next_update = time.monotonic() + REFRESH

    def _start(self, console: Console) -> Progress:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=console, transient=True)
        bar.add_task(self._title, text="")
        bar.start()
        return bar


def progress_bar(title: str, show: bool) -> AbstractContextManager[ProgressBar | None]:
    """Return a context manager for a bar if ``show``, else one for None."""
    return ProgressBar(title) if show else nullcontext()
