"""Defer Ctrl-C and SIGTERM to the end of a training step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt(enabled: bool = True) -> Iterator[Callable[[], bool]]:
    """Record the first interrupt instead of raising it; a second one raises KeyboardInterrupt.

    Yield a function that returns whether an interrupt was recorded. Nothing is deferred if not
    ``enabled``, outside the main thread, and for signals with a handler set by other code.
    """
    default = signal.default_int_handler  # the command line sets it for SIGTERM, too
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if handler is default}
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
