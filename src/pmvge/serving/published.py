"""The model that workers serve, and the watch over the folder that it comes from.

This file imports no model: the supervisor stays small.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

UNREADABLE = "the model folder cannot be read; the model before it is served"
FRESH = "up to date"
FIXED = "off"
INDEXES = "index+*"  # names of the files of saved indexes
MAPS = ("map.json", "map-*.safetensors")  # names of the files of a saved map


@dataclass(frozen=True)
class Current:
    """The model to serve, and whether a newer one can be read."""

    checksum: str
    reload: str = FRESH
    indexes: str = ""  # a hash of the saved indexes and the saved map

    @property
    def content(self) -> tuple[str, str]:
        """What workers load; it changes with the model, its indexes and its map."""
        return self.checksum, self.indexes

    def write(self, cache: Path) -> None:
        """Replace ``current.json``."""
        partial = cache / f".current.{os.getpid()}.partial"
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(cache / "current.json")

    @classmethod
    def read(cls, cache: Path) -> Current | None:
        """Return the content of ``current.json``; None before the first model is published."""
        try:
            return cls(**json.loads((cache / "current.json").read_text()))
        except FileNotFoundError:
            return None


class Watcher:
    """Publish a model again whenever its folder changes.

    ``attempt`` publishes and returns an error message, or "". A folder that cannot be read is tried
    again after 1, 2, 4, ... seconds, up to ``MAX_PAUSE``.
    """

    MAX_PAUSE = 30.0

    def __init__(
        self,
        folder: Path,
        cache: Path,
        attempt: Callable[[], str],
        log: Callable[[str], object] = lambda message: None,
    ) -> None:
        self.folder, self.cache, self.attempt, self.log = folder, cache, attempt, log
        self._seen = self.signature()
        self._pause, self._again = 0.0, 0.0

    def signature(self) -> tuple[int, ...] | None:
        """Return what changes when a model is saved to the folder; None without a model."""
        try:
            files = [self.folder / "model.json", *sorted(self.folder.glob(f"{INDEXES}.json"))]
            files += self.folder.glob(MAPS[0])
            found = [file.stat() for file in files]
        except OSError:
            return None
        return tuple(n for s in found for n in (s.st_mtime_ns, s.st_ino, s.st_size))

    def check(self) -> None:
        """Publish the model if its folder has changed, or could not be read before."""
        now, found = time.monotonic(), self.signature()
        if found == self._seen and not (self._pause and now >= self._again):
            return
        changed, self._seen = found != self._seen, found
        problem = self.attempt()
        current = Current.read(self.cache)
        if not problem:
            self._pause = 0.0
            if current is not None and current.reload != FRESH:
                replace(current, reload=FRESH).write(self.cache)
            return
        self._pause = 1.0 if changed else min(2 * self._pause, self.MAX_PAUSE)
        self._again = now + self._pause
        if current is not None and current.reload != UNREADABLE:
            self.log(f"the model before it is served: {problem}")
            replace(current, reload=UNREADABLE).write(self.cache)
