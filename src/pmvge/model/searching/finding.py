"""Find training entities by id or name, and list similar ones for an unknown text."""

from __future__ import annotations

from difflib import SequenceMatcher, get_close_matches
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import InputError, short
from pmvge.graph import Ids, find_ids
from pmvge.model.fitted import Fitted, texts_of
from pmvge.tables import saved_id

LISTED = 5  # similar entities in a message
CUTOFF = 0.6  # of the share of equal letters, for texts of similar spelling
COMPARED = 100_000  # texts whose spelling is compared, at most


def find_by_name(fitted: Fitted, view: str, texts: list[Any], *, suggest: bool = True) -> Ids:
    """Return the ids of the training entities that have the ids or names ``texts``.

    See :meth:`PMvGE.find <pmvge.PMvGE.find>`. Raise InputError for a text that matches none or
    several entities.
    """
    ids = fitted.ids[view]
    column = fitted.names.get(view)
    names = None if column is None else texts_of(fitted, view)[column]
    order = fitted.orders.get(view)
    pairs = [(str(text), saved_id(fitted.tables, view, str(text))) for text in texts]
    return ids[[_find(view, ids, order, names, *pair, suggest) for pair in pairs]]


def _find(
    view: str,
    ids: Ids,
    order: NDArray[np.int64] | None,
    names: NDArray[Any] | None,
    text: str,
    saved: str,
    suggest: bool,
) -> int:
    """Return the position of the entity with an id or name; ``saved`` is the text as an id."""
    for candidate in (text, saved):
        wanted = _as_id(ids, candidate)
        at = -1 if wanted is None else int(find_ids(ids, wanted, order)[0])
        if at >= 0:
            return at
    if names is not None:
        found = np.flatnonzero(names == text)
        if not len(found):
            found = np.flatnonzero(np.char.lower(names) == text.lower())
        if len(found) == 1:
            return int(found[0])
        if len(found):
            listed = ", ".join(short(ids[i].item()) for i in found[:LISTED])
            raise InputError(
                f"{view}: {len(found):,} entities are named {short(text)}: expected an id, one of "
                f"{listed}{', ...' if len(found) > LISTED else ''}"
            )
    what = "ids" if names is None else "ids and names"
    near = _similar(ids, names, text) if suggest else []
    hint = f"; similar: {', '.join(near)}" if near else f", such as {_examples(ids, names)}"
    raise InputError(f"{short(text)} is not among the {len(ids):,} {what} of {view!r}{hint}")


def _as_id(ids: Ids, text: str) -> Ids | None:
    """Return a text as an id of the same kind as ``ids``; None if it is no integer."""
    if ids.dtype.kind not in "iu":
        return np.array([text])
    try:
        return np.array([int(text)], dtype=np.int64)
    except (ValueError, OverflowError):
        return None


def _similar(ids: Ids, names: NDArray[Any] | None, text: str) -> list[str]:
    """Return entities whose name contains the text, or whose name or id has a similar spelling."""
    lower = text.lower()
    found: dict[int, None] = {}
    for texts in ([] if names is None else [names]) + [ids.astype(str)]:
        lowered = np.char.lower(texts)
        if texts is names and len(lower) > 1:
            found |= dict.fromkeys(np.flatnonzero(np.char.find(lowered, lower) >= 0)[:LISTED])
        first: dict[str, int] = {}
        for position, candidate in enumerate(lowered[:COMPARED].tolist()):
            first.setdefault(candidate, position)
        close = get_close_matches(lower, first, n=len(first), cutoff=CUTOFF)
        found |= dict.fromkeys(first[each] for each in _by_beginning(close, lower))
    return [_describe(ids, names, int(at)) for at in list(found)[:LISTED]]


def _by_beginning(close: list[str], text: str) -> list[str]:
    """Return the closest texts; of equally close ones, first those that begin in the same way."""

    def key(candidate: str) -> tuple[float, int, str]:
        letters = zip(candidate, text, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], letters))
        return -SequenceMatcher(None, candidate, text).ratio(), -same, candidate

    return sorted(close, key=key)[:LISTED]


def _examples(ids: Ids, names: NDArray[Any] | None) -> str:
    return ", ".join(_describe(ids, names, at) for at in range(min(3, len(ids))))


def _describe(ids: Ids, names: NDArray[Any] | None, at: int) -> str:
    name = short(ids[at].item())
    return name if names is None else f"{short(str(names[at]))} ({name})"
