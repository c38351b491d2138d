"""Find entities by a part of their id or name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pmvge.model import PMvGE

LENGTH = 200  # characters of a text that are compared
END = "\n"  # stands between texts, and in none


class Texts:
    """The texts of all entities of a view, in one string: str.find is fast."""

    def __init__(self, texts: list[str]) -> None:
        parts = [_plain(text) for text in texts]
        self._joined = END + END.join(parts) + END
        self._starts = np.cumsum([1, *(len(part) + 1 for part in parts)])[:-1]

    def search(self, text: str, *, prefix: bool) -> Iterator[int]:
        """Yield positions of the entities whose text begins with, or contains, a text."""
        wanted = (END if prefix else "") + _plain(text)
        at = self._joined.find(wanted) if wanted and len(self._starts) else -1
        while at >= 0:
            position = int(np.searchsorted(self._starts, at + prefix, side="right")) - 1
            yield position
            if position + 1 == len(self._starts):
                return
            at = self._joined.find(wanted, int(self._starts[position + 1]) - 1)


class Finder:
    """The ids and names of a model."""

    def __init__(self, model: PMvGE) -> None:
        self._texts: dict[str, list[Texts]] = {}
        for view, ids in model.ids_.items():
            names = model.names_.get(view)
            listed: list[NDArray[np.generic]] = [] if names is None else [names]
            self._texts[view] = [Texts([str(t) for t in c.tolist()]) for c in (*listed, ids)]

    def find(self, text: str, views: list[str], limit: int) -> tuple[list[tuple[str, int]], bool]:
        """Return views and positions of at most ``limit`` entities, and whether there are more.

        Those that begin with the text come first. Views take turns, so that one does not hide
        another.
        """
        found: dict[tuple[str, int], None] = {}
        for prefix in (True, False):
            turns = [(view, self._positions(view, text, prefix)) for view in views]
            while turns:
                for turn in [*turns]:
                    view, positions = turn
                    position = next(positions, None)
                    if position is None:
                        turns.remove(turn)
                        continue
                    found[view, position] = None
                    if len(found) > limit:
                        return list(found)[:limit], True
        return list(found), False

    def _positions(self, view: str, text: str, prefix: bool) -> Iterator[int]:
        for texts in self._texts[view]:
            yield from texts.search(text, prefix=prefix)


def _plain(text: str) -> str:
    return " ".join(text[:LENGTH].lower().split())
