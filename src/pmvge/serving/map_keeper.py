"""Compute the map of a model that is saved while a server runs, in a process of its own.

The map is written beside the model. The watch over the folder sees it, and publishes it. This file
imports no model: the supervisor stays small.
"""

from __future__ import annotations

import signal
import warnings
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from pmvge.errors import PmvgeError, one_line
from pmvge.serving.published import Current

STATE = "map-state"  # a file in the cache: "computing" or "failed", and a sentence


def read_state(cache: Path) -> tuple[str, str]:
    """Return the state of a map that is being computed, and a sentence; "" if none is."""
    try:
        state, _, reason = (cache / STATE).read_text(encoding="utf-8").partition(" ")
    except OSError:
        return "", ""
    return state, reason


class MapKeeper:
    """Start a process for each new model, and end it if another one follows."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        self._process: BaseProcess | None = None
        self._seen = _checksum(cache)

    def check(self) -> None:
        """Start to compute the map if another model is served than before."""
        checksum = _checksum(self.cache)
        if checksum == self._seen:
            return
        self.close()
        self._seen = checksum
        arguments = (self.folder, self.cache / STATE)
        # A daemon: it is ended with the supervisor.
        self._process = get_context("spawn").Process(target=_run, args=arguments, daemon=True)
        self._process.start()

    def close(self) -> None:
        """End the process, if one runs."""
        if self._process is not None and self._process.is_alive():
            self._process.terminate()
            self._process.join()


def _checksum(cache: Path) -> str | None:
    current = Current.read(cache)
    return None if current is None else current.checksum


def _run(folder: Path, state: Path) -> None:
    """Compute a map in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor
    compute(folder, state)


def compute(folder: Path, state: Path) -> None:
    """Compute the map of the model in a folder and save it there; ``state`` says how far it is."""
    from pmvge.model import PMvGE, saved_map

    shown = -1

    def report(done: int, total: int) -> None:
        nonlocal shown
        share = round(100 * done / max(1, total))
        if share != shown:
            shown = share
            _write(state, f"computing {share} %")

    try:
        _write(state, "computing 0 %")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            saved_map(PMvGE.load(folder), folder, progress=False, on_progress=report)
        state.unlink(missing_ok=True)
    except (PmvgeError, OSError, MemoryError, Warning) as error:
        with suppress(OSError):  # the message has a path, which is not for clients
            _write(state, f"failed {_reason(error, folder)}")


def _reason(error: BaseException, folder: Path) -> str:
    return one_line(error).replace(str(folder), "the model")


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
