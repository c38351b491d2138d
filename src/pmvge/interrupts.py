"""Ctrl-C between two steps, not in the midst of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt(wanted: bool = True) -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C is only noted, and the function given tells so; a second one interrupts.

    Nothing changes if it is not wanted, elsewhere than in the main thread, or where Ctrl-C is
    handled by somebody else.
    """
    usual = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not wanted or not main or usual is not signal.default_int_handler:
        yield lambda: False
        return
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, usual)
