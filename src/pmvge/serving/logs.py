"""The log of a server, which never makes a request wait.

A line goes to a queue, and a thread writes it to the error stream. A stream that nobody reads, such
as a full pipe, would otherwise block the event loop of a worker, and with it all its answers.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from typing import Any, TextIO

WAITING = 1000  # lines; more are dropped, and their number is logged
FLUSH_SECONDS = 2.0  # how long a process that ends waits for its last lines


class QueuedHandler(logging.Handler):
    """Write records to a stream in a thread; drop those that the stream cannot take."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self.stream = stream
        self.dropped = 0
        self._lines: queue.Queue[str] = queue.Queue(WAITING)
        self.addFilter(is_of_the_server)
        threading.Thread(target=self._write, name="pmvge-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a record into the queue."""
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until all lines are written, for ``FLUSH_SECONDS`` at most."""
        end = time.monotonic() + FLUSH_SECONDS
        while self._lines.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            self.acquire()  # as `handle` does around `emit`
            dropped, self.dropped = self.dropped, 0
            self.release()
            if dropped:
                line += f"\n{dropped:,} later lines were dropped: the log was not read in time"
            stream = self.stream or sys.stderr
            try:
                stream.write(f"{line}\n")
                stream.flush()
            except (OSError, ValueError):  # closed: nobody reads the log
                pass
            finally:
                self._lines.task_done()


def is_of_the_server(record: logging.LogRecord) -> bool:
    """Return False for warnings on what a client sent: clients must not be able to fill the log."""
    return record.module != "h11_impl" or record.levelno > logging.WARNING


def flush_log() -> None:
    """Write the lines that wait, before this process ends."""
    for handler in logging.getLogger("pmvge.serving").handlers:
        handler.flush()


LOG_CONFIG: dict[str, Any] = {  # as uvicorn and logging.config.dictConfig take it
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(levelname)s: %(message)s"}},
    "handlers": {"queued": {"()": QueuedHandler, "formatter": "plain"}},
    "loggers": {
        name: {"handlers": ["queued"], "level": "WARNING", "propagate": False}
        for name in ("uvicorn", "pmvge.serving")
    },
}
