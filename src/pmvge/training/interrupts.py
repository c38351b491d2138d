"""Ctrl-C and SIGTERM between two steps, not in the midst of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def terminate_as_interrupted() -> None:
    """From now on SIGTERM is what Ctrl-C is, also where a shell has made Ctrl-C be ignored."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def deferred_interrupt(wanted: bool = True) -> Iterator[Callable[[], bool]]:
    """Inside, an interruption is only noted, and the function given tells so; a second interrupts.

    Nothing changes if it is not wanted, elsewhere than in the main thread, or for signals that
    somebody else handles.
    """
    ours = (signal.default_int_handler, _interrupt)
    usual = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    usual = {number: handler for number, handler in usual.items() if handler in ours}
    if not wanted or not usual or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    for number in usual:
        signal.signal(number, note)
    try:
        yield lambda: bool(noted)
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
