"""The model that a worker serves, replaced when another one is published."""

from __future__ import annotations

import ctypes
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pmvge.errors import InputError, PmvgeError, StorageError
from pmvge.model import Index, PMvGE
from pmvge.serving.published import Current
from pmvge.serving.publishing import load_published, published_folder

log = logging.getLogger("pmvge.serving")
SHOWN = 16  # characters of a checksum in answers


@dataclass(frozen=True)
class Served:
    """One model. A request uses the one that it got at its start, to its end."""

    model: PMvGE
    current: Current
    description: dict[str, Any]
    folder: Path  # the published copy
    _indexes: dict[tuple[str, str], Index | str] = field(default_factory=dict)  # or why not
    _loading: threading.Lock = field(default_factory=threading.Lock)

    @property
    def label(self) -> str:
        """The checksum as answers show it."""
        return self.current.checksum[:SHOWN]

    def saved_index(self, view: str, among: str) -> Index:
        """Return the approximate index of a view for queries of view ``among``, loaded once.

        Raise InputError if it was not saved with the model, or is damaged or stale. That is found
        out once, too: another index in the folder makes another :class:`Served`.
        """
        with self._loading:
            if (view, among) not in self._indexes:
                try:
                    self._indexes[view, among] = self.model.load_index(self.folder, view, among)
                except StorageError as error:  # its message has a path
                    log.warning("an index cannot be used: %s", error)
                    stale = "is stale" in str(error)
                    self._indexes[view, among] = "is stale" if stale else "is missing or damaged"
            found = self._indexes[view, among]
        if isinstance(found, str):
            raise InputError(
                f"index: the saved index of {view!r} for {among!r} {found}: build it with pmvge "
                "index, or search with index 'exact'"
            )
        return found


def _release_memory() -> None:
    """Return freed memory to the system: glibc keeps what loading a model needed for a moment."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class LiveModel:
    """A reference to the current model of a folder of published ones."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        current = Current.read(cache)
        if current is None:
            raise StorageError("no model is published")
        self.current = current
        self.served = self._load(self.current)
        _release_memory()
        self._stop = threading.Event()

    def _load(self, current: Current) -> Served:
        model = load_published(self.cache, current.checksum)
        return Served(
            model, current, model.describe(), published_folder(self.cache, current.checksum)
        )

    def check(self) -> None:
        """Load the current model if it is another one than before, and then serve it."""
        try:
            current = Current.read(self.cache) or self.current
            if current.content != self.served.current.content:
                self.served = self._load(current)
                _release_memory()
            self.current = current
        except (PmvgeError, OSError, ValueError) as error:
            log.warning("a published model cannot be loaded, and is tried again: %s", error)

    def watch(self, seconds: float) -> None:
        """Call :meth:`check` regularly in a thread, until :meth:`close`."""

        def loop() -> None:
            while not self._stop.wait(seconds):
                self.check()

        threading.Thread(target=loop, name="pmvge-reload", daemon=True).start()

    def close(self) -> None:
        """End the thread of :meth:`watch`."""
        self._stop.set()
