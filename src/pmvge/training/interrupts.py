"""Ctrl-C and SIGTERM that wait for the end of a training step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def treat_sigterm_as_interrupt() -> None:
    """Raise KeyboardInterrupt on SIGTERM, also where the shell has disabled Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def deferred_interrupt(enabled: bool = True) -> Iterator[Callable[[], bool]]:
    """Record the first interrupt instead of raising it; a second one raises KeyboardInterrupt.

    Yields a function that returns whether an interrupt was recorded. Nothing is deferred if not
    ``enabled``, outside the main thread, and for signals with a handler set by other code.
    """
    ours = (signal.default_int_handler, _interrupt)
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if handler in ours}
    if not enabled or not handlers or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    received: list[int] = []

    def record(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    for number in handlers:
        signal.signal(number, record)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
